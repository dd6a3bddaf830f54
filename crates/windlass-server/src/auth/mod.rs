//! Who may do what. A handler says what it needs by the type of its first argument; the gate sees to it that none forgets.

pub(crate) mod gate;
pub mod guard;
mod keys;
mod scope;
pub mod tokens;

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};

pub use guard::{Authority, Declared};
pub use keys::{FIRST_FILE, Keys, first_token};
pub(crate) use keys::{Identity, Refusal, Seat};
pub use scope::{Admin, Control, Needs, Read, Run, Scope, Work};

use crate::api::take::check_query;
use crate::problem::codes;
use crate::rate::{Rate, neighbourhood, too_many};
use crate::{App, Problem};

/// Who asks: the other end of the connection, as the listener has put it into the request, or whom a proxy asks for, as
/// the edge has found out.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.port() {
            // Proxies seldom say it.
            0 => write!(f, "{}", self.0.ip()),
            _ => write!(f, "{}", self.0),
        }
    }
}

/// Anybody may ask.
pub struct Public;

impl Authority for Public {
    const DECLARED: Declared = Declared::Public;
}

impl<S: Send + Sync> FromRequestParts<S> for Public {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Public, Problem> {
        gate::pass_as(parts, Declared::Public);
        Ok(Public)
    }
}

/// Somebody whose token has the scope `N`.
pub struct Allowed<N: Needs> {
    pub(crate) who: Arc<Identity>,
    needs: PhantomData<N>,
}

impl<N: Needs> Authority for Allowed<N> {
    const DECLARED: Declared = Declared::Scope(N::SCOPE);
}

impl<N: Needs> FromRequestParts<App> for Allowed<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Allowed<N>, Problem> {
        // Whoever is refused has been looked at too.
        gate::pass_as(parts, Declared::Scope(N::SCOPE));
        let who = identify(parts, app)?;
        gate::known(parts, &who);
        if !who.may(N::SCOPE) {
            let detail = format!("the token `{}` has no scope `{}`", who.name, N::SCOPE.as_str());
            let hint = "`windlass token create NAME --scope …` makes one that has";
            return Err(Problem::new(StatusCode::FORBIDDEN, codes::FORBIDDEN, detail).hint(hint));
        }
        let limit = Rate::new(app.options.rate_per_second, app.options.rate_per_second);
        who.seat.requests.take(limit).map_err(|wait| too_many("requests with this token", wait, "rate"))?;
        check_query(parts)?;
        Ok(Allowed { who, needs: PhantomData })
    }
}

/// Who asks, by the token of the request.
pub(crate) fn identify(parts: &Parts, app: &App) -> Result<Arc<Identity>, Problem> {
    if app.options.open {
        return Ok(app.keys.anybody());
    }
    let shown = shown_token(parts);
    let from = parts.extensions.get::<Peer>().map(|peer| neighbourhood(peer.0.ip()));
    let wait = from.and_then(|from| app.keys.strangers.wait(from, app.watch().rates.failures));
    let refused = match shown {
        Ok(token) => match app.keys.identify(token, wait.is_none()) {
            Ok(who) => return Ok(who),
            Err(Refusal::Unknown) => "nobody has this token",
            Err(Refusal::Expired) => "this token has expired",
        },
        Err(why) => why,
    };
    // Whoever has a token is not kept out by a neighbour who has none.
    if let Some(wait) = wait {
        return Err(too_many("tokens that nobody has, from this address", wait, "max_unknown_tokens_per_second"));
    }
    if let Some(from) = from {
        // That this one was too many is seen by the next.
        let _ = app.keys.strangers.take(from, app.watch().rates.failures);
    }
    let hint = "send `Authorization: Bearer TOKEN`; the first one is in the file `token` in the store's directory, such as .windlass/token";
    Err(Problem::new(StatusCode::UNAUTHORIZED, codes::UNAUTHENTICATED, refused).hint(hint))
}

fn shown_token(parts: &Parts) -> Result<&str, &'static str> {
    let mut given = parts.headers.get_all(header::AUTHORIZATION).iter();
    let first = given.next().ok_or("there is no token")?;
    if given.next().is_some() {
        return Err("there is more than one `Authorization`");
    }
    let text = first.to_str().ok().and_then(|text| text.split_once(' '));
    let token = text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
    token.ok_or("`Authorization` is not `Bearer TOKEN`")
}
