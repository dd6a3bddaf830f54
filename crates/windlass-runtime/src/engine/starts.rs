//! Starting runs: a run is created once, however many callers request it and however often.

use std::sync::Arc;

use windlass_core::{CallOrigin, Program, START_EVENT, TickKind};
use windlass_store::{NewRun, RunLabels, RunRow};
use windlass_value::{BlobHash, RunView, Timestamp, Value};

use super::labels::LabelSources;
use super::triggers::seed_from;
use super::{Durability, RunHandle, RunOptions, RuntimeEngine, new_execution_id, new_run_id, residents};
use crate::clock::Clock;
use crate::{RuntimeError, codec, recovery, removed_start};

/// Options of a start.
#[derive(Clone)]
pub struct RunStartOptions {
    /// The id of the run; `None` generates one. A repeat with the same id, plan and input gives the same run.
    pub id: Option<String>,
    /// The run has a virtual clock: waits take no real time.
    pub virtual_time: bool,
    /// For a child run: the id of its parent run, and the number of the call in it.
    pub parent: Option<(Arc<str>, u64)>,
    /// Requests live events.
    pub watch: bool,
    /// The run is created but starts only when it is resumed.
    pub held: bool,
    /// Labels of the run, in addition to those of its definition and its parent run.
    pub labels: RunLabels,
}

impl Default for RunStartOptions {
    fn default() -> RunStartOptions {
        RunStartOptions {
            id: None,
            virtual_time: false,
            parent: None,
            watch: true,
            held: false,
            labels: RunLabels::new(),
        }
    }
}

/// The origin of a run, as far as its options do not contain it.
#[derive(Clone)]
pub(crate) struct StartOrigin {
    pub clock: Clock,
    /// The number of calls that the run is nested in.
    pub depth: u64,
    pub at: Timestamp,
    /// The hash of the complete input of the delivery that the run is part of.
    pub delivery: Option<BlobHash>,
    /// Metadata that came with the delivery, such as headers and queries.
    pub metadata: Value,
    /// The execution id of its parent.
    pub parent_execution_id: Option<i64>,
    /// The root run of its parent.
    pub trace: Option<Arc<str>>,
    /// The step whose output the caller receives.
    pub output_step: Option<Arc<str>>,
    /// The run tree of the calling run.
    pub run_tree: Option<Arc<str>>,
    /// The labels of the calling run.
    pub inherited_labels: RunLabels,
}

impl RunOptions {
    /// Decodes the start options of a run. Fails for a run that a newer program has written.
    pub fn from_row(row: &RunRow) -> Result<RunOptions, RuntimeError> {
        row.check_format()?;
        codec::decode(&row.options, "the run's options")
    }

    /// Reports whether two runs may belong to one delivery. A run without a delivery matches any.
    pub(super) fn fits_delivery(&self, delivery: Option<BlobHash>) -> bool {
        self.delivery.is_none() || delivery.is_none() || self.delivery == delivery
    }
}

impl RuntimeEngine {
    /// Starts a run; when this returns, the start is durable. The same id with the same plan and input gives the same
    /// run.
    pub async fn start(
        &self,
        plan: BlobHash,
        input: Value,
        options: RunStartOptions,
    ) -> Result<RunHandle, RuntimeError> {
        let clock = if options.virtual_time { Clock::virtual_time() } else { Clock::Real };
        self.start_from(
            plan,
            input,
            options,
            StartOrigin {
                clock,
                depth: 0,
                at: self.inner.clock.now(),
                delivery: None,
                metadata: Value::Null,
                parent_execution_id: None,
                trace: None,
                output_step: None,
                run_tree: None,
                inherited_labels: RunLabels::new(),
            },
        )
        .await
    }

    /// Returns an input as a run would store it. Equal inputs give equal results, so that repeats are recognized.
    pub fn stored_input(&self, row: &RunRow, input: Value) -> Result<Value, RuntimeError> {
        self.stored_input_for(&row.plan, &RunOptions::from_row(row)?, input)
    }

