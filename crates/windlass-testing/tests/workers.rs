//! A server and its workers as separate processes that are killed, paused and asked to stop during jobs. Every
//! iteration is in the result once; effects are counted outside, and every repeated effect has the same key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use windlass_testing::crash::SeededRng;
use windlass_testing::crash::server::{
    ServerProcess, ServerProcessOptions, TestClient, fixed_port, read_log, wait_until,
};
use windlass_testing::crash::worker::WorkerProcess;
use windlass_testing::test_service::{RecordingProxy, TestService};

const ITERATIONS: usize = 50;

/// A lease whose expiry the test waits for. A live worker must never be silent this long, however busy the machine
/// is.
const SHORT_LEASE_SECONDS: u64 = 5;

/// A lease that does not expire during a test.
const LONG_LEASE_SECONDS: u64 = 60;

/// Sequential iterations: each has a counted effect and a pause during which something can happen.
const CALLS: &str = r#"{"actions": {"work": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 50)",
    "limit": {"count": 100, "timeout": "PT1H"}, "actions": {
        "call": {"type": "http", "inputs": {"method": "POST", "uri": "SERVICE/count/@{triggerBody().me}-@{variables('loopIndex')}"}},
        "slow": {"type": "http", "inputs": {"uri": "SERVICE/slow?ms=20"}, "runAfter": {"call": ["Succeeded"]}}}}}}"#;

/// Concurrent iterations: each writes a line with its key.
const LINES: &str = "metadata: {name: lines}\nworkflow:\n- step: work\n  \
    loop: {in: '{{ range(50) | list }}', iterator: n, spec: {mode: parallel, max_in_flight: 6}}\n  \
    tool:\n    kind: shell\n    cmds: |\n      echo \"$WINDLASS_KEY {{ n }}\" >> FILE; sleep 0.05\n";

struct TestSetup {
    folder: tempfile::TempDir,
    service: TestService,
    lease_seconds: u64,
}

