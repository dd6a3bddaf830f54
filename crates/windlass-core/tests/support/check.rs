//! Invariants of every state between two ticks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::State;
use windlass_core::plan::{CALLS, Net, NodeKind};
use windlass_core::state::{
    AgendaItem, Frame, FrameBody, FrameId, NetFrame, PendingWait, Phase, ScopeId, SlotState, Timer, WaitFrame,
};
use windlass_core::{Program, frame_tree};
use windlass_value::Value;

use super::Sim;
use super::observed_event::ObservedEvent;

pub(crate) fn check_state(program: &Program, state: &State) {
    state.check(program).expect("the state is one that can be");
    check_frames(program, state);
    check_timers(state);
    check_jobs(state);
    check_indexes(state);
    check_reserved(state);
    check_mail(program, state);
    check_scopes(state);
    check_concurrency_limits(program, state);
    if state.result().is_some() {
        check_nothing_left(state);
    }
    frame_tree(program, state);
}

/// The history of every loop that has published its end has each of its iterations once, its failures included.
pub(crate) fn check_every_iteration_is_recorded(sim: &Sim) {
    let number = |event: &ObservedEvent, name: &str| event.data.get(name).and_then(Value::as_int).unwrap_or(0);
    let mut ended: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for event in sim.events_of("loop.done") {
        let (iterations, unjudged) = ended.entry(&event.path).or_default();
        *iterations += number(event, "iterations");
        *unjudged += number(event, "unjudged");
    }
    let mut recorded: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for one in &sim.iterations {
        assert!(seen.insert((&one.loop_path, one.index)), "`{}` has iteration {} twice", one.loop_path, one.index);
        let path = one.loop_path.split('~').next().unwrap_or_default();
        let (iterations, unjudged) = recorded.entry(path).or_default();
        *iterations += 1;
        *unjudged += i64::from(one.verdict.as_ref().is_some_and(|verdict| verdict.done.is_none()));
    }
    for (path, counts) in ended {
        assert_eq!(recorded.get(path).copied().unwrap_or_default(), counts, "`{path}`: history and end");
    }
}

fn frame(state: &State, id: FrameId) -> &Frame {
    state.frames.get(id).expect("a referenced frame exists")
}

/// Every child has its parent, and every parent counts its children: live ones and those whose end is on the agenda.
fn check_frames(program: &Program, state: &State) {
    let mut live: BTreeMap<FrameId, u32> = BTreeMap::new();
    for (id, child) in state.frames.iter() {
        match child.parent {
            Some(parent) => *live.entry(parent).or_default() += 1,
            None => assert_eq!(state.root, Some(id), "only the root has no parent"),
        }
    }
    for item in &state.agenda {
        if let AgendaItem::ChildEnded { parent, .. } = item {
            *live.entry(*parent).or_default() += 1;
        }
    }
    for (id, frame) in state.frames.iter() {
        let name = &program.node(frame.node).name;
        assert_eq!(frame.live, live.remove(&id).unwrap_or(0), "`{name}` counts its children");
        for child in inner(&frame.body) {
            assert!(state.frames.get(child).is_none_or(|child| child.parent == Some(id)), "`{name}` owns its children");
        }
    }
    assert!(live.is_empty(), "a child has outlived its parent: {live:?}");
}

fn inner(body: &FrameBody) -> Vec<FrameId> {
    match body {
        FrameBody::Graph(graph) => graph.children.iter().filter_map(|child| child.frame).collect(),
        FrameBody::Branch { child } => vec![*child],
        FrameBody::Loop(body) => body.iterations.values().map(|live| live.frame()).collect(),
        FrameBody::Net(net) => net.firings.values().map(|firing| firing.frame).collect(),
        FrameBody::Pipeline(pipeline) => pipeline.child.into_iter().collect(),
        FrameBody::New | FrameBody::Backoff | FrameBody::Wait(_) | FrameBody::Call { .. } => Vec::new(),
    }
}

/// Every timer belongs to an owner that refers to it, and vice versa.
fn check_timers(state: &State) {
    for (key, timer) in &state.timers {
        let known = match timer {
            Timer::Deadline(id) => frame(state, *id).deadline == Some(*key),
            Timer::Alarm(id) => frame(state, *id).alarm == Some(*key),
            Timer::LoopTime(id) => {
                matches!(&frame(state, *id).body, FrameBody::Loop(body) if body.time_key == Some(*key))
            }
            Timer::Grace(job) => state.jobs[job].cancelled == Some(*key),
            Timer::Budget(id) => frame(state, *id).account.as_ref().is_some_and(|account| account.time == Some(*key)),
            Timer::Run => true,
        };
        assert!(known, "an orphaned timer: {timer:?}");
    }
    for (_, frame) in state.frames.iter() {
        let budget = frame.account.as_ref().and_then(|account| account.time);
        for key in [frame.deadline, frame.alarm, budget].into_iter().flatten() {
            assert!(state.timers.contains_key(&key), "a frame waits for a timer that does not exist");
        }
    }
}

