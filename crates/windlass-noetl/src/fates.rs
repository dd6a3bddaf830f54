//! Keys that a place may have, and what becomes of each: one table for each place.

use windlass_dialect::Findings;
use windlass_syntax::Object;

use crate::codes;
use crate::compiler::Compiler;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// Read before the rest is settled.
    Works,
    /// Understood, and does nothing here: why, or what does.
    NoEffect(&'static str),
    /// Not there: what to write instead.
    Refused(&'static str),
}

pub(crate) type Table = [(&'static str, Fate)];

/// `spec` of a step.
pub(crate) const STEP_SPEC: [(&str, Fate); 5] = [
    ("next_mode", Fate::Works),
    ("timeout", Fate::Works),
    ("join", Fate::Works),
    ("policy", Fate::Works),
    ("lease", Fate::NoEffect("leases are the engine's affair: windlass.toml has them")),
];

/// `spec.policy` of a step.
pub(crate) const STEP_POLICY: [(&str, Fate); 4] = [
    ("admit", Fate::Works),
    ("lifecycle", Fate::NoEffect("`spec.timeout` says how long a step may take")),
    ("failure", Fate::NoEffect("a failed step takes an arc whose `when` matches, else the run fails")),
    ("emit", Fate::NoEffect("every event is told")),
];

/// `spec` of a task.
pub(crate) const TASK_SPEC: [(&str, Fate); 8] = [
    ("timeout", Fate::Works),
    ("policy", Fate::Works),
    ("retry", Fate::Works),
    ("pool", Fate::NoEffect("connections are pooled for each credential, as they are needed")),
    ("concurrency", Fate::NoEffect("`max_in_flight` of the loop bounds how many run at once")),
    ("sandbox", Fate::NoEffect("programs get PATH, HOME and LANG of the environment, nothing else")),
    ("resources", Fate::NoEffect("programs are bounded by their time: `timeout`")),
    ("hints", Fate::NoEffect("any worker may run the task")),
];

/// `spec` of a loop.
pub(crate) const LOOP_SPEC: [(&str, Fate); 4] = [
    ("mode", Fate::Works),
    ("max_in_flight", Fate::Works),
    ("policy", Fate::NoEffect("where a turn runs is the engine's affair")),
    (
        "frame",
        Fate::Refused("it belongs to cursor loops: read the rows in a step before, and loop over them with `in`"),
    ),
];

/// `spec` of a loop with a condition.
pub(crate) const WHILE_SPEC: [(&str, Fate); 4] = [
    ("mode", Fate::Works),
    ("max_iterations", Fate::Works),
    ("max_in_flight", Fate::NoEffect("the turns of a `while` run one after the other")),
    ("policy", Fate::NoEffect("where a turn runs is the engine's affair")),
];

/// `spec` of `next`.
pub(crate) const NEXT_SPEC: [(&str, Fate); 3] = [
    ("mode", Fate::Works),
    ("on_no_match", Fate::Works),
    ("policy", Fate::NoEffect("arcs are looked at in their order")),
];

/// `spec` of an arc.
pub(crate) const ARC_SPEC: [(&str, Fate); 4] = [
    ("mode", Fate::Refused("`next.spec.mode`, or `spec.next_mode` of the step, says how many arcs fire")),
    ("priority", Fate::NoEffect("arcs are looked at in their order")),
    ("policy", Fate::NoEffect("arcs are looked at in their order")),
    ("delay", Fate::Refused("let the step that it leads to wait")),
];

/// `executor.spec`.
pub(crate) const EXECUTOR_SPEC: [(&str, Fate); 4] = [
    ("entry_step", Fate::Works),
    ("final_step", Fate::NoEffect("a run ends when no token is left")),
    ("no_next_is_error", Fate::NoEffect("a step without `next` ends its token")),
    ("policy", Fate::NoEffect("limits are in windlass.toml")),
];

/// Says what becomes of every key that was not taken.
pub(crate) fn settle(compiler: &mut Compiler, mut object: Object, table: &Table, what: &str) {
    for (name, fate) in table {
        if object.peek(name).is_none() {
            continue;
        }
        let Some((key, _)) = object.take_entry(name) else { continue };
        match fate {
            Fate::Works => {}
            Fate::NoEffect(hint) => {
                compiler.no_effect(key.span, format!("`{name}` of {what} has no effect"), *hint);
            }
            Fate::Refused(hint) => {
                compiler.error(codes::NOT_SUPPORTED, key.span, format!("`{name}` of {what} is not supported"), *hint);
            }
        }
    }
    let names: Vec<&'static str> = table.iter().map(|(name, _)| *name).collect();
    object.also_known(&names);
    object.finish(codes::UNKNOWN_KEY, what, &mut compiler.diagnostics);
}
