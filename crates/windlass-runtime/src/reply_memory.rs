//! The memory of replies: how many bytes the tools of a process may hold of replies that are not durable yet.
//!
//! A small reply needs no permission. A larger one reserves memory before it is read, and again for the value that it
//! is parsed to; both wait while other replies have it. The two reservations come from separate halves of the
//! limit, and the second one is returned when the report is durable, which needs no memory of the first: replies wait
//! for each other, but never in a circle.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_core::TaskOutcome;

/// Bytes that a reply may have without a reservation.
pub const FREE_REPLY_BYTES: usize = 64 * 1024;

/// Bytes of one permit of the semaphores.
const UNIT_BYTES: usize = 1_024;

/// The memory of all replies of a process.
#[derive(Clone, Debug)]
pub struct ReplyBudget(Arc<BudgetHalves>);

#[derive(Debug)]
struct BudgetHalves {
    /// Bodies that are being read.
    bodies: Arc<Semaphore>,
    /// Values that are not durable yet.
    values: Arc<Semaphore>,
    /// The permits of each.
    units: u32,
}

impl ReplyBudget {
    /// Creates a budget of this many bytes.
    pub fn new(max_bytes: usize) -> ReplyBudget {
        let units = units(max_bytes / 2).clamp(1, u32::MAX / 8);
        let half = || Arc::new(Semaphore::new(units as usize));
        ReplyBudget(Arc::new(BudgetHalves { bodies: half(), values: half(), units }))
    }

    /// Returns the memory of one call's reply.
    pub fn call(&self) -> ReplyMemory {
        ReplyMemory(Some(Arc::new(CallMemory { budget: self.clone(), value: Mutex::default() })))
    }

    /// Returns the bytes that are reserved now.
    pub fn reserved_bytes(&self) -> usize {
        let half = |semaphore: &Semaphore| (self.0.units as usize).saturating_sub(semaphore.available_permits());
        (half(&self.0.bodies) + half(&self.0.values)) * UNIT_BYTES
    }

    /// Waits for memory. A reply that is larger than the half waits until it has all of it.
    async fn reserve(&self, half: &Arc<Semaphore>, bytes: usize) -> Option<ReplyPermit> {
        let units = units(bytes).min(self.0.units);
        // The semaphores are never closed.
        half.clone().acquire_many_owned(units).await.ok().map(ReplyPermit)
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

/// Reserved memory. It is returned when this is dropped.
#[derive(Debug)]
pub struct ReplyPermit(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// The memory of one call's reply. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ReplyMemory(Option<Arc<CallMemory>>);

#[derive(Debug)]
struct CallMemory {
    budget: ReplyBudget,
    /// The memory of the value that the reply was parsed to.
    value: Mutex<Option<ReplyPermit>>,
}

impl ReplyMemory {
    /// Waits for the memory of a body. The caller drops the permit when it has parsed the body.
    pub async fn reserve_body(&self, bytes: usize) -> Option<ReplyPermit> {
        let call = self.0.as_ref().filter(|_| bytes > FREE_REPLY_BYTES)?;
        call.budget.reserve(&call.budget.0.bodies, bytes).await
    }

    /// Waits for the memory of a value. It is held until the report of the call is durable, and replaces what the call
    /// held before.
    pub async fn reserve_value(&self, bytes: usize) {
        let Some(call) = &self.0 else { return };
        drop(call.take());
        if bytes > FREE_REPLY_BYTES {
            let permit = call.budget.reserve(&call.budget.0.values, bytes).await;
            *call.value.lock().unwrap_or_else(PoisonError::into_inner) = permit;
        }
    }

    /// Waits for the memory of an outcome that its tool has not reserved.
    pub(crate) async fn settle(&self, outcome: &TaskOutcome) {
        let holds = |call: &CallMemory| call.value.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if is_large(outcome) && !self.0.as_ref().is_some_and(|call| holds(call)) {
            self.reserve_value(outcome.output.size_up_to(usize::MAX / 2)).await;
        }
    }

    /// Returns the memory of the call's value, to be held until the report is durable.
    pub(crate) fn take(&self) -> Option<ReplyPermit> {
        self.0.as_ref().and_then(|call| call.take())
    }
}

impl CallMemory {
    fn take(&self) -> Option<ReplyPermit> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Reports whether an outcome needs memory of the budget.
pub(crate) fn is_large(outcome: &TaskOutcome) -> bool {
    outcome.output.size_up_to(FREE_REPLY_BYTES) > FREE_REPLY_BYTES
}
