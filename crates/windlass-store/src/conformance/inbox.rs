//! A message is accepted once per request id, waits in order, and is consumed with the ticks it caused.

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, message, new_run, status, ticks, unconsumed, verdict};
use crate::{BatchVerdict, ClaimResult, InboxVerdict, NewRun, RunBatch, RunStatus};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    accepted_once(subject);
    consumed_with_its_ticks(subject);
    sent_to_others(subject);
    closed_at_the_end(subject);
    cancelled(subject);
    remembered_without_a_message(subject);
}

fn accepted_once(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    assert_eq!(store.inbox_put(&message("r", "a")).expect("put"), InboxVerdict::NoSuchRun);
    commit(&store, vec![creation("r"), creation("s")]);
    assert_eq!(store.inbox_put(&message("r", "c")).expect("put"), InboxVerdict::Accepted { owner: None });
    let owner = store.open_owner().expect("an owner");
    assert_eq!(store.claim("r", &owner.name).expect("claim"), ClaimResult::Owned { owner_epoch: 2 });
    let owned = InboxVerdict::Accepted { owner: Some(owner.name.clone()) };
    assert_eq!(store.inbox_put(&message("r", "a")).expect("put"), owned, "names the owner to wake");
    drop(owner);
    assert_eq!(store.inbox_put(&message("r", "b")).expect("put"), InboxVerdict::Accepted { owner: None });

    assert_eq!(store.inbox_put(&message("r", "a")).expect("put"), InboxVerdict::Duplicate);
    assert_eq!(store.inbox_put(&message("s", "a")).expect("put"), InboxVerdict::Accepted { owner: None });
    assert_eq!(unconsumed(&store, "r"), ["c", "a", "b"], "in order of arrival");
    assert_eq!(store.inbox("r", 1).expect("read"), [message("r", "c")], "as it was sent, and no more than asked for");
    assert_eq!(store.with_inbox(9).expect("scan"), ["r", "s"]);
    assert_eq!(store.with_inbox(1).expect("scan"), ["r"]);
}

fn consumed_with_its_ticks(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let consume = |expected, ids: &[&str]| RunBatch {
        owner_epoch: 2,
        consumed: ids.iter().map(|id| (*id).into()).collect(),
        ..ticks("r", expected, 1)
    };
    assert_eq!(verdict(&store, consume(5, &["a"])), BatchVerdict::Conflict);
    assert_eq!(unconsumed(&store, "r"), ["c", "a", "b"], "a refused batch consumes nothing");
    commit(&store, vec![consume(0, &["a", "c"])]);
    assert_eq!(unconsumed(&store, "r"), ["b"]);
    assert_eq!(unconsumed(&store, "s"), ["a"], "the same id in another run is another message");
    assert_eq!(
        store.inbox_put(&message("r", "a")).expect("put"),
        InboxVerdict::Duplicate,
        "also after it was consumed"
    );
    assert_eq!(unconsumed(&store, "r"), ["b"]);

    assert_eq!(verdict(&store, consume(1, &["b", "a"])), BatchVerdict::Conflict, "a message is applied once");
    commit(&store, vec![consume(1, &["local"])]);
    let repeated = store.inbox_put(&message("r", "local")).expect("put");
    assert_eq!(repeated, InboxVerdict::Duplicate, "a request that never was in the inbox is remembered all the same");
}

fn sent_to_others(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let send = vec![message("child", "start"), message("s", "hello"), message("s", "a")];
    commit(&store, vec![RunBatch { owner_epoch: 2, send, ..ticks("r", 2, 1) }]);
    assert_eq!(unconsumed(&store, "s"), ["a", "hello"], "sent once, with the ticks of the sender");
    assert_eq!(unconsumed(&store, "child"), ["start"], "a run that is yet to be made has its start waiting");
    assert!(store.with_inbox(9).expect("scan").contains(&"child".to_owned()));
    commit(&store, vec![RunBatch { consumed: vec!["start".into()], ..creation("child") }]);
    assert!(unconsumed(&store, "child").is_empty(), "consumed by the batch that makes the run");
}

fn closed_at_the_end(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let end = RunBatch { status: Some(status(RunStatus::Cancelled, 7)), ..empty("s", 0) };
    commit(&store, vec![end]);
    assert_eq!(store.inbox_put(&message("s", "late")).expect("put"), InboxVerdict::Ended);
    assert_eq!(store.inbox_put(&message("s", "hello")).expect("put"), InboxVerdict::Duplicate);
    assert!(!store.with_inbox(9).expect("scan").contains(&"s".to_owned()), "a run that has ended needs no wake-up");
    commit(&store, vec![RunBatch { send: vec![message("s", "later")], ..ticks("child", 0, 1) }]);
    assert!(unconsumed(&store, "s").is_empty(), "what is sent to a run that has ended is dropped");
}

fn cancelled(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let guarded = |run: &str| {
        let create = Some(NewRun { cancel_request_id: Some("off".into()), ..new_run(None) });
        RunBatch { create, ..creation(run) }
    };
    commit(&store, vec![guarded("made")]);
    let cancellations = vec![message("made", "off"), message("unmade", "off"), message("s", "off")];
    commit(&store, vec![RunBatch { cancellations: cancellations.clone(), ..ticks("child", 1, 1) }]);
    commit(&store, vec![RunBatch { cancellations, ..ticks("child", 2, 1) }]);
    assert_eq!(unconsumed(&store, "made"), ["off"], "an existing run gets it, once");
    assert!(unconsumed(&store, "unmade").is_empty() && unconsumed(&store, "s").is_empty());
    assert!(!store.with_inbox(9).expect("scan").contains(&"unmade".to_owned()), "there is no run to wake");
    assert_eq!(verdict(&store, guarded("unmade")), BatchVerdict::Conflict, "and there never will be");
    assert!(store.run("unmade").expect("read").is_none());
    commit(&store, vec![creation("unmade")]);
}

fn remembered_without_a_message(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    store.note_request("not made", "n").expect("a write");
    assert!(!store.knows_request("not made", "n").expect("read"), "there is no such run");
    commit(&store, vec![creation("noted")]);
    assert!(!store.knows_request("noted", "n").expect("read"));
    for _ in 0..2 {
        store.note_request("noted", "n").expect("a write");
    }
    assert!(unconsumed(&store, "noted").is_empty(), "it is not delivered");
    assert_eq!(store.inbox_put(&message("noted", "n")).expect("put"), InboxVerdict::Duplicate);
    assert_eq!(store.inbox_put(&message("noted", "m")).expect("put"), InboxVerdict::Accepted { owner: None });
    store.note_request("noted", "m").expect("a write");
    assert_eq!(unconsumed(&store, "noted"), ["m"], "a waiting message stays");
    commit(&store, vec![RunBatch { status: Some(status(RunStatus::Succeeded, 9)), ..ticks("noted", 0, 1) }]);
    store.note_request("noted", "late").expect("a write");
    subject.crash();
    let store = subject.store();
    for id in ["n", "m", "late"] {
        assert!(store.knows_request("noted", id).expect("read"), "{id} is remembered when the run has ended");
    }
}
