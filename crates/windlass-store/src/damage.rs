//! Damage that is confined to single rows: how it is listed and removed.

use std::fmt;
use std::str::FromStr;

use crate::{RunRow, StoreError};

/// The tables whose rows are isolated when they are damaged.
///
/// Damage in the other tables is met by the run that it belongs to, which is then quarantined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DamagedTable {
    /// The rows of runs.
    Runs,
    /// Records that belong to no run.
    Records,
    /// Open waits of runs for an external answer.
    Waits,
}

impl DamagedTable {
    /// All tables, in the order of listings.
    pub const ALL: [DamagedTable; 3] = [DamagedTable::Runs, DamagedTable::Records, DamagedTable::Waits];

    /// Returns the name of the table.
    pub fn as_str(self) -> &'static str {
        match self {
            DamagedTable::Runs => "runs",
            DamagedTable::Records => "records",
            DamagedTable::Waits => "waits",
        }
    }
}

/// Identifies a damaged row, such as `runs/17`: its name may be part of the damage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DamagedRowId {
    /// The table that holds the row.
    pub table: DamagedTable,
    /// The number of the row in its table.
    pub number: i64,
}

impl DamagedRowId {
    /// Creates the id of a row.
    pub fn new(table: DamagedTable, number: i64) -> DamagedRowId {
        DamagedRowId { table, number }
    }
}

impl fmt::Display for DamagedRowId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.table.as_str(), self.number)
    }
}

/// Parses what `Display` writes. The error carries no message: the caller knows where the text came from.
impl FromStr for DamagedRowId {
    type Err = ();

    fn from_str(text: &str) -> Result<DamagedRowId, ()> {
        let (table, number) = text.split_once('/').ok_or(())?;
        let table = DamagedTable::ALL.into_iter().find(|one| one.as_str() == table).ok_or(())?;
        Ok(DamagedRowId { table, number: number.parse().map_err(|_| ())? })
    }
}

/// A row that cannot be trusted. Scans leave it out, and all other rows stay usable.
#[derive(Clone, PartialEq, Debug)]
pub struct IsolatedRow {
    /// The row.
    pub id: DamagedRowId,
    /// The id of the run, or the kind and the key of the record, if it can be read.
    pub name: Option<String>,
    /// A sentence that says what is wrong with the row.
    pub reason: String,
    /// The readable part of a run's row, for listings only: every value in it may be wrong.
    pub run: Option<Box<RunRow>>,
}

/// Damaged rows: scans skip them, so that damage affects only the run or the record that it hits.
pub trait StoreDamage: Send + Sync {
    /// Returns the damaged rows that reads of this store have met so far, and runs with an unknown status.
    ///
    /// Each row is read once more: a row that was repaired or removed is no longer listed.
    /// [`verify`](crate::StoreScan::verify) reads all rows, so that all damaged ones are listed after it.
    fn damage(&self) -> Result<Vec<IsolatedRow>, StoreError>;

    /// Removes a damaged row, with everything that belongs to it. Also removes a run that is quarantined.
    ///
    /// Returns false if there is no such row, or if it is neither damaged nor quarantined. The child runs of a removed
    /// run stay.
    fn remove_damaged(&self, row: DamagedRowId) -> Result<bool, StoreError>;
}
