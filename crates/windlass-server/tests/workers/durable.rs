//! A report is acknowledged when it is durable, not before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use windlass_store::{CommitHook, CommitMoment, MemoryStore};

use crate::support::{Server, plan, server_on, succeeded};

/// Blocks every commit while it is shut.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    changed: Condvar,
    reached: AtomicBool,
}

impl Gate {
    fn set(&self, shut: bool) {
        *self.shut.lock().expect("not poisoned") = shut;
        self.changed.notify_all();
    }

    fn hook(self: &Arc<Gate>) -> CommitHook {
        let gate = self.clone();
        Box::new(move |point| {
            if point.when == CommitMoment::Before {
                let shut = gate.shut.lock().expect("not poisoned");
                gate.reached.store(*shut, Ordering::SeqCst);
                drop(gate.changed.wait_while(shut, |shut| *shut).expect("not poisoned"));
            }
        })
    }
}

fn outcomes(server: &Server) -> usize {
    server.events("r").iter().filter(|event| event.type_name() == "task.processed").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_report_survives_the_server() {
    let gate = Arc::new(Gate::default());
    let server = server_on(MemoryStore::new(), Some(gate.hook()));
    let _run = server.start("r", plan("p", &[&[("a", "far"), ("b", "far")]])).await;
    let worker = server.worker("w");
    let a = worker.job().await;
    gate.set(true);
    let mut complete = Box::pin(worker.complete(&a, "A"));
    // The commit is blocked, so no response comes.
    while !gate.reached.load(Ordering::SeqCst) {
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut complete).await.is_err(), "not durable yet");
    }
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut complete).await.is_err(), "not durable yet");
    // A machine that fails now has lost the report, and no worker got an acknowledgement.
    let lost = server.store.crash();
    gate.set(false);
    let b = complete.await;
    assert_eq!(b["input"], json!("b"));
    // Durable from the moment of the response.
    let kept = server.store.crash();
    drop(server);

    for (store, known) in [(lost, 0), (kept, 1)] {
        let server = server_on(store, None);
        assert_eq!(outcomes(&server), known);
        let mut run = server.app.engine.resume("r").await.expect("it continues");
        let worker = server.worker("w");
        // The worker registers its tools again.
        assert_eq!(worker.lease(0).await, Vec::<Json>::new());
        let job = if known == 0 { &a } else { &b };
        let renewed = worker.heartbeat(&[job], 10_000).await["renewed"][0].clone();
        assert_eq!(renewed["idempotency_key"], job["idempotency_key"], "it continues with exactly that task");
        let mut job = job.clone();
        job["lease_epoch"] = renewed["lease_epoch"].clone();
        let mut next = worker.complete(&job, "again").await;
        while next != Json::Null {
            next = worker.complete(&next, "again").await;
        }
        succeeded(&mut run).await;
        assert_eq!(outcomes(&server), 2);
    }
}
