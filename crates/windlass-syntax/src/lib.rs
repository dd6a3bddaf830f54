//! Definition files as spanned trees, and diagnostics that point into them
