//! Requests to a server's API, and its problems as failures of the command line.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use hyper::{Method, Response};
use windlass_runtime::inspect::fill_run_id;
use windlass_value::{Value, parse_json, to_json};

use super::decode::unexpected;
use crate::failure::{CliExit, CliFailure, codes};
use crate::worker::{ServerClient, ServerRequestError, format_report};

/// Maximum time to wait for the response of a request that is no stream. Replaying a long run for a restart takes
/// longest.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of bytes of a response: a page of iterations or events may be large.
const MAX_RESPONSE_BYTES: usize = 256 * 1024 * 1024;

/// The code of the engine for an id that another run has.
const RUN_EXISTS: &str = "WND-2615";

/// A server, and how its token was found.
pub(crate) struct ServerApi {
    client: ServerClient,
    /// The URL, as the user gave it.
    pub url: String,
    /// Whether requests have a token.
    has_token: bool,
}

/// Why a request has no usable response.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// The server does not respond, or not as a Windlass server does.
    Unreachable(String),
    /// The server responds with a redirect, which is not followed: the token is for this address only.
    Redirected(String),
    Problem(Box<ServerProblem>),
}

/// The problem document of a server.
#[derive(Debug)]
pub(crate) struct ServerProblem {
    pub status: u16,
    pub code: Option<&'static str>,
    /// The code of the engine's error behind it, as the same command on a store reports it.
    cause: Option<&'static str>,
    detail: String,
    hint: Option<String>,
    problems: Vec<String>,
    /// The run that the request is about.
    run: Option<String>,
    /// The codes of the single problems.
    pub codes: Vec<String>,
}

impl ApiError {
    /// Returns whether the server responds with this status.
    pub(crate) fn is_status(&self, status: u16) -> bool {
        matches!(self, ApiError::Problem(problem) if problem.status == status)
    }

    /// Returns whether the server responds with this code, for the request or for a problem of the definition in it.
    pub(crate) fn is_code(&self, code: &str) -> bool {
        matches!(self, ApiError::Problem(problem)
            if problem.code == Some(code) || problem.codes.iter().any(|one| one == code))
    }
}

