//! Extractors of handlers. A value that does not fit is rejected with a problem that names the location and the
//! expected form.

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Request};
use axum::http::header::{self, HeaderMap};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use bytes::Bytes;
use http_body::Body as _;
use serde::de::DeserializeOwned;
use windlass_core::ServerLimits;
use windlass_runtime::{find_run, is_run_id, is_run_reference};
use windlass_syntax::did_you_mean;
use windlass_value::check_json;

use super::objects::StrictObjects;
use crate::ApiProblem;
use crate::app::App;
use crate::problem::codes;

/// Maximum length of a definition's name.
const MAX_NAME_BYTES: usize = 256;

/// Maximum length of an idempotency key.
const MAX_KEY_BYTES: usize = 256;

/// Maximum size of a request body, attached to every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaxBodyBytes(pub usize);

impl MaxBodyBytes {
    fn limit_of(request: &Request) -> usize {
        let set = request.extensions().get::<MaxBodyBytes>().map(|max| max.0);
        set.unwrap_or_else(|| ServerLimits::default().max_body_bytes)
    }
}

/// A required JSON body of this form.
pub(crate) struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, _: &S) -> Result<Json<T>, ApiProblem> {
        reject_content_encoding(request.headers())?;
        require_json(request.headers())?;
        let max_bytes = MaxBodyBytes::limit_of(&request);
        let bytes = read_body(request.into_body(), max_bytes).await?;
        if bytes.is_empty() {
            return Err(ApiProblem::bad_request("the request has no body").hint("send a JSON object"));
        }
        parse_json(&bytes).map(Json)
    }
}

/// An optional JSON body.
pub(crate) struct MaybeJson<T>(pub T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for MaybeJson<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, _: &S) -> Result<MaybeJson<T>, ApiProblem> {
        let json_check = reject_content_encoding(request.headers()).and_then(|()| require_json(request.headers()));
        let max_bytes = MaxBodyBytes::limit_of(&request);
        let bytes = read_body(request.into_body(), max_bytes).await?;
        if bytes.is_empty() {
            return Ok(MaybeJson(T::default()));
        }
        json_check?;
        parse_json(&bytes).map(MaybeJson)
    }
}

/// Reads a whole body, unless it is too large.
pub(crate) async fn read_body(body: Body, max_bytes: usize) -> Result<Bytes, ApiProblem> {
    let too_large = || {
        let detail = format!("the body has more than {max_bytes} bytes");
        ApiProblem::new(StatusCode::PAYLOAD_TOO_LARGE, codes::TOO_LARGE, detail)
            .hint("the operator can raise `server.max_body_bytes` in windlass.toml")
    };
    // A client that announces the size is rejected before it sends the body.
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(too_large());
    }
    to_bytes(body, max_bytes).await.map_err(|error| {
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(inner) = cause {
            if inner.is::<http_body_util::LengthLimitError>() {
                return too_large();
            }
            cause = inner.source();
        }
        ApiProblem::bad_request(format!("the body could not be read: {error}"))
    })
}

/// Rejects compressed bodies, since their decompressed size is unknown.
pub(crate) fn reject_content_encoding(headers: &HeaderMap) -> Result<(), ApiProblem> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    match codings.find(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        None => Ok(()),
        Some(coding) => {
            let detail =
                format!("unsupported Content-Encoding `{}`", printable(&String::from_utf8_lossy(coding.as_bytes())));
            let problem = ApiProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, codes::MEDIA_TYPE, detail);
            Err(problem.hint("send the body unencoded, without `Content-Encoding`"))
        }
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), ApiProblem> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = given.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    if essence.as_deref() == Some("application/json") {
        return Ok(());
    }
    let detail = match given {
        Some(kind) => format!("the body is `{kind}`; this route accepts `application/json`"),
        None => "the request has no `Content-Type`".to_owned(),
    };
    let problem = ApiProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, codes::MEDIA_TYPE, detail);
    Err(problem.hint("send the header `Content-Type: application/json`"))
}

