//! Agents: all that makes up a conversation with a model, from its prompt to the effects of its calls.
//!
//! - [`language`] puts prompts, requests and transcripts together: pure functions over a run's scope, registered with an
//!   engine as the expression language `agent`. Compilers of definitions write its sources and know nothing else of this
//!   crate.
//! - [`chat`] asks models: the tool `agent_model`, with the protocols, providers and prices behind it.
//! - The tools that models may call, built in, in Rust or on MCP servers ([`Registry`]), and who may call them
//!   ([`Permission`]): the tools `agent_tool` and `agent_files`.

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
