//! Loading a run from the store: the newest snapshot, then the ticks after it.

use std::sync::Arc;

use windlass_core::{
    IterationRecord, PartialTick, Program, Reduced, ReducerFault, ReplayWatch, State, Tick, TickOutput, reduce,
};
use windlass_store::{RunRow, StoreRead};
use windlass_value::{BlobHash, RunView, Timestamp, Value};

use crate::RuntimeError;
use crate::blobs::BlobCache;
use crate::codec::{self, TickEntryHeader, decode_state};

/// The number of journal rows read per batch.
const ROW_BATCH_SIZE: u32 = 256;

/// A run in memory.
pub struct RunImage {
    /// The state after all replayed ticks.
    pub state: State,
    /// Values that the replay has loaded or created.
    pub blobs: BlobCache,
    /// Iterations that ended in the replayed ticks; after a replay that a watch stopped, those of its last tick.
    pub iterations: Vec<IterationRecord>,
}

impl RunImage {
    /// Creates an image without cached values, from which a replay can start.
    pub fn new(state: State) -> RunImage {
        RunImage { state, blobs: BlobCache::default(), iterations: Vec::new() }
    }
}

/// Returns the state of a run that has not started.
pub fn new_state(run: &Arc<str>, execution_id: i64, program: &Program, at: Timestamp) -> State {
    State::new(RunView { execution_id, ..RunView::new(run.clone(), program.plan.name.clone(), at) })
}

/// Rebuilds a run's state. The digest of every tick is compared: a divergence quarantines the run.
pub fn load(store: &dyn StoreRead, row: &RunRow, program: &Program) -> Result<RunImage, RuntimeError> {
    let run = &row.run;
    let snapshot = store.snapshot(run, None)?;
    let state = match snapshot {
        Some(snapshot) => decode_checked_state(program, &snapshot.body)?,
        None => new_state(run, row.execution_id, program, row.created_at),
    };
    let mut image = RunImage::new(state);
    let mut iterations = Vec::new();
    replay_each(store, run, program, &mut image, u64::MAX, &mut None, &mut |_, _, output, _| {
        iterations.extend(output.iterations);
        Ok(())
    })?;
    image.iterations = iterations;
    Ok(image)
}

/// Decodes the state of a snapshot from which a run continues. A state that is impossible for this program is
/// damaged.
pub(crate) fn decode_checked_state(program: &Program, bytes: &[u8]) -> Result<State, RuntimeError> {
    let state = decode_state(bytes)?;
    let impossible = |fault: ReducerFault| RuntimeError::Damaged { what: "a snapshot", why: fault.to_string() };
    state.check(program).map_err(impossible)?;
    Ok(state)
}

/// Applies the journal's ticks to an image until `to` ticks have been reduced; `observe` is called after each.
pub fn replay_from(
    store: &dyn StoreRead,
    run: &Arc<str>,
    program: &Program,
    image: &mut RunImage,
    to: u64,
    observe: &mut dyn FnMut(&State, &TickEntryHeader) -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    replay_each(store, run, program, image, to, &mut None, &mut |state, entry, _, _| observe(state, entry))
}

/// A callback that is invoked after each tick, with the watch.
pub(crate) type TickObserver<'a> =
    dyn FnMut(&State, &TickEntryHeader, TickOutput, Option<&mut ReplayWatch>) -> Result<(), RuntimeError> + 'a;

/// Replays like [`replay_from`], with a watch that may stop inside a tick.
pub(crate) fn replay_each(
    store: &dyn StoreRead,
    run: &Arc<str>,
    program: &Program,
    image: &mut RunImage,
    to: u64,
    watch: &mut Option<Box<ReplayWatch>>,
    observe: &mut TickObserver<'_>,
) -> Result<(), RuntimeError> {
    loop {
        let rows = store.journal(run, image.state.ticks, ROW_BATCH_SIZE)?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            let entries: Vec<TickEntryHeader> = codec::decode(&row.body, "the journal")?;
            let skip = image.state.ticks.saturating_sub(row.first_tick) as usize;
            for entry in entries.iter().skip(skip) {
                if image.state.ticks >= to {
                    return Ok(());
                }
                let output = apply(store, program, image, &entry.tick, watch)?;
                if watch.as_ref().is_some_and(|watch| watch.has_stopped()) {
                    image.iterations = output.iterations;
                    return Ok(());
                }
                if codec::digest(&output.commands) != entry.digest {
                    return Err(divergence_error(run, &image.state, entry));
                }
                observe(&image.state, entry, output, watch.as_deref_mut())?;
            }
        }
    }
}

fn divergence_error(run: &Arc<str>, state: &State, entry: &TickEntryHeader) -> RuntimeError {
    let why = format!(
        "replaying tick {} ({}) produces other commands than the journal records",
        state.ticks,
        entry.tick.kind.name()
    );
    RuntimeError::Quarantined { run: run.to_string(), why }
}

