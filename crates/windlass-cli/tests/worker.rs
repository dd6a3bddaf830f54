//! `windlass worker` as a process, against a server in this one: it runs jobs, stops children, survives a server
//! restart, drains.

#![cfg(feature = "shell")]

use crate::support;

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use support::{TestDir, reserved_port};
use windlass_core::{Limits, Status};
use windlass_noetl::NoetlOptions;
use windlass_runtime::{EngineOptions, FinalReport, RunHandle, RunRequest, RunStartOptions, RuntimeEngine, Tools};
use windlass_server::auth::TokenIndex;
use windlass_server::workers::{Dispatcher, WorkerState, with_remote_workers};
use windlass_server::{
    App, AppParts, CompiledDraft, DefinitionCatalog, DefinitionCompiler, DefinitionDraft, RunningServer, ServerOptions,
    serve,
};
use windlass_store::Store;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_syntax::{DiagnosticReport, SourceText};
use windlass_value::Value;

const TOKEN: &str = "wl_first";
/// No worker is silent for so long, however busy the machine is.
const LEASE: Duration = Duration::from_secs(60);
/// Maximum wait of a test: nothing takes this long, so a longer wait is a hang.
const HANG: Duration = Duration::from_secs(300);

struct NoCompiler;

impl DefinitionCompiler for NoCompiler {
    fn compile(&self, _: &DefinitionDraft, _: &dyn DefinitionCatalog) -> Result<CompiledDraft, Vec<DiagnosticReport>> {
        Err(Vec::new())
    }
}

struct Server {
    app: App,
    running: RunningServer,
}

/// Starts a server without built-in tools.
async fn server(store: &Path, port: u16) -> Server {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(store, SqliteOptions::default()).expect("a store"));
    let dispatcher = Arc::new(Dispatcher::new(LEASE));
    let mut languages = windlass_expr::wdl::languages();
    languages.push(Arc::new(windlass_expr::jinja::JinjaLanguage));
    languages.push(Arc::new(windlass_expr::steps::StepsLanguage));
    let options =
        EngineOptions { tools: with_remote_workers(&Tools::new(), &dispatcher), languages, ..EngineOptions::default() };
    let engine = RuntimeEngine::new(store.clone(), options).expect("an engine");
    let app = App::new(AppParts {
        engine,
        store,
        limits: Limits::default(),
        options: ServerOptions { bind: ([127, 0, 0, 1], port).into(), lease: LEASE, ..ServerOptions::default() },
        compiler: Arc::new(NoCompiler),
        definitions: Default::default(),
        keys: TokenIndex::with_token(Some(TOKEN.to_owned())),
        credentials: Default::default(),
        audit: Default::default(),
        dispatcher,
        metrics: Default::default(),
        views: Default::default(),
    });
    let running = serve(app.clone()).await.expect("it listens");
    Server { app, running }
}

impl Server {
    fn url(&self) -> String {
        format!("http://{}", self.running.address)
    }

    /// Returns whether its only worker has announced that it drains.
    fn worker_is_draining(&self) -> bool {
        let workers = self.app.dispatcher.list().items;
        matches!(&workers[..], [worker] if worker.state == WorkerState::Draining)
    }

    /// Returns the number of jobs without a worker.
    fn queued(&self) -> usize {
        self.app.dispatcher.list().queued.iter().map(|queue| queue.jobs).sum()
    }

    /// Starts a playbook of one step that runs a shell command.
    async fn start(&self, run: &str, command: &str) -> RunHandle {
        let text = format!(
            "metadata: {{name: {run}}}\nworkflow:\n- step: start\n  tool:\n    kind: shell\n    cmds: |\n      {command}\n"
        );
        let options = NoetlOptions { tools: vec!["shell".to_owned()], ..NoetlOptions::default() };
        let compiled = windlass_noetl::compile(&SourceText::new("t.yaml", text), &options).expect("a playbook");
        let (hash, _) = self.app.engine.add_plan(compiled.plan).expect("a plan");
        let options = RunStartOptions { id: Some(run.to_owned()), ..RunStartOptions::default() };
        self.app.engine.start(hash, Value::Null, options).await.expect("started")
    }
}

/// A worker process that is killed with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn worker(place: &TestDir, url: &str) -> Process {
    let mut command = place.command(&["worker", "--server", url, "--tools", "shell", "--name", "w", "--slots", "2"]);
    // It never stops by itself while it has a job.
    command.args(["--drain", "86400"]);
    Process(command.env("WINDLASS_TOKEN", TOKEN).stderr(Stdio::null()).spawn().expect("the program starts"))
}

async fn wait_until(condition: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < HANG, "the condition did not become true in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn wait_for_end(handle: &mut RunHandle) -> Arc<FinalReport> {
    tokio::time::timeout(HANG, handle.wait()).await.expect("it hangs").expect("an end")
}

fn terminate(child: &Process) {
    kill_process(Pid::from_child(&child.0), Signal::TERM).expect("it is there");
}

