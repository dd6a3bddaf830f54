//! OpenTelemetry traces, if the environment names a collector and the program was built with the feature `otel`:
//! ended runs, from their journals, and the engine's own spans as they end.

use windlass_server::App;

use crate::args::CliCommand;
use crate::failure::CliFailure;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

fn endpoint() -> Option<String> {
    std::env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.is_empty())
}

#[cfg(feature = "otel")]
pub(crate) use otel::{TraceExport, engine_spans, start};

#[cfg(not(feature = "otel"))]
pub(crate) use unsent::{TraceExport, engine_spans, start};

#[cfg(feature = "otel")]
mod otel {
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use tracing_opentelemetry::OpenTelemetryLayer;
    use tracing_subscriber::filter::{FilterExt, filter_fn};
    use tracing_subscriber::layer::Layer;
    use windlass_server::trace::{self, EngineSpans, EngineTraces};

    use super::*;

    /// The variable that selects the engine spans to send.
    const LEVEL_VARIABLE: &str = "WINDLASS_TRACES";

    /// Ended spans, from the installation of the subscriber until an exporter sends them.
    static ENDED_SPANS: Mutex<Option<EngineSpans>> = Mutex::new(None);

    pub(crate) struct TraceExport {
        runs: trace::RunTraces,
        engine: Option<EngineTraces>,
    }

    impl TraceExport {
        /// Sends the remaining traces within the time limit.
        pub(crate) async fn stop(self, within: Duration) {
            let engine = async {
                if let Some(engine) = self.engine {
                    engine.stop(within).await;
                }
            };
            tokio::join!(self.runs.stop(within), engine);
        }
    }

    /// The layer that passes the engine's spans to OpenTelemetry; `None` if no collector is configured.
    pub(crate) fn engine_spans<S>(command: &CliCommand) -> Result<Option<impl Layer<S> + use<S>>, CliFailure>
    where
        S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    {
        if !matches!(command, CliCommand::Serve(_) | CliCommand::Dev(_)) || endpoint().is_none() {
            return Ok(None);
        }
        let level = crate::tools::variable(LEVEL_VARIABLE).unwrap_or_else(|| "info".to_owned());
        // Only spans: log events inside of them contain reasons and are not sent.
        let filter = crate::log::filter(LEVEL_VARIABLE, &level)?.and(filter_fn(|metadata| metadata.is_span()));
        let (tracer, spans) = EngineSpans::new();
        *ENDED_SPANS.lock().unwrap_or_else(PoisonError::into_inner) = Some(spans);
        let layer = OpenTelemetryLayer::new(tracer).with_location(false).with_threads(false);
        Ok(Some(layer.with_tracked_inactivity(false).with_filter(filter)))
    }

    pub(crate) fn start(app: &App) -> Result<Option<TraceExport>, CliFailure> {
        let Some(endpoint) = endpoint() else { return Ok(None) };
        let failure = |error: trace::TraceError| {
            let hint = error.hint();
            CliFailure::usage(error.to_string()).hint(hint)
        };
        let runs = trace::RunTraces::start(app, &endpoint).map_err(failure)?;
        let spans = ENDED_SPANS.lock().unwrap_or_else(PoisonError::into_inner).take();
        let engine = spans.map(|spans| spans.send_to(&endpoint)).transpose().map_err(failure)?;
        Ok(Some(TraceExport { runs, engine }))
    }
}

#[cfg(not(feature = "otel"))]
mod unsent {
    use tracing_subscriber::layer::Identity;

    use super::*;

    pub(crate) enum TraceExport {}

    impl TraceExport {
        pub(crate) async fn stop(self, _: std::time::Duration) {
            match self {}
        }
    }

    pub(crate) fn engine_spans(_: &CliCommand) -> Result<Identity, CliFailure> {
        Ok(Identity::new())
    }

    /// Notes that no traces are sent if the variable is set, perhaps for other programs; the server starts all the
    /// same.
    pub(crate) fn start(_: &App) -> Result<Option<TraceExport>, CliFailure> {
        if endpoint().is_some() {
            tracing::info!(
                event = "traces",
                "{ENDPOINT} is set, and this program was built without the feature `otel`: no traces"
            );
        }
        Ok(None)
    }
}
