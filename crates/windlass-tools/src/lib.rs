//! What tasks can do in the world, one file a tool.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod endpoint;
mod http;
#[cfg(feature = "mock")]
pub mod mock;
mod model;
mod noop;
mod secret;
#[cfg(feature = "test-service")]
pub mod test_service;

pub use endpoint::{Endpoint, EndpointTool};
pub use http::{HttpOptions, HttpTool};
pub use model::{ModelOptions, ModelTool};
pub use noop::NoopTool;
pub use secret::Secret;
use windlass_runtime::Tools;

/// The tools that every engine has: `http` and `noop`.
pub fn standard_tools(options: HttpOptions) -> Tools {
    Tools::new().with("http", HttpTool::new(options)).with("noop", NoopTool)
}
