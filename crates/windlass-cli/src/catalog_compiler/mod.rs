//! What a server lets definitions do. They come from whoever may register them: they reach public places and what the
//! operator's settings open, read no file, start no program unless `[server] tools` says so, and find what they call or
//! include in the catalog.

mod compiler;
mod files;
#[cfg(test)]
mod tests;
mod tools;

pub(crate) use compiler::{CatalogCompiler, NO_NAME};
pub(crate) use tools::{ServerTools, server_tools};
