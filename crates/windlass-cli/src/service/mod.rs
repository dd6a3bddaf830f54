//! The engine as a service in this process: what `serve` and `dev` share.

mod lock;
mod store_watch;
mod traces;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tracing::{info, warn};
use windlass_runtime::{EngineOptions, InputGate, RuntimeEngine, TaskLogLimits, Tools};
use windlass_server::auth::tokens::TokenSecret;
use windlass_server::auth::{LOCAL_TOKEN_FILE, TokenIndex, first_token, write_local_token};
use windlass_server::catalog::Definitions;
use windlass_server::workers::{Dispatcher, with_remote_workers};
use windlass_server::{
    App, AppParts, DefinitionCompiler, Metrics, RunningServer, ServerCredentials, ServerOptions, StartError,
    audit::AuditLog,
};
use windlass_store::{CommitHook, MemoryStore, Store};
use windlass_store_sqlite::SqliteOptions;
use windlass_tools::SecretBoundary;
use windlass_value::Value;

use crate::args::GlobalArgs;
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure, codes};
use crate::host::Interrupts;
use crate::{host, out, stores};
pub(crate) use lock::{ServerCommand, StoreLock, last_server_command, serving_address};
use store_watch::StoreWatch;
pub(crate) use traces::engine_spans;

/// A server evicts a waiting run soon: it has many of them.
const EVICT_AFTER: Duration = Duration::from_secs(10);

/// Time limit for sending the remaining traces on shutdown; the rest are dropped.
const TRACES_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a server. Runs execute on their own threads and requests are answered on others, so that a thousand readers
/// do not queue in front of the work they read about.
pub(crate) fn run_on_threads<T>(service: impl AsyncFnOnce(Handle) -> Result<T, CliFailure>) -> Result<T, CliFailure> {
    let front = build_threads("windlass-front")?;
    let done = build_threads("windlass-runs")?.block_on(service(front.handle().clone()));
    // Open streams do not delay the shutdown.
    front.shutdown_background();
    done
}

/// Builds a runtime with as many threads as there are cores and at least two: waiting for the disk must not block
/// others.
fn build_threads(name: &str) -> Result<Runtime, CliFailure> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    host::build_runtime(tokio::runtime::Builder::new_multi_thread().worker_threads(threads).thread_name(name))
}

/// The location of the store.
pub(crate) enum StoreLocation {
    Directory(PathBuf),
    /// In memory: nothing outlives the process.
    Memory,
}

pub(crate) struct ServiceOptions<'a> {
    pub settings: &'a CliSettings,
    pub location: StoreLocation,
    pub options: ServerOptions,
    pub sqlite: SqliteOptions,
    pub commit_hook: Option<CommitHook>,
    /// The command that starts this server again.
    pub command: ServerCommand,
}

/// A store with an engine on it, before any client can reach it.
pub(crate) struct PreparedService {
    pub store: Arc<dyn Store>,
    pub engine: RuntimeEngine,
    dispatcher: Arc<Dispatcher>,
    lock: Option<StoreLock>,
    directory: Option<PathBuf>,
    options: ServerOptions,
    limits: windlass_core::Limits,
    credentials: ServerCredentials,
    metrics: Metrics,
    command: ServerCommand,
}

impl PreparedService {
    /// Opens the store and starts the engine. Must be called inside the runtime. Tools missing from `tools` are left to
    /// remote workers; all calls go through the secret boundary.
    pub(crate) fn open(
        service_options: ServiceOptions<'_>,
        tools: &Tools,
        edge: &SecretBoundary,
        gate: Arc<dyn InputGate>,
    ) -> Result<PreparedService, CliFailure> {
        let ServiceOptions { settings, location: place, options, sqlite, commit_hook, command } = service_options;
        let (store, lock, directory): (Arc<dyn Store>, _, _) = match place {
            StoreLocation::Memory => {
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
                let attached = settings.vault.attach_in_memory(store.clone());
                attached.map_err(|error| CliFailure::usage(error.to_string()))?;
                (store, None, None)
            }
            StoreLocation::Directory(directory) => {
                let store = stores::open_or_create(&directory, sqlite)?;
                settings.vault.attach(store.clone());
                (store, Some(StoreLock::take(&directory)?), Some(directory))
            }
        };
        crate::credentials::learn(settings);
        let credentials = crate::credentials::for_server(settings, edge);
        let dispatcher = Dispatcher::new(options.lease).with_redaction(edge.known_secrets().clone());
        let dispatcher = Arc::new(dispatcher);
        let tools = with_remote_workers(tools, &dispatcher);
        let tools = match &settings.mocks {
            Some(mocks) => mocks.wrap(tools, settings),
            None => tools,
        };
        let engine = EngineOptions {
            tools: edge.wrap(tools),
            gate: Some(gate),
            languages: crate::dialects::languages(),
            limits: settings.limits.clone(),
            max_job_concurrency: settings.process_limits.max_job_concurrency.max(1),
            max_resident_runs: settings.process_limits.max_resident_runs,
            max_idle_runs: settings.process_limits.max_idle_runs,
            max_total_reply_bytes: settings.process_limits.max_total_reply_bytes,
            evict_after: EVICT_AFTER,
            adopt: true,
            commit_hook,
            log_limits: TaskLogLimits::from_limits(&settings.process_limits),
            mock_file: settings.mocks.as_ref().map(|mocks| mocks.file_path()),
            ..EngineOptions::default()
        };
        let engine = RuntimeEngine::new(store.clone(), engine)?;
        let limits = settings.limits.clone();
        let metrics = Metrics::default().with_destinations(settings.destinations.clone());
        Ok(PreparedService {
            store,
            engine,
            dispatcher,
            lock,
            directory,
            options,
            limits,
            credentials,
            metrics,
            command,
        })
    }