/// Parses JSON from outside. All such JSON comes through here: it must be valid, match the type and have no duplicate
/// keys.
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiProblem> {
    let location = |line: usize, column: usize| format!("line {line}, column {column} of the body");
    let text = std::str::from_utf8(bytes).map_err(|_| ApiProblem::bad_request("the body is not valid UTF-8"))?;
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed =
        T::deserialize(StrictObjects(&mut json)).and_then(|value| json.end().map(|()| value)).map_err(|error| {
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            let mut problem = mismatch_problem(why, "the body");
            problem.location = Some(location(error.line(), error.column()));
            problem
        })?;
    check_json(text).map_err(|odd| {
        let problem = ApiProblem::bad_request(format!("the body is invalid: {}", odd.message));
        let mut problem = problem.hint("JSON does not define its meaning, so it is rejected");
        problem.location = Some(format!("{}, at `{}`", location(odd.line, odd.column), odd.pointer));
        problem
    })?;
    Ok(parsed)
}

/// Translates the Rust type names in library messages to JSON terms.
fn translate_error(why: &str) -> String {
    const WORDS: [(&str, &str); 5] = [
        ("invalid digit found in string", "it must be a whole number"),
        ("recursion limit exceeded", "it is nested too deeply"),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
        ("invalid type: sequence", "invalid type: array"),
    ];
    let why = WORDS.iter().fold(why.to_owned(), |why, (theirs, ours)| why.replace(theirs, ours));
    let Some((before, kind)) = why.rsplit_once("expected ") else { return why };
    match kind {
        "u8" | "u16" | "u32" | "u64" | "usize" => format!("{before}expected a whole number that is not negative"),
        "i8" | "i16" | "i32" | "i64" | "isize" => format!("{before}expected a whole number"),
        "f32" | "f64" => format!("{before}expected a number"),
        _ => why,
    }
}

/// Builds the problem for a serde error, with a suggestion for the name.
fn mismatch_problem(why: &str, what: &str) -> ApiProblem {
    let why = &translate_error(why);
    let problem = ApiProblem::bad_request(format!("{what} is invalid: {why}"));
    let unknown = ["unknown field ", "unknown variant "].iter().find_map(|words| why.split_once(words));
    let Some((_, rest)) = unknown else { return problem };
    // `unknown field `x`, expected one of `a`, `b``
    let mut names = rest.split('`').skip(1).step_by(2);
    let wrong = names.next().unwrap_or_default();
    let known: Vec<&str> = names.collect();
    match did_you_mean(wrong, known.iter().copied()) {
        Some(hint) => problem.hint(hint),
        None if known.is_empty() => problem.hint("it has no fields"),
        None => problem.hint(format!("it takes {}", windlass_syntax::format_names(known))),
    }
}

/// The query of the URL.
pub(crate) struct Query<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, ApiProblem> {
        parse_query(&parts.uri).map(Query)
    }
}

/// Rejects query parameters that the route does not declare, whether or not its handler reads the query. Called after
/// the caller was identified.
pub(crate) fn check_query(parts: &Parts) -> Result<(), ApiProblem> {
    if parts.uri.query().is_none_or(str::is_empty) {
        return Ok(());
    }
    let Some(route) = parts.extensions.get::<MatchedPath>() else { return Ok(()) };
    let Some(known) = super::query_names(route.as_str(), &parts.method) else { return Ok(()) };
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let axum::extract::Query(pairs) = pairs.map_err(|refused| ApiProblem::bad_request(refused.body_text()))?;
    for (at, (name, _)) in pairs.iter().enumerate() {
        if !known.contains(name) {
            let problem =
                ApiProblem::bad_request(format!("the query is invalid: unknown parameter `{}`", printable(name)));
            let names = || known.iter().map(String::as_str);
            return Err(problem.hint(match did_you_mean(name, names()) {
                Some(hint) => hint,
                None if known.is_empty() => "this route has no query parameters".to_owned(),
                None => format!("it takes {}", windlass_syntax::format_names(names())),
            }));
        }
        if pairs[..at].iter().any(|(before, _)| before == name) {
            return Err(ApiProblem::bad_request(format!("the query is invalid: `{name}` is given twice")));
        }
    }
    Ok(())
}

