//! `windlass health`

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::Request;
use windlass_tools::tls::AcceptedCertificates;
use windlass_tools::{Destinations, HttpOptions, HttpTool, Outbound};

use crate::args::{GlobalArgs, HealthArgs};
use crate::failure::{CliExit, CliFailure, codes};
use crate::service::serving_address;
use crate::worker::accepted_certificates;
use crate::{host, out, runs, stores};

/// Maximum time of the check. The health check of a container image waits a little longer.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum number of bytes of a response that are read.
const MAX_BYTES: usize = 64 * 1024;

/// Asks the server for its health and prints the answer; this needs no token. Exits with 1 if the server is not
/// healthy, also if there is none.
pub(crate) fn health(global: &GlobalArgs, args: &HealthArgs) -> Result<CliExit, CliFailure> {
    let unhealthy = |message: String| CliFailure::new(CliExit::Failed, message).code(codes::UNREACHABLE_SERVER);
    let directory = stores::directory(global);
    let none = || {
        unhealthy("no server uses this store".to_owned())
            .location(directory.display().to_string())
            .hint("start one with `windlass serve`, or name one with --server URL")
    };
    let named = runs::named_server_url(global)?;
    let certificates = match &named {
        Some(_) => accepted_certificates(global.ca.as_deref())?,
        // The request does not leave this machine.
        None => AcceptedCertificates::Any,
    };
    let address = match named {
        Some(url) => url,
        None => serving_address(&directory).ok_or_else(none)?,
    };
    let url = format!("{}{}", address.trim_end_matches('/'), if args.ready { "/readyz" } else { "/healthz" });
    let (status, body) = host::runtime()?
        .block_on(async { tokio::time::timeout(TIMEOUT, get(&url, certificates)).await })
        .map_err(|_| unhealthy(format!("{url} did not respond within {} s", TIMEOUT.as_secs())))?
        .map_err(unhealthy)?;
    match status {
        200 => out::print(body.trim_end()).map(|()| CliExit::Success),
        _ => Err(unhealthy(format!("{url} answered {status}: {}", body.trim_end()))),
    }
}

async fn get(url: &str, certificates: AcceptedCertificates) -> Result<(u16, String), String> {
    // The server is tried as long as the caller wants.
    let (outbound, destinations) = (Outbound::open(), Destinations::default());
    let options = HttpOptions { outbound, destinations, certificates, ..HttpOptions::default() };
    let http = HttpTool::new(options);
    let request = Request::get(url).body(Bytes::new()).map_err(|error| format!("{url}: {error}"))?;
    let answer = http.open(request).await.map_err(|error| error.message.to_string())?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await.map_err(|error| error.to_string())?;
    Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
}
