//! What a model is told of the tools there are.

pub use windlass_tools::chat::{Catalogue, ToolSpec};
