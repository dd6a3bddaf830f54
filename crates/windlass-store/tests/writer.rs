//! The group writer: it groups waiting batches, commits a lone batch immediately, and replies to every caller.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{
    BatchVerdict, ClaimResult, CommitMoment, CommitReply, Fault, GroupWriter, InboxRow, InboxVerdict, MemoryStore,
    PlanRow, RunBatch, StoreError, StoreErrorKind, StoreRead, StoreWrite, WriterLimits,
};

type CommitResult = (u64, Result<BatchVerdict, StoreError>);

const LONG: Duration = Duration::from_secs(120);

fn reply(number: u64, answers: &Sender<CommitResult>) -> CommitReply {
    let answers = answers.clone();
    Box::new(move |answer| drop(answers.send((number, answer))))
}

fn collect(answers: &Receiver<CommitResult>, count: usize) -> Vec<CommitResult> {
    (0..count).map(|_| answers.recv_timeout(LONG).expect("everybody is answered")).collect()
}

/// Reports the number of batches of each append, lets one append through for each permit, and panics on request.
struct GatedStore {
    inner: MemoryStore,
    arrived: Sender<usize>,
    permission: Mutex<Receiver<()>>,
    panics: AtomicBool,
}

impl StoreWrite for GatedStore {
    fn append(&self, batches: Vec<RunBatch>) -> Result<Vec<BatchVerdict>, StoreError> {
        self.arrived.send(batches.len()).expect("the test listens");
        self.permission.lock().expect("not poisoned").recv_timeout(LONG).expect("permission");
        assert!(!self.panics.load(Ordering::Relaxed), "a panic on request");
        self.inner.append(batches)
    }

    fn put_plan(&self, plan: &PlanRow) -> Result<(), StoreError> {
        self.inner.put_plan(plan)
    }

    fn claim(&self, run: &str, owner: &str) -> Result<ClaimResult, StoreError> {
        self.inner.claim(run, owner)
    }

    fn claim_all(&self, runs: &[Arc<str>], owner: &str) -> Result<Vec<ClaimResult>, StoreError> {
        self.inner.claim_all(runs, owner)
    }

    fn release(&self, run: &str, owner_epoch: u64) -> Result<(), StoreError> {
        self.inner.release(run, owner_epoch)
    }

