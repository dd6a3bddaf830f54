//! Plans that consist of one loop named `loop`, and helpers to inspect them.

use windlass_core::plan::*;
use windlass_core::{Limits, Program};

use super::world::echo;
use super::*;

pub(crate) fn ran(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, echo());
    sim.start().run();
    sim
}

/// Starts a run in which the test answers every job itself.
pub(crate) fn begun(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start().drain_buffer();
    sim
}

pub(crate) fn looped(make: impl FnOnce(&mut Builder, Option<NodeId>) -> Loop) -> Program {
    looped_with(Limits::default(), make)
}

pub(crate) fn looped_with(limits: Limits, make: impl FnOnce(&mut Builder, Option<NodeId>) -> Loop) -> Program {
    let mut b = Builder::new();
    b.looping(None, "loop", make);
    b.load_with(limits)
}

/// `loopIndex >= n`
pub(crate) fn completed(b: &mut Builder, n: i64) -> ExprId {
    b.condition(json(&format!(r#"{{"$not": {{"$lt": [{{"$iteration": "completed"}}, {n}]}}}}"#)))
}

pub(crate) fn range(b: &mut Builder, n: u64) -> ExprId {
    b.expr(&format!(r#"{{"$range": {n}}}"#))
}

pub(crate) fn jobs_at(n: u64) -> Vec<String> {
    (0..n).map(|index| format!("loop[{index}].body")).collect()
}

pub(crate) fn error_code(sim: &Sim) -> String {
    sim.result().error.as_ref().map(|error| error.code.to_string()).unwrap_or_default()
}
