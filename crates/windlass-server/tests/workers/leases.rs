//! Leases: which worker holds a job, and for how long.

use serde_json::{Value as Json, json};
use windlass_core::{Event, Status};
use windlass_runtime::RunRequest;
use windlass_store::{LogFilter, StoreLogs};
use windlass_value::{Map, Value};

use crate::support::{LEASE, ended, one, plan, server, server_with_lease, succeeded};

/// Longer than a lease.
const SILENCE: std::time::Duration = LEASE.saturating_add(std::time::Duration::from_secs(1));

#[tokio::test(start_paused = true)]
async fn a_pipeline_stays_with_its_worker() {
    let server = server();
    let tasks = [("a", "far"), ("b", "far"), ("c", "here"), ("d", "far"), ("e", "near"), ("f", "far")];
    let mut run = server.start("r", plan("p", &[&tasks])).await;
    let worker = server.worker("w");
    let a = worker.job().await;
    assert_eq!((&a["lease_epoch"], &a["input"], &a["tool"]), (&json!(0), &json!("a"), &json!("far")));
    assert_eq!((&a["definition"], &a["attempt"]), (&json!("p"), &json!(1)));
    let b = worker.complete(&a, "A").await;
    assert_eq!(
        (&b["job"], &b["lease_epoch"], &b["input"]),
        (&a["job"], &json!(1), &json!("b")),
        "under the same lease"
    );
    assert_ne!(a["idempotency_key"], b["idempotency_key"], "it is another effect");
    assert_eq!(worker.lease(0).await, Vec::<Json>::new(), "its slot is taken");
    // The server executes the next task itself. If that is quick, the response contains the task after it.
    let d = match worker.complete(&b, "B").await {
        Json::Null => worker.job().await,
        next => next,
    };
    assert_eq!((&d["job"], &d["input"]), (&a["job"], &json!("d")));
    assert_eq!(worker.complete(&d, "D").await, Json::Null, "it cannot do the next");
    let other = server.worker("v").with(json!({"tools": ["near", "far"]}));
    let e = other.job().await;
    let f = other.complete(&e, "E").await;
    assert_eq!(f["input"], json!("f"));
    assert_eq!(other.complete(&f, json!({"all": "done"})).await, Json::Null);
    succeeded(&mut run).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_is_repeated() {
    let server = server();
    let mut run = server.start("r", plan("p", &[&[("a", "far"), ("b", "far")]])).await;
    let worker = server.worker("w");
    let a = worker.job().await;
    let b = worker.complete(&a, "A").await;
    assert_eq!(worker.complete(&a, "A").await, b, "a repeated report gets the same response");
    assert_eq!(worker.complete(&b, "B").await, Json::Null);
    assert_eq!(worker.complete(&b, "B").await, Json::Null);
    worker.complete(&a, "A").await;
    succeeded(&mut run).await;
    let processed = server.events("r").iter().filter(|event| event.type_name() == "task.processed").count();
    assert_eq!(processed, 2, "each counted once");
    server.worker("x").assert_rejected(&b).await;
}

#[tokio::test(start_paused = true)]
async fn a_report_for_a_job_of_another_worker_is_rejected() {
    let server = server();
    let mut run = server.start("r", one("p")).await;
    let (worker, thief) = (server.worker("w"), server.worker("t"));
    let job = worker.job().await;
    thief.assert_rejected(&job).await;
    let mut other = job.clone();
    for lease_epoch in [1, 7] {
        other["lease_epoch"] = lease_epoch.into();
        worker.assert_rejected(&other).await;
    }
    assert_eq!(thief.heartbeat(&[&job], 0).await["lost"][0]["job"], job["job"]);
    assert_eq!(worker.heartbeat(&[&job], 0).await, json!({"lost": [], "cancelled": [], "renewed": [], "drain": false}));
    worker.complete(&job, "mine").await;
    succeeded(&mut run).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_worker_loses_its_job_and_its_later_reports_are_rejected() {
    let server = server();
    let mut run = server.start("r", one("p")).await;
    let (zombie, heir) = (server.worker("z"), server.worker("h"));
    let first = zombie.job().await;
    // The job stays with the worker as long as it sends heartbeats.
    for _ in 0..10 {
        tokio::time::advance(LEASE / 2).await;
        assert_eq!(zombie.heartbeat(&[&first], 0).await["lost"], json!([]));
    }
    assert_eq!(heir.lease(0).await, Vec::<Json>::new());
    let begun = tokio::time::Instant::now();
    let second = heir.lease(30_000).await;
    let second = match second.first() {
        Some(second) => second.clone(),
        None => heir.job().await,
    };
    let waited = begun.elapsed();
    assert!(waited >= LEASE && waited < SILENCE, "{waited:?}");
    assert_eq!(
        (&second["idempotency_key"], &second["attempt"]),
        (&first["idempotency_key"], &first["attempt"]),
        "the same effect"
    );
    assert_eq!((&second["job"], &second["lease_epoch"]), (&first["job"], &json!(1)));
    zombie.assert_rejected(&first).await;
    assert_eq!(
        zombie.heartbeat(&[&first], 0).await["lost"][0]["job"],
        first["job"],
        "the heartbeat reports the lost lease"
    );
    let state = server.request("GET", "/workers", crate::support::TOKEN, &Json::Null).await.1;
    assert_eq!(state["items"][0]["leases"][0]["lease_epoch"], json!(1), "{state}");
    assert_eq!(heir.complete(&second, "heir").await, Json::Null);
    zombie.assert_rejected(&first).await;
    succeeded(&mut run).await;
    let events = server.events("r");
    let results: Vec<Map> =
        events.iter().filter(|event| event.type_name() == "task.processed").map(Event::fields).collect();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].get("outcome").and_then(|outcome| outcome.get("result")), Some(&Value::from("heir")));
}

