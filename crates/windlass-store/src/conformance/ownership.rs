//! A run never has two owners, no matter which processes claim it and how many claim concurrently.

use std::sync::Barrier;

use windlass_value::Timestamp;

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, new_run, run_row, status, ticks};
use crate::{ClaimResult, RunBatch, RunStatus};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    sequential_claims(subject);
    previous_owners(subject);
    batched_claims(subject);
    concurrent_claims(subject);
}

fn sequential_claims(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let (first, second) = (store.open_owner().expect("an owner"), store.open_owner().expect("an owner"));
    assert_ne!(first.name, second.name, "owner names are never reused");
    assert!(store.owner_alive(&first.name).expect("alive"));
    let alive = |owner: &str| store.live_owners().expect("alive").iter().any(|name| name == owner);
    assert!(alive(&first.name) && alive(&second.name), "every live owner is listed");
    assert!(!store.owner_alive("missing").expect("alive"));
    assert!(!store.owner_alive("../windlass").expect("alive"), "a name is not a path");

    assert_eq!(store.claim("r", &first.name).expect("claim"), ClaimResult::NoSuchRun);
    commit(&store, vec![RunBatch { create: Some(new_run(Some(&first.name))), ..creation("r") }]);
    assert_eq!(run_row(&store, "r").owner.as_deref(), Some(&*first.name));
    assert_eq!(store.claim("r", &second.name).expect("claim"), ClaimResult::HeldBy(first.name.clone()));
    assert_eq!(run_row(&store, "r").owner_epoch, 1, "a refused claim changes nothing");
    assert_eq!(
        store.claim("r", &first.name).expect("claim"),
        ClaimResult::Owned { owner_epoch: 2 },
        "one may claim again"
    );

    let dead = first.name.clone();
    drop(first);
    assert!(!store.owner_alive(&dead).expect("alive"), "dropping the owner guard ends the owner's liveness");
    assert!(!alive(&dead) && alive(&second.name), "a dead owner is not listed");
    assert_eq!(store.claim("r", &second.name).expect("claim"), ClaimResult::Owned { owner_epoch: 3 });

    let end = RunBatch { owner_epoch: 3, status: Some(status(RunStatus::Succeeded, 9)), ..empty("r", 0) };
    commit(&store, vec![end]);
    assert_eq!(store.claim("r", &second.name).expect("claim"), ClaimResult::Ended);
}

/// The previous owner of a run is the one that wrote its newest tick, however often the run was claimed since. Its last
/// heartbeat outlives it.
fn previous_owners(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let [writer, idle, last] = [(); 3].map(|()| store.open_owner().expect("an owner"));
    let previous = || run_row(&store, "handed-on").previous_owner;
    commit(&store, vec![RunBatch { create: Some(new_run(Some(&writer.name))), ..creation("handed-on") }]);
    commit(&store, vec![ticks("handed-on", 0, 3)]);
    assert_eq!(previous(), None, "its first owner still has it");
    assert_eq!(store.last_heartbeat(&writer.name).expect("read"), None);
    for at in [5, 7] {
        writer.beat(Timestamp(at)).expect("written");
        assert_eq!(store.last_heartbeat(&writer.name).expect("read"), Some(Timestamp(at)));
    }
    let (dead, second) = (writer.name.clone(), idle.name.clone());
    drop(writer);
    store.claim("handed-on", &idle.name).expect("claim");
    assert_eq!(previous().as_ref(), Some(&dead));
    assert!(store.last_heartbeat(&dead).expect("read") >= Some(Timestamp(7)), "it outlives its owner");
    drop(idle);
    store.claim("handed-on", &last.name).expect("claim");
    assert_eq!(previous(), Some(dead), "the second owner has written nothing");
    commit(&store, vec![RunBatch { owner_epoch: 3, release: true, ..ticks("handed-on", 3, 1) }]);
    assert_eq!((previous(), run_row(&store, "handed-on").owner), (Some(last.name.clone()), None), "a release counts");
    assert_eq!(store.last_heartbeat(&second).expect("read"), None, "it never sent one");
}

/// Each run of a batched claim gets the result it would get if it were claimed alone.
fn batched_claims(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let (me, other) = (store.open_owner().expect("an owner"), store.open_owner().expect("an owner"));
    let ended = RunBatch { status: Some(status(RunStatus::Succeeded, 9)), ..creation("group-ended") };
    let held = RunBatch { create: Some(new_run(Some(&other.name))), ..creation("group-held") };
    commit(&store, vec![creation("group-free"), held, ended]);
    let runs = ["group-held", "group-none", "group-free", "group-ended"].map(std::sync::Arc::from);
    let claims = store.claim_all(&runs, &me.name).expect("claims");
    let expected = [
        ClaimResult::HeldBy(other.name.clone()),
        ClaimResult::NoSuchRun,
        ClaimResult::Owned { owner_epoch: 2 },
        ClaimResult::Ended,
    ];
    assert_eq!(claims, expected, "in the order of the request");
    assert_eq!(run_row(&store, "group-free").owner.as_deref(), Some(&*me.name));
    assert_eq!(run_row(&store, "group-held").owner_epoch, 1, "a refused claim changes nothing");
}

fn concurrent_claims(subject: &mut dyn ConformanceSubject) {
    const CLAIMERS: usize = 6;
    const ROUNDS: usize = 5;
    let store = subject.store();
    let start = Barrier::new(CLAIMERS);
    for round in 0..ROUNDS {
        let run = format!("contested-{round}");
        commit(&store, vec![creation(&run)]);
        let owners: Vec<_> = (0..CLAIMERS).map(|_| store.open_owner().expect("an owner")).collect();
        let claim = |owner: &str| {
            start.wait();
            store.claim(&run, owner).expect("claim")
        };
        let claims: Vec<ClaimResult> = std::thread::scope(|scope| {
            let threads: Vec<_> = owners.iter().map(|owner| scope.spawn(|| claim(&owner.name))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let won = claims.iter().filter(|claim| **claim == ClaimResult::Owned { owner_epoch: 2 }).count();
        let refused = claims.iter().filter(|claim| matches!(claim, ClaimResult::HeldBy(_))).count();
        assert_eq!((won, refused), (1, CLAIMERS - 1), "one wins, the others learn the winner: {claims:?}");
    }
}
