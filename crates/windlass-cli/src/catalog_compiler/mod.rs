//! Compilation and tools of a server. Definitions come from clients that may register them: they reach public
//! addresses and those that the operator's settings open, read no file, start no program unless `[server] tools`
//! names it, and resolve calls and includes in the catalog.

mod compiler;
mod files;
#[cfg(test)]
mod tests;
mod tools;

pub(crate) use compiler::{CatalogCompiler, NO_NAME};
pub(crate) use tools::{ServerTools, server_tools};
