//! Runs as traces, if the environment names a collector and the program was built with the feature `otel`.

use windlass_server::App;

use super::Log;
use crate::failure::Failure;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[cfg(feature = "otel")]
pub use windlass_server::trace::Traces;

#[cfg(not(feature = "otel"))]
pub enum Traces {}

#[cfg(not(feature = "otel"))]
impl Traces {
    pub async fn stop(self, _: std::time::Duration) {
        match self {}
    }
}

/// None: nobody wants them.
pub fn start(app: &App, log: Log) -> Result<Option<Traces>, Failure> {
    match std::env::var(ENDPOINT) {
        Ok(endpoint) if !endpoint.is_empty() => begin(app, &endpoint, log),
        _ => Ok(None),
    }
}

#[cfg(feature = "otel")]
fn begin(app: &App, endpoint: &str, _: Log) -> Result<Option<Traces>, Failure> {
    Traces::start(app, endpoint).map(Some).map_err(|error| {
        let hint = error.hint();
        Failure::usage(error.to_string()).hint(hint)
    })
}

/// Whoever has set the variable for other programs is told, and served all the same.
#[cfg(not(feature = "otel"))]
fn begin(_: &App, _: &str, log: Log) -> Result<Option<Traces>, Failure> {
    let none = format!("{ENDPOINT} is set, and this program was built without the feature `otel`: no traces");
    log.tell("traces", &none);
    Ok(None)
}