fn parse_query<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiProblem> {
    use std::error::Error;
    match axum::extract::Query::<T>::try_from_uri(uri) {
        Ok(axum::extract::Query(value)) => Ok(value),
        Err(refused) => {
            let why = refused.source().map_or_else(|| refused.body_text(), ToString::to_string);
            Err(mismatch_problem(&why, "the query"))
        }
    }
}

/// `{run}` of the path.
pub(crate) struct RunId(pub String);

impl FromRequestParts<App> for RunId {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<RunId, ApiProblem> {
        let reference = path_parameter(parts, app, "run").await?;
        if is_run_id(&reference) {
            return Ok(RunId(reference));
        }
        if !is_run_reference(&reference) {
            return Err(ApiProblem::not_found(format!("`{}` cannot be the id of a run", printable(&reference))));
        }
        let found = app.read_store(move |app| Ok(find_run(&*app.store, &reference)?.ok_or(reference)));
        match found.await? {
            Ok(row) => Ok(RunId(row.run.to_string())),
            Err(unknown) => Err(windlass_runtime::RuntimeError::NoSuchRun(unknown).into()),
        }
    }
}

/// Resolves a reference to a run in a query to the run's id. An impossible id is an error, not an empty result; an
/// unknown one stays as it is.
pub(crate) async fn resolve_run(app: &App, name: &str, given: Option<String>) -> Result<Option<String>, ApiProblem> {
    match given {
        Some(id) if !is_run_reference(&id) => {
            Err(ApiProblem::bad_request(format!("`{name}` is `{}`, which cannot be the id of a run", printable(&id))))
        }
        Some(number) if !is_run_id(&number) => resolve_execution_id(app, number).await.map(Some),
        id => Ok(id),
    }
}

/// Returns the id of the run that a text means if it is an execution id, and otherwise the text.
pub(crate) async fn resolve_execution_id(app: &App, text: String) -> Result<String, ApiProblem> {
    if is_run_id(&text) || !is_run_reference(&text) {
        return Ok(text);
    }
    let find = move |app: &App| Ok(find_run(&*app.store, &text)?.map_or(text, |row| row.run.to_string()));
    app.read_store(find).await
}

/// Returns whether a new run may have this id: names of routes are reserved.
pub(crate) fn is_new_run_id(id: &str) -> bool {
    is_run_id(id) && !matches!(id, "changes" | "counts")
}

/// `{name}` of the path: a definition. A `/` in it is written as `%2F`.
pub(crate) struct DefinitionName(pub String);

impl<S: Send + Sync> FromRequestParts<S> for DefinitionName {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<DefinitionName, ApiProblem> {
        let name = path_parameter(parts, state, "name").await?;
        match is_definition_name(&name) {
            true => Ok(DefinitionName(name)),
            false => Err(ApiProblem::not_found(format!("`{}` cannot be the name of a definition", printable(&name)))),
        }
    }
}

/// Returns one parameter of the path, percent-decoded.
pub(crate) async fn path_parameter<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    parameter: &str,
) -> Result<String, ApiProblem> {
    type All = axum::extract::Path<Vec<(String, String)>>;
    let all = All::from_request_parts(parts, state).await;
    let axum::extract::Path(all) = all.map_err(|refused| ApiProblem::bad_request(refused.body_text()))?;
    let found = all.into_iter().find(|(name, _)| name == parameter).map(|(_, value)| value);
    found.ok_or_else(|| ApiProblem::not_found(format!("the path has no `{parameter}`")))
}

/// Returns whether a definition may have this name: names of routes are reserved.
pub(crate) fn is_definition_name(name: &str) -> bool {
    is_path_segment(name) && name != "check"
}

/// Returns whether a name is valid in paths and record keys.
pub(crate) fn is_path_segment(name: &str) -> bool {
    let fits = !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control);
    fits && !matches!(name, "." | "..")
}

/// The rules for names, as a hint.
pub(crate) const NAME_RULES: &str =
    "a name has 1 to 256 bytes, no line breaks or control characters, and is not `.`, `..` or `check`";

/// Returns text of the caller in a form that is safe to repeat in a message.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(80).collect()
}