    /// Starts to accept clients, on separate threads.
    pub(crate) async fn serve(
        self,
        compiler: Arc<dyn DefinitionCompiler>,
        front: &Handle,
    ) -> Result<Service, CliFailure> {
        let PreparedService { store, engine, dispatcher, mut lock, directory, options, limits, .. } = self;
        let (credentials, metrics, command) = (self.credentials, self.metrics, self.command);
        let token = match (&directory, options.no_auth) {
            (_, true) => None,
            (Some(directory), false) => first_token(&*store, directory).map_err(token_failure)?,
            (None, false) => Some(TokenSecret::new().map_err(token_failure)?),
        };
        let keys = match &directory {
            Some(directory) if !options.no_auth => {
                let local = TokenSecret::new().map_err(token_failure)?;
                write_local_token(directory, &local).map_err(token_failure)?;
                TokenIndex::open(store.clone())?.with_local_token(&local)
            }
            Some(_) => TokenIndex::open(store.clone())?,
            None => TokenIndex::with_token(token.as_ref().map(|token| token.reveal().to_owned())),
        };
        let audit = match &directory {
            Some(directory) => {
                AuditLog::open_with(directory, options.limits.max_audit_file_bytes).map_err(|error| {
                    let hint = error.hint();
                    CliFailure::usage(error.to_string()).hint(hint)
                })?
            }
            None => AuditLog::default(),
        };
        let definitions = Definitions::load(&engine)?;
        if options.dev {
            definitions.files.await_scan();
        }
        let (drain, dev) = (options.drain, options.dev);
        let parts = AppParts {
            engine,
            store,
            limits,
            options,
            compiler,
            definitions,
            keys,
            audit,
            credentials,
            dispatcher,
            metrics,
            views: Default::default(),
        };
        let (stored, store_watch) = (parts.store.clone(), StoreWatch::start(parts.store.clone()));
        let app = App::new(parts);
        let traces = traces::start(&app)?;
        let running = front.spawn(windlass_server::serve(app.clone())).await;
        let running = running
            .map_err(|error| CliFailure::usage(error.to_string()))?
            .map_err(|error| start_failure(error, dev))?;
        let scheme = if app.options.tls.is_some() { "https" } else { "http" };
        let local = format!("{scheme}://{}", reachable(running.address));
        if let Some(lock) = &mut lock {
            lock.write_holder(&local, command);
        }
        // A certificate is for a name.
        let name = app.options.hosts.first().filter(|_| app.options.tls.is_some());
        let address = name.map_or(local, |name| format!("{scheme}://{}", with_port(name, running.address.port())));
        let token = token.map(|token| token.reveal().to_owned());
        Ok(Service { app, running, address, token, directory, drain, traces, stored, store_watch, _lock: lock })
    }
}

/// Returns the address at which this machine reaches the server: the unspecified address cannot be connected to.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// Returns the host name of a server with the port that it listens on, unless the name has a port.
fn with_port(name: &str, port: u16) -> String {
    match name.rsplit_once(':') {
        Some((_, given)) if given.parse::<u16>().is_ok() => name.to_owned(),
        _ => format!("{name}:{port}"),
    }
}

fn token_failure(error: impl std::fmt::Display) -> CliFailure {
    CliFailure::usage(error.to_string()).hint("check the permissions of the store's directory")
}

fn start_failure(error: StartError, dev: bool) -> CliFailure {
    let hint = match &error {
        StartError::Listen { error, .. } if error.kind() == std::io::ErrorKind::AddrInUse => match dev {
            true => "another program listens there: choose another with --port PORT, or --port 0 for a free one",
            false => "another program listens there: choose another with --bind ADDRESS:PORT, or port 0 for a free one",
        },
        other => other.hint(),
    };
    CliFailure::usage(error.to_string()).hint(hint)
}

/// A running server.
pub(crate) struct Service {
    pub app: App,
    running: RunningServer,
    pub address: String,
    pub token: Option<String>,
    directory: Option<PathBuf>,
    drain: Duration,
    traces: Option<traces::TraceExport>,
    stored: Arc<dyn Store>,
    store_watch: StoreWatch,
    _lock: Option<StoreLock>,
}

