//! The program that packages carry, as its file describes it.

use std::path::Path;
use std::sync::Arc;

use crate::error::{DistError, read};
use crate::target::PackageTarget;

/// Entry of the program header table that names the dynamic loader.
const INTERPRETER: u32 = 3;

/// A program for one target.
#[derive(Clone, Debug)]
pub struct PackagedProgram {
    pub bytes: Arc<[u8]>,
    pub target: PackageTarget,
    /// A static program runs on every Linux; any other needs the C library that it was linked with.
    pub is_static: bool,
}

impl PackagedProgram {
    pub fn read(path: &Path) -> Result<PackagedProgram, DistError> {
        PackagedProgram::from_bytes(read(path)?).map_err(|why| DistError::failed(format!("{}: {why}", path.display())))
    }

    /// Inspects an ELF file: its architecture, and whether it names a dynamic loader.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<PackagedProgram, DistError> {
        let invalid = || DistError::failed("this is not a 64-bit Linux program");
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return Err(invalid());
        }
        let machine = number(&bytes, 18, 2).ok_or_else(invalid)?;
        let target = PackageTarget::ALL.into_iter().find(|target| u64::from(target.elf_machine()) == machine);
        let target = target.ok_or_else(|| DistError::failed("there are no packages for its architecture"))?;
        let headers = program_headers(&bytes).ok_or_else(invalid)?;
        let is_static = !headers.contains(&u64::from(INTERPRETER));
        Ok(PackagedProgram { bytes: bytes.into(), target, is_static })
    }
}

/// The types of the entries of the program header table.
fn program_headers(bytes: &[u8]) -> Option<Vec<u64>> {
    let (table, size, count) = (number(bytes, 32, 8)?, number(bytes, 54, 2)?, number(bytes, 56, 2)?);
    (0..count).map(|index| number(bytes, usize::try_from(table + index * size).ok()?, 4)).collect()
}

/// Reads a little-endian number.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