/// Worker numbers are unique, and none is lost.
fn check_jobs(state: &State) {
    let mut workers = state.free_workers.clone();
    for (number, open) in &state.jobs {
        assert!(workers.insert(open.job.worker), "worker {} has two jobs", open.job.worker);
        let holds = matches!(&frame(state, open.frame).body, FrameBody::Pipeline(body) if body.job == Some(*number));
        assert_eq!(open.job.job, *number, "a job is stored under its own number");
        assert!(holds, "job {number} belongs to a pipeline that waits for it");
    }
    for (_, frame) in state.frames.iter() {
        if let FrameBody::Pipeline(body) = &frame.body {
            assert!(body.job.is_none() || body.returned_lease.is_none(), "a lease is held or given back");
            assert!(body.job.is_none_or(|job| state.jobs.contains_key(&job)), "a job that does not exist");
        }
    }
    assert_eq!(workers, (0..state.workers).collect::<BTreeSet<u32>>(), "every worker number is used or free");
}

fn check_indexes(state: &State) {
    for (name, waiting) in &state.waits {
        assert!(!waiting.is_empty(), "a name without a wait");
        for id in waiting {
            let waits = match &frame(state, *id).body {
                FrameBody::Wait(WaitFrame::Signal { name: own, .. }) => own == name,
                FrameBody::Pipeline(body) => {
                    matches!(body.pending_wait.as_deref(), Some(PendingWait::Event { name: own, .. }) if own == name)
                }
                _ => false,
            };
            assert!(waits, "`{name}` is waited for by something else");
        }
    }
    let asks = |body: &FrameBody| matches!(body, FrameBody::Wait(WaitFrame::Signal { form: Some(_), .. }));
    assert!(state.forms.open.iter().all(|id| asks(&frame(state, *id).body)), "a form of something else");
    let waiting: BTreeSet<_> = state.waits.values().flatten().copied().collect();
    let lost = |id: &&FrameId| asks(&frame(state, **id).body) && !state.forms.open.contains(*id);
    assert_eq!(waiting.iter().find(lost), None, "a form that is lost");
    assert!(state.signals.values().all(|kept| !kept.is_empty()), "an empty queue of signals is stored");
    for (call, open) in &state.calls {
        let own = match &frame(state, open.frame).body {
            FrameBody::Call { call } => Some(*call),
            FrameBody::Pipeline(body) => match body.pending_wait.as_deref() {
                Some(PendingWait::Child { call }) => Some(*call),
                _ => None,
            },
            _ => None,
        };
        assert_eq!(own, Some(*call), "a call without a waiting frame");
    }
    let nets: BTreeSet<FrameId> = state.nets.iter().copied().collect();
    assert_eq!(nets.len(), state.nets.len(), "a net is listed twice");
    assert!(state.nets.iter().all(|id| matches!(frame(state, *id).body, FrameBody::Net(_))), "not a net");
}

/// The reserved amount of a budget equals the reservations of the jobs inside.
fn check_reserved(state: &State) {
    let mut reservations: BTreeMap<(FrameId, Arc<str>), u64> = BTreeMap::new();
    for open in state.jobs.values() {
        let mut around = Some(open.frame);
        while let Some(id) = around {
            for (what, amount) in &open.reserved {
                *reservations.entry((id, what.clone())).or_default() += amount;
            }
            around = frame(state, id).parent;
        }
    }
    for (id, frame) in state.frames.iter() {
        let own = frame.account.iter().flat_map(|account| &account.budget);
        let of_loop = if let FrameBody::Loop(body) = &frame.body { body.budget.as_slice() } else { &[] };
        for budget in own.chain(of_loop) {
            let reserved = reservations.get(&(id, budget.what.clone())).copied().unwrap_or(0);
            let counted = if &*budget.what == CALLS { 0 } else { reserved };
            assert_eq!(budget.reserved, counted, "`{}` is reserved without a job", budget.what);
        }
    }
    assert!(
        state.waiting_for_budget.iter().all(|id| state.frames.get(*id).is_some()),
        "a frame that has ended waits for a budget"
    );
    assert!(
        state.waiting_for_budget.is_empty()
            || state.budget_freed
            || state.jobs.values().any(|open| !open.reserved.is_empty()),
        "it waits for ever"
    );
}

