//! Damaged rows of the store: every other run continues, and operators learn of the damage.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::{error, info};
use windlass_store::{DamagedRowId, IsolatedRow, StoreError, StoreErrorKind};

use super::{EngineInner, RuntimeEngine};
use crate::RuntimeError;

impl RuntimeEngine {
    /// Returns the number of damaged rows that the engine knew of at its last scan. An engine that does not adopt runs
    /// does not scan.
    pub fn damaged_rows(&self) -> usize {
        self.inner.damaged().len()
    }

    /// Returns the damaged rows of the store, as far as reads have met them.
    pub async fn damage(&self) -> Result<Vec<IsolatedRow>, RuntimeError> {
        self.inner.find_damage().await
    }

    /// Removes a damaged row, or a run that is quarantined. Returns false if there is no such row, or if it is neither.
    pub async fn remove_damaged(&self, row: DamagedRowId) -> Result<bool, RuntimeError> {
        let removed = self.inner.blocking(move |inner| Ok(inner.store.remove_damaged(row)?)).await?;
        self.inner.find_damage().await?;
        Ok(removed)
    }
}

impl EngineInner {
    fn damaged(&self) -> std::sync::MutexGuard<'_, BTreeSet<DamagedRowId>> {
        self.damaged.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Logs damage that is new. A store that cannot be read is reported by whatever needs it.
    pub(super) async fn look_for_damage(self: &Arc<Self>) {
        let _ = self.find_damage().await;
    }

    async fn find_damage(self: &Arc<Self>) -> Result<Vec<IsolatedRow>, RuntimeError> {
        let found = self.blocking(|inner| Ok(inner.store.damage()?)).await?;
        let ids: BTreeSet<DamagedRowId> = found.iter().map(|row| row.id).collect();
        let before = std::mem::replace(&mut *self.damaged(), ids.clone());
        for row in found.iter().filter(|row| !before.contains(&row.id)) {
            error!(row = %row.id, name = row.name.as_deref().unwrap_or_default(), reason = row.reason, "damaged row");
        }
        for row in before.difference(&ids) {
            info!(%row, "damaged row is gone");
        }
        Ok(found)
    }
}

/// The error of a run whose row is damaged, where the store has only said so.
pub(crate) fn damaged_row_error(run: &str) -> RuntimeError {
    let message = format!("The row of the run {run} is damaged.");
    StoreError::new(StoreErrorKind::Damaged, message).with_hint("`windlass doctor` lists the damage").into()
}
