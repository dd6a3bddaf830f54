//! Row checksums. The checksum of a row is over the types and values of the columns before it, in the order in which
//! every query of that table lists them.
//!
//! A long body has its own checksum, `body_checksum`, which is one of those columns: the numbers of such a row are
//! verified without reading its body.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use windlass_store::backend::RowSum;

/// Adds a column as it was read.
fn add_value(sum: &mut RowSum, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => sum.null(),
        ValueRef::Integer(number) => sum.number(number),
        // No table has such a column, so the type alone makes a difference.
        ValueRef::Real(number) => sum.number(number.to_bits().cast_signed().wrapping_add(1)),
        ValueRef::Text(text) => sum.bytes(b't', text),
        ValueRef::Blob(bytes) => sum.bytes(b'b', bytes),
    }
}

/// The columns of a row up to its checksum.
pub(crate) struct RowCheck<'r, 's> {
    row: &'r Row<'s>,
    checksum_column: usize,
}

impl<'r, 's> RowCheck<'r, 's> {
    /// Names the column of the checksum.
    pub(crate) fn new(row: &'r Row<'s>, checksum_column: usize) -> RowCheck<'r, 's> {
        RowCheck { row, checksum_column }
    }

    /// Returns whether the checksum is that of the columns before it.
    pub(crate) fn is_sealed(&self) -> rusqlite::Result<bool> {
        let mut sum = RowSum::default();
        for column in 0..self.checksum_column {
            add_value(&mut sum, self.row.get_ref(column)?);
        }
        let stored = self.row.get_ref(self.checksum_column)?;
        Ok(matches!(stored, ValueRef::Integer(stored) if stored == i64::from(sum.finish())))
    }
}

/// Returns the same for values that are passed to a function of SQL.
pub(crate) fn are_sealed<'v>(values: impl Iterator<Item = ValueRef<'v>>, stored: ValueRef<'_>) -> bool {
    let mut sum = RowSum::default();
    values.for_each(|value| add_value(&mut sum, value));
    matches!(stored, ValueRef::Integer(stored) if stored == i64::from(sum.finish()))
}

/// A value of a column that is written.
pub(crate) trait SealedColumn {
    /// Adds the value as it will be read.
    fn add_to(&self, sum: &mut RowSum);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl SealedColumn for $number {
            fn add_to(&self, sum: &mut RowSum) {
                sum.number(i64::try_from(*self).unwrap_or(i64::MAX));
            }
        }
    )*};
}
numbers!(i64, u64, u32, u8);

impl SealedColumn for str {
    fn add_to(&self, sum: &mut RowSum) {
        sum.bytes(b't', self.as_bytes());
    }
}

impl SealedColumn for [u8] {
    fn add_to(&self, sum: &mut RowSum) {
        sum.bytes(b'b', self);
    }
}

impl<T: SealedColumn + ?Sized> SealedColumn for &T {
    fn add_to(&self, sum: &mut RowSum) {
        (**self).add_to(sum);
    }
}

impl<T: SealedColumn> SealedColumn for Option<T> {
    fn add_to(&self, sum: &mut RowSum) {
        match self {
            Some(value) => value.add_to(sum),
            None => sum.null(),
        }
    }
}

/// Computes the checksum of a row from the columns in front of it.
pub(crate) fn seal(columns: &[&dyn SealedColumn]) -> u32 {
    let mut sum = RowSum::default();
    columns.iter().for_each(|column| column.add_to(&mut sum));
    sum.finish()
}

/// Computes the checksum of a body.
pub(crate) fn body_sum(body: &[u8]) -> u32 {
    seal(&[&body])
}
