//! The changes that a power loss keeps of those that were not synced.

use std::fmt;

use windlass_testing::crash::SeededRng;

/// A part of a change: one sector of a write, or a whole change of a file's size.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) file: u64,
    /// The position of the change in the recording.
    pub(crate) at: u64,
    pub(crate) sector: Option<u64>,
}

/// A pure choice: the same seed keeps the same pieces.
#[derive(Clone, Copy)]
pub(crate) struct Loss {
    seed: u64,
    kind: LossKind,
}

#[derive(Clone, Copy, Debug)]
enum LossKind {
    Nothing,
    Everything,
    /// The disk works in order: everything before a change is kept, that change is torn, nothing after it is kept.
    After(u64),
    /// The disk works in any order: only changes from a position on are kept.
    Before(u64),
    /// Whole writes, each with this chance in percent.
    Writes(u64),
    /// Single sectors, each with this chance in percent.
    Sectors(u64),
    /// Some files are kept, and others lose everything.
    Files,
}

impl Loss {
    pub(crate) fn nothing() -> Loss {
        Loss { seed: 0, kind: LossKind::Nothing }
    }

    /// A loss at a position of the recording, chosen by a seed.
    pub(crate) fn random(seed: u64, at: u64) -> Loss {
        let mut random = SeededRng(seed);
        // What has not been synced is mostly young.
        let before = |random: &mut SeededRng| {
            let age = 1 << (1 + random.below(11));
            at.saturating_sub(random.below(age))
        };
        let kind = match random.below(10) {
            0 => LossKind::Everything,
            1 => LossKind::Nothing,
            2 | 3 => LossKind::After(before(&mut random)),
            4 => LossKind::Before(before(&mut random)),
            5 | 6 => LossKind::Writes([10, 50, 90][random.below(3) as usize]),
            7 | 8 => LossKind::Sectors([10, 50, 97][random.below(3) as usize]),
            _ => LossKind::Files,
        };
        Loss { seed: random.below(u64::MAX), kind }
    }

    pub(crate) fn keeps(&self, piece: Piece) -> bool {
        let sector = piece.sector.map_or(0, |sector| sector + 1);
        match self.kind {
            LossKind::Nothing => true,
            LossKind::Everything => false,
            LossKind::After(at) if piece.at == at => self.chance(50, [1, at, sector]),
            LossKind::After(at) => piece.at < at,
            LossKind::Before(at) => piece.at >= at,
            LossKind::Writes(percent) => self.chance(percent, [2, piece.at, 0]),
            LossKind::Sectors(percent) => self.chance(percent, [3, piece.at, sector]),
            LossKind::Files => self.chance(50, [4, piece.file, 0]),
        }
    }

    pub(crate) fn keeps_name(&self, at: u64) -> bool {
        match self.kind {
            LossKind::Nothing => true,
            LossKind::Everything => false,
            LossKind::After(last) => at <= last,
            LossKind::Before(first) => at >= first,
            LossKind::Writes(percent) | LossKind::Sectors(percent) => self.chance(percent, [5, at, 0]),
            LossKind::Files => self.chance(50, [5, at, 0]),
        }
    }

    /// Returns whether a file has the size of a lost write although it does not have the data.
    pub(crate) fn keeps_sizes(&self, file: u64) -> bool {
        self.chance(25, [6, file, 0])
    }

    fn chance(&self, percent: u64, of: [u64; 3]) -> bool {
        let mixed = of.iter().fold(self.seed, |seed, part| SeededRng(seed ^ part).below(u64::MAX));
        mixed % 100 < percent
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            LossKind::Nothing => out.write_str("it kept everything"),
            LossKind::Everything => out.write_str("it lost everything unsynced"),
            LossKind::After(at) => write!(out, "it tore change {at} and lost what followed"),
            LossKind::Before(at) => write!(out, "it lost everything unsynced before change {at}"),
            LossKind::Writes(percent) => write!(out, "it kept {percent} % of the writes"),
            LossKind::Sectors(percent) => write!(out, "it kept {percent} % of the sectors"),
            LossKind::Files => out.write_str("it kept some files and lost others"),
        }
    }
}
