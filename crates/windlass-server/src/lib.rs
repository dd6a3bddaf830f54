//! The engine as an HTTP service.
//!
//! - `compiler`: the interface to the program around the server, which knows the dialects
//! - `catalog`: registered definitions
//! - `credentials`: stored credentials, and those that jobs refer to
//! - `api`: the routes, one file per group
//! - `auth`: authorisation, expressed as handler argument types
//! - `hosts`, `proxies`, `rate`, `edge`: checks that every request passes first
//! - `compression`: gzip for responses that are not streams
//! - `audit`: the log of changing calls and their callers
//! - `problem`: error responses
//! - `workers`: jobs for remote workers
//! - `triggers`: schedules, polls and webhooks that start runs
//! - `retention`, `space`: removal of ended runs; behaviour on a full disk
//! - `web_ui`: the browser interface
//! - `views`: caches and concurrency limits shared by readers
//! - `metrics`: OpenMetrics output
//!
//! This crate contains no dialects, reads no user files and has no terminal. No handler responds unless it extracted
//! an authorisation type (`auth::gate`). No changing call is answered before its change is durable.

pub mod api;
mod app;
pub mod audit;
pub mod auth;
pub mod catalog;
mod compiler;
mod compression;
mod credentials;
mod edge;
mod hosts;
mod metrics;
mod options;
mod problem;
mod proxies;
mod rate;
mod retention;
mod run_drawings;
mod scrub;
mod serve;
mod space;
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
pub use credentials::ServerCredentials;
pub use hosts::BindError;
pub use metrics::Metrics;
pub use options::{ServerOptions, TlsFiles};
pub use problem::ApiProblem;
pub use run_drawings::RunDrawingCache;
pub use serve::{RunningServer, StartError, TlsError, router, serve, with_layers};
