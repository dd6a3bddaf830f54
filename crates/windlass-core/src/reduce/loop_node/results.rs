//! Items, results and records of a loop, stored so that memory depends on the iterations in flight and not on their
//! total number.
//!
//! | results | an iteration's result arrives | the loop ends |
//! |---|---|---|
//! | in order | appended; a full chunk leaves the state | a list; a stored one, if any chunk has left |
//! | before an earlier iteration's | held until the earlier ones have arrived | the same, without the missing ones |

use std::sync::Arc;

use windlass_value::{IterationRecords, Map, StoredValue, Value};

use super::A_LOOP;
use crate::plan::{CollectMode, RecordRetention};
use crate::reduce::fault::{FaultResult, no_frame, no_part, wrong_frame};
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameBody, FrameId, ItemStorage, LoopFrame, LoopItems, LoopResults};
use crate::{ErrorInfo, Values};

impl Reducer<'_> {
    /// Stores a loop's items, which are evaluated once. A long list is split into stored chunks.
    pub(super) fn store_items(&mut self, value: &Value) -> Result<LoopItems, ItemStop> {
        let chunk_items = self.program.limits.loop_chunk_items.max(1);
        if let Value::Stored(stored) = value
            && stored.chunked
        {
            let root = self.values.get(&stored.hash).ok_or_else(|| ItemStop::Need(vec![stored.hash]))?;
            let chunks: Vec<StoredValue> = root.as_list().unwrap_or_default().iter().filter_map(stored_of).collect();
            // It was split when it was stored, possibly under another limit.
            let chunk_items = chunks.first().map_or(chunk_items, |first| first.items.max(1));
            return self.check_item_count(LoopItems {
                count: stored.items,
                storage: ItemStorage::Chunks { chunks, chunk_items },
            });
        }
        let value = self.resolve(value)?;
        let Value::List(list) = &value else {
            let got = match &value {
                Value::Null => "null".to_owned(),
                other => format!("{} {}", other.kind(), truncated(other)),
            };
            let message = format!("a foreach needs an array; it got {got}");
            let hint = "if it may be missing, write coalesce(…, json('[]'))";
            let error = ErrorInfo::new("NotAnArray", "expression", message).hint(hint);
            let error = self.program.plan.apply_hint(error);
            return Err(self.program.plan.apply_wording(error, &[("got", &got)]).into());
        };
        let count = list.len() as u64;
        let items = match count > chunk_items {
            false => LoopItems { count, storage: ItemStorage::Inline(value) },
            true => {
                let chunks =
                    list.chunks(chunk_items as usize).map(|chunk| self.values.put(&Value::list(chunk.to_vec())));
                LoopItems { count, storage: ItemStorage::Chunks { chunks: chunks.collect(), chunk_items } }
            }
        };
        self.check_item_count(items)
    }

    fn check_item_count(&self, items: LoopItems) -> Result<LoopItems, ItemStop> {
        let max = self.program.limits.max_loop_items;
        match items.count <= max {
            true => Ok(items),
            false => Err(ErrorInfo::new("TooManyItems", "limit", format!("{} items; the limit is {max}", items.count))
                .hint("raise `max_loop_items`, or loop over pages")
                .into()),
        }
    }

    /// Returns `_items`, the items of a loop in lists, for the expression of the loop's output. None for a loop without
    /// items and for any other node.
    pub(in crate::reduce) fn loop_items(&self, id: FrameId) -> FaultResult<Option<Map>> {
        let items = match &self.frame(id)?.body {
            FrameBody::Loop(body) => body.items.as_ref(),
            FrameBody::New
            | FrameBody::Backoff
            | FrameBody::Pipeline(_)
            | FrameBody::Graph(_)
            | FrameBody::Branch { .. }
            | FrameBody::Net(_)
            | FrameBody::Wait(_)
            | FrameBody::Call { .. } => None,
        };
        let Some(items) = items else { return Ok(None) };
        let lists = match &items.storage {
            ItemStorage::Inline(list) => vec![list.clone()],
            ItemStorage::Chunks { chunks, .. } => {
                chunks.iter().map(|chunk| Value::Stored(chunk.clone().into())).collect()
            }
        };
        Ok(Some(Map::from_iter([("_items", Value::list(lists))])))
    }

    pub(super) fn item_at(&self, id: FrameId, items: &LoopItems, index: u64) -> Result<Value, ItemStop> {
        let (list, at) = match &items.storage {
            ItemStorage::Inline(list) => (list.clone(), index),
            ItemStorage::Chunks { chunks, chunk_items } => {
                let chunk = index.checked_div(*chunk_items).and_then(|at| chunks.get(at as usize));
                let chunk = chunk.ok_or_else(|| no_part(id, "chunk of items for iteration", index))?;
                let list = self.values.get(&chunk.hash).ok_or_else(|| ItemStop::Need(vec![chunk.hash]))?;
                (list, index % chunk_items)
            }
        };
        let item = list.as_list().and_then(|list| list.get(at as usize)).cloned();
        item.ok_or_else(|| no_part(id, "item for iteration", index).into())
    }

    pub(super) fn collect_result(
        &mut self,
        id: FrameId,
        collect: CollectMode,
        index: u64,
        result: Value,
    ) -> FaultResult {
        let limits = &self.program.limits;
        let (body, values) = self.loop_and_values(id)?;
        let results = &mut body.results;
        match collect {
            CollectMode::Last => {}
            CollectMode::Report => {
                results.tail.push_back(result);
                if results.tail.len() as u64 > limits.max_loop_results {
                    results.tail.pop_front();
                    results.dropped += 1;
                }
            }
            CollectMode::List | CollectMode::Stats => {
                insert_in_order(results, index, result, limits.loop_chunk_items, values);
            }
        }
        Ok(())
    }

    /// Stores the record of an iteration; null for a cancelled one.
    pub(super) fn collect_record(
        &mut self,
        id: FrameId,
        retention: RecordRetention,
        index: u64,
        record: Value,
    ) -> FaultResult {
        let record = self.move_to_blob(record);
        let chunk_items = self.program.limits.loop_chunk_items;
        let (body, values) = self.loop_and_values(id)?;
        match retention {
            RecordRetention::Last if body.last_index == Some(index) => body.record = record,
            RecordRetention::Last => {}
            RecordRetention::All => insert_in_order(&mut body.records, index, record, chunk_items, values),
        }
        Ok(())
    }

    pub(super) fn result_list(&mut self, id: FrameId) -> FaultResult<Value> {
        let (body, values) = self.loop_and_values(id)?;
        Ok(into_list(std::mem::take(&mut body.results), values))
    }

    pub(super) fn iteration_records(
        &mut self,
        id: FrameId,
        retention: Option<RecordRetention>,
    ) -> FaultResult<IterationRecords> {
        let (body, values) = self.loop_and_values(id)?;
        Ok(match retention {
            None => IterationRecords::None,
            Some(RecordRetention::Last) => IterationRecords::Last(std::mem::take(&mut body.record)),
            Some(RecordRetention::All) => IterationRecords::All(into_list(std::mem::take(&mut body.records), values)),
        })
    }

    fn loop_and_values(&mut self, id: FrameId) -> FaultResult<(&mut LoopFrame, &mut dyn Values)> {
        match self.state.frames.get_mut(id).map(|frame| &mut frame.body) {
            Some(FrameBody::Loop(body)) => Ok((body, &mut *self.values)),
            Some(other) => Err(wrong_frame(id, A_LOOP, other)),
            None => Err(no_frame(id, A_LOOP)),
        }
    }
}

