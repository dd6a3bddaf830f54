//! Portable snapshots: the state of a run between two ticks as bytes, and another run that continues from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use windlass_core::{Program, State};
use windlass_store::{
    BatchVerdict, IterationRow, NewRun, NewSnapshot, PlanRow, RunBatch, RunLabels, StatusChange, StoreError, StoreRead,
};
use windlass_value::{BlobHash, Duration, Value};

use super::{Durability, ReloadGuard, RunHandle, RunOptions, RuntimeEngine, new_run_id, residents};
use crate::adapters::{RunMessage, resident_status};
use crate::clock::Clock;
use crate::references::references;
use crate::{RuntimeError, codec, recovery};

/// The bytes that a portable snapshot begins with; the format number follows.
const SNAPSHOT_MAGIC: &[u8] = b"windlass-snapshot";

/// The format of a portable snapshot. It is raised when a program that does not know the new form would misread it.
const SNAPSHOT_FORMAT: u8 = 1;

/// The state of a run with everything that is needed to continue without its store.
#[derive(Serialize, Deserialize)]
struct PortableSnapshot {
    plan: Vec<u8>,
    state: Vec<u8>,
    virtual_time: bool,
    input: BlobHash,
    run_tree: Arc<str>,
    blobs: Vec<(BlobHash, Vec<u8>)>,
}

impl RuntimeEngine {
    /// Takes a snapshot of a run between two ticks, without stopping it. Work in flight is not part of it: the restored
    /// run repeats that work as another run.
    pub async fn snapshot(&self, run: &str) -> Result<Vec<u8>, RuntimeError> {
        let row = self.inner.store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_owned()))?;
        let how = RunOptions::from_row(&row)?;
        let state = match self.request_state(run).await {
            Some(state) => state,
            None if row.status.is_final() => return Err(RuntimeError::HasEnded(run.to_owned())),
            None if how.in_memory => return Err(RuntimeError::InMemoryOnly(run.to_owned())),
            None => {
                let program = self.inner.program(&row.plan)?;
                let image = recovery::load(&*self.inner.store, &row, &program)?;
                codec::state_bytes(&image.state).0
            }
        };
        let plan = self.inner.store.plan(&row.plan)?.ok_or_else(|| RuntimeError::MissingBlob(row.plan.to_string()))?;
        let blobs = referenced_blobs(&*self.inner.store, &state)?;
        let snapshot = PortableSnapshot {
            plan: plan.body,
            state,
            virtual_time: how.virtual_time,
            input: how.input,
            run_tree: how.run_tree,
            blobs,
        };
        let mut bytes = SNAPSHOT_MAGIC.to_vec();
        bytes.push(SNAPSHOT_FORMAT);
        let body = codec::encode(&snapshot);
        bytes.extend(blake3::hash(&body).as_bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    /// Returns the name of the definition that a snapshot belongs to.
    pub fn snapshot_definition(bytes: &[u8]) -> Result<Arc<str>, RuntimeError> {
        let plan = codec::decode_plan(&decode_snapshot(bytes)?.plan)?;
        Ok(plan.name)
    }

    /// Returns the current state of a run between two ticks. Returns `None` if the run is not in memory here and the
    /// store has all of it.
    pub async fn state(&self, run: &str) -> Result<Option<State>, RuntimeError> {
        self.request_state(run).await.map(|bytes| codec::decode_state(&bytes)).transpose()
    }

    /// Requests the encoded state of a run that is in memory here.
    async fn request_state(&self, run: &str) -> Option<Vec<u8>> {
        let mailbox = self.inner.runs().get(run).and_then(|tracked| tracked.mailbox.clone())?;
        let (sender, state) = oneshot::channel();
        mailbox.send(RunMessage::Snapshot(sender));
        state.await.ok()
    }

    /// Starts another run that continues from a snapshot. Work that was in flight is repeated under new keys, since it
    /// is another run. Children of the old run stay with it; open calls are made again.
    pub async fn restore(&self, bytes: &[u8], id: Option<String>) -> Result<RunHandle, RuntimeError> {
        let snapshot = decode_snapshot(bytes)?;
        let run: Arc<str> = id.unwrap_or_else(new_run_id).into();
        let plan = codec::decode_plan(&snapshot.plan)?;
        let row = PlanRow {
            hash: BlobHash(*blake3::hash(&snapshot.plan).as_bytes()),
            dialect: plan.dialect.to_string(),
            body: snapshot.plan,
        };
        self.inner.store.put_plan(&row)?;
        let program = self.inner.program(&row.hash)?;
        self.inner.check_tools(&run, &program)?;
        let mut state = recovery::decode_checked_state(&program, &snapshot.state)?;
        state.reset_for_fork(&run);
        let how = RunOptions {
            virtual_time: snapshot.virtual_time,
            input: snapshot.input,
            parent: None,
            depth: 0,
            delivery: None,
            trace: None,
            in_memory: self.inner.durability == Durability::InMemory,
            from: None,
            run_tree: snapshot.run_tree,
            mock_file: self.inner.mock_file.clone(),
        };
        let guard = self.inner.acquire_reload_guard(&run).await;
        self.start_from_state(
            StartFromState {
                run,
                plan: row.hash,
                program,
                state,
                options: how,
                blobs: snapshot.blobs,
                history: Vec::new(),
                labels: RunLabels::new(),
            },
            guard,
        )
        .await
    }

    /// Creates a run that continues from a state.
    pub(super) async fn start_from_state(
        &self,
        beginning: StartFromState,
        guard: ReloadGuard,
    ) -> Result<RunHandle, RuntimeError> {
        let StartFromState { run, plan, program, mut state, options: how, blobs, history, labels } = beginning;
        let now = self.inner.clock.now();
        state.run.execution_id = self.inner.unused_execution_id()?;
        let max_tree_runs = program.limits.max_tree_runs;
        let create = NewRun {
            execution_id: state.run.execution_id,
            plan,
            definition: program.plan.name.to_string(),
            dialect: program.plan.dialect.to_string(),
            owner: Some(self.inner.owner.name().clone()),
            created_at: now,
            parent: how.parent.as_ref().map(|(parent, _)| parent.clone()),
            cancel_request_id: how.parent.as_ref().map(|(parent, _)| codec::cancel_request_id(parent)),
            max_tree_runs,
            options: codec::encode(&how),
            labels,
        };
        let status = resident_status(&state, false, false);
        let (body, state_hash) = codec::state_bytes(&state);
        let journaled = !how.in_memory;
        let batch = RunBatch {
            run: run.clone(),
            owner_epoch: 1,
            create: Some(create),
            snapshot: journaled.then_some(NewSnapshot { tick: 0, event: 0, state_hash, body }),
            status: Some(StatusChange { status, at: now, result: None }),
            iterations: if journaled { history } else { Vec::new() },
            blobs,
            ..RunBatch::default()
        };
        match self.inner.store.append(vec![batch])?.first() {
            Some(BatchVerdict::Committed) => {}
            Some(BatchVerdict::ExecutionIdConflict) => return Err(RuntimeError::ExecutionIdExists),
            Some(BatchVerdict::NoSpace) => return Err(StoreError::reserved_space().into()),
            Some(BatchVerdict::TreeFull) => return Err(RuntimeError::TreeFull { max: max_tree_runs }),
            _ => return Err(RuntimeError::RunExists(run.to_string())),
        }
        if journaled {
            return Ok(RunHandle { created: true, ..self.attach_with_guard(guard, false, true).await? });
        }
        let handle = self.track(&run, true);
        let mut clock = if how.virtual_time { Clock::virtual_time() } else { Clock::Real };
        clock.skip_to(state.now);
        let launch = residents::Launch {
            reused: self.inner.load_reused_results(&run, how.from.as_ref())?,
            run,
            program,
            image: recovery::RunImage::new(state),
            first: vec![windlass_core::TickKind::Restart { lived: Duration::ZERO }],
            owner_epoch: 1,
            create: None,
            clock,
            clock_offset: self.inner.clock.offset(),
            parent: how.parent,
            run_tree: how.run_tree,
            reload_guard: Some(guard),
        };
        self.inner.launch(launch).await?;
        Ok(RunHandle { created: true, ..handle })
    }
}

