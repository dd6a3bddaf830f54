//! Deliveries: each delivery to a trigger becomes runs, each exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use windlass_core::plan::Trigger;
use windlass_core::{Admission, AdmissionError, Program, TriggerDelivery, UnmetCondition, admit};
use windlass_store::{RunLabels, RunRow};
use windlass_value::{BlobHash, Timestamp, Value};

use super::starts::input_hash;
use super::{RunHandle, RunOptions, RunStartOptions, RuntimeEngine, StartOrigin, new_run_id};
use crate::clock::Clock;
use crate::external_input::neutralize_references;
use crate::{BlobCache, RuntimeError, recovery};

/// The maximum number of starts that are being made durable concurrently; they share commits.
const MAX_START_CONCURRENCY: usize = 64;

/// Options of a delivery to a trigger.
#[derive(Default)]
pub struct TriggerOptions {
    /// The name of the delivery: a repeat starts nothing twice and starts what is missing. `None`: it is a new
    /// delivery.
    pub delivery: Option<String>,
    /// Metadata of the input, as an object: `headers`, `queries`. A repeat may carry other metadata; that of the first
    /// delivery counts.
    pub metadata: Value,
    /// The runs have a virtual clock: waits take no real time.
    pub virtual_time: bool,
    /// Requests live events of the runs.
    pub watch: bool,
    /// The runs are created, and each starts when it is resumed.
    pub held: bool,
    /// Labels of the runs, in addition to those of the definition.
    pub labels: RunLabels,
}

/// The outcome of a delivery.
pub struct DeliveryRuns {
    /// In the order of the items.
    pub runs: Vec<RunHandle>,
    /// The condition that was not met, if there are no runs for that reason.
    pub unmet: Option<UnmetCondition>,
}

impl RuntimeEngine {
    /// Hands a delivery to a trigger. When this returns, every run it leads to is durable. The runs are named
    /// `DELIVERY-0`, `DELIVERY-1`, …, so a repeated delivery, even after a crash in its middle, creates each run once.
    pub async fn trigger(
        &self,
        plan: BlobHash,
        trigger: &str,
        input: Value,
        options: TriggerOptions,
    ) -> Result<DeliveryRuns, RuntimeError> {
        let (input, metadata) = (neutralize_references(input), neutralize_references(options.metadata));
        let delivery = options.delivery.clone().unwrap_or_else(new_run_id);
        let (whole, first) = (input_hash(&input), delivery_run_id(&delivery, 0));
        let plan = self.plan_of_delivery(plan, whole, &first)?;
        let program = self.inner.program(&plan)?;
        let trigger = find_trigger(&program, trigger)?;
        let start = |now: Timestamp, (at, input): (usize, Value)| {
            let (engine, run) = (self.clone(), delivery_run_id(&delivery, at));
            let (id, watch, metadata) = (Some(run.clone()), options.watch, metadata.clone());
            let start = RunStartOptions {
                id,
                virtual_time: options.virtual_time,
                parent: None,
                watch,
                held: options.held,
                labels: options.labels.clone(),
            };
            async move {
                let clock = if start.virtual_time { Clock::virtual_time() } else { Clock::Real };
                let delivery = Some(whole);
                let origin = StartOrigin {
                    clock,
                    depth: 0,
                    at: now,
                    delivery,
                    metadata,
                    parent_execution_id: None,
                    trace: None,
                    output_step: None,
                    run_tree: None,
                    inherited_labels: RunLabels::new(),
                };
                match engine.start_from(plan, input, start, origin).await {
                    // Another process made the same delivery as well and owns the run.
                    Err(RuntimeError::Owned { .. }) => Ok((at, engine.inner.follow(&run, watch && engine.live))),
                    started => started.map(|handle| (at, handle)),
                }
            }
        };
        let delivered = TriggerDelivery { input: &input, metadata: &metadata };
        let mut runs = BTreeMap::new();
        let (now, mut inputs, unmet) = loop {
            // The other runs start after the first. If the first exists, the delivery is evaluated as of its creation
            // time.
            let before = self.inner.store.run(&first)?;
            if let Some(row) = &before {
                check_same_delivery(row, plan, whole)?;
            }
            let now = before.as_ref().map_or_else(|| self.inner.clock.now(), |row| row.created_at);
            let Admission { inputs, unmet } = self.admit(&program, trigger, delivered, now, &delivery)?;
            let mut inputs = inputs.into_iter().enumerate();
            let Some(begin) = inputs.next() else { break (now, inputs, unmet) };
            let started = start(now, begin).await;
            let made_at = self.inner.store.run(&first)?.map(|row| row.created_at);
            if before.is_none() && made_at.is_some_and(|made_at| made_at != now) {
                // The same delivery arrived twice concurrently: the first one has determined the time.
                continue;
            }
            runs.extend([started?]);
            break (now, inputs, unmet);
        };
        let mut starting = JoinSet::new();
        loop {
            while starting.len() < MAX_START_CONCURRENCY
                && let Some(next) = inputs.next()
            {
                starting.spawn(start(now, next));
            }
            match starting.join_next().await {
                Some(started) => runs.extend([started.map_err(|_| RuntimeError::Closing)??]),
                None => break,
            }
        }
        Ok(DeliveryRuns { runs: runs.into_values().collect(), unmet })
    }

