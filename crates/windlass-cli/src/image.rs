//! Reads a run from the store without owning it: another process may be running it.

use std::sync::Arc;

use windlass_core::{Limits, Program};
use windlass_runtime::inspect::StoredRun;
use windlass_runtime::{RuntimeError, codec};
use windlass_store::{RunRow, Store};
use windlass_value::Language;

use crate::failure::CliFailure;
use crate::stores;

pub(crate) fn program(store: &dyn Store, row: &RunRow, limits: &Limits) -> Result<Program, RuntimeError> {
    let plan = store.plan(&row.plan)?.ok_or_else(|| RuntimeError::MissingBlob(row.plan.to_string()))?;
    let plan = codec::decode_plan(&plan.body)?;
    let languages = crate::dialects::languages();
    let languages: Vec<&dyn Language> = languages.iter().map(AsRef::as_ref).collect();
    Ok(Program::load(plan, &languages, limits.clone())?)
}

/// Loads the newest state of a run.
pub(crate) fn load(store: &dyn Store, run_ref: &str, limits: &Limits) -> Result<StoredRun, CliFailure> {
    let row = stores::find(store, run_ref)?;
    let program = program(store, &row, limits)?;
    Ok(StoredRun::load(store, row, Arc::new(program))?)
}