/// A run that starts from a given state instead of from its beginning.
pub(super) struct StartFromState {
    pub run: Arc<str>,
    pub plan: BlobHash,
    pub program: Arc<Program>,
    pub state: State,
    pub options: RunOptions,
    pub blobs: Vec<(BlobHash, Vec<u8>)>,
    /// The iterations that the run takes over.
    pub history: Vec<IterationRow>,
    /// The labels of the run that it continues.
    pub labels: RunLabels,
}

fn decode_snapshot(bytes: &[u8]) -> Result<PortableSnapshot, RuntimeError> {
    let damaged = |why: String| RuntimeError::Damaged { what: "a snapshot", why };
    let Some((format, body)) = bytes.strip_prefix(SNAPSHOT_MAGIC).and_then(|rest| rest.split_first()) else {
        return Err(damaged("these bytes are not a snapshot of a run".to_owned()));
    };
    if *format > SNAPSHOT_FORMAT {
        return Err(codec::needs_newer_error("the snapshot", "snapshot format", *format, SNAPSHOT_FORMAT));
    }
    match body.split_at_checked(blake3::OUT_LEN) {
        Some((sum, body)) if blake3::hash(body).as_bytes().as_slice() == sum => codec::decode(body, "a snapshot"),
        _ => Err(damaged("its checksum does not match".to_owned())),
    }
}

/// Returns every stored value that the state refers to, directly or through other values.
pub(super) fn referenced_blobs(store: &dyn StoreRead, state: &[u8]) -> Result<Vec<(BlobHash, Vec<u8>)>, RuntimeError> {
    let mut found: BTreeMap<BlobHash, Vec<u8>> = BTreeMap::new();
    let mut open: Vec<BlobHash> = references(state)?.into_iter().collect();
    while let Some(hash) = open.pop() {
        if found.contains_key(&hash) {
            continue;
        }
        // A number that only looks like the hash of a value has no blob.
        let Some(bytes) = store.blob(&hash)? else { continue };
        collect_stored(&codec::blob_value(&hash, &bytes)?, &mut open);
        found.insert(hash, bytes);
    }
    Ok(found.into_iter().collect())
}

fn collect_stored(value: &Value, found: &mut Vec<BlobHash>) {
    crate::references::each_stored(value, &mut |stored| found.push(stored.hash));
}
