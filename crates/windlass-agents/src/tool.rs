//! The contract between agents and their tools.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use windlass_runtime::ToolCall;
use windlass_value::{Value, from_value};

use crate::ToolSpec;
use crate::files::ProtectedPaths;

/// A tool that a model can call. Every outcome becomes a text for the model.
pub trait AgentTool: Send + Sync {
    fn spec(&self) -> ToolSpec;
    /// Executes a call, whose arguments already fit the schema. Dropping the future cancels the call.
    fn call(&self, call: AgentCall) -> ToolAnswerFuture;
}

pub type ToolAnswerFuture = Pin<Box<dyn Future<Output = ToolAnswer> + Send>>;

/// One call by a model.
pub struct AgentCall {
    /// The folder that the agent works in, an absolute path.
    pub folder: PathBuf,
    /// The paths that file tools do not touch.
    pub(crate) protected: Arc<ProtectedPaths>,
    /// The effect and run that the call belongs to. Its input is the model's arguments.
    pub call: ToolCall,
}

impl AgentCall {
    /// The arguments of the model: an object.
    pub fn arguments(&self) -> &Value {
        &self.call.input
    }

    /// Deserializes the arguments into a custom type. The error is a sentence for the model.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, String> {
        from_value(self.arguments()).map_err(|error| format!("the arguments are not valid: {error}"))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.arguments().get(name).and_then(Value::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let number = self.arguments().get(name)?;
        // Some models write every number with a point.
        number.as_int().and_then(|number| u64::try_from(number).ok()).or_else(|| {
            match number {
                // Larger than any count: the maximum.
                Value::Big(_) => Some(u64::MAX),
                number => number.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64),
            }
        })
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.arguments().get(name).and_then(Value::as_bool).unwrap_or(false)
    }
}

/// The answer that the model reads.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    pub content: String,
    /// The call was denied or has failed.
    pub error: bool,
}

impl ToolAnswer {
    pub fn success(content: impl Into<String>) -> ToolAnswer {
        ToolAnswer { content: content.into(), error: false }
    }

    pub fn error(content: impl Into<String>) -> ToolAnswer {
        ToolAnswer { content: content.into(), error: true }
    }
}

impl From<Result<String, String>> for ToolAnswer {
    fn from(result: Result<String, String>) -> ToolAnswer {
        result.map_or_else(ToolAnswer::error, ToolAnswer::success)
    }
}