/// The `Idempotency-Key` header.
pub(crate) struct IdempotencyKey(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<IdempotencyKey, ApiProblem> {
        let mut given = parts.headers.get_all("idempotency-key").iter();
        let Some(key) = given.next() else { return Ok(IdempotencyKey(None)) };
        if given.next().is_some() {
            return Err(ApiProblem::bad_request("there is more than one `Idempotency-Key`"));
        }
        let fits = |key: &&str| !key.trim().is_empty() && key.len() <= MAX_KEY_BYTES;
        match key.to_str().ok().filter(fits) {
            Some(key) => Ok(IdempotencyKey(Some(key.to_owned()))),
            None => {
                let detail = format!("`Idempotency-Key` must be 1 to {MAX_KEY_BYTES} printable ASCII characters");
                Err(ApiProblem::bad_request(detail))
            }
        }
    }
}

/// Returns the page size, or rejects one outside the range.
pub(crate) fn page_size(requested: Option<u32>, default: u32, max: u32) -> Result<u32, ApiProblem> {
    match requested {
        None => Ok(default),
        Some(requested) if (1..=max).contains(&requested) => Ok(requested),
        Some(requested) => Err(ApiProblem::bad_request(format!("`limit` is {requested}; it must be 1 to {max}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only rejections are tested")]
    struct Body {
        definition: String,
        input: Option<u32>,
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only rejections are tested")]
    struct Inner {
        cron: String,
    }

    #[test]
    fn invalid_bodies_are_rejected_with_location_and_hint() {
        let table = [
            ("{", "EOF while parsing", None),
            (r#"{"definitoin": "x"}"#, "unknown field `definitoin`", Some("did you mean `definition`?")),
            (
                r#"{"definition": "x", "zzz": 1}"#,
                "unknown field `zzz`",
                Some("it takes `definition`, `inner`, `input`"),
            ),
            (r#"{"definition": 1}"#, "invalid type", None),
            (r#"["x", 1]"#, "expected an object, found an array", None),
            (r#"{"definition": "x", "inner": ["x"]}"#, "expected an object, found an array", None),
            (r#"{"definition": "x", "inner": "x"}"#, "expected an object", None),
            (r#"{"definition": "x", "input": "x"}"#, "expected a whole number that is not negative", None),
            (r#"{"definition": "x", "input": -1}"#, "expected a whole number that is not negative", None),
            (r#"{"definition": "x"} x"#, "trailing characters", None),
            (r#"{"definition": "x", "definition": "y"}"#, "duplicate field `definition`", None),
        ];
        for (body, detail, hint) in table {
            let problem = parse_json::<Body>(body.as_bytes()).expect_err(body);
            assert!(problem.detail.contains(detail), "{body}: {}", problem.detail);
            assert_eq!(problem.hint.as_deref(), hint, "{body}");
            assert!(problem.location.as_ref().is_some_and(|place| place.starts_with("line 1, column ")), "{body}");
        }
    }

    #[test]
    fn ambiguous_json_is_rejected() {
        let table = [
            (r#"{"a": {"b": 1, "b": 2}}"#, "the key `b` is given twice", "line 1, column 16 of the body, at `/a/b`"),
            ("[1,\n1e999999]", "the number `1e999999` is too large", "line 2, column 1 of the body, at `/1`"),
        ];
        for (body, detail, location) in table {
            let problem = parse_json::<windlass_value::Value>(body.as_bytes()).expect_err(body);
            assert!(problem.detail.contains(detail), "{body}: {}", problem.detail);
            assert_eq!(problem.location.as_deref(), Some(location), "{body}");
        }
    }

    #[test]
    fn invalid_queries_are_rejected() {
        let refused = |text: &str| parse_query::<Body>(&text.parse().expect("an address")).expect_err(text);
        assert_eq!(refused("/x?definition=a&inptu=1").hint.as_deref(), Some("did you mean `input`?"));
        assert!(refused("/x?definition=a&input=b").detail.contains("must be a whole number"));
        assert!(refused("/x").detail.contains("missing field `definition`"));
    }
}
