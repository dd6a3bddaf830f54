//! The way to the server.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Builder;
use hyper::{Request, Uri};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::ProcessLimits;
use windlass_server::auth::FIRST_FILE;
use windlass_tools::{HttpOptions, HttpTool, Outbound, Secret};

use crate::failure::Failure;
use crate::tools::variable;

/// What a worker asks, below the API.
const WORKER: &str = "worker/";

pub(crate) struct Client {
    http: HttpTool,
    base: String,
    /// None: nobody asks for one.
    authorization: Option<HeaderValue>,
    /// The most bytes of an answer: inputs of jobs are in it.
    max_response_bytes: usize,
}

/// Why there is no good answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nobody answers, or not now. The same can be said again.
    Away(String),
    /// The job is not this worker's.
    StaleLease,
    Refused {
        status: u16,
        detail: String,
        /// Of each thing that is wrong with what was sent.
        codes: Vec<String>,
    },
}

impl Client {
    pub(crate) fn new(server: &str, token: &Secret, insecure: bool) -> Result<Client, Failure> {
        let wrong = |why: &str| {
            let hint = "such as --server http://127.0.0.1:7117 or --server https://windlass.example.org";
            Failure::usage(format!("--server {server}: {why}")).hint(hint)
        };
        let uri: Uri = server.parse().map_err(|_| wrong("that is no address"))?;
        let host = uri.host().ok_or_else(|| wrong("it names no host"))?;
        let plain = match uri.scheme_str() {
            Some("http") => true,
            Some("https") => false,
            _ => return Err(wrong("it must begin with http:// or https://")),
        };
        if plain && !is_loopback(host) && !insecure {
            let message = format!("the token would go to {host} for everybody on the way to read");
            return Err(Failure::usage(message).hint("use https://, or --insecure if nobody can listen"));
        }
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
            .map_err(|_| Failure::usage("the token has letters that no token has"))?;
        authorization.set_sensitive(true);
        let options = HttpOptions { outbound: Outbound::open(), ..HttpOptions::default() };
        let base = format!("{}/api/v1/{WORKER}", server.trim_end_matches('/'));
        let max_response_bytes = ProcessLimits::default().max_worker_job_bytes;
        Ok(Client { http: HttpTool::new(options), base, authorization: Some(authorization), max_response_bytes: answer_bytes_max: max_response_bytes })
    }

    /// The server of a store on this machine: what it is asked does not leave it.
    pub(crate) fn of_store(address: &str, directory: &Path) -> Result<Client, Failure> {
        let file =
            Some(directory.join(FIRST_FILE)).filter(|file| file.exists() && variable("WINDLASS_TOKEN").is_none());
        let token = token(file.as_deref()).ok();
        let client = Client::new(address, token.as_ref().unwrap_or(&Secret::new("none")), true)?.whole();
        Ok(Client { authorization: client.authorization.filter(|_| token.is_some()), ..client })
    }

    /// The same server, whose answers may have so many bytes.
    #[must_use]
    pub(crate) fn with_max_response_bytes(self, max_response_bytes: usize) -> Client {
        Client { max_response_bytes: answer_bytes_max: max_response_bytes, ..self }
    }

    /// The same server, and all of its API.
    #[must_use]
    pub(crate) fn whole(mut self) -> Client {
        self.base.truncate(self.base.len() - WORKER.len());
        self
    }

