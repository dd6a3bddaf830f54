//! Who may do what. A handler says what it needs by the type of its first argument; the gate sees to it that none forgets.

pub mod gate;
mod keys;
mod scope;

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};

pub use keys::{Identity, Keys};
pub use scope::{Admin, Control, Needs, Read, Run, Scope, Work};

use crate::problem::codes;
use crate::{App, Problem};

/// Anybody may ask.
pub struct Public;

impl<S: Send + Sync> FromRequestParts<S> for Public {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Public, Problem> {
        gate::pass(parts);
        Ok(Public)
    }
}

/// Somebody whose token has the scope `N`.
pub struct Allowed<N: Needs> {
    pub who: Arc<Identity>,
    needs: PhantomData<N>,
}

impl<N: Needs> FromRequestParts<App> for Allowed<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Allowed<N>, Problem> {
        // Whoever is refused has been looked at too.
        gate::pass(parts);
        let who = identify(parts, app)?;
        if !who.may(N::SCOPE) {
            let detail = format!("the token `{}` has no scope `{}`", who.name, N::SCOPE.as_str());
            let hint = "`windlass token create NAME --scope …` makes one that has";
            return Err(Problem::new(StatusCode::FORBIDDEN, codes::FORBIDDEN, detail).hint(hint));
        }
        Ok(Allowed { who, needs: PhantomData })
    }
}

/// Who asks, by the token of the request.
pub fn identify(parts: &Parts, app: &App) -> Result<Arc<Identity>, Problem> {
    if app.options.open {
        return Ok(app.keys.anybody());
    }
    let unknown = |detail: &str| {
        let hint = "send `Authorization: Bearer TOKEN`; the first one is in the file `token` beside the store";
        Problem::new(StatusCode::UNAUTHORIZED, codes::UNAUTHENTICATED, detail).hint(hint)
    };
    let given = parts.headers.get(header::AUTHORIZATION).ok_or_else(|| unknown("there is no token"))?;
    let token = given.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    let token = token.ok_or_else(|| unknown("`Authorization` is not `Bearer TOKEN`"))?;
    app.keys.identify(token.trim()).ok_or_else(|| unknown("nobody has this token"))
}
