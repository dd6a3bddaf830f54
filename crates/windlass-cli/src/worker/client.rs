//! HTTP client of the server's API.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Builder;
use hyper::{Method, Request, Response, Uri};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::ProcessLimits;
use windlass_server::auth::{FIRST_TOKEN_FILE, LOCAL_TOKEN_FILE};
use windlass_tools::tls::AcceptedCertificates;
use windlass_tools::{Destinations, HttpOptions, HttpTool, Outbound, Secret};

use crate::failure::{CliFailure, codes};
use crate::tools::variable;

/// The path of the worker protocol below the API.
const WORKER_PREFIX: &str = "worker/";

pub(crate) struct ServerClient {
    http: HttpTool,
    base: String,
    /// `None` if the server requires no token.
    authorization: Option<HeaderValue>,
    /// Maximum number of bytes of a response, which contains the inputs of jobs.
    max_response_bytes: usize,
}

/// Why a request has no usable response.
#[derive(Debug)]
pub(crate) enum ServerRequestError {
    /// The server does not respond, or not now. The request can be repeated.
    Unreachable(String),
    /// This worker no longer holds the lease of the job.
    StaleLease,
    Rejected {
        status: u16,
        detail: String,
        /// The code of each problem in the request.
        codes: Vec<String>,
    },
}

impl ServerClient {
    /// Without a token, the requests have none: a server on a loopback address may need none.
    pub(crate) fn new(
        server: &str,
        token: Option<&Secret>,
        insecure: bool,
        certificates: AcceptedCertificates,
    ) -> Result<ServerClient, CliFailure> {
        let wrong = |why: &str| {
            let hint = "such as --server http://127.0.0.1:7117 or --server https://windlass.example.org";
            CliFailure::usage(format!("--server {server}: {why}")).hint(hint)
        };
        let uri: Uri = server.parse().map_err(|_| wrong("it is not a URL"))?;
        let host = uri.host().ok_or_else(|| wrong("it names no host"))?;
        let plain = match uri.scheme_str() {
            Some("http") => true,
            Some("https") => false,
            _ => return Err(wrong("it must begin with http:// or https://")),
        };
        if plain && token.is_some() && !is_loopback(host) && !insecure {
            let message = format!("the token would be sent to {host} unencrypted");
            return Err(CliFailure::usage(message).hint("use https://, or --insecure on a trusted network"));
        }
        let authorization = token.map(authorization_header).transpose()?;
        // The server is tried as long as the caller wants.
        let (outbound, destinations) = (Outbound::open(), Destinations::default());
        let options = HttpOptions { outbound, destinations, certificates, ..HttpOptions::default() };
        let base = format!("{}/api/v1/{WORKER_PREFIX}", server.trim_end_matches('/'));
        let max_response_bytes = ProcessLimits::default().max_worker_job_bytes;
        Ok(ServerClient { http: HttpTool::new(options), base, authorization, max_response_bytes })
    }

    /// A client of the server that runs on a store of this machine: its requests do not leave the machine, so that the
    /// certificate need not be one for this address. The server writes a token for it into the store's directory.
    pub(crate) fn for_store(address: &str, directory: &Path) -> Result<ServerClient, CliFailure> {
        let file = [LOCAL_TOKEN_FILE, FIRST_TOKEN_FILE]
            .map(|name| directory.join(name))
            .into_iter()
            .find(|file| file.exists());
        let token = read_token(file.as_deref()).ok();
        let client = ServerClient::new(address, token.as_ref(), true, AcceptedCertificates::Any)?;
        Ok(client.with_full_api())
    }

    /// The same server, with a limit for the size of responses.
    #[must_use]
    pub(crate) fn with_max_response_bytes(self, max_response_bytes: usize) -> ServerClient {
        ServerClient { max_response_bytes, ..self }
    }

    /// The same server, with its whole API instead of the worker protocol.
    #[must_use]
    pub(crate) fn with_full_api(mut self) -> ServerClient {
        self.base.truncate(self.base.len() - WORKER_PREFIX.len());
        self
    }

