//! Detection of ambiguous JSON. The grammar allows duplicate keys and numbers of any size; readers then differ in
//! their interpretation, and a reader that validates sees something else than a reader that acts.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::json::PRIVATE_NUMBER;

/// Maximum number of digits and signs of a number.
const MAX_NUMBER_BYTES: usize = 1_000;

/// Maximum number of keys that are compared one by one; more keys are hashed.
const MAX_LISTED_KEYS: usize = 12;

/// A problem of well-formed JSON and its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (line {line}, column {column}, at `{pointer}`)")]
pub struct StrictJsonError {
    pub line: usize,
    pub column: usize,
    /// RFC 6901.
    pub pointer: String,
    pub message: String,
}

/// Refuses duplicate keys in one object, and numbers that no type here can hold.
///
/// The text must be well-formed JSON; for any other text the result is meaningless.
pub fn check_json(text: &str) -> Result<(), StrictJsonError> {
    let mut scan = StrictScanner { text, at: 0, open: Vec::new() };
    while let Some(byte) = text.as_bytes().get(scan.at) {
        match byte {
            b'{' => {
                scan.open.push(OpenLevel::Object { keys: KeySet::default(), last: Cow::Borrowed(""), before_key: true })
            }
            b'[' => scan.open.push(OpenLevel::List(0)),
            b'}' | b']' => drop(scan.open.pop()),
            b',' => match scan.open.last_mut() {
                Some(OpenLevel::Object { before_key, .. }) => *before_key = true,
                Some(OpenLevel::List(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                scan.string()?;
                continue;
            }
            b'-' | b'0'..=b'9' => {
                scan.number()?;
                continue;
            }
            _ => {}
        }
        scan.at += 1;
    }
    Ok(())
}

struct StrictScanner<'t> {
    text: &'t str,
    at: usize,
    open: Vec<OpenLevel<'t>>,
}

enum OpenLevel<'t> {
    Object {
        keys: KeySet<'t>,
        last: Cow<'t, str>,
        before_key: bool,
    },
    /// The index of the current item.
    List(u64),
}

#[derive(Default)]
struct KeySet<'t> {
    few: Vec<Cow<'t, str>>,
    many: HashSet<Cow<'t, str>>,
}

impl<'t> KeySet<'t> {
    /// Adds a key. Returns false if it is already present.
    fn insert(&mut self, key: Cow<'t, str>) -> bool {
        if self.many.is_empty() && self.few.len() < MAX_LISTED_KEYS {
            let new = !self.few.contains(&key);
            self.few.push(key);
            return new;
        }
        self.many.extend(self.few.drain(..));
        self.many.insert(key)
    }
}

impl<'t> StrictScanner<'t> {
    fn string(&mut self) -> Result<(), StrictJsonError> {
        let (text, start) = (self.text, self.at);
        let bytes = text.as_bytes();
        let (mut end, mut escapes) = (start + 1, false);
        loop {
            match bytes.get(end) {
                Some(b'"') | None => break,
                Some(b'\\') => {
                    escapes = true;
                    end += 2;
                }
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        let Some(OpenLevel::Object { keys, last, before_key }) = self.open.last_mut() else { return Ok(()) };
        if !std::mem::take(before_key) {
            return Ok(());
        }
        let written = text.get(start + 1..end).unwrap_or_default();
        let key: Cow<'t, str> = match escapes {
            false => Cow::Borrowed(written),
            // Two spellings of one key are one key.
            true => Cow::Owned(serde_json::from_str(text.get(start..=end).unwrap_or_default()).unwrap_or_default()),
        };
        let new = keys.insert(key.clone());
        *last = key;
        let shown = || escape_for_message(last);
        let message = match &**last {
            PRIVATE_NUMBER => format!("reserved key name `{}`", shown()),
            _ if !new => format!("the key `{}` is given twice", shown()),
            _ => return Ok(()),
        };
        Err(self.error_at(start, message))
    }

    fn number(&mut self) -> Result<(), StrictJsonError> {
        let start = self.at;
        let rest = &self.text[start..];
        let length = rest.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(rest.len());
        self.at += length;
        let number = &rest[..length];
        if length > MAX_NUMBER_BYTES {
            let message = format!("a number has {length} digits; it may have {MAX_NUMBER_BYTES}");
            return Err(self.error_at(start, message));
        }
        let is_float = number.contains(['.', 'e', 'E']);
        match is_float && number.parse::<f64>().is_ok_and(f64::is_infinite) {
            true => Err(self.error_at(start, format!("the number `{}` is too large", escape_for_message(number)))),
            false => Ok(()),
        }
    }

    fn error_at(&self, at: usize, message: String) -> StrictJsonError {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        StrictJsonError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            pointer: self.open.iter().map(pointer_step).collect(),
            message,
        }
    }
}

