//! Definition files as spanned trees, and diagnostics that point into them. No dialect is known here.
//!
//! Parsing never panics and never recurses deeper than its limit. Every node knows its bytes in the file, and every text
//! knows where each of its characters came from, so that a caret can stand inside an expression inside a string.

mod diagnostic;
mod json;
mod object;
mod render;
mod source;
mod tree;
mod yaml;

pub use diagnostic::{Diagnostic, Diagnostics, Label, Report, Severity};
pub use json::{ParseLimits, parse_json};
pub use object::{Object, did_you_mean, expect_bool, expect_list, expect_text, list_of};
pub use render::{Colour, excerpt_of};
pub use source::{Position, Source, Span};
pub use tree::{Key, Kind, Node, Text, locate, to_value};
pub use windlass_value::nearest;
pub use yaml::{Scalars, Yaml, parse_yaml};
