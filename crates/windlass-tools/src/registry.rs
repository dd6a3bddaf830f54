//! The tools of this build, one line each: a description and a constructor.
//!
//! A new tool is a file with a `REGISTRATION` and a line in [`registrations`]. `windlass tools`, the checks of definitions and
//! the engine's set of tools all read this table.

use std::sync::Arc;

use windlass_core::ProcessLimits;
use windlass_runtime::{Tool, Tools};

use crate::credentials::Credentials;
use crate::http::HttpTool;
use crate::info::ToolInfo;
use crate::outbound::Outbound;
use crate::sealed::SealedInputTool;

/// What constructors of tools may use.
pub(crate) struct ToolSetup<'a> {
    pub http: HttpTool,
    /// The addresses that tools may reach.
    pub outbound: Outbound,
    pub credentials: &'a Arc<dyn Credentials>,
    pub limits: &'a ProcessLimits,
    /// Finds an environment variable. Programs that tools start get PATH, HOME and LANG of it, nothing else.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

impl ToolSetup<'_> {
    /// The tool with the sealed parts of its input opened before each call.
    pub(crate) fn with_sealed_inputs(&self, tool: impl Tool + 'static) -> Arc<dyn Tool> {
        Arc::new(SealedInputTool::new(tool, self.credentials))
    }
}

/// A tool of this build.
pub(crate) struct ToolRegistration {
    pub info: &'static ToolInfo,
    pub build: fn(&ToolSetup<'_>) -> Arc<dyn Tool>,
}

/// All tools of this build that need nothing but a [`ToolSetup`].
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

/// All tools of this build, ready to be called.
pub(crate) fn build(setup: &ToolSetup<'_>) -> Tools {
    let add = |tools: Tools, tool: ToolRegistration| tools.with_shared(tool.info.name, (tool.build)(setup));
    registrations().into_iter().fold(Tools::new(), add)
}
