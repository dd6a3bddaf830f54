//! Decides whose rules a run has. A definition registered with a server comes from a client with a token, not from
//! the user at this terminal: its runs get the server's rules, and those of the terminal only with `--trusted`.

use windlass_runtime::RunOptions;
use windlass_server::catalog::PLAN;
use windlass_store::{RunRow, RunStatus, Store};

use crate::args::GlobalArgs;
use crate::failure::CliFailure;
use crate::{hints, stores};

/// Returns whether a run, or one that it derives from by calls, restarts and retries, is of a definition registered
/// with a server.
pub(crate) fn is_server_run(store: &dyn Store, row: &RunRow) -> Result<bool, CliFailure> {
    let mut row = row.clone();
    loop {
        if store.record(PLAN, &row.plan.to_string())?.is_some() {
            return Ok(true);
        }
        let options = RunOptions::from_row(&row)?;
        let before = row.parent.or(options.from.map(|from| from.run));
        row = match before.map(|run| store.run(&run)).transpose()?.flatten() {
            // A run is newer than the one that it derives from. Rows that form a circle prove nothing.
            Some(before) if before.number >= row.number => return Ok(true),
            Some(before) => before,
            None => return Ok(false),
        };
    }
}

/// Returns the error for a `resume`, `retry` or `restart` of a server's run in this process.
pub(crate) fn refusal(global: &GlobalArgs, row: &RunRow, operation: &str) -> CliFailure {
    let (run, definition) = (&row.run, &row.definition);
    let why = format!(
        "`{run}` is a run of `{definition}`, which is registered with a server: here it would get the rights of this terminal \
         instead of the server's rules"
    );
    let there = match operation == "resume" && !needs_explicit_resume(row) {
        true if stores::server_address(global, row).is_none() => {
            format!("`{}` resumes it", hints::server_command(global))
        }
        _ => server_call(global, row, operation),
    };
    CliFailure::usage(why).hint(format!("{there}; --trusted gives it the rights of this terminal"))
}

/// Returns how to make a server retry, restart or resume its run while none is running.
fn server_call(global: &GlobalArgs, row: &RunRow, operation: &str) -> String {
    let again = format!("{operation} {}", row.run);
    format!("start `{}`, then `{}`", hints::server_command(global), hints::command(global, &again))
}

/// Returns whether a server leaves the run alone until a client resumes it.
pub(crate) fn needs_explicit_resume(row: &RunRow) -> bool {
    matches!(row.status, RunStatus::Paused | RunStatus::Quarantined)
}