async fn exit_code(mut child: Process) -> Option<i32> {
    let begun = std::time::Instant::now();
    loop {
        if let Some(status) = child.0.try_wait().expect("a status") {
            return status.code();
        }
        assert!(begun.elapsed() < HANG, "it does not end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_runs_jobs_and_drains() {
    let place = TestDir::new();
    let server = server(&place.path("runs"), 0).await;
    let child = worker(&place, &server.url());
    let mut run = server.start("a", "echo hello").await;
    let report = wait_for_end(&mut run).await;
    assert_eq!(report.status, Status::Succeeded, "{:?}", report.error);
    // A result is reported immediately: it must not wait for events that the task never publishes, which would take 5
    // seconds.
    let mut quickest = HANG;
    for run in ["first", "second", "third"] {
        let asked = std::time::Instant::now();
        assert_eq!(wait_for_end(&mut server.start(run, "date").await).await.status, Status::Succeeded);
        quickest = quickest.min(asked.elapsed());
    }
    assert!(quickest < Duration::from_secs(4), "{quickest:?}");
    // It finishes running jobs and takes no new ones.
    let (begun, go) = (place.path("begun"), place.path("go"));
    let command = format!("touch {}; while [ ! -e {} ]; do sleep 0.02; done", begun.display(), go.display());
    let mut run = server.start("b", &command).await;
    wait_until(|| begun.exists()).await;
    terminate(&child);
    wait_until(|| server.worker_is_draining()).await;
    let _left = server.start("c", "echo never").await;
    std::fs::write(&go, "").expect("written");
    assert_eq!(wait_for_end(&mut run).await.status, Status::Succeeded);
    assert_eq!(exit_code(child).await, Some(0));
    assert_eq!(server.app.dispatcher.list().items.len(), 0, "it has left");
    wait_until(|| server.queued() == 1).await;
    server.running.stop().await.expect("stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_kills_the_started_processes() {
    let place = TestDir::new();
    let server = server(&place.path("runs"), 0).await;
    let child = worker(&place, &server.url());
    let pid = place.path("pid");
    let mut run = server.start("a", &format!("echo $$ > {0}.new; mv {0}.new {0}; sleep 600", pid.display())).await;
    wait_until(|| pid.exists()).await;
    let pid: i32 = std::fs::read_to_string(&pid).expect("a number").trim().parse().expect("a number");
    let pid = Pid::from_raw(pid).expect("a process");
    test_kill_process(pid).expect("it runs");
    server.app.engine.request("a", "x", RunRequest::Cancel { reason: "enough".to_owned() }).expect("asked");
    assert_eq!(wait_for_end(&mut run).await.status, Status::Cancelled);
    wait_until(|| test_kill_process(pid).is_err()).await;
    // A worker that cannot finish in time returns its jobs.
    let begun = place.path("begun");
    let mut second = server.start("b", &format!("touch {}; sleep 600", begun.display())).await;
    wait_until(|| begun.exists()).await;
    terminate(&child);
    // Two pending signals are delivered as one: the first must have been handled.
    wait_until(|| server.worker_is_draining()).await;
    terminate(&child);
    assert_eq!(exit_code(child).await, Some(0), "asked twice, it does not wait");
    wait_until(|| server.queued() == 1).await;
    server.app.engine.request("b", "x", RunRequest::Cancel { reason: "enough".to_owned() }).expect("asked");
    assert_eq!(wait_for_end(&mut second).await.status, Status::Cancelled);
    server.running.stop().await.expect("stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_produced_while_the_server_was_down_is_not_repeated() {
    let place = TestDir::new();
    let port = reserved_port();
    let before = server(&place.path("runs"), port).await;
    let child = worker(&place, &before.url());
    let (begun, go, done) = (place.path("begun"), place.path("go"), place.path("done"));
    let command = format!(
        "echo x >> {}; while [ ! -e {} ]; do sleep 0.02; done; touch {}",
        begun.display(),
        go.display(),
        done.display()
    );
    let _run = before.start("a", &command).await;
    wait_until(|| begun.exists()).await;
    let Server { app, running } = before;
    running.stop().await.expect("stopped");
    drop(app);
    // The task ends while no server listens.
    std::fs::write(&go, "").expect("written");
    wait_until(|| done.exists()).await;
    let server = server(&place.path("runs"), port).await;
    let mut run = server.app.engine.resume("a").await.expect("it is resumed");
    assert_eq!(wait_for_end(&mut run).await.status, Status::Succeeded);
    assert_eq!(lines(&begun), 1, "it was done once");
    terminate(&child);
    assert_eq!(exit_code(child).await, Some(0));
    server.running.stop().await.expect("stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn startup_errors_are_reported() {
    let place = TestDir::new();
    let server = server(&place.path("runs"), 0).await;
    let url = server.url();
    let file = place.write("token", "wl_of_another_server\n");
    let file = file.to_string_lossy().into_owned();
    let table: [(&[&str], &str); 5] = [
        (&["worker", "--server", &url], "there is no token"),
        (&["worker", "--server", &url, "--token-file", &file, "--drain", "600"], "rejects this worker (401)"),
        (&["worker", "--server", "http://10.1.2.3:1", "--token-file", &file], "unencrypted"),
        (&["worker", "--server", &url, "--token-file", &file, "--tools", "shel"], "no tool `shel`"),
        (&["worker", "--server", &url, "--token-file", &file, "--only-labelled"], "would get no jobs"),
    ];
    for (words, expected) in table {
        let mut command = place.command(words);
        let done = tokio::task::spawn_blocking(move || command.output().expect("the program")).await.expect("ended");
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(3), "{words:?}: {stderr}");
        assert!(stderr.contains(expected), "{words:?}: {stderr}");
        assert!(!stderr.contains("wl_of"), "{stderr}");
    }
    server.running.stop().await.expect("stopped");
}