/// Every mailbox belongs to a live node and is found under its address; every mail wait is known to its target.
fn check_mail(program: &Program, state: &State) {
    let mail = &state.mail;
    let owners: BTreeSet<FrameId> =
        state.frames.iter().filter(|(_, frame)| program.node(frame.node).mailbox.is_some()).map(|(id, _)| id).collect();
    assert_eq!(owners, mail.boxes.keys().copied().collect(), "the owners of mailboxes");
    for index in [&mail.by_address, &mail.by_end] {
        assert!(index.values().all(|ids| !ids.is_empty()), "an address without an owner");
        let listed: Vec<FrameId> = index.values().flatten().copied().collect();
        assert_eq!(listed.len(), owners.len(), "each once");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), owners, "each is found");
    }
    let waits: BTreeMap<u64, FrameId> =
        mail.waiting_for_idle.iter().chain(&mail.blocked).map(|(at, id)| (*at, *id)).collect();
    assert_eq!(waits.len(), mail.waiting_for_idle.len() + mail.blocked.len(), "a wait does one thing");
    for (number, id) in &waits {
        let FrameBody::Wait(WaitFrame::Mail(wait)) = &frame(state, *id).body else { panic!("not a mail wait") };
        assert_eq!((wait.number, wait.idle_target.is_some()), (*number, mail.waiting_for_idle.contains_key(number)));
        let open = &mail.boxes[&wait.idle_target.unwrap_or(wait.owner)];
        let known = if wait.idle_target.is_some() { &open.idle_waiters } else { &open.readers };
        assert_eq!(known.iter().filter(|other| *other == id).count(), 1, "the target of a wait lists it once");
    }
    let known = mail.boxes.values().map(|open| open.readers.len() + open.idle_waiters.len()).sum::<usize>();
    assert_eq!(known, waits.len(), "no other wait is listed");
    for open in mail.boxes.values() {
        assert!(
            open.readers.is_empty() || open.waiting.is_empty() || state.paused,
            "no reader waits for mail that has arrived"
        );
        assert!(!open.is_idle() || open.idle_waiters.is_empty(), "no frame waits for an idle owner to become idle");
    }
    assert!(mail.ready.is_empty() || state.paused, "delivered mail is handed out");
    assert!(mail.early.values().all(|early| !early.is_empty()), "no empty list of early mail");
    let begun = |node| state.frames.iter().any(|(_, frame)| frame.node == node);
    assert!(!mail.early.keys().any(|node| begun(*node)), "a node that has begun has its mail");
}

/// Between ticks with no further tick pending, every node that waits for mail may still get some.
pub(crate) fn check_mail_may_come(state: &State) {
    let moves = state.moves_by_itself() || !state.agenda.is_empty() || state.paused;
    let outside = !state.waits.is_empty() || !state.nets.is_empty();
    assert!(state.mail.blocked.is_empty() || moves || outside, "a reader waits for mail that cannot arrive");
}

/// Every scope has an owner.
fn check_scopes(state: &State) {
    let from_items = state.agenda.iter().filter_map(|item| match item {
        AgendaItem::ChildEnded { scope, .. } => Some(*scope),
        _ => None,
    });
    let mut reached: BTreeSet<ScopeId> = BTreeSet::new();
    let starts = state.frames.iter().map(|(_, frame)| frame.scope).chain(from_items).chain([state.root_scope]);
    for start in starts {
        let mut next = Some(start);
        while let Some(id) = next.filter(|id| reached.insert(*id)) {
            next = state.scopes.get(id).expect("a referenced scope exists").parent;
        }
    }
    assert_eq!(reached.len(), state.scopes.len(), "an unreferenced scope");
}

/// Concurrency limits are exact: iterations of a loop, children of a graph, bodies of a place.
fn check_concurrency_limits(program: &Program, state: &State) {
    let mut busy: BTreeMap<FrameId, BTreeSet<u64>> = BTreeMap::new();
    for open in state.jobs.values() {
        let mut below = frame(state, open.frame);
        while let Some(above) = below.parent {
            busy.entry(above).or_default().insert(below.slot);
            below = frame(state, above);
        }
    }
    for (id, frame) in state.frames.iter() {
        let busy = busy.get(&id).map_or(0, |slots| slots.len() as u64);
        match (&program.node(frame.node).kind, &frame.body) {
            (NodeKind::Loop(_), FrameBody::Loop(body)) => {
                assert!(
                    body.iterations.len() as u64 <= body.max_concurrency,
                    "more concurrent iterations than allowed"
                );
                assert!(busy <= body.max_concurrency, "jobs of more concurrent iterations than allowed");
                let calls = body.budget.iter().find(|budget| &*budget.what == CALLS);
                assert!(calls.is_none_or(|calls| calls.used <= calls.max), "more calls than the budget allows");
            }
            (NodeKind::Graph(graph), FrameBody::Graph(body)) => {
                let limit = graph.max_concurrency.map_or(u64::MAX, u64::from).max(1);
                assert!(u64::from(body.running) <= limit && busy <= limit, "more concurrent children than allowed");
            }
            (NodeKind::Net(net), FrameBody::Net(body)) if frame.closing.is_none() => {
                check_places(net, body);
                check_fan_outs(body);
                check_activations(body);
            }
            _ => {}
        }
    }
}

