//! Checks for characters that make a text look like another one.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, SpannedText};

use super::DocumentReader;
use crate::codes;

impl DocumentReader<'_> {
    /// Rejects characters that change the text direction: the displayed text would differ from the actual text.
    pub(crate) fn check_overrides(&mut self, text: &SpannedText, span: Span, what: &str) {
        let found = text.text.char_indices().find(|(_, letter)| is_override(*letter));
        if let Some((at, letter)) = found {
            let message =
                format!("`{what}` has the character U+{:04X}, which changes the direction of the text", letter as u32);
            let span = text.span_of(at..at + letter.len_utf8(), span);
            self.error(
                codes::TEXT_DIRECTION,
                span,
                message,
                "remove it: the displayed text would differ from the actual text",
            );
        }
    }

    /// Warns about Latin letters mixed with look-alikes of other scripts.
    pub(crate) fn warn_mixed_scripts(&mut self, name: &str, span: Span) {
        let has = |range: &[std::ops::RangeInclusive<char>]| {
            name.chars().find(|letter| letter.is_alphabetic() && range.iter().any(|range| range.contains(letter)))
        };
        let latin = has(&['A'..='Z', 'a'..='z', '\u{c0}'..='\u{24f}']);
        let other = has(&['\u{370}'..='\u{52f}', '\u{531}'..='\u{58f}', '\u{13a0}'..='\u{13ff}']);
        if let (Some(_), Some(other)) = (latin, other) {
            let message =
                format!("the name mixes Latin letters with `{other}` (U+{:04X}) of another script", other as u32);
            self.warning(codes::MIXED_SCRIPT, span, message, "write it in one script if the two look alike");
        }
    }
}

fn is_override(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Removes control characters and characters without width. Keeps line breaks if `lines` is set.
pub(super) fn strip_invisible(text: &str, lines: bool) -> String {
    let kept = |letter: &char| match letter {
        '\n' | '\r' | '\t' => lines,
        '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => false,
        other => !other.is_control(),
    };
    text.chars().filter(kept).collect()
}
