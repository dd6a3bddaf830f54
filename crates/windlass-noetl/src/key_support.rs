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
    ("lease", KeySupport::NoEffect("leases are configured in windlass.toml")),
];

/// `spec.policy` of a step.
pub(crate) const STEP_POLICY: [(&str, KeySupport); 4] = [
    ("admit", KeySupport::Supported),
    ("lifecycle", KeySupport::NoEffect("`spec.timeout` limits the duration of a step")),
    ("failure", KeySupport::NoEffect("a failed step takes an arc that looks at the failure, else the run fails")),
    ("emit", KeySupport::NoEffect("every event is published")),
];

/// `spec` of a task.
pub(crate) const TASK_SPEC: [(&str, KeySupport); 8] = [
    ("timeout", KeySupport::Supported),
    ("policy", KeySupport::Supported),
    ("retry", KeySupport::Supported),
    ("pool", KeySupport::NoEffect("connections are pooled per credential, on demand")),
    ("concurrency", KeySupport::NoEffect("`max_in_flight` of the loop limits the concurrency")),
    ("sandbox", KeySupport::NoEffect("programs get PATH, HOME and LANG of the environment, nothing else")),
    ("resources", KeySupport::NoEffect("programs are limited by `timeout`")),
    ("hints", KeySupport::NoEffect("any worker may run the task")),
];

/// `spec` of a loop.
pub(crate) const LOOP_SPEC: [(&str, KeySupport); 4] = [
    ("mode", KeySupport::Supported),
    ("max_in_flight", KeySupport::Supported),
    ("policy", KeySupport::NoEffect("the engine decides where an iteration runs")),
    (
        "frame",
        KeySupport::Unsupported(
            "it belongs to cursor loops: read the rows in an earlier step, and loop over them with `in`",
        ),
    ),
];

/// `spec` of a loop with a condition.
pub(crate) const WHILE_SPEC: [(&str, KeySupport); 4] = [
    ("mode", KeySupport::Supported),
    ("max_iterations", KeySupport::Supported),
    ("max_in_flight", KeySupport::NoEffect("the iterations of a `while` run sequentially")),
    ("policy", KeySupport::NoEffect("the engine decides where an iteration runs")),
];

/// `spec` of `next`.
pub(crate) const NEXT_SPEC: [(&str, KeySupport); 3] = [
    ("mode", KeySupport::Supported),
    ("on_no_match", KeySupport::Supported),
    ("policy", KeySupport::NoEffect("arcs are evaluated in file order")),
];

/// `spec` of an arc.
pub(crate) const ARC_SPEC: [(&str, KeySupport); 5] = [
    ("on", KeySupport::Supported),
    ("mode", KeySupport::Unsupported("`next.spec.mode`, or `spec.next_mode` of the step, sets how many arcs fire")),
    ("priority", KeySupport::NoEffect("arcs are evaluated in file order")),
    ("policy", KeySupport::NoEffect("arcs are evaluated in file order")),
    ("delay", KeySupport::Unsupported("put the delay into the target step")),
];

/// `executor.spec`.
pub(crate) const EXECUTOR_SPEC: [(&str, KeySupport); 4] = [
    ("entry_step", KeySupport::Supported),
    ("final_step", KeySupport::NoEffect("a run ends when no token is left")),
    ("no_next_is_error", KeySupport::NoEffect("a step without `next` ends its token")),
    ("policy", KeySupport::NoEffect("limits are configured in windlass.toml")),
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