impl Service {
    /// Returns the URL of the web UI. With `signs_in` it is a link that signs in one browser as the first token: its
    /// fragment, which no server sees, has a code for one use, so that neither the history of the browser nor the
    /// scrollback of the terminal has anything that is valid for long.
    pub(crate) fn web_ui_url(&self, signs_in: bool) -> String {
        let token = self.token.as_ref().filter(|_| signs_in);
        match token.and_then(|token| self.app.keys.sign_in_code(token).ok()) {
            Some(code) => format!("{}/#sign-in={code}", self.address),
            None => format!("{}/", self.address),
        }
    }

    /// Prints the address on stdout, and how to sign in and stop the server on stderr. The link signs in on a terminal,
    /// and otherwise only if the token is stored nowhere: output in a file or a pipe is read by others and stays.
    pub(crate) fn print_startup(&self, global: &GlobalArgs, to_terminal: bool) -> Result<(), CliFailure> {
        let file = self.directory.as_ref().map(|directory| directory.join(windlass_server::auth::FIRST_TOKEN_FILE));
        let file = file.filter(|_| self.token.is_some());
        let bind = self.running.address;
        if !bind.ip().is_loopback() && self.app.options.tls.is_none() {
            warn!(
                event = "warning",
                "other machines reach it on {bind} without TLS: let only the proxy with TLS connect to it"
            );
        }
        let signs_in = to_terminal || file.is_none();
        if global.json {
            let mut map = windlass_value::Map::new();
            map.insert("address", self.address.as_str());
            map.insert("url", self.web_ui_url(signs_in));
            map.insert("token_file", Value::from(file.as_ref().map(|file| file.display().to_string()).as_deref()));
            map.insert("process", u64::from(std::process::id()));
            return out::print(&windlass_value::to_json(&Value::map(map)));
        }
        out::print(&self.web_ui_url(signs_in))?;
        let token = match (&file, self.app.options.no_auth) {
            (Some(file), _) if signs_in => format!(
                "the link signs in one browser, within an hour; the token for others is in {}; it grants all permissions",
                file.display()
            ),
            (Some(file), _) => format!("the token is in {}; it grants all permissions", file.display()),
            (None, true) if self.app.options.dev => {
                "no token is needed: every program on this machine has access; --auth requires one".to_owned()
            }
            (None, true) => "authentication is off (--no-auth): every program on this machine has access".to_owned(),
            (None, false) if self.token.is_some() => "the link signs in one browser, within an hour".to_owned(),
            (None, false) => "the first token was revoked; `windlass token create` creates another".to_owned(),
        };
        info!(event = "token", "{token}");
        let secs = self.drain.as_secs();
        let then = if self.directory.is_some() { "runs resume at the next start" } else { "nothing is stored" };
        info!(event = "ready", "Ctrl-C stops it; running work has {secs} s to finish, and {then}");
        Ok(())
    }

    /// Runs until an interrupt, then stops within the drain time. A second interrupt exits immediately.
    pub(crate) async fn until_stopped(self, mut interrupts: Interrupts) -> Result<CliExit, CliFailure> {
        interrupts.next().await;
        self.stop(&mut interrupts).await
    }

    pub(crate) async fn stop(self, interrupts: &mut Interrupts) -> Result<CliExit, CliFailure> {
        let Service { running, drain, traces, directory, stored, store_watch, .. } = self;
        if let Some(directory) = directory {
            // The token is worthless once this process has ended.
            let _ = std::fs::remove_file(directory.join(LOCAL_TOKEN_FILE));
        }
        info!(seconds = drain.as_secs(), "draining");
        tokio::select! {
            stopped = running.stop() => {
                if let Some(traces) = traces {
                    traces.stop(TRACES_TIMEOUT).await;
                }
                drop(store_watch);
                stored.close();
                info!("stopped");
                stopped.map(|()| CliExit::Success).map_err(|error| CliFailure::new(CliExit::Failed, error.to_string()).code(codes::SERVER))
            }
            () = interrupts.next() => {
                info!("stopped immediately");
                std::process::exit(130)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_web_ui_url_is_reachable() {
        for (bound, shown) in [
            ("0.0.0.0:7117", "127.0.0.1:7117"),
            ("[::]:80", "[::1]:80"),
            ("10.0.0.7:1", "10.0.0.7:1"),
            ("127.0.0.1:2", "127.0.0.1:2"),
        ] {
            let bound: SocketAddr = bound.parse().expect("an address");
            assert_eq!(reachable(bound).to_string(), shown);
        }
        assert_eq!(with_port("flows.example.org", 7117), "flows.example.org:7117");
        assert_eq!(with_port("flows.example.org:443", 7117), "flows.example.org:443");
    }
}