fn pointer_step(level: &OpenLevel<'_>) -> String {
    match level {
        OpenLevel::Object { last, .. } => {
            format!("/{}", escape_for_message(last).replace('~', "~0").replace('/', "~1"))
        }
        OpenLevel::List(index) => format!("/{index}"),
    }
}

/// Escapes and truncates untrusted text for a message.
fn escape_for_message(text: &str) -> String {
    let mut shown: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(usize, usize, String, String)> {
        serde_json::from_str::<serde::de::IgnoredAny>(text).expect(text);
        check_json(text).err().map(|odd| (odd.line, odd.column, odd.pointer, odd.message))
    }

    #[test]
    fn unambiguous_json_is_accepted() {
        let many: String = (0..100).map(|number| format!("\"k{number}\":{number},")).collect();
        let table = [
            "null".to_owned(),
            r#""a""#.to_owned(),
            r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}"#.to_owned(),
            r#"{"a":"a","b":"a","":"","\"":1,"\\":2,"\\\"":3}"#.to_owned(),
            r#"["a","a",1,1,{"x":["x"]},"{\"a\":1,\"a\":1}"]"#.to_owned(),
            "[0,-1,1e308,-1.5e+300,1e-999999,0e999999999,123456789012345678901234567890,0.1]".to_owned(),
            format!("{{{many}\"z\":1}}"),
        ];
        for text in table {
            assert_eq!(found(&text), None, "{text}");
        }
    }

    #[test]
    fn ambiguous_json_is_reported_with_its_location() {
        let many: String = (0..100).map(|number| format!("\"k{number}\":{number},")).collect();
        let long = "9".repeat(MAX_NUMBER_BYTES + 1);
        let table = [
            (r#"{"a":1,"a":1}"#.to_owned(), (1, 8, "/a", "the key `a` is given twice")),
            (
                "{\n \"x\": [0, {\"ä\": 1,\n  \"\\u00e4\": 2}]}".to_owned(),
                (3, 3, "/x/1/ä", "the key `ä` is given twice"),
            ),
            (r#"{"":1,"":2}"#.to_owned(), (1, 7, "/", "the key `` is given twice")),
            (r#"{"a/b~":{"c":[1],"c":1}}"#.to_owned(), (1, 18, "/a~1b~0/c", "the key `c` is given twice")),
            (format!("{{{many}\"k3\":1}}"), (1, 882, "/k3", "the key `k3` is given twice")),
            ("[1,[2,1e999999]]".to_owned(), (1, 7, "/1/1", "the number `1e999999` is too large")),
            (r#"{"n":-1.0E400}"#.to_owned(), (1, 6, "/n", "the number `-1.0E400` is too large")),
            (long, (1, 1, "", "a number has 1001 digits; it may have 1000")),
            (
                r#"[{"$serde_json::private::Number":"x"}]"#.to_owned(),
                (1, 3, "/0/$serde_json::private::Number", "reserved key name `$serde_json::private::Number`"),
            ),
        ];
        for (text, (line, column, pointer, message)) in table {
            assert_eq!(found(&text), Some((line, column, pointer.to_owned(), message.to_owned())), "{text}");
        }
    }

    #[test]
    fn no_text_causes_a_panic() {
        for text in
            ["", "\"", "{\"", "{\"a\\", "{\"a\\\"", "[,,]", "}}]]", "-", "{,,\"a\":\"a\"}", "{\"\\ud800\":1}", "ä{"]
        {
            let _ = check_json(text);
        }
    }
}
