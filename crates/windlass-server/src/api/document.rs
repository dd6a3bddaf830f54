//! Completes the generated OpenAPI document: unique operation ids, errors common to all calls, and the authentication
//! schemes.

use std::collections::BTreeMap;

use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::empty;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, Content, OpenApi, Ref, RefOr, Response};

use crate::auth::guard::{SCHEME, SESSION, SIGNATURE};

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// Errors that are not specific to a route: status, name and meaning.
const COMMON_ERRORS: [(&str, &str, &str); 8] = [
    ("400", "BadRequest", "the body, the query or a header is invalid"),
    ("401", "Unauthenticated", "the token is missing or unknown, or the request is not authenticated"),
    ("403", "Forbidden", "the token lacks the scope, or the request comes from another origin"),
    ("413", "TooLarge", "the body is too large"),
    ("415", "MediaType", "this route does not accept the content type of the body"),
    ("421", "Misdirected", "the host name is not one of this server's"),
    ("429", "TooMany", "too many requests; retry after `Retry-After`"),
    ("503", "Unavailable", "temporarily unavailable: the server is shutting down, or its store is busy or full"),
];

/// Completes the document generated from the routes.
pub(crate) fn finish(mut document: OpenApi) -> OpenApi {
    let components = document.components.get_or_insert_default();
    declare_schemes(components);
    for (_, name, meaning) in COMMON_ERRORS {
        let problem = Content::new(Some(Ref::from_schema_name("Problem")));
        let mut response = Response::new(meaning);
        response.content.insert(PROBLEM.to_owned(), problem.into());
        components.responses.insert(name.to_owned(), response.into());
    }
    // OpenAPI has no syntax for a parameter that matches the rest of a path (`{*name}`).
    document.paths.paths = std::mem::take(&mut document.paths.paths)
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    for item in document.paths.paths.values_mut() {
        let has_several_methods = methods(item).filter(|(_, operation)| operation.is_some()).count() > 1;
        for (method, operation) in methods(item) {
            if let Some(operation) = operation {
                complete(operation, method, has_several_methods);
            }
        }
    }
    document
}

/// Returns the query parameter names of all operations that require a token. The parameters of a webhook are defined
/// by its definition.
pub(crate) fn query_names(mut document: OpenApi) -> BTreeMap<(String, &'static str), Vec<String>> {
    let mut names = BTreeMap::new();
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in methods(item) {
            let Some(operation) = operation.as_ref().filter(|operation| requires(operation, SCHEME)) else { continue };
            let query_parameters = operation.parameters.iter().flatten().filter_map(|one| match one {
                RefOr::T(one) if one.parameter_in == ParameterIn::Query => Some(one.name.clone()),
                _ => None,
            });
            names.insert((path.clone(), method), query_parameters.collect());
        }
    }
    names
}

fn declare_schemes(components: &mut Components) {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("wl_…").build();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(bearer));
    let about = "HMAC-SHA256 with the trigger's secret, in the header of the trigger's scheme: this one, `X-Hub-Signature-256` or \
                 `X-Windlass-Signature`. A token with the scope `run` is accepted as well.";
    let session = "The web UI's cookie, which POST /session sets: `windlass_…`, over TLS `__Host-windlass_…`, with a name for each \
                   store. It has the scopes of the token that signed in. Changes also need the header `X-CSRF-Token` with the \
                   `csrf_token` of GET /session. Programs send a token instead.";
    let cookie = ApiKeyValue::with_description("windlass_…", session);
    components.add_security_scheme(SESSION, SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    let header = ApiKeyValue::with_description("webhook-signature", about);
    components.add_security_scheme(SIGNATURE, SecurityScheme::ApiKey(ApiKey::Header(header)));
}

fn complete(operation: &mut Operation, method: &str, has_several_methods: bool) {
    let is_signed = requires(operation, SIGNATURE);
    let tag = operation.tags.iter().flatten().next().cloned().unwrap_or_default();
    let id = operation.operation_id.take().unwrap_or_default();
    // One webhook handler serves several methods.
    operation.operation_id = Some(match has_several_methods && is_signed {
        true => format!("{tag}_{id}_{method}"),
        false => format!("{tag}_{id}"),
    });
    if is_signed && matches!(method, "post" | "put" | "patch") {
        operation.request_body = Some(RefOr::T(delivery_body()));
    }
    if is_signed {
        let any = RefOr::T(Response::new("the response of the definition's `response` action: any status, any body"));
        operation.responses.responses.insert("default".to_owned(), any);
    }
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if status.starts_with(['4', '5'])
            && let Some(content) = response.content.shift_remove(JSON)
        {
            response.content.insert(PROBLEM.to_owned(), content);
        }
    }
    let has_body = operation.request_body.is_some();
    let takes_parameters = has_body || operation.parameters.as_ref().is_some_and(|all| !all.is_empty());
    let is_guarded = is_signed || requires(operation, SCHEME);
    for (status, name, _) in COMMON_ERRORS {
        let applies = match status {
            // An unknown query parameter is rejected as well.
            "400" => takes_parameters || is_guarded,
            "413" => has_body,
            // A delivery may have any content type.
            "415" => has_body && !is_signed,
            "421" => true,
            _ => is_guarded,
        };
        if applies {
            let error_response = RefOr::Ref(Ref::from_response_name(name));
            operation.responses.responses.entry(status.to_owned()).or_insert(error_response);
        }
    }
}

fn requires(operation: &Operation, scheme: &str) -> bool {
    let all = operation.security.iter().flatten();
    all.filter_map(|one| serde_json::to_value(one).ok()).any(|one| one.get(scheme).is_some())
}

/// Returns the request body of a delivery to a trigger.
fn delivery_body() -> RequestBody {
    let mut body = RequestBody::new();
    body.description = Some("JSON as data, text as text, anything else as `{$content-type, $content}`".to_owned());
    for kind in [JSON, "text/*", "*/*"] {
        body.content.insert(kind.to_owned(), Content::new(Some(empty())).into());
    }
    body
}

fn methods(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Option<Operation>)> {
    let PathItem { get, put, post, delete, options, head, patch, trace, .. } = item;
    let names = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
    names.into_iter().zip([get, put, post, delete, options, head, patch, trace])
}
