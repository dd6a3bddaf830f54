//! What the server logs on a test's own thread, as lines and as a place to do something at.

use std::fmt::{Debug, Write};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

struct OnLine<F>(F);

/// `trigger fired definition=tidy runs=1`
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => write!(self.fields, " {name}={value:?}").expect("a text"),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl<S: Subscriber, F: Fn(&str) + 'static> Layer<S> for OnLine<F> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::INFO {
            let mut line = Line::default();
            event.record(&mut line);
            (self.0)(&(line.message + &line.fields));
        }
    }
}

/// Hears every line of level `info` and above of this thread, as long as the guard lives.
pub fn on_line(then: impl Fn(&str) + Send + Sync + 'static) -> DefaultGuard {
    tracing::subscriber::set_default(Registry::default().with(OnLine(then)))
}
