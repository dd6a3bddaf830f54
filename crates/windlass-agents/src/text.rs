//! Prepares foreign text for display: on one line, without deceptive characters, and short.

use std::fmt::Write;

/// Escapes every character that moves the cursor, is invisible or changes the reading direction.
pub(crate) fn escape_invisible(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            '\r' => escaped.push_str("\\r"),
            one if is_invisible_or_control(one) => {
                // Writing to a `String` cannot fail.
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(one));
            }
            one => escaped.push(one),
        }
    }
    escaped
}

fn is_invisible_or_control(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Truncates a text to at most `max_chars` characters.
pub(crate) fn truncate_chars(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Shortens a text to at most `max_bytes` bytes from its beginning and end, with a note on what was left out between.
pub(crate) fn head_and_tail(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let (mut head, mut tail) = (max_bytes / 2, text.len() - max_bytes / 2);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n… {} bytes left out …\n{}", &text[..head], tail - head, &text[tail..])
}

/// Longer runs of blanks would push the text after them out of sight.
const MAX_BLANKS: usize = 3;

/// Shortens a text for a permission prompt: keeps the beginning and the end and says how much is left out between.
/// Long runs of blanks and line breaks are replaced by their count.
pub(crate) fn elide_middle(text: &str, max_chars: usize) -> String {
    let mut short = String::with_capacity(text.len().min(4 * max_chars));
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_break = |one: char| matches!(one, '\n' | '\r');
        let same = |one: char| one.is_whitespace() && is_break(one) == is_break(first);
        let run = match first.is_whitespace() {
            true => &rest[..rest.find(|one: char| !same(one)).unwrap_or(rest.len())],
            false => &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())],
        };
        let count = run.chars().count();
        match first.is_whitespace() && count > MAX_BLANKS {
            true if is_break(first) => short.push_str(&format!("\n[… {count} line breaks …]\n")),
            true => short.push_str(&format!(" [… {count} blanks …] ")),
            false => short.push_str(run),
        }
        rest = &rest[run.len()..];
    }
    let count = short.chars().count();
    if count <= max_chars {
        return short;
    }
    let at = |nth: usize| short.char_indices().nth(nth).map_or(short.len(), |(at, _)| at);
    let (head, tail) = (at(max_chars / 2), at(count - max_chars / 2));
    let lines = short[head..tail].matches('\n').count();
    let left_out = count - max_chars / 2 * 2;
    format!("{} [… {left_out} characters, {lines} line breaks left out …] {}", &short[..head], &short[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, shown) in [
            ("plain ü 漢", "plain ü 漢"),
            ("a\nb\tc", "a\\nb\\tc"),
            ("\u{1b}[2Jx", "\\u{1b}[2Jx"),
            ("a\u{202e}b\u{200b}", "a\\u{202e}b\\u{200b}"),
        ] {
            assert_eq!(escape_invisible(text), shown);
        }
        assert_eq!((truncate_chars("äbc", 2), truncate_chars("ab", 2)), ("äb…".to_owned(), "ab".to_owned()));
    }

    #[test]
    fn runs_of_blanks_are_counted_instead_of_shown() {
        for (text, shown) in [
            ("git  log   -1", "git  log   -1".to_owned()),
            (&format!("ls{}; rm x", " ".repeat(500)), "ls [… 500 blanks …] ; rm x".to_owned()),
            (&format!("ls{}rm x", "\n".repeat(90)), "ls\n[… 90 line breaks …]\nrm x".to_owned()),
            (&format!("ls{}rm", "\u{3000}\t ".repeat(2)), "ls [… 6 blanks …] rm".to_owned()),
            (&format!("a{}\n{}; rm x", "b".repeat(99), "c".repeat(99)), {
                let (head, tail) = (format!("a{}", "b".repeat(29)), format!("{}; rm x", "c".repeat(24)));
                format!("{head} [… 146 characters, 1 line breaks left out …] {tail}")
            }),
        ] {
            assert_eq!(elide_middle(text, 60), shown);
        }
    }

    #[test]
    fn head_and_tail_keeps_the_beginning_and_the_end() {
        assert_eq!(head_and_tail("abc", 3), "abc");
        assert_eq!(head_and_tail("aaaabbbbcccc", 8), "aaaa\n… 4 bytes left out …\ncccc");
        // Never cuts inside a character.
        assert_eq!(head_and_tail("ääääää", 6), "ä\n… 8 bytes left out …\nä");
    }
}
