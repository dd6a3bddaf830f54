//! Keys that a place may have, and what becomes of each: one table for each place.

use windlass_syntax::Object;

use crate::codes;
use crate::compiler::Compiler;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// Read before the rest is settled.
    Works,
    /// Understood, and does nothing here: why, or what does.
    NoEffect(&'static str),
    /// Not there: what to write instead.
    Refused(&'static str),
}

pub(crate) type Table = [(&'static str, Fate)];

/// Says what becomes of every key that was not taken.
pub(crate) fn settle(compiler: &mut Compiler, mut object: Object, table: &Table, what: &str) {
    for (name, fate) in table {
        if object.peek(name).is_none() {
            continue;
        }
        let Some((key, _)) = object.take_entry(name) else { continue };
        match fate {
            Fate::Works => {}
            Fate::NoEffect(hint) => {
                compiler.no_effect(key.span, format!("`{name}` of {what} has no effect"), *hint);
            }
            Fate::Refused(hint) => {
                compiler.error(codes::NOT_SUPPORTED, key.span, format!("`{name}` of {what} is not supported"), *hint);
            }
        }
    }
    let names: Vec<&'static str> = table.iter().map(|(name, _)| *name).collect();
    object.also_known(&names);
    object.finish(codes::UNKNOWN_KEY, what, &mut compiler.diagnostics);
}
