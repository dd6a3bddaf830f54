//! The routes, one file a group. All of them are in the generated OpenAPI document, which is also the table that the tests
//! of authorisation walk.

mod audit;
mod ops;
mod tokens;

use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

use crate::App;
use crate::auth::guard::{SCHEME, routes};

#[derive(OpenApi)]
#[openapi(info(title = "Windlass", description = "Durable workflows: start, watch, steer and mend them."))]
struct Document;

/// Every route with its description.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(ops::health))
        .routes(routes!(ops::ready))
        .routes(routes!(ops::figures))
        .routes(routes!(ops::openapi))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(audit::lines))
}

/// The document that describes them.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = routes().into_openapi();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("wl_…").build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(bearer));
    document
}
