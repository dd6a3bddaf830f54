//! The targets, by what they feed.

pub(crate) mod definitions;
pub(crate) mod edge;
pub(crate) mod expressions;
pub(crate) mod journal;
pub(crate) mod signatures;
pub(crate) mod sql;
pub(crate) mod syntax;
pub(crate) mod worker;

/// Splits off the first byte, which selects a variant of a target.
pub(crate) fn variant(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (*first, rest))
}

/// Splits off the first byte and returns the rest if it is text.
pub(crate) fn text(data: &[u8]) -> Option<(u8, &str)> {
    let (variant, rest) = variant(data);
    Some((variant, std::str::from_utf8(rest).ok()?))
}