fn apply(
    store: &dyn StoreRead,
    program: &Program,
    image: &mut RunImage,
    tick: &Tick,
    watch: &mut Option<Box<ReplayWatch>>,
) -> Result<TickOutput, RuntimeError> {
    let mut resume = PartialTick::with_watch(watch.take());
    loop {
        match reduce(program, &mut image.state, tick, &mut image.blobs, &mut resume)? {
            Reduced::Done(output) => {
                // Values that a replay creates are in the store already.
                image.blobs.take_fresh();
                image.blobs.unpin();
                *watch = resume.take_watch();
                return Ok(output);
            }
            Reduced::NeedBlobs(hashes) => fetch_blobs(store, &hashes, &mut image.blobs)?,
        }
    }
}

/// Loads stored values into the cache.
pub(crate) fn fetch_blobs(
    store: &dyn StoreRead,
    hashes: &[BlobHash],
    blobs: &mut BlobCache,
) -> Result<(), RuntimeError> {
    for hash in hashes {
        let value = stored_value(store, hash)?;
        let size = value.size_up_to(usize::MAX / 2);
        blobs.insert(*hash, value, size);
    }
    Ok(())
}

pub(crate) fn stored_value(store: &dyn StoreRead, hash: &BlobHash) -> Result<Value, RuntimeError> {
    let bytes = store.blob(hash)?.ok_or_else(|| RuntimeError::MissingBlob(hash.to_string()))?;
    codec::blob_value(hash, &bytes)
}

/// The maximum number of bytes of stored values that are resolved in output for people and programs. Beyond that a
/// reference stays a reference: a few references can stand for more than fits in memory.
const MAX_RESOLVED_BYTES: u64 = 64 * 1024 * 1024;

/// The maximum nesting of lists, objects and references that is resolved. Values hold references to values that hold
/// references: each of them is shallow, but all of them together need not be.
pub(crate) const MAX_RESOLVED_LEVELS: usize = 400;

/// The levels of a chunked list, which is resolved completely or not at all: the list, its chunks, their items.
pub(crate) const CHUNKED_LIST_LEVELS: usize = 3;

/// Resolves the stored values inside a value, up to the maximum size for output.
pub fn resolve(store: &dyn StoreRead, value: &Value) -> Result<Value, RuntimeError> {
    resolve_up_to(store, value, &mut MAX_RESOLVED_BYTES.clone())
}

/// Resolves the stored values inside a value up to `bytes`, and subtracts their size from it.
pub fn resolve_up_to(store: &dyn StoreRead, value: &Value, bytes: &mut u64) -> Result<Value, RuntimeError> {
    resolve_bounded(store, value, bytes, MAX_RESOLVED_LEVELS)
}

fn resolve_bounded(store: &dyn StoreRead, value: &Value, left: &mut u64, levels: usize) -> Result<Value, RuntimeError> {
    let below = levels.saturating_sub(1);
    match value {
        Value::Stored(stored) if stored.size > *left || levels < CHUNKED_LIST_LEVELS => Ok(value.clone()),
        Value::Stored(stored) => {
            *left -= stored.size;
            // The size includes all nested values, so from here on there is nothing left to refuse.
            let content = resolve_bounded(store, &stored_value(store, &stored.hash)?, &mut u64::MAX.clone(), below)?;
            Ok(if stored.chunked { flatten_chunks(&content) } else { content })
        }
        Value::List(items) if items.iter().any(holds_stored) => {
            let items = items.iter().map(|item| resolve_bounded(store, item, left, below));
            items.collect::<Result<Vec<_>, _>>().map(Value::list)
        }
        Value::Map(map) if map.values().any(holds_stored) => {
            let entries = map.iter().map(|(key, value)| Ok((key.clone(), resolve_bounded(store, value, left, below)?)));
            entries.collect::<Result<windlass_value::Map, RuntimeError>>().map(Value::map)
        }
        other => Ok(other.clone()),
    }
}

/// Joins the chunks of a list.
fn flatten_chunks(chunks: &Value) -> Value {
    let items = chunks.as_list().unwrap_or_default().iter().flat_map(|chunk| chunk.as_list().unwrap_or_default());
    Value::list(items.cloned().collect())
}

pub(crate) fn holds_stored(value: &Value) -> bool {
    match value {
        Value::Stored(_) => true,
        Value::List(items) => items.iter().any(holds_stored),
        Value::Map(map) => map.values().any(holds_stored),
        _ => false,
    }
}

/// Returns the ticks and iterations of a run at its newest snapshot. `None` before the first.
pub fn snapshot_progress(store: &dyn StoreRead, run: &str) -> Result<Option<(u64, u64)>, RuntimeError> {
    let Some(snapshot) = store.snapshot(run, None)? else { return Ok(None) };
    let state = decode_state(&snapshot.body)?;
    Ok(Some((state.ticks, state.iterations)))
}
