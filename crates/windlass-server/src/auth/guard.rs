//! The compile-time check that only a handler whose first argument is an authorisation type can become a route. The
//! type also determines what the OpenAPI document says.

use axum::routing::MethodRouter;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::SecurityRequirement;
use utoipa_axum::router::UtoipaMethodRouter;

use super::TokenScope;

/// The names of the security schemes of the document.
pub const SCHEME: &str = "token";
pub(crate) const SIGNATURE: &str = "signature";
pub const SESSION: &str = "session";

/// The access rule of a handler, declared by its first argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessRule {
    Public,
    /// Requires a token with this scope.
    Scope(TokenScope),
    /// Requires a signature with the secret of this one route.
    Signed,
}

/// An authorisation type: extracting it has checked the caller.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not declare the access rule of this handler",
    label = "the first argument of a handler is an authorisation type",
    note = "take `Public`, `Allowed<Read>`, `Allowed<Run>`, `Allowed<Control>`, `Allowed<Work>`, `Allowed<Admin>`, `Selecting<…>` or `Signed` first"
)]
pub trait Authorization {
    const RULE: AccessRule;
}

/// A handler whose first argument is an authorisation type.
#[diagnostic::on_unimplemented(
    message = "this handler does not declare its access rule",
    label = "its first argument is not an authorisation type",
    note = "take `Public`, `Allowed<Read>`, `Allowed<Run>`, `Allowed<Control>`, `Allowed<Work>`, `Allowed<Admin>`, `Selecting<…>` or `Signed` first"
)]
pub trait Guarded<Arguments> {
    const RULE: AccessRule;
}

macro_rules! guarded {
    ($($argument:ident),*) => {
        impl<F, Answer, First: Authorization, $($argument),*> Guarded<(First, $($argument,)*)> for F
        where
            F: Fn(First, $($argument),*) -> Answer,
        {
            const RULE: AccessRule = First::RULE;
        }
    };
}

guarded!();
guarded!(A);
guarded!(A, B);
guarded!(A, B, C);
guarded!(A, B, C, D);
guarded!(A, B, C, D, E);
guarded!(A, B, C, D, E, G);
guarded!(A, B, C, D, E, G, H);

/// Returns the access rule that a handler declares.
///
/// ```
/// use windlass_server::auth::{AccessRule, Allowed, Read, TokenScope, guard};
///
/// async fn asks(_: Allowed<Read>, body: String) -> String {
///     body
/// }
/// assert_eq!(guard::rule_of(&asks), AccessRule::Scope(TokenScope::Read));
/// ```
///
/// A function that declares nothing is no handler:
///
/// ```compile_fail,E0277
/// use windlass_server::auth::guard;
///
/// async fn forgets(body: String) -> String {
///     body
/// }
/// guard::rule_of(&forgets);
/// ```
pub fn rule_of<Arguments, H: Guarded<Arguments>>(_: &H) -> AccessRule {
    H::RULE
}

/// Builds the routes of guarded handlers, with their access rules in the OpenAPI document.
macro_rules! routes {
    ($first:path $(, $more:path)* $(,)?) => {{
        let declared = $crate::auth::guard::rule_of(&$first);
        let routes = $crate::auth::guard::document_rule(utoipa_axum::routes!($first), declared);
        $(
            let declared = $crate::auth::guard::rule_of(&$more);
            let one = $crate::auth::guard::document_rule(utoipa_axum::routes!($more), declared);
            let routes = $crate::auth::guard::merge_methods(routes, one);
        )*
        routes
    }};
}

pub(crate) use routes;

/// Writes the access rule into the OpenAPI document, replacing what the operations' authors wrote there.
pub(crate) fn document_rule<S>(routes: UtoipaMethodRouter<S>, rule: AccessRule) -> UtoipaMethodRouter<S> {
    let (schemas, mut paths, router) = routes;
    for item in paths.paths.values_mut() {
        operations(item).for_each(|operation| {
            operation.security = Some(match rule {
                AccessRule::Public => vec![SecurityRequirement::default()],
                AccessRule::Signed => vec![SecurityRequirement::new(SIGNATURE, Vec::<String>::new())],
                AccessRule::Scope(scope) => vec![
                    SecurityRequirement::new(SCHEME, [scope.as_str()]),
                    SecurityRequirement::new(SESSION, Vec::<String>::new()),
                ],
            });
        });
    }
    (schemas, paths, router)
}

/// Merges several methods of one path.
pub(crate) fn merge_methods<S: Clone + Send + Sync + 'static>(
    one: UtoipaMethodRouter<S>,
    other: UtoipaMethodRouter<S>,
) -> UtoipaMethodRouter<S> {
    let (mut schemas, mut paths, router) = one;
    schemas.extend(other.0);
    for (path, item) in other.1.paths {
        match paths.paths.get_mut(&path) {
            Some(known) => known.merge_operations(item),
            None => drop(paths.paths.insert(path, item)),
        }
    }
    let router: MethodRouter<S> = router.merge(other.2);
    (schemas, paths, router)
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, options, head, patch, trace, .. } = item;
    [get, put, post, delete, options, head, patch, trace].into_iter().flatten()
}
