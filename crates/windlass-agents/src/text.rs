//! Texts of others, made fit to be shown: one line, no tricks, not too long.

use std::fmt::Write;

/// Every character that moves the cursor, hides itself or turns the reading direction becomes visible.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            one if is_tricky(one) => {
                // Writing to a text cannot fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(one));
            }
            one => shown.push(one),
        }
    }
    shown
}

fn is_tricky(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// At most so many characters.
pub(crate) fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// At most so many bytes, of which the first and the last are kept. What is left out is said.
pub(crate) fn head_and_tail(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let (mut head, mut tail) = (bytes_max / 2, text.len() - bytes_max / 2);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n… {} bytes left out …\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides() {
        for (text, shown) in [
            ("plain ü 漢", "plain ü 漢"),
            ("a\nb\tc", "a\\nb\\tc"),
            ("\u{1b}[2Jx", "\\u{1b}[2Jx"),
            ("a\u{202e}b\u{200b}", "a\\u{202e}b\\u{200b}"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!((shortened("äbc", 2), shortened("ab", 2)), ("äb…".to_owned(), "ab".to_owned()));
    }

    #[test]
    fn beginnings_and_ends_are_kept() {
        assert_eq!(head_and_tail("abc", 3), "abc");
        assert_eq!(head_and_tail("aaaabbbbcccc", 8), "aaaa\n… 4 bytes left out …\ncccc");
        // Never through a character.
        assert_eq!(head_and_tail("ääääää", 6), "ä\n… 8 bytes left out …\nä");
    }
}
