//! Agents: conversations with models, from the first prompt to the effects of their tool calls.
//!
//! - [`language`] builds prompts, requests and transcripts. These are pure functions over a run's scope, registered
//!   with an engine as the expression language `agent`. The compilers of definitions generate its sources and depend
//!   on nothing else in this crate.
//! - [`chat`] calls models: the tool `agent_model`, with the protocols, providers and prices behind it.
//! - [`ToolRegistry`] holds the tools that models may call: built-in tools, Rust functions and tools of MCP servers.
//!   [`Permission`] decides about each call. Both are used by the tools `agent_tool` and `agent_files`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod agent_files;
mod agent_tool;
mod builtin;
pub mod chat;
mod files;
pub mod language;
mod mcp;
mod permission;
mod redact;
mod registry;
mod reply_limit;
mod schema;
mod secrets;
mod text;
mod tool;

pub use agent_files::{AGENT_FILES, AgentFiles};
pub use agent_tool::{AGENT_TOOL, AgentToolCaller};
pub use builtin::BashOptions;
pub use chat::{AGENT_MODEL, AgentModelTool, ChatOptions, ToolCatalogue, ToolSpec};
pub use files::ProtectedPaths;
pub use mcp::{McpServer, McpTransport};
pub use permission::{
    CallPattern, DefaultRule, Permission, PermissionPolicy, PermissionPrompt, PermissionRequest, PermissionVerdict,
    TerminalPrompt,
};
pub use registry::{ToolRegistry, ToolRegistryBuilder, is_server_name};
pub use tool::{AgentCall, AgentTool, ToolAnswer, ToolAnswerFuture};