    /// Sends a request and waits for the response, with a time limit.
    pub(crate) async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        within: Duration,
    ) -> Result<A, ServerRequestError> {
        let body = serde_json::to_vec(body).map_err(|error| invalid_request(&error))?;
        let request = Request::post(format!("{}{path}", self.base)).header(CONTENT_TYPE, "application/json");
        self.exchange(request, Bytes::from(body), within).await
    }

    /// Reads a resource.
    pub(crate) async fn get<A: DeserializeOwned>(&self, path: &str, within: Duration) -> Result<A, ServerRequestError> {
        self.exchange(Request::get(format!("{}{path}", self.base)), Bytes::new(), within).await
    }

    async fn exchange<A: DeserializeOwned>(
        &self,
        request: Builder,
        body: Bytes,
        within: Duration,
    ) -> Result<A, ServerRequestError> {
        match tokio::time::timeout(within, self.exchange_without_timeout(request, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(ServerRequestError::Unreachable(format!("no response within {} s", within.as_secs()))),
        }
    }

    /// Starts a request to a path of the API.
    pub(crate) fn request(&self, method: Method, path: &str) -> Builder {
        Request::builder().method(method).uri(format!("{}{path}", self.base))
    }

    /// Sends a request with the token and returns the head of the response, whatever its status. Redirects are
    /// ordinary responses: the token goes to no other address.
    pub(crate) async fn send(&self, request: Builder, body: Bytes) -> Result<Response<Incoming>, ServerRequestError> {
        let request = match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        };
        let request = request.body(body).map_err(|error| invalid_request(&error))?;
        let answer = self.http.open(request).await;
        answer.map_err(|error| ServerRequestError::Unreachable(error.message.to_string()))
    }

    async fn exchange_without_timeout<A: DeserializeOwned>(
        &self,
        request: Builder,
        body: Bytes,
    ) -> Result<A, ServerRequestError> {
        let answer = self.send(request, body).await?;
        let status = answer.status();
        let max_bytes = self.max_response_bytes;
        let read = Limited::new(answer.into_body(), max_bytes).collect().await;
        let bytes = read.map_err(|error| match error.is::<LengthLimitError>() {
            true => ServerRequestError::Unreachable(format!(
                "its response has more than {max_bytes} bytes (`limits.max_worker_job_bytes` in windlass.toml)"
            )),
            false => ServerRequestError::Unreachable(error.to_string()),
        });
        let bytes = bytes?.to_bytes();
        match status.as_u16() {
            200..=299 => {
                let bytes = if bytes.is_empty() { &b"null"[..] } else { &bytes };
                serde_json::from_slice(bytes).map_err(|error| {
                    ServerRequestError::Unreachable(format!("its response could not be decoded: {error}"))
                })
            }
            // Elsewhere a conflict has another cause, which the response names.
            409 if self.base.ends_with(WORKER_PREFIX) => Err(ServerRequestError::StaleLease),
            408 | 429 | 500..=599 => Err(ServerRequestError::Unreachable(error_detail(status.as_u16(), &bytes))),
            status => {
                Err(ServerRequestError::Rejected { status, detail: error_detail(status, &bytes), codes: codes(&bytes) })
            }
        }
    }
}

