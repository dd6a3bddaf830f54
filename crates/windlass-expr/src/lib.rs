//! The expression languages.

pub mod wdl;
