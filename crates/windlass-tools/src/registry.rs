//! The tools of this build, each with a description and a constructor.
//!
//! A new tool is a file with a `REGISTRATION` and a line in [`registrations`]. `windlass tools`, the checks of
//! definitions and the engine's set of tools all read this table.

use std::sync::Arc;

use windlass_core::ProcessLimits;
use windlass_runtime::{Tool, Tools};

use crate::credentials::Credentials;
use crate::http::HttpTool;
use crate::info::ToolInfo;
use crate::outbound::Outbound;
use crate::sealed::SealedInputTool;

/// The dependencies of tool constructors.
pub(crate) struct ToolSetup<'a> {
    pub http: HttpTool,
    /// The addresses that tools may reach.
    pub outbound: Outbound,
    pub credentials: &'a Arc<dyn Credentials>,
    pub limits: &'a ProcessLimits,
    /// Looks up an environment variable. Programs that tools start inherit PATH, HOME and LANG and nothing else.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

impl ToolSetup<'_> {
    /// Wraps a tool so that the sealed parts of its input are opened before each call.
    pub(crate) fn with_sealed_inputs(&self, tool: impl Tool + 'static) -> Arc<dyn Tool> {
        Arc::new(SealedInputTool::new(tool, self.credentials))
    }
}

/// The registration of a tool of this build.
pub(crate) struct ToolRegistration {
    pub info: &'static ToolInfo,
    pub build: fn(&ToolSetup<'_>) -> Arc<dyn Tool>,
}

/// Returns all tools of this build that need only a [`ToolSetup`].
pub(crate) fn registrations() -> Vec<ToolRegistration> {
    vec![
        crate::http::REGISTRATION,
        crate::http::CALL_REGISTRATION,
        crate::noop::REGISTRATION,
        #[cfg(feature = "duckdb")]
        crate::duckdb::REGISTRATION,
        #[cfg(feature = "postgres")]
        crate::postgres::REGISTRATION,
        #[cfg(feature = "python")]
        crate::python::REGISTRATION,
        #[cfg(feature = "shell")]
        crate::shell::REGISTRATION,
        #[cfg(feature = "sqlite")]
        crate::sqlite::REGISTRATION,
    ]
}

/// Builds all tools of this build.
pub(crate) fn build(setup: &ToolSetup<'_>) -> Tools {
    let add = |tools: Tools, tool: ToolRegistration| tools.with_shared(tool.info.name, (tool.build)(setup));
    registrations().into_iter().fold(Tools::new(), add)
}
