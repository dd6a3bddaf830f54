//! Values that are one of a few words.

use windlass_syntax::{Diagnostic, Diagnostics, SyntaxNode, did_you_mean, expect_text, format_names};

use super::file::BAD_VALUE;

pub(super) fn parse_keyword<T: Copy>(
    node: &SyntaxNode,
    what: &str,
    words: &[(&'static str, T)],
    out: &mut Diagnostics,
) -> Option<T> {
    let text = &expect_text(node, what, out)?.text;
    let found = words.iter().find(|(word, _)| word == text).map(|(_, meaning)| *meaning);
    if found.is_none() {
        let names = words.iter().map(|(word, _)| *word);
        let hint = did_you_mean(text, names.clone()).unwrap_or_else(|| format!("known here: {}", format_names(names)));
        out.push(Diagnostic::error(BAD_VALUE, node.span, format!("{what} cannot be `{text}`")).with_hint(hint));
    }
    found
}
