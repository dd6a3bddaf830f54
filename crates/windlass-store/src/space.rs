//! Space that is reserved for control records, for stores on a disk that can be full.

use crate::{RunBatch, StoreError, StoreErrorKind};

/// The space that a store has left, as far as it decides which writes it accepts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum SpaceLeft {
    /// Every write is accepted.
    #[default]
    Enough,
    /// The disk has been full. Runs that exist continue in reserved space; nothing new is started or registered.
    Reserved,
    /// The space for running runs is used up as well. Only requests to runs, changes of their status, and removals are
    /// accepted.
    ControlOnly,
}

/// The largest message that a run gets while only control records are accepted: a cancellation with its reason is much
/// smaller, the payload of a signal may be larger.
pub const MAX_CONTROL_BYTES: usize = 16 * 1024;

impl SpaceLeft {
    /// Returns whether this batch may be written.
    pub fn admits(self, batch: &RunBatch) -> bool {
        match self {
            SpaceLeft::Enough => true,
            SpaceLeft::Reserved => batch.create.is_none(),
            SpaceLeft::ControlOnly => batch.create.is_none() && is_control(batch),
        }
    }

    /// Refuses a write that needs more space than is left.
    pub fn require(self, needed: SpaceLeft) -> Result<(), StoreError> {
        match self <= needed {
            true => Ok(()),
            false => Err(StoreError::reserved_space()),
        }
    }
}

/// A batch of a run that has consumed a request, changes its status or is released.
fn is_control(batch: &RunBatch) -> bool {
    !batch.consumed.is_empty() || batch.status.is_some() || (batch.release && batch.record.is_none())
}

impl StoreError {
    /// The error of a write that was refused because the space that is left is reserved. Nothing of it was written.
    pub fn reserved_space() -> StoreError {
        let message = "The disk is full: the space that is left is reserved for runs that exist.";
        let hint = "Nothing was changed. Free some space on the store's disk: the server accepts work again by itself.";
        StoreError::new(StoreErrorKind::Full, message).with_hint(hint)
    }
}

/// Reserved space. A store without a disk has no use for it.
pub trait StoreSpace: Send + Sync {
    /// Returns the space that is left. Cheap: meant to be called before every start.
    ///
    /// While space is short, a call makes the reserve again from time to time, once the disk has room.
    fn space_left(&self) -> SpaceLeft {
        SpaceLeft::Enough
    }

    /// Gives reserved space free for a small write beside the store, such as a line of an audit log, which has met a
    /// full disk. Returns false if there is none left.
    fn release_space(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::batches::{creation, tick};
    use crate::{RunStatus, StatusChange};
    use windlass_value::Timestamp;

    #[test]
    fn each_level_admits_less() {
        let ended = StatusChange { status: RunStatus::Cancelled, at: Timestamp(1), result: None };
        let cancelled = RunBatch { status: Some(ended), ..tick("r", 0, vec![1]) };
        let answered = RunBatch { consumed: vec!["request".into()], ..tick("r", 0, vec![1]) };
        let released = RunBatch { release: true, record: None, ..tick("r", 0, vec![1]) };
        for (batch, enough, reserved, control) in [
            (creation("r"), true, false, false),
            (tick("r", 0, vec![1]), true, true, false),
            (cancelled, true, true, true),
            (answered, true, true, true),
            (released, true, true, true),
        ] {
            let admitted =
                [SpaceLeft::Enough, SpaceLeft::Reserved, SpaceLeft::ControlOnly].map(|left| left.admits(&batch));
            assert_eq!(admitted, [enough, reserved, control], "{batch:?}");
        }
        assert!(SpaceLeft::Reserved.require(SpaceLeft::Enough).is_err());
        assert!(SpaceLeft::Reserved.require(SpaceLeft::Reserved).is_ok());
    }
}
