//! The program that packages carry, as its file describes it.

use std::path::Path;
use std::sync::Arc;

use crate::error::{DistError, read};
use crate::target::PackageTarget;

/// Types of entries of the program header table: a part that is loaded, the dynamic section, and the name of the
/// dynamic loader.
const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;

/// Tags of the dynamic section: a library that is needed, and the address of its names.
const NEEDED: u64 = 1;
const NAMES: u64 = 5;

/// A program for one target.
#[derive(Clone, Debug)]
pub struct PackagedProgram {
    pub bytes: Arc<[u8]>,
    pub target: PackageTarget,
    /// A static program runs on every Linux; any other needs the C library that it was linked with.
    pub is_static: bool,
    /// The shared libraries that it names, such as `libc.so.6`.
    pub libraries: Vec<String>,
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
        let is_static = !headers.iter().any(|header| header.kind == INTERPRETER);
        let libraries = libraries(&bytes, &headers);
        Ok(PackagedProgram { bytes: bytes.into(), target, is_static, libraries })
    }
}

/// An entry of the program header table.
struct ProgramHeader {
    kind: u64,
    /// The place in the file.
    offset: u64,
    /// The place in memory.
    address: u64,
    size: u64,
}

fn program_headers(bytes: &[u8]) -> Option<Vec<ProgramHeader>> {
    let (table, size, count) = (number(bytes, 32, 8)?, number(bytes, 54, 2)?, number(bytes, 56, 2)?);
    let header = |index: u64| {
        let at = usize::try_from(table.checked_add(index * size)?).ok()?;
        let field = |offset: usize| number(bytes, at.checked_add(offset)?, 8);
        Some(ProgramHeader { kind: number(bytes, at, 4)?, offset: field(8)?, address: field(16)?, size: field(32)? })
    };
    (0..count).map(header).collect()
}

/// Returns the shared libraries that the dynamic section names; none if there is no such section.
fn libraries(bytes: &[u8], headers: &[ProgramHeader]) -> Vec<String> {
    let Some(dynamic) = headers.iter().find(|header| header.kind == DYNAMIC) else { return Vec::new() };
    let entry = |index: u64| {
        let at = usize::try_from(dynamic.offset.checked_add(index * 16)?).ok()?;
        Some((number(bytes, at, 8)?, number(bytes, at.checked_add(8)?, 8)?))
    };
    let entries: Vec<(u64, u64)> = (0..dynamic.size / 16).map_while(entry).collect();
    let names = entries.iter().find(|(tag, _)| *tag == NAMES).and_then(|(_, address)| file_offset(headers, *address));
    let Some(names) = names else { return Vec::new() };
    let needed = entries.iter().filter(|(tag, _)| *tag == NEEDED);
    needed.filter_map(|(_, at)| text(bytes, names.checked_add(*at)?)).collect()
}

/// Returns the place in the file of a place in memory.
fn file_offset(headers: &[ProgramHeader], address: u64) -> Option<u64> {
    let part = headers.iter().find(|header| {
        header.kind == LOAD && address.checked_sub(header.address).is_some_and(|offset| offset < header.size)
    })?;
    part.offset.checked_add(address - part.address)
}

/// Reads a text up to its final zero.
fn text(bytes: &[u8], at: u64) -> Option<String> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

/// Reads a little-endian number.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