fn authorization_header(token: &Secret) -> Result<HeaderValue, CliFailure> {
    let mut header = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| CliFailure::usage("the token contains invalid characters"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// The error of a request that could not be built.
fn invalid_request(why: &dyn std::fmt::Display) -> ServerRequestError {
    ServerRequestError::Rejected { status: 0, detail: why.to_string(), codes: Vec::new() }
}

/// Formats the server's problem response.
fn error_detail(status: u16, bytes: &[u8]) -> String {
    let problem: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    let text = |name: &str| problem.as_ref().and_then(|problem| problem.get(name)?.as_str().map(str::to_owned));
    let mut message = match (text("detail"), text("hint")) {
        (Some(detail), Some(hint)) => format!("{detail}; {hint}"),
        (Some(detail), None) => detail,
        _ => format!("it responds with the status {status}"),
    };
    let all = problem.as_ref().and_then(|problem| problem.get("problems")?.as_array());
    for one in all.into_iter().flatten() {
        message.push_str(&format!("\n  {}", format_report(one)));
    }
    message
}

fn codes(bytes: &[u8]) -> Vec<String> {
    let problem: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    let all = problem["problems"].as_array().into_iter().flatten();
    all.filter_map(|one| one["code"].as_str().map(str::to_owned)).collect()
}

/// Formats a problem or a warning of a definition in one line.
pub(crate) fn format_report(report: &serde_json::Value) -> String {
    let text = |name: &str| report.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    let number = |name: &str| report.get(name).and_then(serde_json::Value::as_u64).unwrap_or_default();
    let hint = match text("hint") {
        "" => String::new(),
        hint => format!("; {hint}"),
    };
    format!("{}:{}: {} {}{hint}", number("line"), number("column"), text("code"), text("message"))
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Reads the certificate authorities that a client of a server accepts besides those of this machine.
pub(crate) fn accepted_certificates(ca: Option<&Path>) -> Result<AcceptedCertificates, CliFailure> {
    let Some(file) = ca else { return Ok(AcceptedCertificates::default()) };
    let read = std::fs::read(file).and_then(|pem| AcceptedCertificates::with_authorities(&pem));
    read.map_err(|error| {
        CliFailure::usage(format!("could not use --ca {}: {error}", file.display()))
            .hint("it is a PEM file: -----BEGIN CERTIFICATE----- …")
    })
}

/// Reads the token from a file or from the environment. Never from the command line, which others can see.
pub(crate) fn read_token(file: Option<&Path>) -> Result<Secret, CliFailure> {
    let hint = "give --token-file FILE or set WINDLASS_TOKEN; `windlass token create NAME --scope work` creates one";
    let other_file = "name a file that contains the token, or set WINDLASS_TOKEN; the first start of `windlass serve` \
                      writes .windlass/token, and `windlass token create NAME --scope work` creates another token";
    let text = match file {
        Some(file) => std::fs::read_to_string(file).map_err(|error| {
            let message = format!("could not read the token in {}: {error}", file.display());
            CliFailure::usage(message).code(codes::NO_TOKEN).hint(other_file)
        })?,
        None => variable("WINDLASS_TOKEN")
            .ok_or_else(|| CliFailure::usage("there is no token").code(codes::NO_TOKEN).hint(hint))?,
    };
    match text.trim() {
        "" => Err(CliFailure::usage("the token is empty").code(codes::NO_TOKEN).hint(hint)),
        token => Ok(Secret::new(token)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_over_plain_http_only_to_loopback() {
        let table = [
            ("http://127.0.0.1:7117", false, None),
            ("http://localhost:7117/", false, None),
            ("http://[::1]:7117", false, None),
            ("https://windlass.example.org", false, None),
            ("http://windlass.example.org", false, Some("unencrypted")),
            ("http://10.0.0.7:7117", false, Some("unencrypted")),
            ("http://127.0.0.1.example.org", false, Some("unencrypted")),
            ("http://10.0.0.7:7117", true, None),
            ("127.0.0.1:7117", false, Some("must begin with")),
            ("ftp://x", false, Some("must begin with")),
            ("http://", false, Some("not a URL")),
        ];
        for (server, insecure, expected) in table {
            let certificates = AcceptedCertificates::default();
            let made = ServerClient::new(server, Some(&Secret::new("wl_x")), insecure, certificates)
                .err()
                .map(|failure| failure.message().to_owned());
            match expected {
                Some(part) => {
                    assert!(made.as_ref().is_some_and(|message| message.contains(part)), "{server}: {made:?}")
                }
                None => assert_eq!(made, None, "{server}"),
            }
        }
    }
}