    fn inbox_put(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError> {
        self.inner.inbox_put(message)
    }

    fn cancel_tree(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError> {
        self.inner.cancel_tree(message)
    }

    fn note_request(&self, run: &str, request_id: &str) -> Result<(), StoreError> {
        self.inner.note_request(run, request_id)
    }
}

struct Gate {
    store: Arc<GatedStore>,
    arrived: Receiver<usize>,
    permit: Sender<()>,
}

impl Gate {
    fn new() -> Gate {
        let (arrived_sender, arrived) = mpsc::channel();
        let (permit, permission) = mpsc::channel();
        let inner = MemoryStore::new();
        inner.append(vec![creation("r")]).expect("append");
        let permission = Mutex::new(permission);
        let store = Arc::new(GatedStore { inner, arrived: arrived_sender, permission, panics: AtomicBool::new(false) });
        Gate { store, arrived, permit }
    }

    fn group(&self) -> usize {
        self.arrived.recv_timeout(LONG).expect("a commit begins")
    }

    fn open(&self) {
        self.permit.send(()).expect("the store listens");
    }
}

#[test]
fn batches_that_arrive_during_a_commit_form_the_next_group() {
    let gate = Gate::new();
    let writer = GroupWriter::new(gate.store.clone()).expect("a writer");
    let (sender, answers) = mpsc::channel();
    writer.submit(tick("r", 0, vec![0]), reply(0, &sender));
    assert_eq!(gate.group(), 1, "a lone batch does not wait for company");
    for number in 1..10 {
        writer.submit(tick("r", number, vec![0]), reply(number, &sender));
    }
    gate.open();
    assert_eq!(gate.group(), 9, "all that was waiting, in one commit");
    gate.open();
    let answered = collect(&answers, 10);
    assert!(answered.iter().all(|(_, answer)| matches!(answer, Ok(BatchVerdict::Committed))), "{answered:?}");
    assert!(answered.iter().map(|(number, _)| *number).eq(0..10), "in the order of arrival");
    assert_eq!((writer.commits(), writer.batches()), (2, 10));
}

#[test]
fn a_group_has_limits() {
    let gate = Gate::new();
    let limits = WriterLimits { max_group_batches: 3, max_group_bytes: 1_000, ..WriterLimits::default() };
    let writer = GroupWriter::with_limits(gate.store.clone(), limits, None).expect("a writer");
    let (sender, answers) = mpsc::channel();
    let sizes = [1, 1, 1, 1, 1, 600, 600, 5_000, 1];
    let batches =
        sizes.iter().zip(0..).map(|(size, number)| (tick("r", number, vec![0; *size]), reply(number, &sender)));
    writer.submit_many(batches.collect());
    for expected in [3, 3, 1, 1, 1] {
        assert_eq!(gate.group(), expected, "at most 3 batches, at most 1,000 bytes, at least one batch");
        gate.open();
    }
    assert_eq!(collect(&answers, sizes.len()).len(), sizes.len());
}

#[test]
fn a_full_queue_gives_the_batch_back_or_blocks() {
    let gate = Gate::new();
    let limits = WriterLimits { max_queue_batches: 2, ..WriterLimits::default() };
    let writer = GroupWriter::with_limits(gate.store.clone(), limits, None).expect("a writer");
    let (sender, answers) = mpsc::channel();
    writer.submit(tick("r", 0, vec![0]), reply(0, &sender));
    assert_eq!(gate.group(), 1);
    for number in [1, 2] {
        assert!(writer.try_submit(tick("r", number, vec![0]), reply(number, &sender)).is_ok());
    }
    let Err(back) = writer.try_submit(tick("r", 3, vec![0]), reply(3, &sender)) else { panic!("the queue is full") };
    std::thread::scope(|scope| {
        let (batch, answer) = *back;
        let blocked = scope.spawn(|| writer.submit(batch, answer));
        gate.open();
        assert_eq!(gate.group(), 2);
        blocked.join().expect("there is room again");
        gate.open();
        assert_eq!(gate.group(), 1);
        gate.open();
    });
    assert_eq!(collect(&answers, 4).len(), 4);
}

#[test]
fn submit_inline_commits_on_the_callers_thread_when_the_writer_is_idle() {
    let gate = Gate::new();
    let writer = GroupWriter::new(gate.store.clone()).expect("a writer");
    gate.open();
    let (sender, answers) = mpsc::channel();
    let caller = std::thread::current().id();
    let result_sender = sender.clone();
    let answer: CommitReply = Box::new(move |answer| {
        assert_eq!(std::thread::current().id(), caller);
        drop(result_sender.send((0, answer)));
    });
    writer.submit_inline(tick("r", 0, vec![0]), answer);
    assert!(matches!(answers.try_recv(), Ok((0, Ok(BatchVerdict::Committed)))), "answered before it returns");
    assert_eq!(gate.group(), 1);

    writer.submit(tick("r", 1, vec![0]), reply(1, &sender));
    assert_eq!(gate.group(), 1);
    writer.submit_inline(tick("r", 2, vec![0]), reply(2, &sender));
    assert!(answers.try_recv().is_err(), "another thread is committing: handed over, not blocked");
    gate.open();
    gate.open();
    let order: Vec<u64> = collect(&answers, 2).iter().map(|(number, _)| *number).collect();
    assert_eq!(order, [1, 2]);
}

#[test]
fn a_reply_may_submit_again() {
    let store = Arc::new(MemoryStore::new());
    store.append(vec![creation("r")]).expect("append");
    let limits = WriterLimits { max_queue_batches: 1, ..WriterLimits::default() };
    let writer = Arc::new(GroupWriter::with_limits(store.clone(), limits, None).expect("a writer"));
    let (sender, answers) = mpsc::channel();
    let (again, result_sender) = (writer.clone(), sender.clone());
    let chain: CommitReply = Box::new(move |_| {
        for number in [1, 2, 3] {
            again.submit(tick("r", number, vec![0]), reply(number, &result_sender));
        }
    });
    writer.submit_inline(tick("r", 0, vec![0]), chain);
    assert!(collect(&answers, 3).iter().all(|(_, answer)| matches!(answer, Ok(BatchVerdict::Committed))));
}

#[test]
fn dropping_the_writer_commits_what_was_submitted() {
    let store = Arc::new(MemoryStore::new());
    store.append(vec![creation("r")]).expect("append");
    let writer = GroupWriter::new(store.clone()).expect("a writer");
    let (sender, answers) = mpsc::channel();
    for number in 0..100 {
        writer.submit(tick("r", number, vec![0]), reply(number, &sender));
    }
    drop(writer);
    assert_eq!(answers.try_iter().count(), 100, "all are answered when the drop returns");
    assert_eq!(store.run("r").expect("read").expect("a run").ticks, 100);
}

#[test]
fn a_panic_in_the_store_answers_every_caller() {
    let gate = Gate::new();
    let writer = GroupWriter::new(gate.store.clone()).expect("a writer");
    let (sender, answers) = mpsc::channel();
    writer.submit(tick("r", 0, vec![0]), reply(0, &sender));
    assert_eq!(gate.group(), 1);
    writer.submit(tick("r", 1, vec![0]), reply(1, &sender));
    gate.store.panics.store(true, Ordering::Relaxed);
    gate.open();
    let answered = collect(&answers, 2);
    writer.submit(tick("r", 2, vec![0]), reply(2, &sender));
    writer.submit_inline(tick("r", 3, vec![0]), reply(3, &sender));
    for (number, answer) in answered.into_iter().chain(collect(&answers, 2)) {
        assert_eq!(answer.expect_err("the outcome is unknown").kind, StoreErrorKind::Stopped, "{number}");
    }
}

#[test]
fn an_error_reaches_the_whole_group_and_a_panicking_reply_affects_no_other() {
    let store = Arc::new(MemoryStore::new());
    store.append(vec![creation("r")]).expect("append");
    store.fail_next(Fault::Full);
    let writer = GroupWriter::new(store.clone()).expect("a writer");
    let (sender, answers) = mpsc::channel();
    let both = vec![(tick("r", 0, vec![0]), reply(0, &sender)), (tick("r", 1, vec![0]), reply(1, &sender))];
    writer.submit_many(both);
    for (_, answer) in collect(&answers, 2) {
        assert_eq!(answer.expect_err("full").kind, StoreErrorKind::Full);
    }
    let rude: CommitReply = Box::new(|_| panic!("a reply that panics"));
    writer.submit_many(vec![(tick("r", 0, vec![0]), rude), (tick("r", 1, vec![0]), reply(1, &sender))]);
    assert!(matches!(collect(&answers, 1)[0], (1, Ok(BatchVerdict::Committed))));
}

#[test]
fn the_hook_sees_every_commit_before_and_after() {
    let store = Arc::new(MemoryStore::new());
    store.append(vec![creation("r")]).expect("append");
    let (seen, points) = mpsc::channel();
    let looking = store.clone();
    let hook = Box::new(move |point| seen.send((point, looking.syncs())).expect("the test listens"));
    let writer = GroupWriter::with_limits(store, WriterLimits::default(), Some(hook)).expect("a writer");
    let (sender, answers) = mpsc::channel();
    for number in 0..3 {
        writer.submit_inline(tick("r", number, vec![0]), reply(number, &sender));
    }
    assert_eq!(collect(&answers, 3).len(), 3);
    let seen: Vec<_> = points.try_iter().map(|(point, syncs)| (point.number, point.when, syncs)).collect();
    use CommitMoment::{After, Before};
    let expected = [(1, Before, 1), (1, After, 2), (2, Before, 2), (2, After, 3), (3, Before, 3), (3, After, 4)];
    assert_eq!(seen, expected, "with the sync in between");
}
