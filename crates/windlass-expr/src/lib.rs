//! The expression languages