/// Slots are counted, slot numbers are unique, and every body that awaits a slot is listed.
fn check_places(net: &Net, body: &NetFrame) {
    for (at, (place, state)) in net.places.iter().zip(&body.places).enumerate() {
        let here = |slot_state: SlotState| {
            let firings = body.firings.iter().filter(move |(_, firing)| firing.place as usize == at);
            firings.filter(move |(_, firing)| firing.slot_state == slot_state)
        };
        let running = here(SlotState::Running).count() as u32;
        assert!(running <= place.max_concurrency.max(1), "more concurrent bodies than the place has workers");
        assert_eq!(running, state.running, "a place counts its bodies");
        let awaiting_slot: BTreeSet<u64> = here(SlotState::AwaitingSlot).map(|(slot, _)| *slot).collect();
        assert_eq!(
            awaiting_slot,
            state.awaiting_slot.iter().copied().collect(),
            "a body that waits to resume is queued"
        );
        assert_eq!(awaiting_slot.len(), state.awaiting_slot.len(), "and only once");
        let numbers: BTreeSet<u32> = here(SlotState::Running).filter_map(|(_, firing)| firing.worker).collect();
        assert_eq!(
            numbers.len(),
            if net.publishes_slots { running as usize } else { 0 },
            "each has a number of its own"
        );
        let known: BTreeSet<u32> = numbers.union(&state.free).copied().collect();
        let count = (numbers.len() + state.free.len()) as u32;
        assert_eq!(known, (0..count).collect(), "numbers are used, or free");
        let mut parked = here(SlotState::Suspended).chain(here(SlotState::AwaitingSlot));
        assert!(
            parked.all(|(_, firing)| place.yields_slot && firing.worker.is_none()),
            "only some places let bodies yield their slot"
        );
        assert!(state.sets.values().all(|set| set.iter().any(|held| !held.is_empty())), "an empty set is stored");
        assert!(state.sets.values().all(|set| set.iter().any(|held| held.is_empty())), "a complete set is stored");
    }
}

/// The open work of a fan-out matches a recount.
fn check_fan_outs(body: &NetFrame) {
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    let queued = body.places.iter().flat_map(|place| {
        let held = place.held.iter().chain(place.sets.values().flatten()).flatten();
        place.queue.iter().chain(held).map(|token| &token.lineage)
    });
    let met = body.activations.values().flat_map(|met| met.held.values().flatten()).map(|token| &token.lineage);
    let firings = body.firings.values().map(|firing| &firing.lineage);
    for lineage in queued.chain(met).chain(firings).chain(body.fan_outs.values().map(|fan| &fan.parent)) {
        if let Some(fan) = lineage.last() {
            *open.entry(*fan).or_default() += 1;
        }
    }
    let counted: BTreeMap<u64, u64> = body.fan_outs.iter().map(|(fan, state)| (*fan, state.open)).collect();
    assert_eq!(counted, open, "a fan-out counts its work, and closes when there is none");
}

/// The counts of an activation match a recount, and one without tokens is gone.
fn check_activations(body: &NetFrame) {
    let queued = body.places.iter().flat_map(|place| &place.queue).map(|token| &token.regions);
    let held = body.activations.values().flat_map(|met| met.held.values().flatten()).map(|token| &token.regions);
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    for activation in queued.chain(held).chain(body.firings.values().map(|firing| &firing.regions)).flatten() {
        *live.entry(*activation.1).or_default() += 1;
    }
    let counted: BTreeMap<u64, u64> = body.activations.iter().map(|(number, met)| (*number, met.live)).collect();
    assert_eq!(counted, live, "an activation counts its tokens, and is over when there is none");
}

/// A run that has ended leaves nothing behind but its root scope.
pub(crate) fn check_nothing_left(state: &State) {
    assert!(matches!(state.phase, Phase::Ended(_)), "it has ended");
    assert_eq!(state.frames.len(), 0, "frames are left");
    assert_eq!(state.scopes.len(), 1, "scopes are left");
    assert!(state.timers.is_empty(), "timers are left: {:?}", state.timers);
    assert!(state.jobs.is_empty(), "jobs are left");
    assert!(state.calls.is_empty(), "calls are left");
    assert!(state.waits.is_empty(), "waits are left");
    assert!(state.nets.is_empty(), "nets are left");
    assert!(state.agenda.is_empty(), "work is left");
    assert!(state.mail.is_empty(), "mail is left: {:?}", state.mail);
}
