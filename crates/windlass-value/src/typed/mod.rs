//! Rust types to values and back through serde, without a detour over text. The forms are those of `serde_json`: a struct
//! is an object, an enum is tagged from outside, nothing is null, keys that are no texts are written as texts.

mod de;
mod keys;
mod ser;

use std::fmt;

use serde::Serialize;
use serde::de::Deserialize;

use crate::Value;

/// Why a typed value has no value, or a value is not of the type: what is wrong, and where inside.
///
/// ```
/// let price: Result<Vec<u32>, _> = windlass_value::from_value(&windlass_value::parse_json("[1, -2]").unwrap());
/// assert_eq!(price.unwrap_err().to_string(), "at `[1]`: invalid value: integer `-2`, expected u32");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertError {
    /// From the outside in: `lines[2].price`; empty for the whole.
    pub path: String,
    pub message: String,
}

impl ConvertError {
    fn new(message: impl Into<String>) -> ConvertError {
        ConvertError { path: String::new(), message: message.into() }
    }

    /// Errors come from the inside out: each level puts itself before what is there.
    fn within_field(mut self, name: &str) -> ConvertError {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{dot}{}", self.path);
        self
    }

    fn within_item(mut self, index: usize) -> ConvertError {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{index}]{dot}{}", self.path);
        self
    }
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => f.write_str(&self.message),
            false => write!(f, "at `{}`: {}", self.path, self.message),
        }
    }
}

impl std::error::Error for ConvertError {}

impl serde::ser::Error for ConvertError {
    fn custom<T: fmt::Display>(message: T) -> ConvertError {
        ConvertError::new(message.to_string())
    }
}

impl serde::de::Error for ConvertError {
    fn custom<T: fmt::Display>(message: T) -> ConvertError {
        ConvertError::new(message.to_string())
    }
}

/// The value of anything that serde can write. A number that is not finite is refused: it could not be read again.
pub fn to_value<T: Serialize + ?Sized>(typed: &T) -> Result<Value, ConvertError> {
    typed.serialize(ser::ToValue)
}

/// Anything that serde can read, from a value.
pub fn from_value<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, ConvertError> {
    T::deserialize(de::FromValue(value))
}
