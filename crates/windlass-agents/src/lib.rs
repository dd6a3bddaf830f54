//! What agents need of the world: their tools, who may call them, the files they are shown, the servers that offer more.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod agent_files;
mod agent_tool;
mod builtin;
mod catalogue;
mod files;
mod mcp;
mod permission;
mod redact;
mod registry;
mod schema;
mod secrets;
mod text;
mod tool;

pub use agent_files::{AGENT_FILES, AgentFiles};
pub use agent_tool::{AGENT_TOOL, AgentToolCaller};
pub use builtin::{Bash, BashOptions, Glob, Grep, Http, Read, Write};
pub use catalogue::{Catalogue, ToolSpec};
pub use files::Protected;
pub use mcp::{McpServer, Reach};
pub use permission::{Decision, Otherwise, Pattern, Permission, Policy, Prompt, Request, Terminal};
pub use registry::{Registry, RegistryBuilder, is_server_name};
pub use tool::{AgentCall, AgentTool, Answer, AnswerFuture};
