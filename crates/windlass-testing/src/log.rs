//! The log of a test: the lines that its own threads write, whatever other tests of the process do meanwhile.
//!
//! All tests of a process share one global subscriber, which passes each line to the listener of the thread that
//! wrote it. Per-thread subscribers (`tracing::subscriber::set_default`) would lose lines: a call site that one test
//! registers while another installs its subscriber can stay disabled for both. For the same reason [`install`] must
//! run before anything that logs; call it in helpers that every test of a crate calls first.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

type Listener = Arc<dyn Fn(&str) + Send + Sync>;

thread_local! {
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

/// Installs the subscriber of the process, once.
///
/// # Panics
/// If something else has set a global subscriber.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let subscriber = Registry::default().with(LevelFilter::INFO).with(ThreadLayer);
        tracing::subscriber::set_global_default(subscriber).expect("no other global subscriber");
    });
}

struct ThreadLayer;

impl<S: Subscriber> Layer<S> for ThreadLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(listener) = LISTENER.with_borrow(Option::clone) else { return };
        let mut line = LogLine::default();
        event.record(&mut line);
        listener(&(line.message + &line.fields));
    }
}

/// An event as one line: `trigger fired definition=tidy runs=1`.
#[derive(Default)]
struct LogLine {
    message: String,
    fields: String,
}

impl Visit for LogLine {
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

/// Stops listening when dropped. It is not `Send`, so it is dropped on the thread that started listening.
pub struct LogGuard(PhantomData<*const ()>);

impl Drop for LogGuard {
    fn drop(&mut self) {
        LISTENER.set(None);
    }
}

/// Calls `listener` with every line of level `info` and above that this thread writes, until the guard is dropped.
pub fn on_line(listener: impl Fn(&str) + Send + Sync + 'static) -> LogGuard {
    listen(Arc::new(listener))
}

fn listen(listener: Listener) -> LogGuard {
    install();
    LISTENER.set(Some(listener));
    LogGuard(PhantomData)
}

/// The lines of a test, in the order in which they were written.
#[derive(Clone, Default)]
pub struct TestLog(Arc<Mutex<Vec<String>>>);

/// The part of a log from some moment on.
pub struct LogTail {
    log: TestLog,
    from: usize,
}

impl TestLog {
    /// Creates a log of this thread.
    pub fn for_this_thread() -> (TestLog, LogGuard) {
        let log = TestLog::default();
        let listening = listen(log.listener());
        (log, listening)
    }

    pub fn tail(&self) -> LogTail {
        LogTail { log: self.clone(), from: self.lines().len() }
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn listener(&self) -> Listener {
        let lines = self.0.clone();
        Arc::new(move |line| lines.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned()))
    }
}

impl LogTail {
    pub fn lines(&self) -> Vec<String> {
        self.log.lines().split_off(self.from)
    }

    pub fn has_line_starting(&self, prefix: &str) -> bool {
        self.lines().iter().any(|line| line.starts_with(prefix))
    }
}

/// Runs a test on its own runtime, whose threads all write to one log.
pub fn run_on_threads(test: impl AsyncFnOnce(TestLog)) {
    install();
    let log = TestLog::default();
    let listener = log.listener();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || LISTENER.set(Some(listener.clone())))
        .build()
        .expect("threads");
    let _listening = listen(log.listener());
    runtime.block_on(test(log));
}