impl TestSetup {
    fn new(lease_seconds: u64) -> TestSetup {
        let folder = tempfile::tempdir().expect("a folder");
        TestSetup { folder, service: TestService::start().expect("the service starts"), lease_seconds }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a server on this port, which an earlier server may have used; 0 chooses a free one.
    fn server(&self, port: u16) -> ServerProcess {
        ServerProcess::start_with(
            self.path(),
            ServerProcessOptions { port, lease_seconds: Some(self.lease_seconds) },
            &[],
        )
    }

    fn worker(&self, server: &ServerProcess, name: &str) -> WorkerProcess {
        server.worker(self.path(), name, WORKER_ARGS)
    }

    fn register(&self, client: &mut TestClient) {
        let base = self.service.url("");
        let calls = CALLS.replace("SERVICE", base.trim_end_matches('/'));
        client.register_for("calls", &calls, &json!({ "at": "plant" }));
        client.register("lines", &LINES.replace("FILE", &self.lines_file().display().to_string()));
    }

    fn lines_file(&self) -> std::path::PathBuf {
        self.path().join("lines")
    }

    /// Starts both loops; the runs are named after their definitions.
    fn begin(&self, client: &mut TestClient) {
        for definition in ["calls", "lines"] {
            let (status, body) = client.start(definition, definition, &json!({ "me": "r" })).expect("an answer");
            assert_eq!(status, 202, "{body}");
        }
    }

    /// Returns how often each effect was executed, by iteration. Asserts one key per effect and that none is missing.
    fn effects(&self) -> BTreeMap<String, u64> {
        let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut times: BTreeMap<String, u64> = BTreeMap::new();
        let lines = std::fs::read_to_string(self.lines_file()).unwrap_or_default();
        let lines = lines.lines().map(|line| {
            let (key, iteration) = line.split_once(' ').expect("a key and an iteration");
            (format!("line {iteration}"), key.to_owned(), 1)
        });
        let calls = self.service.effects().into_iter().map(|effect| (effect.path, effect.key, effect.times));
        for (effect, key, count) in lines.chain(calls) {
            keys.entry(effect.clone()).or_default().insert(key);
            *times.entry(effect).or_default() += count;
        }
        let lines = (0..ITERATIONS).map(|iteration| format!("line {iteration}"));
        let expected: BTreeSet<String> =
            (0..ITERATIONS).map(|iteration| format!("/count/r-{iteration}")).chain(lines).collect();
        assert_eq!(times.keys().cloned().collect::<BTreeSet<_>>(), expected);
        for (effect, keys) in &keys {
            assert_eq!(keys.len(), 1, "{effect} was made under {} keys", keys.len());
        }
        let all: BTreeSet<&String> = keys.values().flatten().collect();
        assert_eq!(all.len(), expected.len(), "two effects share a key");
        times
    }

    /// Waits for both runs and checks every iteration of them.
    fn finish(&self, client: &mut TestClient, workers: &[&WorkerProcess]) -> BTreeMap<String, u64> {
        let ended = |status: &String| !["running", "waiting", "pending"].contains(&status.as_str());
        wait_until(|| client.statuses().values().all(ended));
        let logs = || {
            let workers: Vec<String> = workers.iter().map(|worker| worker.log()).collect();
            format!("{:#?}\n{}", read_log(self.path()), workers.join("\n"))
        };
        for run in ["calls", "lines"] {
            let detail = client.get(&format!("/api/v1/runs/{run}"));
            assert_eq!(detail["status"], "succeeded", "{run}: {}\n{}", detail["error"], logs());
            let page = client.get(&format!("/api/v1/runs/{run}/iterations?loop=work&limit=1000"));
            assert_eq!(page["total"], ITERATIONS, "{run}");
            let numbers: BTreeSet<u64> =
                items(&page["iterations"]).map(|iteration| number(&iteration["iteration"])).collect();
            let good = items(&page["iterations"]).filter(|iteration| iteration["status"] == "succeeded").count();
            assert_eq!((numbers.len(), good), (ITERATIONS, ITERATIONS), "{run}: every iteration once: {page}");
        }
        self.effects()
    }
}

/// Accepts all tasks reserved for workers, and those with the label that the server could execute itself.
const WORKER_ARGS: &[&str] = &["--tools", "http,shell", "--label", "at=plant", "--slots", "4"];

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// Returns the worker's jobs as the server sees them.
fn leased_jobs(client: &mut TestClient, worker: &str) -> Vec<Value> {
    let workers = client.get("/api/v1/workers");
    let named = items(&workers["items"]).find(|item| item["name"] == worker);
    named.into_iter().flat_map(|item| items(&item["leases"])).cloned().collect()
}

#[test]
fn workers_reconnect_to_a_server_restarted_on_its_port() {
    const DEATHS: u64 = 3;
    let world = TestSetup::new(SHORT_LEASE_SECONDS);
    let port = fixed_port();
    let mut server = world.server(port);
    world.register(&mut server.client());
    let workers = ["one", "two"].map(|name| world.worker(&server, name));
    world.begin(&mut server.client());
    let mut random = SeededRng(11);
    for _ in 0..DEATHS {
        let target = world.service.requests() + 5 + random.below(15);
        wait_until(|| world.service.requests() >= target);
        server.kill();
        server = world.server(port);
        assert_eq!(server.port(), port);
    }
    let times = world.finish(&mut server.client(), &[&workers[0], &workers[1]]);
    assert!(times.values().all(|times| *times <= 1 + DEATHS), "{times:?}");
    let again = times.values().filter(|times| **times > 1).count();
    println!("{} effects, {again} of them more than once after {DEATHS} deaths of the server", times.len());
    for worker in workers {
        worker.signal("TERM");
        let (status, log) = worker.wait_for_exit();
        assert!(status.success(), "{status}: {log}");
        // A worker without a free slot may have sent no request in the meantime.
        assert_eq!(log.contains("the server is unreachable"), log.contains("connected again"), "{log}");
    }
}

#[test]
fn jobs_of_a_killed_worker_are_done_by_another() {
    let world = TestSetup::new(SHORT_LEASE_SECONDS);
    let server = world.server(0);
    let mut client = server.client();
    world.register(&mut client);
    let (first, second) = (world.worker(&server, "first"), world.worker(&server, "second"));
    world.begin(&mut client);
    let mut lost = 0;
    wait_until(|| {
        lost = leased_jobs(&mut client, "first").len();
        lost > 0 && world.service.requests() >= 10
    });
    first.kill();
    let third = world.worker(&server, "third");
    let times = world.finish(&mut client, &[&second, &third]);
    assert!(times.values().all(|times| *times <= 2), "{times:?}");
    let again = times.values().filter(|times| **times > 1).count();
    println!("{again} effects were made again after the death of a worker that had {lost} jobs");
    // The jobs it had at that moment, or received since.
    assert!(again <= 4, "{again} were done again");
}

#[test]
fn a_worker_asked_to_stop_finishes_its_jobs() {
    let world = TestSetup::new(LONG_LEASE_SECONDS);
    let server = world.server(0);
    let mut client = server.client();
    world.register(&mut client);
    let (first, second) = (world.worker(&server, "first"), world.worker(&server, "second"));
    world.begin(&mut client);
    wait_until(|| !leased_jobs(&mut client, "first").is_empty() && world.service.requests() >= 10);
    first.signal("TERM");
    let (status, log) = first.wait_for_exit();
    assert!(status.success() && log.contains("drained"), "{status}: {log}");
    let workers = client.get("/api/v1/workers");
    assert!(items(&workers["items"]).all(|worker| worker["name"] != "first"), "it has deregistered: {workers}");
    let times = world.finish(&mut client, &[&second]);
    assert!(times.values().all(|times| *times == 1), "nothing was done again: {times:?}");
}

/// The first execution waits for `go1`, the second for `go2`; each prints its number.
const WAITS: &str = "metadata: {name: waits}\nworkflow:\n- step: start\n  tool:\n    kind: shell\n    cmds: |\n      \
    echo \"$WINDLASS_KEY\" >> DIR/keys; n=$(wc -l < DIR/keys | tr -d ' ')\n      \
    while [ ! -e DIR/go$n ]; do sleep 0.02; done; touch DIR/done$n; echo \"number $n\"\n";

/// A job that two workers execute, and the progress of each.
struct TwiceStartedJob {
    world: TestSetup,
    server: ServerProcess,
    client: TestClient,
    /// Carries all traffic of the first worker.
    proxy: RecordingProxy,
}

impl TwiceStartedJob {
    /// Starts the job on a first worker.
    fn start() -> (TwiceStartedJob, WorkerProcess) {
        let world = TestSetup::new(SHORT_LEASE_SECONDS);
        let server = world.server(0);
        let mut client = server.client();
        client.register("waits", &WAITS.replace("DIR", &world.path().display().to_string()));
        let proxy = RecordingProxy::start(([127, 0, 0, 1], server.port()).into()).expect("a proxy");
        let first = WorkerProcess::start(world.path(), "first", &proxy.url(), &server.token(), WORKER_ARGS);
        let (status, body) = client.start("waits", "r", &json!({})).expect("an answer");
        assert_eq!(status, 202, "{body}");
        let twice = TwiceStartedJob { world, server, client, proxy };
        wait_until(|| twice.keys().len() == 1);
        (twice, first)
    }

