//! `windlass token`: access tokens of this store's server. The server may be running: it picks up the changes.

use windlass_runtime::real_now;
use windlass_server::auth::TokenScope;
use windlass_server::auth::tokens::{self, ApiToken, TokenError, TokenRequest};
use windlass_store_sqlite::SqliteOptions;
use windlass_syntax::did_you_mean;
use windlass_value::{Timestamp, Value};

use crate::args::{self, GlobalArgs, TokenCommand};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure};
use crate::{durations, out, stores};

pub(crate) fn token(global: &GlobalArgs, args: &args::TokenArgs) -> Result<CliExit, CliFailure> {
    crate::runs::require_store(global, "token")?;
    match &args.command {
        TokenCommand::Create(args) => create(global, args),
        TokenCommand::List => list(global),
        TokenCommand::Revoke(args) => revoke(global, &args.id),
    }
}

fn create(global: &GlobalArgs, args: &args::TokenCreateArgs) -> Result<CliExit, CliFailure> {
    let scopes = args.scope.iter().map(|word| parse_scope(word)).collect::<Result<Vec<_>, _>>()?;
    let expires_at = args.expires.as_deref().map(durations::parse).transpose()?.map(|span| real_now() + span);
    // Tokens may be created before the first start of the server.
    let store = stores::open_or_create(&stores::directory(global), SqliteOptions::default())?;
    let (name, definitions) = (args.name.clone(), args.definitions.clone());
    let token_request = TokenRequest { name, scopes, definitions, expires_at, created_by: Some("program".to_owned()) };
    let (token, secret) = tokens::create(&*store, token_request, CliSettings::load(global)?.server.limits.max_tokens)
        .map_err(to_failure)?;
    if global.json {
        let mut entry = entry(&token);
        entry.push(("token", Value::from(secret.reveal())));
        out::print_json(&Value::object(entry))?;
        return Ok(CliExit::Success);
    }
    // Only the token goes to stdout, so that a script can capture it.
    out::print(secret.reveal())?;
    out::note(&format!("{} `{}` may {}{}", token.id, token.name, scope_list(&token), expiry_note(&token)));
    out::note("it is shown only once; the store keeps only its hash");
    Ok(CliExit::Success)
}

fn list(global: &GlobalArgs) -> Result<CliExit, CliFailure> {
    let store = stores::open(global)?;
    let mut all: Vec<ApiToken> = tokens::list(&*store)?.into_iter().map(|(token, _)| token).collect();
    all.sort_by_key(|token| token.created_at);
    if global.json {
        let items = all.iter().map(|token| Value::object(entry(token))).collect();
        out::print_json(&Value::list(items))?;
        return Ok(CliExit::Success);
    }
    if all.is_empty() {
        out::note("there are no tokens; the first start of `windlass serve` creates one");
    }
    let width = all.iter().map(|token| token.name.chars().count()).max().unwrap_or(0);
    for token in &all {
        let used = token.last_used.map_or("never used".to_owned(), |at| format!("used {at}"));
        let (id, name, words) = (&token.id, &token.name, scope_list(token));
        out::print(&format!("{id}  {name:width$}  {words:<22}  {used}{}", expiry_note(token)))?;
    }
    Ok(CliExit::Success)
}

fn revoke(global: &GlobalArgs, id: &str) -> Result<CliExit, CliFailure> {
    let store = stores::open(global)?;
    let token = tokens::revoke(&*store, id).map_err(to_failure)?;
    match global.json {
        true => out::print_json(&Value::object([("id", Value::from(token.id)), ("revoked", Value::from(true))]))?,
        false => out::print(&format!("{} `{}` is revoked", token.id, token.name))?,
    }
    Ok(CliExit::Success)
}

fn parse_scope(word: &str) -> Result<TokenScope, CliFailure> {
    TokenScope::ALL.into_iter().find(|scope| scope.as_str() == word).ok_or_else(|| {
        let known: Vec<&str> = TokenScope::ALL.iter().map(|scope| scope.as_str()).collect();
        let hint =
            did_you_mean(word, known.iter().copied()).unwrap_or_else(|| format!("there are {}", known.join(", ")));
        CliFailure::usage(format!("`{word}` is not a scope")).hint(hint)
    })
}

fn entry(token: &ApiToken) -> Vec<(&'static str, Value)> {
    let text = |at: Option<Timestamp>| Value::from(at.map(|at| at.to_string()).as_deref());
    let scopes = token.scopes.iter().map(|scope| Value::from(scope.as_str())).collect();
    vec![
        ("id", Value::from(token.id.as_str())),
        ("name", Value::from(token.name.as_str())),
        ("scopes", Value::list(scopes)),
        ("definitions", Value::list(token.definitions.iter().map(|name| Value::from(name.as_str())).collect())),
        ("created_at", text(Some(token.created_at))),
        ("expires_at", text(token.expires_at)),
        ("last_used", text(token.last_used)),
        ("created_by", Value::from(token.created_by.as_deref())),
    ]
}

fn scope_list(token: &ApiToken) -> String {
    let scopes = token.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",");
    match token.definitions.as_slice() {
        [] => scopes,
        only => format!("{scopes} of {}", only.join(",")),
    }
}

fn expiry_note(token: &ApiToken) -> String {
    match token.expires_at {
        Some(at) if token.has_expired(real_now()) => format!(", expired {at}"),
        Some(at) => format!(", until {at}"),
        None => String::new(),
    }
}

fn to_failure(error: TokenError) -> CliFailure {
    let hint = error.hint();
    match error {
        TokenError::Store(error) => error.into(),
        other => CliFailure::usage(other.to_string()).hint(hint),
    }
}
