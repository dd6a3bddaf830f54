//! Whose rules a run has. What is registered with a server was handed in by somebody who has a token, not by whoever sits at
//! this terminal: it gets the server's rules, and those of the terminal only if that is said.

use windlass_runtime::RunOptions;
use windlass_server::catalog::PLAN;
use windlass_store::{RunRow, RunStatus, Store};

use crate::args::GlobalArgs;
use crate::failure::CliFailure;
use crate::stores;

/// Whether a run, or one that it comes from by calls, restarts and retries, is of a definition that a server has.
pub(crate) fn is_server_run(store: &dyn Store, row: &RunRow) -> Result<bool, CliFailure> {
    let mut row = row.clone();
    loop {
        if store.record(PLAN, &row.plan.to_string())?.is_some() {
            return Ok(true);
        }
        let options = RunOptions::from_row(&row)?;
        let before = row.parent.or(options.from.map(|from| from.run));
        row = match before.map(|run| store.run(&run)).transpose()?.flatten() {
            Some(before) => before,
            None => return Ok(false),
        };
    }
}

/// Why a run of a server is not `resume`d, `retry`ed or `restart`ed here.
pub(crate) fn refusal(global: &GlobalArgs, row: &RunRow, operation: &str) -> CliFailure {
    let (run, definition) = (&row.run, &row.definition);
    let why = format!(
        "`{run}` is a run of `{definition}`, which is registered with a server: here it would get the rights of this terminal \
         in place of the server's rules"
    );
    let call = format!("/api/v1/runs/{run}/{operation}");
    let serve = stores::command(global, "serve");
    let there = match stores::server_address(global, row) {
        Some(address) => format!("POST {address}{call}"),
        None if operation == "resume" && !needs_explicit_resume(row) => format!("`{serve}` goes on with it"),
        None => format!("start `{serve}`, then POST {call}"),
    };
    CliFailure::usage(why).hint(format!("{there}; --trusted gives it the rights of this terminal"))
}

/// A server leaves it alone until somebody wants it to go on.
pub(crate) fn needs_explicit_resume(row: &RunRow) -> bool {
    matches!(row.status, RunStatus::Paused | RunStatus::Quarantined)
}