    /// Returns the plan for a delivery. A delivery that was started is finished with the version it was started with,
    /// whatever its definition is now: after a crash in its middle, the missing items are those of that version.
    fn plan_of_delivery(&self, plan: BlobHash, whole: BlobHash, first: &str) -> Result<BlobHash, RuntimeError> {
        let Some(row) = self.inner.store.run(first)?.filter(|row| row.plan != plan) else { return Ok(plan) };
        let before = RunOptions::from_row(&row)?;
        let is_same = before.delivery == Some(whole) && *self.inner.program(&plan)?.plan.name == *row.definition;
        Ok(if is_same { row.plan } else { plan })
    }

    fn admit(
        &self,
        program: &Program,
        trigger: &Trigger,
        delivered: TriggerDelivery<'_>,
        now: Timestamp,
        delivery: &str,
    ) -> Result<Admission, RuntimeError> {
        let seed = seed_from(delivery);
        let mut values = BlobCache::default();
        loop {
            match admit(program, trigger, delivered, now, seed, &mut values) {
                Ok(admitted) => return Ok(admitted),
                Err(AdmissionError::Rejected(error)) => return Err(RuntimeError::Delivery(error)),
                Err(AdmissionError::NeedBlobs(hashes)) => {
                    recovery::fetch_blobs(&*self.inner.store, &hashes, &mut values)?
                }
            }
        }
    }
}

/// Checks that a delivery name is bound to the same delivery, including every item.
fn check_same_delivery(row: &RunRow, plan: BlobHash, whole: BlobHash) -> Result<(), RuntimeError> {
    let before = RunOptions::from_row(row)?;
    match row.plan == plan && before.fits_delivery(Some(whole)) {
        true => Ok(()),
        false => Err(RuntimeError::RunExists(row.run.to_string())),
    }
}

fn find_trigger<'p>(program: &'p Arc<Program>, name: &str) -> Result<&'p Trigger, RuntimeError> {
    let triggers = &program.plan.triggers;
    let exact = triggers.iter().find(|trigger| &*trigger.name == name);
    exact.or_else(|| triggers.iter().find(|trigger| trigger.name.eq_ignore_ascii_case(name))).ok_or_else(|| {
        let known: Vec<String> = triggers.iter().map(|trigger| format!("`{}`", trigger.name)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        RuntimeError::NoSuchTrigger { name: name.to_owned(), known }
    })
}

fn delivery_run_id(delivery: &str, item: usize) -> String {
    format!("{delivery}-{item}")
}

/// Derives a seed from the name of a delivery or a run, so that a repeat draws the same random numbers.
pub(super) fn seed_from(name: &str) -> u64 {
    let hash = blake3::hash(name.as_bytes());
    hash.as_bytes().iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}
