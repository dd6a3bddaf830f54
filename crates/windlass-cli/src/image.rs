//! A run as the store has it, read without owning it: another process may be running it right now.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_core::{Limits, Program};
use windlass_expr::{agent, cel, jinja, steps, wdl};
use windlass_runtime::{FinalReport, RunImage, RunOptions, RuntimeError, codec};
use windlass_store::{RunRow, Store};
use windlass_value::{Language, Timestamp};

use crate::failure::Failure;
use crate::stores;

pub struct Seen {
    pub row: RunRow,
    pub program: Program,
    pub image: RunImage,
}

pub fn languages() -> Vec<Arc<dyn Language>> {
    let mut languages = wdl::languages();
    languages.push(Arc::new(jinja::Jinja));
    languages.push(Arc::new(steps::Steps));
    languages.push(Arc::new(cel::Cel));
    languages.push(Arc::new(agent::Agent));
    languages
}

pub fn program(store: &dyn Store, row: &RunRow, limits: &Limits) -> Result<Program, RuntimeError> {
    let plan = store.plan(&row.plan)?.ok_or_else(|| RuntimeError::MissingBlob(row.plan.to_string()))?;
    let plan: Plan = codec::decode(&plan.body, "a plan")?;
    let languages = languages();
    let languages: Vec<&dyn Language> = languages.iter().map(AsRef::as_ref).collect();
    Ok(Program::load(plan, &languages, limits.clone())?)
}

/// The newest state there is. Tried twice: between the snapshot and the ticks after it, the owner may have trimmed.
pub fn load(store: &dyn Store, wanted: &str, limits: &Limits) -> Result<Seen, Failure> {
    let row = stores::find(store, wanted)?;
    let program = program(store, &row, limits)?;
    let attempt = || windlass_runtime::load(store, &row.run, &program, row.created_at);
    let image = attempt().or_else(|_| attempt())?;
    // What has ended since the row was read shows in both or in neither.
    let row = store.run(&row.run)?.unwrap_or(row);
    Ok(Seen { row, program, image })
}

/// How a run ended, if it has.
pub fn report_of(row: &RunRow) -> Result<Option<FinalReport>, RuntimeError> {
    row.result.as_ref().map(|bytes| codec::decode(bytes, "the run's result")).transpose()
}

/// What time it is for this run: one with virtual time has its own.
pub fn now_of(row: &RunRow, newest: Timestamp) -> Timestamp {
    let how: Result<RunOptions, RuntimeError> = codec::decode(&row.options, "the run's options");
    match how {
        Ok(how) if how.virtual_time => newest,
        _ => windlass_runtime::real_now().max(newest),
    }
}

/// The owner, if it is alive.
pub fn live_owner(store: &dyn Store, row: &RunRow) -> Result<Option<String>, Failure> {
    match &row.owner {
        Some(owner) if store.owner_alive(owner)? => Ok(Some(owner.clone())),
        _ => Ok(None),
    }
}
