//! Removal of ended runs and of definitions.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_runtime::RuntimeError;
use windlass_store::{
    DamagedRowId, DamagedTable, IsolatedRow, ParentFilter, RunFilter, RunRow, RunStatus, StoreErrorKind,
};
use windlass_value::Timestamp;

use super::definitions::unknown_definition;
use super::extract::{DefinitionName, RunId};
use super::models::find_run;
use crate::auth::{Admin, Allowed};
use crate::{ApiProblem, App};

/// Matches a run however long ago it ended.
const ANY_AGE: Timestamp = Timestamp(i64::MAX);

/// The result of removing a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunRemoved {
    /// The id of the run.
    pub run: String,
    /// Number of removed runs: the run and its descendants.
    pub removed: u64,
}

/// The result of removing a definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DefinitionRemoved {
    /// Name of the definition.
    pub name: String,
    /// Always true: a definition that cannot be removed is an error.
    pub removed: bool,
    /// Whether it has unfinished runs; they continue with their version.
    pub open_runs: bool,
}

/// Removes an ended run with all its child runs. A run that is quarantined or damaged is removed as well, alone.
///
/// The values it has written are removed as well, unless another run has written the same. Its idempotency key is
/// forgotten.
#[utoipa::path(delete, path = "/api/v1/runs/{run}", tag = "runs", params(("run" = String, Path)),
    responses((status = 200, description = "the run has been removed", body = RunRemoved), (status = 404, description = "there is no such run", body = ApiProblem),
        (status = 409, description = "the run or one of its child runs has not ended, or its parent run still exists", body = ApiProblem)))]
pub(crate) async fn run(
    _: Allowed<Admin>,
    State(app): State<App>,
    RunId(run): RunId,
) -> Result<axum::Json<RunRemoved>, ApiProblem> {
    // A task of its own: the client may disconnect, and the removal is completed and published all the same.
    let removal = tokio::spawn(remove_with_children(app, run));
    removal.await.map_err(|_| RuntimeError::Closing)?.map(axum::Json)
}

async fn remove_with_children(app: App, run: String) -> Result<RunRemoved, ApiProblem> {
    if let Some(row) = unusable_run(&app, &run).await? {
        app.engine.remove_damaged(row).await?;
        app.views.changes.publish_removal(&run, None);
        sweep(app);
        return Ok(RunRemoved { run, removed: 1 });
    }
    app.write_store(move |app| {
        let definition = find_run(app, &run)?.definition;
        let removed = remove(app, &run)?;
        app.views.changes.publish_removal(&run, Some(&definition));
        sweep(app.clone());
        Ok(RunRemoved { run, removed })
    })
    .await
}

/// Returns the row of a run that is quarantined or whose row is damaged: it will never end by itself.
async fn unusable_run(app: &App, run: &str) -> Result<Option<DamagedRowId>, ApiProblem> {
    let id = run.to_owned();
    let row = app.read_store(move |app| Ok(app.store.run(&id))).await?;
    match row {
        Ok(row) => {
            let quarantined = row.filter(|row| row.status == RunStatus::Quarantined);
            Ok(quarantined.map(|row| DamagedRowId::new(DamagedTable::Runs, row.number)))
        }
        Err(error) if error.kind == StoreErrorKind::Damaged => {
            let damage = app.engine.damage().await?;
            let is_run = |row: &IsolatedRow| row.id.table == DamagedTable::Runs && row.name.as_deref() == Some(run);
            Ok(damage.into_iter().find(is_run).map(|row| row.id))
        }
        Err(error) => Err(error.into()),
    }
}

fn remove(app: &App, run: &str) -> Result<u64, ApiProblem> {
    let mut removed = 0;
    loop {
        let step = app.store.remove(run, ANY_AGE)?;
        removed += step.runs;
        if step.runs == 0 && removed == 0 {
            return Err(removal_conflict(app, &find_run(app, run)?)?);
        }
        if !step.more {
            return Ok(removed);
        }
    }
}

fn removal_conflict(app: &App, row: &RunRow) -> Result<ApiProblem, ApiProblem> {
    let run = &row.run;
    if !row.status.is_final() {
        let problem = ApiProblem::conflict(format!("the run `{run}` is {}", row.status.as_str()));
        return Ok(problem.hint(format!("only ended runs can be removed: POST /api/v1/runs/{run}/cancel cancels it")));
    }
    if let Some(parent) = &row.parent
        && app.store.run(parent)?.is_some()
    {
        let problem = ApiProblem::conflict(format!("the run `{run}` is a child of `{parent}`, which still exists"));
        return Ok(problem.hint(format!("DELETE /api/v1/runs/{parent} removes both")));
    }
    let called = RunFilter { parent: Some(ParentFilter::Run(run.clone())), unfinished: true, ..RunFilter::default() };
    let open = app.store.runs(&called, None, 1)?.into_iter().next();
    let which = open.map_or_else(|| "one of its descendants".to_owned(), |open| format!("`{}`", open.run));
    let problem = ApiProblem::conflict(format!("the run `{run}` has child runs, and {which} has not ended"));
    Ok(problem.hint(format!("GET /api/v1/runs?parent={run} lists them")))
}

/// Frees removed data step by step, so that others can write in between. One task does this for all removals. If the
/// process ends first, the next removal continues it.
pub(super) fn sweep(app: App) {
    if !app.views.sweep_state.begin() {
        return;
    }
    tokio::spawn(async move {
        loop {
            while app.write_store(|app| Ok(app.store.sweep()?.more)).await.unwrap_or(false) {}
            if app.views.sweep_state.finish() {
                return;
            }
        }
    });
}

/// Removes a definition, so that starts, calls and triggers no longer use it.
///
/// Running runs continue, and so do definitions that were registered while they could call it. Its versions stay
/// readable as long as they have runs; its trigger settings are deleted. The same name may be registered again.
#[utoipa::path(delete, path = "/api/v1/definitions/{name}", tag = "definitions", params(("name" = String, Path)),
    responses((status = 200, description = "the definition has been removed; nothing can start it", body = DefinitionRemoved), (status = 404, description = "there is no such definition", body = ApiProblem),
        (status = 409, description = "the definition comes from a file of `windlass dev`", body = ApiProblem)))]
pub(crate) async fn definition(
    _: Allowed<Admin>,
    State(app): State<App>,
    DefinitionName(name): DefinitionName,
) -> Result<axum::Json<DefinitionRemoved>, ApiProblem> {
    app.write_store(move |app| {
        let removed = app.definitions.files.change(&name, || app.definitions.remove(&app.engine, &name))?;
        if removed?.is_none() {
            return Err(unknown_definition(app, &name));
        }
        let open = RunFilter { definition: Some(name.clone()), unfinished: true, ..RunFilter::default() };
        let open_runs = !app.store.runs(&open, None, 1)?.is_empty();
        Ok(axum::Json(DefinitionRemoved { name, removed: true, open_runs }))
    })
    .await
}
