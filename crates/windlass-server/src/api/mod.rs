//! The routes, one file a group. All of them are in the generated OpenAPI document, which is also the table that the tests
//! of authorisation walk.

mod ops;
pub mod take;
mod workers;

use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;

#[derive(OpenApi)]
#[openapi(info(title = "Windlass", description = "Durable workflows: start, watch, steer and mend them."))]
struct Document;

/// Every route with its description.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(ops::health))
        .routes(routes!(ops::openapi))
        .merge(of_workers())
}

fn of_workers() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(workers::lease))
        .routes(routes!(workers::heartbeat))
        .routes(routes!(workers::progress))
        .routes(routes!(workers::complete))
        .routes(routes!(workers::fail))
        .routes(routes!(workers::leave))
        .routes(routes!(workers::list))
        .routes(routes!(workers::drain))
}
