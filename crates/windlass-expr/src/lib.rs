//! The expression languages.

pub mod jinja;
pub mod steps;
pub mod wdl;
