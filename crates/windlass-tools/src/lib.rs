//! What tasks can do in the world, one file a tool.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod http;
mod noop;
#[cfg(feature = "test-service")]
pub mod test_service;

pub use http::{HttpOptions, HttpTool};
pub use noop::NoopTool;
use windlass_runtime::Tools;

/// The tools that every engine has: `http` and `noop`.
pub fn standard_tools(options: HttpOptions) -> Tools {
    Tools::new().with("http", HttpTool::new(options)).with("noop", NoopTool)
}