impl ServerApi {
    pub(crate) fn new(client: ServerClient, url: &str, has_token: bool) -> ServerApi {
        ServerApi { client, url: url.trim_end_matches('/').to_owned(), has_token }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ApiError> {
        parse(&self.bytes(Method::GET, path, None).await?)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        parse(&self.bytes(Method::POST, path, Some(body)).await?)
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        parse(&self.bytes(Method::PUT, path, Some(body)).await?)
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, ApiError> {
        parse(&self.bytes(Method::DELETE, path, None).await?)
    }

    /// Returns the body of a successful response.
    pub(crate) async fn bytes(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Bytes, ApiError> {
        let exchange = async { self.collect(self.open(method, path, body, "*/*").await?).await };
        let late = || ApiError::Unreachable(format!("no response within {} s", TIMEOUT.as_secs()));
        tokio::time::timeout(TIMEOUT, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    /// Opens a stream of lines. The caller reads it to its end.
    pub(crate) async fn lines(&self, path: &str) -> Result<Incoming, ApiError> {
        let opened = tokio::time::timeout(TIMEOUT, self.open(Method::GET, path, None, "application/x-ndjson")).await;
        let late = || ApiError::Unreachable(format!("no response within {} s", TIMEOUT.as_secs()));
        Ok(opened.unwrap_or_else(|_| Err(late()))?.into_body())
    }

    /// Sends a request and returns the head of a successful response.
    async fn open(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        accept: &str,
    ) -> Result<Response<Incoming>, ApiError> {
        let mut request = self.client.request(method, path).header(ACCEPT, accept);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let sent = self.client.send(request, body.map(to_json).unwrap_or_default().into()).await;
        let response = sent.map_err(|error| match error {
            ServerRequestError::Unreachable(why) => ApiError::Unreachable(why),
            ServerRequestError::Rejected { detail, .. } => ApiError::Unreachable(detail),
            ServerRequestError::StaleLease => ApiError::Unreachable("the request was refused".to_owned()),
        })?;
        match response.status().as_u16() {
            200..=299 => Ok(response),
            300..=399 => {
                let target = response.headers().get(LOCATION).and_then(|target| target.to_str().ok());
                Err(ApiError::Redirected(target.unwrap_or("another address").to_owned()))
            }
            status => {
                let mut problem = problem(status, &self.collect(response).await?);
                if let ApiError::Problem(problem) = &mut problem {
                    problem.run = requested_run(path, body, problem.cause);
                }
                Err(problem)
            }
        }
    }

    async fn collect(&self, response: Response<Incoming>) -> Result<Bytes, ApiError> {
        let read = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
        let bytes = read.map_err(|error| match error.is::<LengthLimitError>() {
            true => ApiError::Unreachable(format!("its response has more than {MAX_RESPONSE_BYTES} bytes")),
            false => ApiError::Unreachable(error.to_string()),
        });
        Ok(bytes?.to_bytes())
    }

    /// Returns the failure of the command for an error of this server.
    pub(crate) fn failure(&self, error: ApiError) -> CliFailure {
        let url = &self.url;
        let server_away = matches!(&error, ApiError::Unreachable(_)) || error.is_status(503);
        let failure = match error {
            ApiError::Unreachable(why) => {
                let message = format!("the server at {url} does not respond: {why}");
                CliFailure::new(CliExit::Failed, message)
                    .code(codes::UNREACHABLE_SERVER)
                    .hint(unreachable_hint(url, &why))
            }
            ApiError::Redirected(target) => {
                let message = format!("the server at {url} redirects to {target}; the token was not sent there");
                CliFailure::new(CliExit::Failed, message)
                    .code(codes::UNREACHABLE_SERVER)
                    .hint("name that address with --server, if it is the server that you mean")
            }
            ApiError::Problem(problem) => self.problem_failure(*problem),
        };
        failure.with_server_away(server_away)
    }

    /// Returns the same failure, with this advice if the server gives none.
    pub(crate) fn failure_with_hint(&self, error: ApiError, hint: &str) -> CliFailure {
        let own = match &error {
            ApiError::Problem(problem) => problem.hint.as_ref().filter(|hint| is_for_people(hint)).is_some(),
            _ => true,
        };
        let failure = self.failure(error);
        if own { failure } else { failure.hint(hint) }
    }

    fn problem_failure(&self, problem: ServerProblem) -> CliFailure {
        let ServerProblem { status, code, cause, mut detail, hint, problems, run, .. } = problem;
        let url = &self.url;
        if status == 401 {
            let message = match self.has_token {
                true => format!("the server at {url} rejects this token: {detail}"),
                false => format!("the server at {url} requires a token"),
            };
            let hint = "give --token-file FILE, set WINDLASS_TOKEN, or add a context with a token; at the server, \
                        `windlass token create NAME --scope …` creates one";
            return CliFailure::usage(message).code(codes::TOKEN_REJECTED).hint(hint);
        }
        problems.iter().for_each(|problem| detail.push_str(&format!("\n  {problem}")));
        let exit = match status {
            422 if code == Some(codes::INVALID_DEFINITION) => CliExit::Invalid,
            400..=499 => CliExit::Usage,
            _ => CliExit::Failed,
        };
        let failure = CliFailure::new(exit, detail).code(cause.or(code).unwrap_or(codes::SERVER));
        let failure = if status == 403 { failure.code(codes::FORBIDDEN) } else { failure };
        // Advice for clients of the API is replaced by the command that does the same.
        match hint.filter(|hint| is_for_people(hint)).or_else(|| hint_for(cause).map(str::to_owned)) {
            Some(hint) => failure.hint(run.map(|run| fill_run_id(&hint, &run)).unwrap_or(hint)),
            None => failure,
        }
    }
}

/// Returns advice for a server that does not respond.
pub(crate) fn unreachable_hint(url: &str, why: &str) -> String {
    match url.strip_prefix("https://") {
        // The answer to the first message of TLS is no message of TLS.
        Some(host) if why.contains("InvalidContentType") => {
            format!("the server answers without TLS: try http://{host}")
        }
        _ => "is it running? `windlass serve` starts one; --server, WINDLASS_SERVER or a context names it".to_owned(),
    }
}

/// Returns whether advice of the server is not about requests to its API.
fn is_for_people(hint: &str) -> bool {
    !hint.contains("/api/v1/")
}

/// Returns the run that a request is about: the one that exists already, or that of the path.
fn requested_run(path: &str, body: Option<&Value>, cause: Option<&str>) -> Option<String> {
    let new = || body.and_then(|body| body.get("id")).and_then(Value::as_str).map(str::to_owned);
    let run = || path.strip_prefix("runs/")?.split(['/', '?']).next().map(unescape);
    if cause == Some(RUN_EXISTS) { new() } else { run() }
}

/// Decodes a part of a path; the inverse of [`segment`] for what ids of runs consist of.
fn unescape(part: &str) -> String {
    part.replace("%3A", ":")
}

/// Returns advice for errors of the engine, as the same command on a store gives it.
fn hint_for(cause: Option<&str>) -> Option<&'static str> {
    Some(match cause? {
        "WND-2208" => "give inputs with --set, --input or --input-file; `windlass definitions show NAME` lists them",
        RUN_EXISTS => "choose another --id, or inspect the existing run with `windlass status RUN`",
        "WND-2619" => "`windlass events RUN` shows what has started",
        "WND-2620" => "occurrences are counted from 1; without --occurrence the last is taken",
        "WND-2622" => "--set changes only existing variables; nothing was started",
        "WND-2623" => "end it first: windlass cancel RUN",
        "WND-2624" => "to repeat a part of it: windlass restart RUN --from PATH",
        _ => return None,
    })
}

fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| ApiError::Unreachable(error.to_string()))?;
    parse_json(text).map_err(|_| ApiError::Unreachable(unexpected("it is not JSON").message().to_owned()))
}

fn problem(status: u16, bytes: &[u8]) -> ApiError {
    let document = parse(bytes).unwrap_or_default();
    let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
    let all = document.get("problems").and_then(Value::as_list).unwrap_or_default();
    let one = |problem: &Value| match problem.get("line") {
        Some(_) => format_report(&serde_json::to_value(problem).unwrap_or_default()),
        None => problem.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    let codes = all.iter().filter_map(|problem| problem.get("code").and_then(Value::as_str).map(str::to_owned));
    let known = |name: &str| text(name).and_then(|code| windlass_errors::find(&code)).map(|entry| entry.code);
    ApiError::Problem(Box::new(ServerProblem {
        status,
        code: known("code"),
        cause: known("cause"),
        detail: text("detail").unwrap_or_else(|| format!("the server responds with the status {status}")),
        hint: text("hint"),
        run: None,
        problems: all.iter().map(one).filter(|line| !line.is_empty()).collect(),
        codes: codes.collect(),
    }))
}

/// Encodes a part of a path.
pub(crate) fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// Builds a path with a query.
pub(crate) fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", segment(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_are_encoded() {
        assert_eq!(segment("a/b c[1].ü"), "a%2Fb%20c%5B1%5D.%C3%BC");
        assert_eq!(with_query("runs", &[]), "runs");
        assert_eq!(with_query("runs", &[("a", "1&2".to_owned()), ("b", "x".to_owned())]), "runs?a=1%262&b=x");
    }

    #[test]
    fn a_problem_document_keeps_code_and_hint() {
        let text = br#"{"code": "WND-3003", "detail": "no such run", "hint": "look", "problems": [{"message": "m"}]}"#;
        let ApiError::Problem(problem) = problem(404, text) else { panic!("a problem") };
        assert_eq!((problem.status, problem.code, problem.detail.as_str()), (404, Some("WND-3003"), "no such run"));
        assert_eq!((problem.hint.as_deref(), problem.problems), (Some("look"), vec!["m".to_owned()]));
        let ApiError::Problem(html) = super::problem(502, b"<html>") else { panic!("a problem") };
        assert_eq!(html.detail, "the server responds with the status 502");
    }
}
