//! Reads the write-ahead log by its format, without SQLite: SQLite ends at the first frame that is not valid and discards
//! what follows it, without a word.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use crate::chain::ChainLink;

/// The length of the log's header, and of the header of each frame.
pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const FRAME_HEADER_BYTES: usize = 24;

/// The page size of a log whose header is damaged.
const USUAL_PAGE_BYTES: usize = 4096;

/// The first bytes of a log. The lowest bit says which byte order its checksums have.
const MAGIC: u32 = 0x377f_0682;

/// The result of walking over a log.
#[derive(Debug, Default)]
pub(crate) struct LogWalk {
    /// The header is valid. A log without a header counts as empty.
    pub has_header: bool,
    /// The length of the file.
    pub bytes: u64,
    /// The position at which the last valid commit ends; 0 if there is none.
    pub valid_bytes: u64,
    /// The links of the valid commits, in order.
    pub links: Vec<ChainLink>,
    /// The links found behind the valid commits: of commits that were not completed, that are older than the log, or
    /// that follow a damaged frame.
    pub beyond: Vec<ChainLink>,
    /// The position of the first frame that is not valid, if frames of this log follow.
    pub broken_at: Option<u64>,
}

impl LogWalk {
    /// Walks over a log; a missing file is an empty log.
    pub(crate) fn read(path: &Path) -> io::Result<LogWalk> {
        match File::open(path) {
            Ok(file) => LogWalk::walk(&mut BufReader::with_capacity(1 << 20, file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(LogWalk::default()),
            Err(error) => Err(error),
        }
    }

    fn walk(log: &mut (impl Read + Seek)) -> io::Result<LogWalk> {
        let mut walk = LogWalk { bytes: log.seek(SeekFrom::End(0))?, ..LogWalk::default() };
        log.seek(SeekFrom::Start(0))?;
        let mut header = [0; HEADER_BYTES];
        if !fill(log, &mut header)? {
            return Ok(walk);
        }
        let parsed = LogHeader::parse(&header);
        walk.has_header = parsed.is_some();
        let page_bytes = parsed.as_ref().map_or(USUAL_PAGE_BYTES, |header| header.page_bytes);
        let mut sums = parsed;
        let (mut frame, mut at) = (vec![0; FRAME_HEADER_BYTES + page_bytes], HEADER_BYTES as u64);
        let (mut pending, mut ended) = (None, None);
        while fill(log, &mut frame)? {
            let link = ChainLink::from_page(&frame[FRAME_HEADER_BYTES..]);
            let is_valid = sums.as_mut().is_some_and(|sums| sums.accept(&frame));
            if !is_valid && let Some(expected) = sums.take() {
                walk.beyond.extend(pending.take());
                ended = Some((expected, at));
            }
            if let Some((expected, end)) = &ended
                && expected.has_salts(&frame)
            {
                // A frame of this log, here or further on: older ones have other salts.
                walk.broken_at = Some(*end);
            }
            at += frame.len() as u64;
            match is_valid {
                true => pending = link.or(pending),
                false => walk.beyond.extend(link),
            }
            if is_valid && number(&frame, 4) != 0 {
                walk.valid_bytes = at;
                walk.links.extend(pending.take());
            }
        }
        walk.beyond.extend(pending);
        Ok(walk)
    }
}

/// The header of a log, and the checksums up to the frame that was read last.
#[derive(Clone)]
pub(crate) struct LogHeader {
    pub page_bytes: usize,
    salts: [u8; 8],
    big_endian: bool,
    sums: (u32, u32),
}

impl LogHeader {
    /// Parses the header; `None` if its checksum does not match.
    pub(crate) fn parse(header: &[u8; HEADER_BYTES]) -> Option<LogHeader> {
        let magic = number(header, 0);
        let page_bytes = number(header, 8) as usize;
        if magic & !1 != MAGIC || !(512..=65_536).contains(&page_bytes) || !page_bytes.is_power_of_two() {
            return None;
        }
        let big_endian = magic & 1 == 1;
        let sums = add((0, 0), &header[..24], big_endian);
        let salts = header[16..24].try_into().ok()?;
        (sums == (number(header, 24), number(header, 28))).then_some(LogHeader { page_bytes, salts, big_endian, sums })
    }

    fn has_salts(&self, frame: &[u8]) -> bool {
        frame[8..16] == self.salts
    }

    /// Returns whether the frame is the next one of this log, and continues behind it.
    pub(crate) fn accept(&mut self, frame: &[u8]) -> bool {
        let sums = add(self.sums, &frame[..8], self.big_endian);
        let sums = add(sums, &frame[FRAME_HEADER_BYTES..], self.big_endian);
        let is_next = self.has_salts(frame) && number(frame, 0) != 0 && sums == (number(frame, 16), number(frame, 20));
        if is_next {
            self.sums = sums;
        }
        is_next
    }
}

/// Adds bytes to the checksums of the log.
fn add((mut one, mut two): (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let word = |bytes: &[u8]| {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    for words in bytes.chunks_exact(8) {
        one = one.wrapping_add(word(words)).wrapping_add(two);
        two = two.wrapping_add(word(&words[4..])).wrapping_add(one);
    }
    (one, two)
}

/// Reads a number of a header, which is big-endian.
fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Fills the buffer; returns false at the end of the file, where a part of a frame counts as none.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Finds the one bit whose flip makes the first invalid frame of a log, or its header, valid. Returns its byte and mask.
///
/// The checksum of a frame has 64 bits: no other bit fits by chance.
pub(crate) fn find_flipped_bit(path: &Path, broken_at: Option<u64>) -> io::Result<Option<(u64, u8)>> {
    let mut log = File::open(path)?;
    let mut header = [0; HEADER_BYTES];
    if !fill(&mut log, &mut header)? {
        return Ok(None);
    }
    let Some(mut sums) = LogHeader::parse(&header) else {
        return Ok(
            flip_until(&mut header, |header| LogHeader::parse(header).is_some()).map(|(at, bit)| (at as u64, bit))
        );
    };
    let Some(broken_at) = broken_at else { return Ok(None) };
    let mut frame = vec![0; FRAME_HEADER_BYTES + sums.page_bytes];
    let mut at = HEADER_BYTES as u64;
    while fill(&mut log, &mut frame)? {
        if at >= broken_at {
            let found = flip_until(&mut frame[..], |frame| sums.clone().accept(frame));
            return Ok(found.map(|(byte, bit)| (at + byte as u64, bit)));
        }
        sums.accept(&frame);
        at += frame.len() as u64;
    }
    Ok(None)
}

fn flip_until<B: AsMut<[u8]> + ?Sized>(bytes: &mut B, is_valid: impl Fn(&B) -> bool) -> Option<(usize, u8)> {
    for at in 0..bytes.as_mut().len() {
        for bit in (0..8).map(|shift| 1u8 << shift) {
            bytes.as_mut()[at] ^= bit;
            if is_valid(bytes) {
                return Some((at, bit));
            }
            bytes.as_mut()[at] ^= bit;
        }
    }
    None
}
