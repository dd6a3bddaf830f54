//! Parsers that read definition files into spanned trees, and diagnostics that point into them. No dialect is known
//! here.
//!
//! Parsing never panics and never recurses deeper than its limit. Every node knows its bytes in the file, and every
//! text knows the origin of each of its characters, so that a caret can point inside an expression inside a string.

mod diagnostic;
mod json;
mod object;
mod render;
mod source;
mod tree;
mod yaml;

pub use diagnostic::{Diagnostic, DiagnosticReport, Diagnostics, Label, Severity};
pub use json::{ParseLimits, parse_json};
pub use object::{ObjectReader, did_you_mean, expect_bool, expect_list, expect_text, format_names};
pub use render::{Colour, render_excerpt};
pub use source::{LineColumn, SourceText, Span};
pub use tree::{SpannedKey, SpannedText, SyntaxNode, SyntaxNodeKind, span_at_pointer, to_value};
pub use windlass_value::nearest;
pub use yaml::{ScalarRules, YamlRules, parse_yaml};
