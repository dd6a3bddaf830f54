//! `windlass replay RUN`

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::{Program, State, frame_tree};
use windlass_runtime::inspect::tree_value;
use windlass_runtime::{RunImage, RuntimeError, codec, completed_steps, new_state, replay_from};
use windlass_store::{RunRow, SnapshotRow, Store};
use windlass_value::{BlobHash, Map, Value};

use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure, codes};
use crate::{image, out, stores, text};

pub(crate) fn replay(global: &GlobalArgs, args: &args::ReplayArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings::load(global)?;
    let store = stores::open(global)?;
    let row = stores::find(&*store, &args.run)?;
    let program = image::program(&*store, &row, &settings.limits)?;
    let start = initial_image(&*store, &row, &program)?;
    let (from, newest) = (start.state.ticks, row.ticks);
    let to = args.to.unwrap_or(u64::MAX);
    if args.to.is_some_and(|to| to < from || to > newest) {
        return Err(CliFailure::usage(format!("tick {to} cannot be shown"))
            .hint(format!("ticks {from} to {newest} of this run are retained")));
    }
    let mut replayed = ReplayResult { from, image: start, compared: 0 };
    replayed.replay_to(&*store, &row.run, &program, to)?;
    match global.json {
        true => out::print_json(&replayed.to_value(&row, &program))?,
        false => out::print(&replayed.show(&row))?,
    }
    Ok(CliExit::Success)
}

/// The oldest state to replay from: an empty one if the whole journal is kept, unless the run was created from the
/// state of another.
fn initial_image(store: &dyn Store, row: &RunRow, program: &Program) -> Result<RunImage, CliFailure> {
    let whole = store.journal(&row.run, 0, 1)?.first().is_none_or(|first| first.first_tick == 0);
    let state = match store.oldest_snapshot(&row.run)?.filter(|snapshot| !whole || snapshot.tick == 0) {
        Some(snapshot) => {
            let state = windlass_runtime::decode_state(&snapshot.body)?;
            compare(&state, &snapshot)?;
            state
        }
        None => new_state(&row.run, program, row.created_at),
    };
    Ok(RunImage::new(state))
}

struct ReplayResult {
    from: u64,
    image: RunImage,
    /// Snapshots whose hash matches the rebuilt state.
    compared: u64,
}

impl ReplayResult {
    /// Replays up to a tick. The replay itself compares command digests; this compares the state hashes.
    fn replay_to(&mut self, store: &dyn Store, run: &Arc<str>, program: &Program, to: u64) -> Result<(), CliFailure> {
        let snapshots = snapshots(store, run)?;
        let compared = &mut self.compared;
        let mut compare_snapshot = |state: &State, _: &codec::TickEntryHeader| match snapshots.get(&state.ticks) {
            Some(snapshot) => {
                *compared += 1;
                compare(state, snapshot)
            }
            None => Ok(()),
        };
        let replayed = replay_from(store, run, program, &mut self.image, to, &mut compare_snapshot);
        replayed.map_err(|error| match error {
            RuntimeError::Quarantined { why, .. } => {
                CliFailure::new(CliExit::Failed, format!("the replay differs: {why}"))
                    .code(codes::REPLAY)
                    .location(format!("run {run}, after tick {}", self.image.state.ticks))
            }
            other => other.into(),
        })
    }

    fn hash(&self) -> String {
        BlobHash(codec::state_bytes(&self.image.state).1).to_string()
    }

    fn show(&self, row: &RunRow) -> String {
        let state = &self.image.state;
        let variables = state.scopes.get(state.root_scope).map(|scope| {
            let line = |(name, variable): (&Arc<str>, &windlass_core::state::Variable)| {
                format!("  {name} = {}", text::format_value(&variable.value, 100))
            };
            scope.variables.iter().map(line).collect::<Vec<_>>()
        });
        let mut lines = vec![
            format!("run {} ({})", row.run, row.definition),
            format!("retained: ticks {} to {}", self.from, row.ticks),
            format!("replayed: {}, all commands as journaled", text::pluralize(state.ticks - self.from, "tick")),
            format!("snapshots compared: {}", self.compared),
            format!("state after tick {}: {}", state.ticks, self.hash()),
            format!(
                "{}, {}, {}",
                text::pluralize(state.iterations, "iteration"),
                text::pluralize(state.events, "event"),
                state.now
            ),
        ];
        if let Some(variables) = variables.filter(|variables| !variables.is_empty()) {
            lines.push("variables".to_owned());
            lines.extend(variables);
        }
        lines.join("\n")
    }

    fn to_value(&self, row: &RunRow, program: &Program) -> Value {
        let retained = Value::object([("from", Value::from(self.from)), ("to", Value::from(row.ticks))]);
        Value::object([
            ("run", Value::from(row.run.clone())),
            ("definition", Value::from(row.definition.as_str())),
            ("retained", retained),
            ("ticks", Value::from(self.image.state.ticks)),
            ("replayed", Value::from(self.image.state.ticks - self.from)),
            ("snapshots_compared", Value::from(self.compared)),
            ("state_hash", Value::from(self.hash())),
            ("state", self.state_value(program)),
        ])
    }

    fn state_value(&self, program: &Program) -> Value {
        let state = &self.image.state;
        let mut variables = Map::new();
        let scope = state.scopes.get(state.root_scope);
        for (name, variable) in scope.into_iter().flat_map(|scope| &scope.variables) {
            variables.insert(name.clone(), variable.value.clone());
        }
        let steps = completed_steps(program, state).into_iter().map(|(name, step)| (name, step.to_value()));
        Value::object([
            ("status", Value::from(state.result().map(|result| result.status.as_str()))),
            ("paused", Value::from(state.paused)),
            ("now", Value::from(state.now.to_string())),
            ("iterations", Value::from(state.iterations)),
            ("events", Value::from(state.events)),
            ("jobs", Value::from(state.jobs.len())),
            ("timers", Value::from(state.timers.len())),
            ("waits", Value::list(state.waits.keys().map(|name| Value::from(name.clone())).collect())),
            ("variables", Value::map(variables)),
            ("current", tree_value(&frame_tree(program, state), state.now)),
            ("steps", Value::object(steps)),
        ])
    }
}

/// All stored snapshots by tick. The store returns them newest first.
fn snapshots(store: &dyn Store, run: &str) -> Result<BTreeMap<u64, SnapshotRow>, CliFailure> {
    let mut found = BTreeMap::new();
    let mut max_tick = None;
    while let Some(snapshot) = store.snapshot(run, max_tick)? {
        let tick = snapshot.tick;
        // Only the hash is needed.
        found.insert(tick, SnapshotRow { body: Vec::new(), ..snapshot });
        match tick.checked_sub(1) {
            Some(before) => max_tick = Some(before),
            None => break,
        }
    }
    Ok(found)
}

fn compare(state: &State, snapshot: &SnapshotRow) -> Result<(), RuntimeError> {
    match codec::state_bytes(state).1 == snapshot.state_hash {
        true => Ok(()),
        false => Err(RuntimeError::Quarantined {
            run: state.run.id.to_string(),
            why: format!("the state after tick {} differs from its snapshot", snapshot.tick),
        }),
    }
}
