//! Generated from the pages of `windlass-errors`: `UPDATE=1 cargo test -p windlass-errors`.

use super::Example;

mod wnd_14xx;
mod wnd_21xx;
mod wnd_22xx;
mod wnd_23xx;
mod wnd_26xx;

pub(super) const EXAMPLES: &[&[Example]] = &[
    wnd_14xx::EXAMPLES,
    wnd_21xx::EXAMPLES,
    wnd_22xx::EXAMPLES,
    wnd_23xx::EXAMPLES,
    wnd_26xx::EXAMPLES,
];