    fn keys(&self) -> Vec<String> {
        let keys = std::fs::read_to_string(self.world.path().join("keys")).unwrap_or_default();
        keys.lines().map(str::to_owned).collect()
    }

    fn go(&self, number: usize) {
        std::fs::write(self.world.path().join(format!("go{number}")), "").expect("written");
    }

    fn is_done(&self, number: usize) -> bool {
        self.world.path().join(format!("done{number}")).exists()
    }

    /// Starts the job on a second worker, under the next lease epoch.
    fn start_second_worker(&mut self) -> WorkerProcess {
        let second = self.world.worker(&self.server, "second");
        wait_until(|| self.keys().len() == 2);
        let given = leased_jobs(&mut self.client, "second");
        assert_eq!((given.len(), given[0]["lease_epoch"].as_u64()), (1, Some(1)), "{given:?}");
        second
    }

    /// Asserts that the report of the second worker is the result, and that both had the same key.
    fn assert_second_result_wins(&mut self) {
        assert_eq!(self.client.statuses()["r"], "running", "the stale result was rejected");
        self.go(2);
        wait_until(|| self.client.statuses()["r"] == "succeeded");
        let detail = self.client.get("/api/v1/runs/r").to_string();
        assert!(detail.contains("number 2") && !detail.contains("number 1"), "{detail}");
        let keys = self.keys();
        assert_eq!((keys.len(), &keys[0]), (2, &keys[1]), "both had the same key");
        let metrics = self.client.text("/metrics");
        assert!(metrics.contains("windlass_leases_expired_total{tool=\"shell\"} 1"), "{metrics}");
    }

    /// Asserts that the first worker still works: it takes the next job.
    fn assert_first_worker_takes_next_job(&mut self, second: WorkerProcess) {
        drop(second);
        let (status, body) = self.client.start("waits", "again", &json!({})).expect("an answer");
        assert_eq!(status, 202, "{body}");
        wait_until(|| !leased_jobs(&mut self.client, "first").is_empty());
        self.go(3);
        wait_until(|| self.client.statuses()["again"] == "succeeded");
    }
}

/// A worker killed with -9 leaves no process running.
#[test]
fn processes_of_a_killed_worker_end_with_it() {
    let (mut twice, first) = TwiceStartedJob::start();
    first.kill();
    let _second = twice.start_second_worker();
    twice.go(1);
    twice.assert_second_result_wins();
    assert!(!twice.is_done(1), "it was killed, too");
}

#[test]
fn a_stale_report_of_a_paused_worker_is_rejected() {
    let (mut twice, first) = TwiceStartedJob::start();
    first.signal("STOP");
    let second = twice.start_second_worker();
    // The program that the first worker started ends meanwhile.
    twice.go(1);
    wait_until(|| twice.is_done(1));
    first.signal("CONT");
    // The server reports the lost lease in a heartbeat reply, or rejects the result.
    wait_until(|| twice.proxy.count("WND-3010") + twice.proxy.count("\"lost\":[{") > 0);
    wait_until(|| leased_jobs(&mut twice.client, "first").is_empty());
    twice.assert_second_result_wins();
    twice.assert_first_worker_takes_next_job(second);
}

#[test]
fn a_stale_report_of_a_disconnected_worker_is_rejected() {
    let (mut twice, _first) = TwiceStartedJob::start();
    twice.proxy.pause();
    let second = twice.start_second_worker();
    // The worker finishes and reports, unaware that the report does not arrive.
    twice.go(1);
    wait_until(|| twice.proxy.count("/worker/complete") > 0);
    assert_eq!(twice.proxy.count("WND-3010"), 0);
    twice.proxy.resume();
    // The server rejects its report, or the reply to its heartbeat arrives first and it drops the report.
    wait_until(|| twice.proxy.count("WND-3010") + twice.proxy.count("\"lost\":[{") > 0);
    twice.assert_second_result_wins();
    twice.assert_first_worker_takes_next_job(second);
}