/// A pending lease request may be from a worker that is gone: the connection does not show it.
#[tokio::test(start_paused = true)]
async fn jobs_requested_by_a_silent_worker_go_to_others() {
    let server = server_with_lease(LEASE / 10);
    let mut run = server.start("r", one("p")).await;
    let (silent, successor) = (server.worker("s").with(json!({"slots": 2})), server.worker("h"));
    let first = silent.job().await;
    let inherits = async {
        tokio::time::sleep(LEASE / 5).await;
        successor.job().await
    };
    let begun = tokio::time::Instant::now();
    let (leased, second) = tokio::join!(silent.lease(30_000), inherits);
    assert_eq!(leased, Vec::<Json>::new());
    assert!(begun.elapsed() < LEASE / 2, "the lease does not have to expire first: {:?}", begun.elapsed());
    assert_eq!(
        (&second["job"], &second["lease_epoch"]),
        (&first["job"], &json!(1)),
        "no other worker had it in between"
    );
    successor.complete(&second, "heir").await;
    succeeded(&mut run).await;
    // A worker that comes back is served as before.
    let mut run = server.start("q", one("p")).await;
    let job = silent.job().await;
    silent.complete(&job, "back").await;
    succeeded(&mut run).await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_is_renewed_if_no_other_worker_has_the_job() {
    let server = server();
    let mut run = server.start("r", one("p")).await;
    let worker = server.worker("w");
    let job = worker.job().await;
    tokio::time::advance(SILENCE).await;
    // The network was down; the job is queued again, and no other worker has leased it.
    let renewed = worker.heartbeat(&[&job], 0).await["renewed"][0].clone();
    assert_eq!((&renewed["job"], &renewed["lease_epoch"]), (&job["job"], &json!(1)));
    assert_eq!(worker.heartbeat(&[&job], 0).await["renewed"][0], renewed, "also when the answer was lost");
    worker.assert_rejected(&job).await;
    assert_eq!(server.worker("v").lease(0).await, Vec::<Json>::new());
    let mut again = job.clone();
    again["lease_epoch"] = renewed["lease_epoch"].clone();
    worker.complete(&again, "done").await;
    succeeded(&mut run).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_reaches_the_worker_immediately() {
    let server = server();
    let mut run = server.start("r", plan("p", &[&[("a", "far")], &[("b", "far")]])).await;
    let worker = server.worker("w");
    let job = worker.job().await;
    let begun = tokio::time::Instant::now();
    let cancel = async {
        tokio::task::yield_now().await;
        server.app.engine.request("r", "c", RunRequest::Cancel { reason: "enough".to_owned() }).expect("asked");
    };
    let held = [&job];
    let (response, ()) = tokio::join!(worker.heartbeat(&held, 10_000), cancel);
    assert_eq!(response["cancelled"][0]["job"], job["job"]);
    assert!(begun.elapsed().as_millis() < 1_000, "{:?}", begun.elapsed());
    let error = json!({"code": "Cancelled", "kind": "cancelled", "message": "stopped"});
    server.post("/worker/fail", worker.job_report(&job, json!({"error": error}))).await;
    assert_eq!(ended(&mut run).await.status, Status::Cancelled);
    let (_, state) = server.request("GET", "/workers", crate::support::TOKEN, &Json::Null).await;
    assert_eq!(state["queued"], json!([]), "what waited is gone too");
    assert_eq!(state["items"][0]["leases"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_starts_when_a_worker_leases_the_job() {
    let server = server();
    let mut plan = one("p");
    let windlass_core::plan::NodeKind::Pipeline(pipeline) = &mut plan.nodes[1].kind else { panic!("a pipeline") };
    pipeline.tasks[0].timeout = Some(windlass_core::plan::Amount::Fixed(windlass_value::Duration::from_secs(5)));
    let mut run = server.start("r", plan).await;
    tokio::time::advance(LEASE * 10).await;
    let worker = server.worker("w");
    let job = worker.job().await;
    assert_eq!(job["timeout_ms"], json!(5_000));
    let report = ended(&mut run).await;
    assert_eq!(report.status, Status::Failed);
    worker.assert_rejected(&job).await;
}

#[tokio::test(start_paused = true)]
async fn log_lines_of_a_worker_are_stored_with_the_task() {
    let server = server();
    let mut run = server.start("r", one("p")).await;
    let worker = server.worker("w");
    let job = worker.job().await;
    tokio::time::advance(LEASE - std::time::Duration::from_secs(1)).await;
    let lines = json!({"lines": [{"text": "begun\nand more"}, {"text": "oops", "stream": "stderr"}], "lost": 2});
    server.post("/worker/log", worker.job_report(&job, lines)).await;
    tokio::time::advance(LEASE - std::time::Duration::from_secs(1)).await;
    worker.complete(&job, "done").await;
    assert_eq!(ended(&mut run).await.status, Status::Succeeded, "log lines count as a heartbeat");
    let page = server.store.logs("r", LogFilter::default(), 0, 99).expect("read");
    let shown: Vec<(&str, &str)> = page.lines.iter().map(|line| (line.stream.as_str(), line.text.as_str())).collect();
    assert_eq!(shown, [("log", "begun"), ("log", "and more"), ("stderr", "oops"), ("lost", "2")]);
    assert_eq!(page.lines[0].path, job["path"].as_str().expect("a path").into());
    assert_eq!(server.post_rejected("/worker/log", worker.job_report(&job, json!({"lines": []}))).await.0, 409);
}

#[tokio::test(start_paused = true)]
async fn a_failure_fails_the_task_and_progress_is_published() {
    let server = server();
    let mut run = server.start("r", one("p")).await;
    let worker = server.worker("w");
    let job = worker.job().await;
    for body in [json!({"data": {"percent": 40}}), json!({"type": "photo.scaled", "data": {"width": 80}})] {
        tokio::time::advance(LEASE - std::time::Duration::from_secs(1)).await;
        server.post("/worker/progress", worker.job_report(&job, body)).await;
    }
    for wrong in [json!({"type": "step.done"}), json!({"type": "A b"}), json!({"data": "x".repeat(70_000)})] {
        assert_eq!(server.post_rejected("/worker/progress", worker.job_report(&job, wrong)).await.0, 400);
    }
    let error = json!({"code": "NoPhoto", "message": "there is no photo", "hint": "send one"});
    let body = worker.job_report(&job, json!({"error": error, "facts": {"photo": {"count": 0}}}));
    assert_eq!(server.post("/worker/fail", body).await, json!({"next": null}));
    let report = ended(&mut run).await;
    let error = report.error.clone().expect("an error");
    assert_eq!((report.status, &*error.code, &*error.kind), (Status::Failed, "NoPhoto", "tool"));
    let events = server.events("r");
    let find_event =
        |kind: &str| events.iter().find(|event| event.type_name() == kind).unwrap_or_else(|| panic!("{kind}"));
    assert_eq!(
        find_event("task.progress").fields().get("progress").and_then(|progress| progress.get("percent")),
        Some(&Value::from(40u32))
    );
    assert_eq!(find_event("photo.scaled").fields().get("width"), Some(&Value::from(80u32)));
    assert!(find_event("photo.scaled").path.contains("step0"), "{}", find_event("photo.scaled").path);
}
