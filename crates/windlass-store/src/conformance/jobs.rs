//! A job is handed to one worker at a time, each time under a higher epoch, until it ends.

use std::sync::Arc;

use windlass_value::Timestamp;

use super::Subject;
use super::make::{body, commit, creation, empty, job, status};
use crate::{JobLease, JobRow, RunBatch, RunStatus, Store};

pub(super) fn check(subject: &mut dyn Subject) {
    let store = subject.store();
    let jobs = vec![job("r", 1, "http"), job("r", 2, "shell"), job("r", 3, "http")];
    commit(&store, vec![RunBatch { jobs, ..creation("r") }]);
    commit(&store, vec![RunBatch { jobs: vec![job("s", 1, "http")], ..creation("s") }]);

    assert_eq!(lease(&store, "w", &["sql"], 9, 0), [], "nobody wants that tool");
    assert_eq!(lease(&store, "w", &[], 9, 0), []);
    assert_eq!(lease(&store, "w", &["shell", "http"], 2, 0), [("r", 1, 1), ("r", 2, 1)], "longest waiting first");
    assert_eq!(lease(&store, "v", &["shell", "http"], 9, 99), [("r", 3, 1), ("s", 1, 1)], "what w holds is not open");
    assert_eq!(lease(&store, "x", &["shell", "http"], 9, 99), []);

    let held = |run: &str, job, epoch| JobLease { run: run.into(), job, epoch };
    let beat = |worker, leases: &[JobLease]| store.heartbeat(worker, leases, Timestamp(200)).expect("heartbeat");
    assert_eq!(beat("w", &[held("r", 1, 1)]), [], "still w's, for longer");
    assert_eq!(beat("w", &[held("r", 3, 1)]), [held("r", 3, 1)], "never w's");
    assert_eq!(lease(&store, "x", &["shell", "http"], 1, 100), [("r", 2, 2)], "a lease that ran out is handed on");
    let lost = beat("w", &[held("r", 1, 1), held("r", 2, 1), held("missing", 1, 1)]);
    assert_eq!(lost, [held("r", 2, 1), held("missing", 1, 1)], "and its first holder is told");
    assert_eq!(lease(&store, "w", &["shell"], 9, 250), [("r", 2, 3)], "the same worker again is a new lease");
    assert_eq!(beat("w", &[held("r", 2, 2)]), [held("r", 2, 2)], "a worker's name is no fence, the epoch is");

    let changed = JobRow { body: b"next task".to_vec(), ..job("r", 2, "shell") };
    commit(&store, vec![RunBatch { jobs: vec![changed], jobs_ended: vec![1], ..empty("r", 0) }]);
    assert_eq!(beat("w", &[held("r", 2, 3), held("r", 1, 1)]), [held("r", 1, 1)], "changed keeps the lease, ended not");
    let again = store.lease_jobs("y", &["shell"], 9, Timestamp(500), Timestamp(600)).expect("lease");
    assert_eq!((again[0].epoch, &*again[0].body), (4, &b"next task"[..]));
    let called_back = JobRow { epoch: 9, ..job("r", 2, "shell") };
    commit(&store, vec![RunBatch { jobs: vec![called_back], ..empty("r", 0) }]);
    assert_eq!(beat("y", &[held("r", 2, 4)]), [held("r", 2, 4)], "a higher epoch calls it back");
    assert_eq!(lease(&store, "z", &["shell"], 9, 0), [("r", 2, 10)]);

    commit(&store, vec![RunBatch { status: Some(status(RunStatus::Failed, 1)), ..empty("r", 0) }]);
    assert_eq!(lease(&store, "z", &["shell", "http"], 9, 9_000), [("s", 1, 2)], "a run that has ended wants nothing");
}

/// Leases at a time for 100 and tells what was handed out, after a look at the bodies.
fn lease(store: &Arc<dyn Store>, worker: &str, tools: &[&str], limit: u32, now: i64) -> Vec<(&'static str, u64, u64)> {
    let jobs = store.lease_jobs(worker, tools, limit, Timestamp(now), Timestamp(now + 100)).expect("lease");
    let told = jobs.iter().map(|handed| {
        let run = if &*handed.run == "r" { "r" } else { "s" };
        assert!(handed.job != 1 || handed.body == body(1), "the job comes with its body");
        (run, handed.job, handed.epoch)
    });
    told.collect()
}
