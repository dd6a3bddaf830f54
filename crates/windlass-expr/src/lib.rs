//! The expression languages of Windlass.

#[cfg(feature = "dialects")]
pub mod cel;
#[cfg(feature = "dialects")]
pub mod jinja;
pub mod steps;
#[cfg(feature = "dialects")]
pub mod wdl;
