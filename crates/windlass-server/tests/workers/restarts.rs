//! The server stops and restarts; workers live on.

use serde_json::{Value as Json, json};

use crate::support::{LEASE, REJOINED, TOKEN, one, plan, server, succeeded};

#[tokio::test(start_paused = true)]
async fn a_worker_continues_its_job_under_a_new_lease_epoch() {
    let before = server();
    let _run = before.start("r", one("p")).await;
    let job = before.worker("w").job().await;
    let server = before.crash();
    let mut run = server.app.engine.resume("r").await.expect("it continues");
    let (worker, other) = (server.worker("w"), server.worker("o"));
    worker.assert_rejected(&job).await;
    assert_eq!(other.lease(5_000).await, Vec::<Json>::new(), "the job is reserved for its previous worker");
    let renewed = worker.heartbeat(&[&job], 0).await["renewed"][0].clone();
    assert_eq!((&renewed["run"], &renewed["job"], &renewed["lease_epoch"]), (&job["run"], &job["job"], &json!(1)));
    assert_eq!(other.lease(30_000).await, Vec::<Json>::new(), "it is not done twice");
    let mut job = job;
    other.assert_rejected(&job).await;
    job["lease_epoch"] = json!(1);
    worker.heartbeat(&[&job], 0).await;
    worker.complete(&job, "kept").await;
    succeeded(&mut run).await;
}

#[tokio::test(start_paused = true)]
async fn if_the_worker_is_gone_another_gets_the_job_with_the_same_key() {
    let before = server();
    let _run = before.start("r", one("p")).await;
    let job = before.worker("w").job().await;
    let server = before.crash();
    let mut run = server.app.engine.resume("r").await.expect("it continues");
    let (late, other) = (server.worker("w"), server.worker("o"));
    let begun = tokio::time::Instant::now();
    let again = other.job().await;
    assert!(begun.elapsed() < REJOINED, "{:?}", begun.elapsed());
    assert_eq!(
        (&again["idempotency_key"], &again["attempt"], &again["lease_epoch"]),
        (&job["idempotency_key"], &job["attempt"], &json!(1))
    );
    late.assert_rejected(&job).await;
    assert_eq!(late.heartbeat(&[&job], 0).await["lost"][0]["job"], job["job"]);
    other.complete(&again, "other").await;
    succeeded(&mut run).await;
}

#[tokio::test(start_paused = true)]
async fn no_worker_is_cancelled_before_the_runs_are_adopted() {
    let before = server();
    let _run = before.start("r", one("p")).await;
    let job = before.worker("w").job().await;
    let server = before.crash();
    let worker = server.worker("w");
    let nothing = json!({"lost": [], "cancelled": [], "renewed": [], "drain": false});
    // The engine adopts unowned runs in the background; a run that it has not adopted yet is not lost.
    assert_eq!(worker.heartbeat(&[&job], 0).await, nothing);
    let _run = server.app.engine.resume("r").await.expect("it continues");
    assert_eq!(worker.heartbeat(&[&job], 0).await["renewed"][0]["lease_epoch"], json!(1));
    let unknown = json!({"run": "x", "job": 1, "lease_epoch": 0, "idempotency_key": "k", "attempt": 1});
    assert_eq!(worker.heartbeat(&[&unknown], 0).await, nothing);
    tokio::time::advance(REJOINED).await;
    assert_eq!(worker.heartbeat(&[&unknown], 0).await["lost"][0]["run"], json!("x"));
}

#[tokio::test(start_paused = true)]
async fn new_jobs_after_a_restart_do_not_wait() {
    let server = server();
    let mut run = server.start("r", plan("p", &[&[("a", "far"), ("b", "near")]])).await;
    let (far, near) = (server.worker("f"), server.worker("n").with(json!({"tools": ["near"]})));
    let a = far.job().await;
    far.complete(&a, 1).await;
    let begun = tokio::time::Instant::now();
    let b = near.job().await;
    server.post("/worker/deregister", json!({"worker": "n"})).await;
    let b_again = server.worker("m").with(json!({"tools": ["near"]})).job().await;
    assert_eq!((&b["lease_epoch"], &b_again["lease_epoch"]), (&json!(1), &json!(2)));
    assert!(begun.elapsed().as_millis() < 100, "{:?}", begun.elapsed());
    server.worker("m").complete(&b_again, 1).await;
    succeeded(&mut run).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_cancels_no_worker() {
    let server = server();
    let _run = server.start("r", one("p")).await;
    let (worker, waits) = (server.worker("w"), server.worker("v"));
    let job = worker.job().await;
    tokio::time::advance(REJOINED).await;
    worker.heartbeat(&[&job], 0).await;
    let begun = tokio::time::Instant::now();
    let stop = async {
        tokio::task::yield_now().await;
        server.app.dispatcher.close();
        server.app.engine.close().await;
    };
    let held = [&job];
    let (jobs, response, ()) = tokio::join!(waits.lease(30_000), worker.heartbeat(&held, 10_000), stop);
    assert_eq!(jobs, Vec::<Json>::new());
    assert_eq!(response["lost"], json!([]), "it will be asked for again");
    assert_eq!(worker.heartbeat(&[&job], 0).await["lost"], json!([]));
    assert!(begun.elapsed() < LEASE / 10, "no worker is kept waiting: {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_waits_only_for_local_tools() {
    let server = server();
    let _held = server.start("held", one("p")).await;
    let job = server.worker("w").job().await;
    let _queued = server.start("queued", one("q")).await;
    let begun = tokio::time::Instant::now();
    server.app.dispatcher.close();
    server.app.engine.drain(LEASE).await;
    assert!(begun.elapsed() < LEASE / 10, "a job for a worker is no reason to stay: {:?}", begun.elapsed());
    // The worker that holds the job keeps its result for the next server.
    let report =
        json!({"worker": "w", "run": job["run"], "job": job["job"], "lease_epoch": job["lease_epoch"], "output": 1});
    let (status, problem) = server.request("POST", "/worker/complete", TOKEN, &report).await;
    assert_eq!((status.as_u16(), &problem["code"]), (503, &json!("WND-3012")), "{problem}");
    assert_eq!(server.worker("w").heartbeat(&[&job], 0).await["lost"], json!([]));
}
