//! What a model is told of the tools there are.

use std::future::Future;
use std::pin::Pin;

use windlass_core::ErrorInfo;
use windlass_value::Value;

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// All tools that a model may be offered.
pub trait Catalogue: Send + Sync {
    fn specs(&self) -> Pin<Box<dyn Future<Output = Result<Vec<ToolSpec>, ErrorInfo>> + Send + '_>>;
}
