//! The expression languages.

pub mod jinja;
pub mod wdl;
