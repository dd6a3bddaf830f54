//! Queued jobs: one queue per kind of worker, within which the runs are served round-robin.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use windlass_value::Timestamp;

use super::wire::{Labels, QueueInfo};

/// A job of a run.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct JobId {
    pub run: Arc<str>,
    pub job: u64,
}

/// The requirements that a worker must meet for the jobs of a queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct QueueKey {
    pub tool: Arc<str>,
    pub labels: Labels,
}

/// A position in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QueuePosition(i64);

#[derive(Default)]
pub(super) struct JobQueues {
    queues: BTreeMap<QueueKey, JobQueue>,
    /// Positions increase at the end and decrease at the front.
    last: i64,
    first: i64,
    /// Number of pops, for serving the queues round-robin.
    pops: u64,
}

#[derive(Default)]
struct JobQueue {
    /// The order in which runs are served. A run without jobs is skipped once.
    run_order: VecDeque<Arc<str>>,
    runs: HashMap<Arc<str>, BTreeMap<i64, QueuedJob>>,
    length: usize,
    last_pop: u64,
}

struct QueuedJob {
    job: u64,
    since: Timestamp,
}

impl JobQueues {
    pub(crate) fn push(&mut self, kind: &QueueKey, id: &JobId, since: Timestamp) -> QueuePosition {
        self.last += 1;
        self.insert(kind, id, since, self.last)
    }

    /// Inserts a job before all others of its run: it was assigned and never arrived.
    pub(crate) fn push_front(&mut self, kind: &QueueKey, id: &JobId, since: Timestamp) -> QueuePosition {
        self.first -= 1;
        self.insert(kind, id, since, self.first)
    }

    fn insert(&mut self, kind: &QueueKey, id: &JobId, since: Timestamp, position: i64) -> QueuePosition {
        let queue = match self.queues.get_mut(kind) {
            Some(queue) => queue,
            None => self.queues.entry(kind.clone()).or_default(),
        };
        let run = queue.runs.entry(id.run.clone()).or_insert_with(|| {
            queue.run_order.push_back(id.run.clone());
            BTreeMap::new()
        });
        run.insert(position, QueuedJob { job: id.job, since });
        queue.length += 1;
        QueuePosition(position)
    }

    pub(crate) fn remove(&mut self, kind: &QueueKey, id: &JobId, position: QueuePosition) {
        let Some(queue) = self.queues.get_mut(kind) else { return };
        if let Some(run) = queue.runs.get_mut(&id.run)
            && run.remove(&position.0).is_some()
        {
            queue.length -= 1;
            if queue.length == 0 {
                self.queues.remove(kind);
            }
        }
    }

    /// Returns the next job for a worker, from the suitable queue that was served longest ago.
    pub(crate) fn pop(&mut self, fits: impl Fn(&QueueKey) -> bool) -> Option<JobId> {
        let fitting = self.queues.iter().filter(|(kind, _)| fits(kind));
        let kind = fitting.min_by_key(|(_, queue)| queue.last_pop).map(|(kind, _)| kind.clone())?;
        self.pops += 1;
        let queue = self.queues.get_mut(&kind)?;
        queue.last_pop = self.pops;
        let id = queue.pop();
        if queue.length == 0 {
            self.queues.remove(&kind);
        }
        id
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &QueueKey> {
        self.queues.keys()
    }

    pub(crate) fn list(&self) -> Vec<QueueInfo> {
        let info = |(kind, queue): (&QueueKey, &JobQueue)| {
            let oldest = queue.runs.values().filter_map(oldest).min();
            kind.info(queue.length, oldest)
        };
        self.queues.iter().map(info).collect()
    }

    /// Returns the queued jobs of one run. The cost depends on the number of queues only.
    pub(crate) fn jobs_of_run(&self, run: &str) -> Vec<QueueInfo> {
        let queued = |(kind, queue): (&QueueKey, &JobQueue)| {
            let jobs = queue.runs.get(run).filter(|jobs| !jobs.is_empty())?;
            Some(kind.info(jobs.len(), oldest(jobs)))
        };
        self.queues.iter().filter_map(queued).collect()
    }
}

/// Returns the time since which the first of the jobs has been queued.
fn oldest(jobs: &BTreeMap<i64, QueuedJob>) -> Option<Timestamp> {
    jobs.values().next().map(|waiting| waiting.since)
}

impl QueueKey {
    fn info(&self, jobs: usize, oldest: Option<Timestamp>) -> QueueInfo {
        QueueInfo {
            tool: self.tool.clone(),
            labels: self.labels.clone(),
            jobs,
            oldest_at: oldest.unwrap_or_default().to_string(),
        }
    }
}

impl JobQueue {
    fn pop(&mut self) -> Option<JobId> {
        while let Some(run) = self.run_order.pop_front() {
            let Some(waiting) = self.runs.get_mut(&run) else { continue };
            match waiting.pop_first() {
                Some((_, next)) => {
                    self.length -= 1;
                    if waiting.is_empty() {
                        self.runs.remove(&run);
                    } else {
                        self.run_order.push_back(run.clone());
                    }
                    return Some(JobId { run, job: next.job });
                }
                None => {
                    self.runs.remove(&run);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(tool: &str) -> QueueKey {
        QueueKey { tool: tool.into(), labels: Labels::new() }
    }

    fn id(run: &str, job: u64) -> JobId {
        JobId { run: run.into(), job }
    }

    fn all(queues: &mut JobQueues, fits: impl Fn(&QueueKey) -> bool) -> Vec<String> {
        std::iter::from_fn(|| queues.pop(&fits)).map(|id| format!("{}{}", id.run, id.job)).collect()
    }

    #[test]
    fn runs_are_served_round_robin() {
        let mut queues = JobQueues::default();
        let jobs = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("b", 2)];
        for (run, job) in jobs {
            queues.push(&kind("x"), &id(run, job), Timestamp(0));
        }
        assert_eq!(all(&mut queues, |_| true), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert_eq!(queues.kinds().count(), 0, "an empty queue leaves no entry");
    }

    #[test]
    fn queues_are_served_round_robin_and_unsuitable_ones_stay() {
        let mut queues = JobQueues::default();
        for (tool, job) in [("x", 1), ("x", 2), ("y", 3), ("z", 4)] {
            queues.push(&kind(tool), &id("r", job), Timestamp(0));
        }
        assert_eq!(all(&mut queues, |kind| &*kind.tool != "z"), ["r1", "r3", "r2"]);
        assert_eq!(queues.list().iter().map(|queue| queue.jobs).sum::<usize>(), 1);
    }

    #[test]
    fn removed_jobs_are_gone_and_returned_jobs_are_first() {
        let mut queues = JobQueues::default();
        queues.push(&kind("x"), &id("r", 1), Timestamp(0));
        let position = queues.push(&kind("x"), &id("r", 2), Timestamp(0));
        queues.push(&kind("x"), &id("r", 3), Timestamp(0));
        queues.remove(&kind("x"), &id("r", 2), position);
        queues.remove(&kind("x"), &id("r", 2), position);
        queues.push_front(&kind("x"), &id("r", 9), Timestamp(0));
        let queued: Vec<usize> = queues.jobs_of_run("r").iter().map(|kind| kind.jobs).collect();
        assert_eq!((queued, queues.jobs_of_run("s").len()), (vec![3], 0));
        assert_eq!(all(&mut queues, |_| true), ["r9", "r1", "r3"]);
        assert!(queues.jobs_of_run("r").is_empty());
    }
}
