//! The routes, one file per group. All of them are in the generated OpenAPI document, which the authorisation tests
//! use as their table of routes.

pub(crate) mod approvals;
mod audit;
pub(crate) mod control;
mod credentials;
mod damage;
pub(crate) mod definitions;
pub(crate) mod detail;
mod document;
pub(crate) mod events;
pub(crate) mod extract;
pub(crate) mod graph;
pub(crate) mod journal;
mod locations;
pub(crate) mod logs;
pub(crate) mod loops;
pub(crate) mod models;
mod objects;
mod ops;
mod removal;
pub(crate) mod runs;
mod session;
mod tokens;
mod triggers;
mod workers;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::Method;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::App;
use crate::auth::guard::routes;

#[derive(OpenApi)]
#[openapi(info(title = "Windlass", description = "Durable workflows: start, observe, control and steer runs."))]
struct ApiDocument;

/// Returns every route with its description.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(ApiDocument::openapi())
        .routes(routes!(ops::health))
        .routes(routes!(ops::ready))
        .routes(routes!(ops::metrics))
        .routes(routes!(ops::openapi))
        .routes(routes!(ops::error_page))
        .routes(routes!(session::get, session::sign_in, session::sign_out))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(credentials::list))
        .routes(routes!(credentials::set, credentials::remove))
        .routes(routes!(audit::lines))
        .routes(routes!(damage::list))
        .routes(routes!(damage::remove))
        .merge(definition_routes())
        .merge(run_routes())
        .merge(worker_routes())
        .merge(trigger_routes())
}

fn trigger_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::answer))
        .routes(routes!(triggers::list))
        .routes(routes!(triggers::change))
        .routes(routes!(crate::triggers::hooks::deliver))
        .routes(routes!(crate::triggers::hooks::deliver_below))
}

fn worker_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(workers::lease))
        .routes(routes!(workers::heartbeat))
        .routes(routes!(workers::progress))
        .routes(routes!(workers::log))
        .routes(routes!(workers::complete))
        .routes(routes!(workers::fail))
        .routes(routes!(workers::deregister))
        .routes(routes!(workers::list))
        .routes(routes!(workers::drain))
}

/// Returns the OpenAPI document of the routes.
pub fn document() -> utoipa::openapi::OpenApi {
    document::finish(routes().into_openapi())
}

/// Returns the query parameters that the document declares for an operation. None: it is no operation, or accepts any
/// query.
pub(crate) fn query_names(route: &str, method: &Method) -> Option<&'static Vec<String>> {
    static NAMES: LazyLock<BTreeMap<(String, &'static str), Vec<String>>> =
        LazyLock::new(|| document::query_names(routes().into_openapi()));
    // HEAD takes the same query as GET.
    let method = if method == Method::HEAD { "get".to_owned() } else { method.as_str().to_ascii_lowercase() };
    NAMES.iter().find(|((path, of), _)| path == route && *of == method).map(|(_, names)| names)
}

fn definition_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(definitions::register, definitions::list))
        .routes(routes!(definitions::check))
        .routes(routes!(definitions::get, removal::definition))
        .routes(routes!(definitions::versions))
        .routes(routes!(definitions::version))
        .routes(routes!(definitions::graph))
        .routes(routes!(definitions::enable))
        .routes(routes!(definitions::disable))
}

fn run_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(runs::start, runs::list))
        .routes(routes!(events::changes))
        .routes(routes!(runs::counts))
        .routes(routes!(runs::get, removal::run))
        .routes(routes!(events::events))
        .routes(routes!(graph::graph))
        .routes(routes!(graph::steps))
        .routes(routes!(logs::logs))
        .routes(routes!(journal::journal))
        .routes(routes!(journal::value))
        .routes(routes!(journal::plan))
        .routes(routes!(loops::list))
        .routes(routes!(loops::iterations))
        .routes(routes!(loops::strip))
        .routes(routes!(control::pause))
        .routes(routes!(control::resume))
        .routes(routes!(control::cancel))
        .routes(routes!(control::signal))
        .routes(routes!(control::retry))
        .routes(routes!(control::restart))
}
