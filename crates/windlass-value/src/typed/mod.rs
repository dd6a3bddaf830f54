//! Conversion between Rust types and values through serde, without intermediate text. The representation is that of
//! `serde_json`: a struct is an object, an enum is externally tagged, unit and none are null, keys that are not
//! strings are written as strings.

mod de;
mod keys;
mod ser;

use std::fmt;

use serde::Serialize;
use serde::de::Deserialize;

use crate::Value;

/// The reason why a typed value cannot be converted, with the path inside it.
///
/// ```
/// let price: Result<Vec<u32>, _> = windlass_value::from_value(&windlass_value::parse_json("[1, -2]").unwrap());
/// assert_eq!(price.unwrap_err().to_string(), "at `[1]`: invalid value: integer `-2`, expected u32");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertError {
    /// Path from the outside in: `lines[2].price`; empty for the value itself.
    pub path: String,
    pub message: String,
}

impl ConvertError {
    fn new(message: impl Into<String>) -> ConvertError {
        ConvertError { path: String::new(), message: message.into() }
    }

    /// Prepends a field to the path: errors propagate from the inside out.
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

/// Converts anything that serde can serialize. A number that is not finite is refused: it could not be read again.
pub fn to_value<T: Serialize + ?Sized>(typed: &T) -> Result<Value, ConvertError> {
    typed.serialize(ser::ToValue)
}

/// Deserializes a value into any type that serde can deserialize.
pub fn from_value<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, ConvertError> {
    T::deserialize(de::FromValue(value))
}