    /// Says something and waits for the answer, so long at most.
    pub(crate) async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        within: Duration,
    ) -> Result<A, Trouble> {
        let body = serde_json::to_vec(body).map_err(|error| odd(&error))?;
        let request = Request::post(format!("{}{path}", self.base)).header(CONTENT_TYPE, "application/json");
        self.exchange(request, Bytes::from(body), within).await
    }

    /// Looks at something.
    pub(crate) async fn get<A: DeserializeOwned>(&self, path: &str, within: Duration) -> Result<A, Trouble> {
        self.exchange(Request::get(format!("{}{path}", self.base)), Bytes::new(), within).await
    }

    async fn exchange<A: DeserializeOwned>(
        &self,
        request: Builder,
        body: Bytes,
        within: Duration,
    ) -> Result<A, Trouble> {
        match tokio::time::timeout(within, self.exchanged(request, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(Trouble::Away(format!("no answer within {} s", within.as_secs()))),
        }
    }

    async fn exchanged<A: DeserializeOwned>(&self, request: Builder, body: Bytes) -> Result<A, Trouble> {
        let request = match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        };
        let request = request.body(body).map_err(|error| odd(&error))?;
        let answer = self.http.open(request).await.map_err(|error| Trouble::Away(error.message.to_string()))?;
        let status = answer.status();
        let max_bytes = self.max_response_bytes;
        let read = Limited::new(answer.into_body(), max_bytes).collect().await;
        let bytes = read.map_err(|error| match error.is::<LengthLimitError>() {
            true => Trouble::Away(format!(
                "its answer has more than {max_bytes} bytes (`limits.max_worker_job_bytes` in windlass.toml)"
            )),
            false => Trouble::Away(error.to_string()),
        });
        let bytes = bytes?.to_bytes();
        match status.as_u16() {
            200..=299 => {
                let bytes = if bytes.is_empty() { &b"null"[..] } else { &bytes };
                serde_json::from_slice(bytes).map_err(|error| Trouble::Away(format!("its answer is odd: {error}")))
            }
            409 => Err(Trouble::StaleLease),
            408 | 429 | 500..=599 => Err(Trouble::Away(told(status.as_u16(), &bytes))),
            status => Err(Trouble::Refused { status, detail: told(status, &bytes), codes: codes(&bytes) }),
        }
    }
}

/// What could not even be asked.
fn odd(why: &dyn std::fmt::Display) -> Trouble {
    Trouble::Refused { status: 0, detail: why.to_string(), codes: Vec::new() }
}

/// What the server says of it.
fn told(status: u16, bytes: &[u8]) -> String {
    let problem: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    let text = |name: &str| problem.as_ref().and_then(|problem| problem.get(name)?.as_str().map(str::to_owned));
    let mut said = match (text("detail"), text("hint")) {
        (Some(detail), Some(hint)) => format!("{detail}; {hint}"),
        (Some(detail), None) => detail,
        _ => format!("it answers with the status {status}"),
    };
    let all = problem.as_ref().and_then(|problem| problem.get("problems")?.as_array());
    for one in all.into_iter().flatten() {
        said.push_str(&format!("\n  {}", line_of(one)));
    }
    said
}

fn codes(bytes: &[u8]) -> Vec<String> {
    let problem: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    let all = problem["problems"].as_array().into_iter().flatten();
    all.filter_map(|one| one["code"].as_str().map(str::to_owned)).collect()
}

/// A problem or a warning of a definition in one line.
pub(crate) fn line_of(report: &serde_json::Value) -> String {
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

/// The token: from a file, or from the environment. Never from the command line, which others can see.
pub(crate) fn token(file: Option<&Path>) -> Result<Secret, Failure> {
    let hint = "give --token-file FILE or set WINDLASS_TOKEN; `windlass token create NAME --scope work` makes one";
    let text = match file {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| Failure::usage(format!("could not read {}: {error}", file.display())).hint(hint))?,
        None => variable("WINDLASS_TOKEN").ok_or_else(|| Failure::usage("there is no token").hint(hint))?,
    };
    match text.trim() {
        "" => Err(Failure::usage("the token is empty").hint(hint)),
        token => Ok(Secret::new(token)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_nowhere_in_plain_but_to_this_machine() {
        let table = [
            ("http://127.0.0.1:7117", false, None),
            ("http://localhost:7117/", false, None),
            ("http://[::1]:7117", false, None),
            ("https://windlass.example.org", false, None),
            ("http://windlass.example.org", false, Some("for everybody on the way to read")),
            ("http://10.0.0.7:7117", false, Some("for everybody on the way to read")),
            ("http://127.0.0.1.example.org", false, Some("for everybody on the way to read")),
            ("http://10.0.0.7:7117", true, None),
            ("127.0.0.1:7117", false, Some("must begin with")),
            ("ftp://x", false, Some("must begin with")),
            ("http://", false, Some("no address")),
        ];
        for (server, insecure, expected) in table {
            let made =
                Client::new(server, &Secret::new("wl_x"), insecure).err().map(|failure| failure.message().to_owned());
            match expected {
                Some(part) => assert!(made.as_ref().is_some_and(|said| said.contains(part)), "{server}: {made:?}"),
                None => assert_eq!(made, None, "{server}"),
            }
        }
    }
}