    /// Returns an input in the same way for the plan and the options of a run that may have been removed.
    pub fn stored_input_for(&self, plan: &BlobHash, options: &RunOptions, input: Value) -> Result<Value, RuntimeError> {
        let program = self.inner.program(plan)?;
        self.inner.admit_input(&program.plan, &options.run_tree, input)
    }

    pub(super) async fn start_from(
        &self,
        plan: BlobHash,
        input: Value,
        options: RunStartOptions,
        origin: StartOrigin,
    ) -> Result<RunHandle, RuntimeError> {
        loop {
            match self.try_start(plan, input.clone(), options.clone(), origin.clone()).await {
                // The next attempt draws a greater number.
                Err(RuntimeError::ExecutionIdExists) => {}
                started => return started,
            }
        }
    }

    async fn try_start(
        &self,
        plan: BlobHash,
        input: Value,
        options: RunStartOptions,
        origin: StartOrigin,
    ) -> Result<RunHandle, RuntimeError> {
        let program = self.inner.program(&plan)?;
        let run: Arc<str> = options.id.clone().unwrap_or_else(new_run_id).into();
        // Not its id: another run may get that id when this one is removed.
        let run_tree = origin.run_tree.clone().unwrap_or_else(|| new_run_id().into());
        let start_input = StartInput { plan, input, admitted: options.parent.is_some() || origin.delivery.is_some() };
        let input = self.admit_start_input(&program, &run_tree, &start_input)?;
        let defaults = self
            .inner
            .gate
            .as_ref()
            .map(|gate| gate.defaults(&crate::secure_inputs(&program.plan), &run_tree))
            .transpose();
        let defaults = defaults.map_err(RuntimeError::Input)?.unwrap_or_default();
        let how = RunOptions {
            virtual_time: options.virtual_time,
            input: input_hash(&input),
            parent: options.parent.clone(),
            depth: origin.depth,
            delivery: origin.delivery,
            trace: origin.trace.clone(),
            in_memory: self.inner.durability == Durability::InMemory,
            from: None,
            run_tree: run_tree.clone(),
            mock_file: self.inner.mock_file.clone(),
        };
        let reload_guard = match options.id {
            Some(_) => Some(self.inner.acquire_reload_guard(&run).await),
            None => None,
        };
        if options.id.is_some()
            && let Some(row) = self.inner.store.run(&run)?
        {
            drop(reload_guard);
            return self.attach_to_existing(&row, &program, start_input, &how, options.watch).await;
        }
        if options.id.is_some() && options.parent.is_none() && removed_start(&*self.inner.store, &run)?.is_some() {
            return Err(RuntimeError::RunRemoved(run.to_string()));
        }
        let execution_id = new_execution_id();
        let parent_origin = options.parent.as_ref().map(|(parent, _)| {
            let trace = origin.trace.unwrap_or_else(|| parent.clone());
            let parent_execution_id = origin.parent_execution_id.unwrap_or_default();
            let (parent, output_node) = (parent.clone(), origin.output_step);
            Box::new(CallOrigin { parent, parent_execution_id, trace, output_node })
        });
        let view = RunView {
            execution_id,
            input: input.clone(),
            trigger_metadata: origin.metadata.clone(),
            parent: parent_origin.as_ref().map(|caller| caller.parent.clone()),
            parent_execution_id: parent_origin.as_ref().map(|caller| caller.parent_execution_id),
            trace: parent_origin.as_ref().map(|caller| caller.trace.clone()),
            ..RunView::new(run.clone(), program.plan.name.clone(), origin.at)
        };
        let labels = LabelSources {
            program: &program,
            run: &view,
            seed: seed_from(&run),
            given: &options.labels,
            inherited: &origin.inherited_labels,
        };
        let labels = labels.labels(&*self.inner.store)?;
        let create = NewRun {
            execution_id,
            plan,
            definition: program.plan.name.to_string(),
            dialect: program.plan.dialect.to_string(),
            owner: Some(self.inner.owner.name().clone()),
            created_at: origin.at,
            parent: options.parent.as_ref().map(|(parent, _)| parent.clone()),
            cancel_request_id: options.parent.as_ref().map(|(parent, _)| codec::cancel_request_id(parent)),
            max_tree_runs: program.limits.max_tree_runs,
            options: codec::encode(&how),
            labels,
        };
        let image = recovery::RunImage::new(recovery::new_state(&run, execution_id, &program, origin.at));
        let start = TickKind::AddEvent {
            name: START_EVENT.into(),
            payload: input,
            request: None,
            origin: parent_origin,
            to: None,
            trigger_metadata: origin.metadata,
            defaults,
        };
        let first = match options.held {
            true => vec![TickKind::Pause { request: None }, start],
            false => vec![start],
        };
        let handle = self.track(&run, options.watch);
        let name = program.plan.name.clone();
        let launch = residents::Launch {
            run,
            program: program.clone(),
            image,
            first,
            owner_epoch: 1,
            create: Some(create),
            clock: origin.clock,
            clock_offset: self.inner.clock.offset(),
            parent: options.parent.clone(),
            run_tree,
            reused: None,
            reload_guard,
        };
        let run = handle.run.clone();
        match self.inner.launch(launch).await {
            Ok(()) => {
                self.inner.counts.count_start(&name);
                Ok(RunHandle { created: true, ..handle })
            }
            Err(RuntimeError::RunExists(_)) => {
                // A concurrent start was faster, or the run was cancelled before it started.
                let row =
                    self.inner.store.run(&run)?.ok_or_else(|| RuntimeError::CancelledBeforeStart(run.to_string()))?;
                self.attach_to_existing(&row, &program, start_input, &how, options.watch).await
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the input as a run of that run tree stores it.
    fn admit_start_input(
        &self,
        program: &Program,
        run_tree: &str,
        start_input: &StartInput,
    ) -> Result<Value, RuntimeError> {
        let input = match start_input.admitted {
            true => start_input.input.clone(),
            false => self.inner.admit_input(&program.plan, run_tree, start_input.input.clone())?,
        };
        program.parameters(&input).map_err(|problems| RuntimeError::Input(problems.join("; ")))?;
        Ok(input)
    }

    async fn attach_to_existing(
        &self,
        row: &RunRow,
        program: &Program,
        start_input: StartInput,
        how: &RunOptions,
        watch: bool,
    ) -> Result<RunHandle, RuntimeError> {
        let before = RunOptions::from_row(row)?;
        // References in the input are those of the existing run.
        let same_input = || {
            let admitted = self.admit_start_input(program, &before.run_tree, &start_input)?;
            Ok::<bool, RuntimeError>(before.input == input_hash(&admitted))
        };
        match &how.parent {
            // The calling path identifies the child; it keeps the plan that it was started with.
            Some(_) if before.parent == how.parent => self.attach(&row.run, false, watch).await,
            Some(_) => Err(RuntimeError::ChildExists(row.run.to_string())),
            None if row.plan == start_input.plan && before.fits_delivery(how.delivery) && same_input()? => {
                self.attach_run_tree(&row.run, false, watch).await
            }
            None => Err(RuntimeError::RunExists(row.run.to_string())),
        }
    }
}

/// The input of a start.
struct StartInput {
    plan: BlobHash,
    input: Value,
    /// The input was already admitted: a caller passes it to its child, or a trigger has checked the delivery.
    admitted: bool,
}

/// Returns the hash by which inputs of runs are compared.
pub fn input_hash(input: &Value) -> BlobHash {
    BlobHash(*blake3::hash(&windlass_value::encode(&sort_keys(input))).as_bytes())
}

/// Returns the value with its keys sorted: equal inputs are the same input, in whatever order their keys were
/// written.
fn sort_keys(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::list(items.iter().map(sort_keys).collect()),
        Value::Map(map) => {
            let mut entries: Vec<(Arc<str>, Value)> =
                map.iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect();
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            Value::object(entries)
        }
        other => other.clone(),
    }
}
