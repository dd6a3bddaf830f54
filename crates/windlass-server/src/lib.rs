//! The engine as a service.
//!
//! - `compiler` what the server needs of whoever knows dialects · `catalog` registered definitions · `api` one file a group of
//!   routes · `auth` who may do what, by type · `hosts`, `proxies`, `rate`, `edge` what every request meets first · `audit` who did what ·
//!   `problem` errors · `workers` jobs for other
//!   machines · `triggers` what starts runs by itself · `page` what people look at ·
//!   `views` what readers share · `metrics`.
//!
//! What is absent here: dialects, files of users, the terminal. No handler answers unless an authorisation type was taken
//! (`auth::gate`). No changing call is answered before what it changed is durable.

pub mod api;
mod app;
pub mod audit;
pub mod auth;
pub mod catalog;
mod compiler;
mod edge;
mod hosts;
mod metrics;
mod options;
mod problem;
mod proxies;
mod rate;
mod run_drawings;
mod serve;
mod streams;
mod timeline;
#[cfg(feature = "otel")]
pub mod trace;
pub mod triggers;
pub mod views;
mod web_ui;
pub mod workers;

pub use app::{App, AppParts};
pub use compiler::{CompiledDraft, DefinitionCatalog, DefinitionCompiler, DefinitionDraft, RegisteredVersion};
pub use hosts::BindError;
pub use metrics::Metrics;
pub use options::ServerOptions;
pub use problem::ApiProblem;
pub use run_drawings::RunDrawingCache;
pub use serve::{RunningServer, StartError, router, serve, with_layers};
