//! Supported, ineffective and unsupported keys of each object: one table per object.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::ObjectReader;

use crate::codes;
use crate::compiler::NoetlCompiler;

#[derive(Clone, Copy, Debug)]
pub(crate) enum KeySupport {
    /// Taken before the remaining keys are checked.
    Supported,
    /// Accepted without effect; the text says why, or which setting does have the effect.
    NoEffect(&'static str),
    /// Not supported; the text says what to write instead.
    Unsupported(&'static str),
}

pub(crate) type KeySupportTable = [(&'static str, KeySupport)];

/// `spec` of a step.
pub(crate) const STEP_SPEC: [(&str, KeySupport); 5] = [
    ("next_mode", KeySupport::Supported),
    ("timeout", KeySupport::Supported),
    ("join", KeySupport::Supported),
    ("policy", KeySupport::Supported),
    ("lease", KeySupport::NoEffect("leases are the engine's affair: windlass.toml has them")),
];

/// `spec.policy` of a step.
pub(crate) const STEP_POLICY: [(&str, KeySupport); 4] = [
    ("admit", KeySupport::Supported),
    ("lifecycle", KeySupport::NoEffect("`spec.timeout` says how long a step may take")),
    ("failure", KeySupport::NoEffect("a failed step takes an arc whose `when` matches, else the run fails")),
    ("emit", KeySupport::NoEffect("every event is told")),
];

/// `spec` of a task.
pub(crate) const TASK_SPEC: [(&str, KeySupport); 8] = [
    ("timeout", KeySupport::Supported),
    ("policy", KeySupport::Supported),
    ("retry", KeySupport::Supported),
    ("pool", KeySupport::NoEffect("connections are pooled for each credential, as they are needed")),
    ("concurrency", KeySupport::NoEffect("`max_in_flight` of the loop bounds how many run at once")),
    ("sandbox", KeySupport::NoEffect("programs get PATH, HOME and LANG of the environment, nothing else")),
    ("resources", KeySupport::NoEffect("programs are bounded by their time: `timeout`")),
    ("hints", KeySupport::NoEffect("any worker may run the task")),
];

/// `spec` of a loop.
pub(crate) const LOOP_SPEC: [(&str, KeySupport); 4] = [
    ("mode", KeySupport::Supported),
    ("max_in_flight", KeySupport::Supported),
    ("policy", KeySupport::NoEffect("where a turn runs is the engine's affair")),
    (
        "frame",
        KeySupport::Unsupported(
            "it belongs to cursor loops: read the rows in a step before, and loop over them with `in`",
        ),
    ),
];

/// `spec` of a loop with a condition.
pub(crate) const WHILE_SPEC: [(&str, KeySupport); 4] = [
    ("mode", KeySupport::Supported),
    ("max_iterations", KeySupport::Supported),
    ("max_in_flight", KeySupport::NoEffect("the turns of a `while` run one after the other")),
    ("policy", KeySupport::NoEffect("where a turn runs is the engine's affair")),
];

/// `spec` of `next`.
pub(crate) const NEXT_SPEC: [(&str, KeySupport); 3] = [
    ("mode", KeySupport::Supported),
    ("on_no_match", KeySupport::Supported),
    ("policy", KeySupport::NoEffect("arcs are looked at in their order")),
];

/// `spec` of an arc.
pub(crate) const ARC_SPEC: [(&str, KeySupport); 4] = [
    ("mode", KeySupport::Unsupported("`next.spec.mode`, or `spec.next_mode` of the step, says how many arcs fire")),
    ("priority", KeySupport::NoEffect("arcs are looked at in their order")),
    ("policy", KeySupport::NoEffect("arcs are looked at in their order")),
    ("delay", KeySupport::Unsupported("let the step that it leads to wait")),
];

/// `executor.spec`.
pub(crate) const EXECUTOR_SPEC: [(&str, KeySupport); 4] = [
    ("entry_step", KeySupport::Supported),
    ("final_step", KeySupport::NoEffect("a run ends when no token is left")),
    ("no_next_is_error", KeySupport::NoEffect("a step without `next` ends its token")),
    ("policy", KeySupport::NoEffect("limits are in windlass.toml")),
];

/// Reports every remaining key according to the table.
pub(crate) fn check_keys(compiler: &mut NoetlCompiler, mut object: ObjectReader, table: &KeySupportTable, what: &str) {
    for (name, support) in table {
        if object.peek(name).is_none() {
            continue;
        }
        let Some((key, _)) = object.take_entry(name) else { continue };
        match support {
            KeySupport::Supported => {}
            KeySupport::NoEffect(hint) => {
                compiler.no_effect(key.span, format!("`{name}` of {what} has no effect"), *hint);
            }
            KeySupport::Unsupported(hint) => {
                compiler.error(codes::NOT_SUPPORTED, key.span, format!("`{name}` of {what} is not supported"), *hint);
            }
        }
    }
    let names: Vec<&'static str> = table.iter().map(|(name, _)| *name).collect();
    object.add_known(&names);
    object.finish(codes::UNKNOWN_KEY, what, &mut compiler.diagnostics);
}
