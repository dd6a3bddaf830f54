//! The log that an engine writes, as a test reads it.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Dispatch, Event, Level, Subscriber, dispatcher};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

/// Everything of level `info` and above, one line an event: `recovered runs=3`.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

/// A log from some moment on.
pub struct Heard {
    log: Log,
    from: usize,
}

impl Log {
    pub fn since_now(&self) -> Heard {
        Heard { log: self.clone(), from: self.lines().len() }
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Heard {
    pub fn lines(&self) -> Vec<String> {
        self.log.lines().split_off(self.from)
    }

    pub fn any(&self, begins: &str) -> bool {
        self.lines().iter().any(|line| line.starts_with(begins))
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("a text");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::INFO {
            let mut line = Line(String::new());
            event.record(&mut line);
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
        }
    }
}

/// Runs a test on a runtime of its own whose threads all write to one log. Other tests of the process have theirs.
pub fn on_threads(test: impl AsyncFnOnce(Log)) {
    let log = Log::default();
    let dispatch = Dispatch::new(Registry::default().with(log.clone()));
    let each = dispatch.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        // It ends with its thread.
        .on_thread_start(move || std::mem::forget(dispatcher::set_default(&each)))
        .build()
        .expect("threads");
    dispatcher::with_default(&dispatch, || runtime.block_on(test(log)))
}
