//! Job queues: which worker gets which job, in which order, and which gets none.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use windlass_server::auth::TokenScope;

use crate::support::{TOKEN, labelled, one, plan, server, server_with_stored_tokens, succeeded};

#[tokio::test(start_paused = true)]
async fn a_worker_with_one_slot_holds_one_of_a_thousand_jobs() {
    let server = server();
    let mut runs = Vec::new();
    for run in 0..10 {
        let steps: Vec<&[(&str, &str)]> = vec![&[("a", "far")]; 100];
        runs.push(server.start(&format!("r{run}"), plan("p", &steps)).await);
    }
    let (_, state) = server.request("GET", "/workers", TOKEN, &Json::Null).await;
    assert_eq!((&state["queued"][0]["jobs"], &state["queued"][0]["tool"]), (&json!(1_000), &json!("far")));
    let worker = server.worker("w");
    let (mut done, mut order) = (0, Vec::new());
    while done < 1_000 {
        let job = worker.job().await;
        assert_eq!(worker.lease(0).await, Vec::<Json>::new(), "it has no slot free");
        order.push(job["run"].as_str().unwrap_or_default().to_owned());
        assert_eq!(worker.complete(&job, done).await, Json::Null);
        done += 1;
    }
    for round in order.chunks(10) {
        assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 10, "the server alternates between runs: {round:?}");
    }
    for run in &mut runs {
        succeeded(run).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_gets_as_many_as_it_has_slots() {
    let server = server();
    let steps: Vec<&[(&str, &str)]> = vec![&[("a", "far")]; 5];
    let _run = server.start("r", plan("p", &steps)).await;
    let waits = || async { server.request("GET", "/runs/r", TOKEN, &Json::Null).await.1["waits_for_worker"].clone() };
    let waiting = waits().await;
    assert_eq!(
        (&waiting[0]["tool"], &waiting[0]["jobs"], &waiting[0]["labels"]),
        (&json!("far"), &json!(5), &json!({}))
    );
    assert!(waiting[0]["oldest_at"].is_string(), "{waiting}");
    let worker = server.worker("w").with(json!({"slots": 3}));
    let jobs = worker.lease(0).await;
    assert_eq!(jobs.len(), 3);
    assert_eq!(waits().await[0]["jobs"], 2);
    worker.complete(&jobs[0], 1).await;
    assert_eq!(worker.lease(0).await.len(), 1);
    assert_eq!(server.worker("v").with(json!({"slots": 3, "free": 1})).lease(0).await.len(), 1, "what it wants");
    assert_eq!(waits().await, Json::Null, "all of it is taken");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_is_woken_only_for_jobs_it_can_run() {
    let server = server();
    let (far, near) = (server.worker("f"), server.worker("n").with(json!({"tools": ["near"]})));
    let begun = tokio::time::Instant::now();
    let start = async {
        tokio::task::yield_now().await;
        server.start("r", plan("p", &[&[("a", "near")]])).await
    };
    let (jobs, _run) = tokio::join!(near.lease(30_000), start);
    assert_eq!(jobs.len(), 1);
    assert!(begun.elapsed().as_millis() < 100, "{:?}", begun.elapsed());
    let begun = tokio::time::Instant::now();
    assert_eq!(far.lease(99_000).await, Vec::<Json>::new());
    assert_eq!(begun.elapsed().as_secs(), 30, "no longer than that");
}

#[tokio::test(start_paused = true)]
async fn labels_select_the_workers_of_a_definition() {
    let server = server();
    // (labels of the definition, tool) and the worker that may have the job
    let table: [(&str, &str, &[&str]); 5] = [
        ("{}", "far", &["plain", "gpu", "gpu-eu"]),
        (r#"{"gpu": "yes"}"#, "far", &["gpu", "gpu-eu", "only-gpu"]),
        (r#"{"gpu": "yes", "place": "eu"}"#, "far", &["gpu-eu"]),
        (r#"{"gpu": "no"}"#, "far", &[]),
        // The server does not execute the tool of a labelled definition, even if it has that tool.
        (r#"{"gpu": "yes"}"#, "here", &["gpu", "gpu-eu", "only-gpu"]),
    ];
    let workers = [
        server.worker("plain"),
        server.worker("gpu").with(json!({"labels": {"gpu": "yes"}})),
        server.worker("gpu-eu").with(json!({"labels": {"gpu": "yes", "place": "eu"}})),
        server.worker("only-gpu").with(json!({"labels": {"gpu": "yes"}, "only_labelled": true})),
    ];
    for (at, (labels, tool, may)) in table.iter().enumerate() {
        let run = format!("r{at}");
        let _run = server.start(&run, labelled(plan(&run, &[&[("a", tool)]]), labels)).await;
        let mut took = Vec::new();
        for worker in &workers {
            let mut request = worker.lease_request.clone();
            request["tools"] = json!(["far", "here"]);
            let answer = server.post("/worker/lease", request).await;
            if let Some(job) = answer["jobs"].get(0) {
                assert_eq!(job["run"], json!(run));
                took.push(worker.id.as_str());
                // Deregistered, so that the job goes to the next worker.
                server.post("/worker/deregister", json!({"worker": worker.id})).await;
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
        assert_eq!(took, *may, "{labels} {tool}");
        let cancel = windlass_runtime::RunRequest::Cancel { reason: "seen".to_owned() };
        server.app.engine.request(&run, "c", cancel).expect("asked");
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    }
    let mut here = server.start("h", plan("h", &[&[("a", "here")]])).await;
    succeeded(&mut here).await;
}

#[tokio::test(start_paused = true)]
async fn a_draining_worker_gets_no_jobs_and_a_leaving_one_returns_its_jobs() {
    let server = server();
    let mut run = server.start("r", plan("p", &[&[("a", "far"), ("b", "far")], &[("c", "far")]])).await;
    let (old, new) = (server.worker("old").with(json!({"slots": 2})), server.worker("new").with(json!({"slots": 9})));
    let jobs = old.lease(0).await;
    assert_eq!(jobs.len(), 2);
    let body = json!({"worker": "old", "draining": true, "jobs": []});
    assert_eq!(server.post("/worker/heartbeat", body).await["drain"], json!(false));
    let (_, state) = server.request("GET", "/workers", TOKEN, &Json::Null).await;
    assert_eq!(state["items"][0]["state"], json!("draining"));
    assert_eq!(old.complete(&jobs[0], "A").await, Json::Null, "the pipeline continues on another worker");
    assert_eq!(old.lease(0).await, Vec::<Json>::new());
    let b = new.job().await;
    assert_eq!(b["input"], json!("b"));
    server.post("/worker/deregister", json!({"worker": "old"})).await;
    let begun = tokio::time::Instant::now();
    let c = new.job().await;
    assert!(begun.elapsed().as_millis() < 100, "it does not wait for the lease to end");
    assert_eq!((&c["idempotency_key"], &c["lease_epoch"]), (&jobs[1]["idempotency_key"], &json!(1)));
    old.assert_rejected(&jobs[1]).await;
    // Its late requests, sent before or after it left, do not register it again.
    let late = json!({"worker": "old", "tools": ["far"], "name": "old"});
    assert_eq!(server.post("/worker/lease", late).await["drain"], json!(true));
    server.post("/worker/heartbeat", json!({"worker": "old", "jobs": []})).await;
    let (_, state) = server.request("GET", "/workers", TOKEN, &Json::Null).await;
    assert!(state["items"].as_array().is_some_and(|all| all.iter().all(|one| one["name"] != "old")), "{state}");
    new.complete(&b, "B").await;
    new.complete(&c, "C").await;
    succeeded(&mut run).await;
    // Another client can ask the worker to drain as well.
    server.post("/workers/new/drain", json!({})).await;
    assert_eq!(new.heartbeat(&[], 0).await["drain"], json!(true));
    assert_eq!(server.post_rejected("/workers/missing/drain", json!({})).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_lease_request_takes_no_job() {
    let server = server();
    let (gone, there) = (server.worker("gone"), server.worker("there"));
    {
        let lease_request = gone.lease(30_000);
        let lease_result = tokio::time::timeout(std::time::Duration::from_secs(1), lease_request).await;
        assert!(lease_result.is_err(), "its connection is cut while it waits");
    }
    let (jobs, mut run) = tokio::join!(there.lease(30_000), server.start("r", one("p")));
    assert_eq!(jobs.len(), 1);
    there.complete(&jobs[0], 1).await;
    succeeded(&mut run).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_needs_a_token() {
    let server = server();
    for path in ["lease", "heartbeat", "progress", "complete", "fail", "deregister"] {
        let (status, _) =
            server.request("POST", &format!("/worker/{path}"), "wl_unknown", &json!({"worker": "w"})).await;
        assert_eq!(status.as_u16(), 401, "{path}");
    }
    let long = "x".repeat(200);
    for worker in ["", "a b", &long] {
        assert_eq!(server.post_rejected("/worker/deregister", json!({"worker": worker})).await.0, 400, "{worker}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_without_the_worker_scope_gets_no_job() {
    let server = server_with_stored_tokens();
    let _run = server.start("r", one("p")).await;
    let calls = [
        ("lease", json!({"worker": "w", "tools": ["far"], "slots": 1})),
        ("heartbeat", json!({"worker": "w"})),
        ("progress", json!({"worker": "w", "run": "r", "job": 0, "lease_epoch": 0})),
        ("complete", json!({"worker": "w", "run": "r", "job": 0, "lease_epoch": 0})),
        (
            "fail",
            json!({"worker": "w", "run": "r", "job": 0, "lease_epoch": 0, "error": {"code": "X", "message": "x"}}),
        ),
        ("deregister", json!({"worker": "w"})),
    ];
    for scope in [TokenScope::Read, TokenScope::Run, TokenScope::Control] {
        let token = server.token(scope);
        for (path, body) in &calls {
            let (status, answer) = server.request("POST", &format!("/worker/{path}"), &token, body).await;
            assert_eq!((status.as_u16(), answer["code"].as_str()), (403, Some("WND-3002")), "{path} {scope:?}");
        }
    }
    let token = server.token(TokenScope::Work);
    assert_eq!(
        server.request("GET", "/workers", &token, &Json::Null).await.0.as_u16(),
        403,
        "it works, and looks at nothing"
    );
    assert_eq!(server.request("POST", "/workers/w/drain", &token, &json!({})).await.0.as_u16(), 403);
    let (_, leased) = server.request("POST", "/worker/lease", &token, &calls[0].1).await;
    assert_eq!(leased["jobs"][0]["run"], json!("r"), "{leased}");
    // The same id under another token is another worker.
    let other = server.token(TokenScope::Work);
    let (status, answer) = server.request("POST", "/worker/complete", &other, &calls[3].1).await;
    assert_eq!((status.as_u16(), answer["code"].as_str()), (409, Some("WND-3010")), "{answer}");
    assert_eq!(server.request("POST", "/worker/complete", &token, &calls[3].1).await.0.as_u16(), 200);
}

/// A worker's registration is stored as long as the worker is known: its size is limited to less than megabytes.
#[tokio::test(start_paused = true)]
async fn the_size_of_a_worker_registration_is_limited() {
    let server = server();
    let long = "x".repeat(257);
    for odd in [
        json!({"tools": [long]}),
        json!({"name": long}),
        json!({"labels": {"a": long}}),
        json!({"labels": {(long.as_str()): "a"}}),
        json!({"tools": vec!["a"; 10_001]}),
    ] {
        let mut body = json!({"worker": "w", "tools": ["far"]});
        body.as_object_mut().expect("an object").extend(odd.as_object().expect("an object").clone());
        assert_eq!(server.post_rejected("/worker/lease", body).await, (400, "WND-3000".to_owned()));
    }
}