/// Inserts a result. Full chunks leave the state as soon as they are contiguous.
fn insert_in_order(results: &mut LoopResults, index: u64, value: Value, chunk_items: u64, values: &mut dyn Values) {
    results.early.insert(index, value);
    append_contiguous(results);
    while results.tail.len() as u64 >= chunk_items {
        let chunk: Vec<Value> = results.tail.drain(..chunk_items as usize).collect();
        results.stored_items += chunk_items;
        results.chunks.push(values.put(&Value::list(chunk)));
    }
}

/// Returns all results in index order: a plain list when it is short, else a stored one.
fn into_list(results: LoopResults, values: &mut dyn Values) -> Value {
    // Iterations that never ended, because the loop was cancelled, leave no entry.
    let tail: Vec<Value> = results.tail.into_iter().chain(results.early.into_values()).collect();
    if results.chunks.is_empty() {
        return Value::list(tail);
    }
    let items = results.stored_items + tail.len() as u64;
    let mut chunks: Vec<Value> = results.chunks.into_iter().map(|chunk| Value::Stored(Arc::new(chunk))).collect();
    if !tail.is_empty() {
        chunks.push(Value::Stored(Arc::new(values.put(&Value::list(tail)))));
    }
    let root = values.put(&Value::list(chunks));
    Value::Stored(Arc::new(StoredValue { items, chunked: true, ..root }))
}

/// Moves results that have become contiguous to the tail.
fn append_contiguous(results: &mut LoopResults) {
    loop {
        let next = results.stored_items + results.tail.len() as u64;
        match results.early.remove(&next) {
            Some(value) => results.tail.push_back(value),
            None => return,
        }
    }
}

fn stored_of(value: &Value) -> Option<StoredValue> {
    if let Value::Stored(stored) = value { Some((**stored).clone()) } else { None }
}

pub(in crate::reduce) fn truncated(value: &Value) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
