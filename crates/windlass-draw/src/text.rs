//! Compact formatting of values and times.

use windlass_value::{Duration, Value, to_json};

/// Formats a value on one line as a preview, truncated if it is long.
///
/// An HTTP reply, also one inside the value, is shown by its body: status and headers would fill the line before the
/// body begins. The status is added if it is not a success, or if there is no body.
///
/// ```
/// use windlass_draw::text::format_value;
/// use windlass_value::{Value, parse_json};
///
/// assert_eq!(format_value(&Value::from("one\ntwo and three"), 10), "one two a…");
/// let reply = parse_json(r#"{"statusCode": 200, "headers": {"date": "today"}, "body": {"n": 1}}"#).unwrap();
/// assert_eq!(format_value(&reply, 40), r#"{"n":1}"#);
/// ```
pub fn format_value(value: &Value, max: usize) -> String {
    let mut preview = Preview { text: String::new(), left: max.saturating_add(1) };
    match HttpReply::from_value(value) {
        None => preview.top(value),
        Some(reply) => {
            preview.push(&reply.prefix());
            reply.body.into_iter().for_each(|body| preview.top(body));
        }
    }
    truncate(&one_line(&preview.text), max)
}

/// The parts of an HTTP reply that a preview shows.
struct HttpReply<'a> {
    status: i64,
    body: Option<&'a Value>,
}

impl<'a> HttpReply<'a> {
    /// Recognizes the replies of all dialects: `{statusCode, headers, body}` and `{status_code, headers, data}`.
    fn from_value(value: &'a Value) -> Option<HttpReply<'a>> {
        let map = value.as_map()?;
        let (status, body) = [("statusCode", "body"), ("status_code", "data")]
            .into_iter()
            .find_map(|(status, body)| Some((map.get(status)?.as_int()?, map.get(body))))?;
        map.get("headers")?.as_map()?;
        let is_empty = |body: &&Value| body.is_null() || body.as_str() == Some("");
        Some(HttpReply { status, body: body.filter(|body| !is_empty(body)) })
    }

    fn prefix(&self) -> String {
        match (self.body, self.status) {
            (None, status) => format!("HTTP {status}"),
            (Some(_), 200..300) => String::new(),
            (Some(_), status) => format!("HTTP {status} "),
        }
    }
}

/// Writes values as JSON up to a number of characters: a long value is not serialized only to be truncated.
struct Preview {
    text: String,
    /// The number of characters that still fit.
    left: usize,
}

impl Preview {
    /// Writes a value that stands alone: text needs no quotes.
    fn top(&mut self, value: &Value) {
        match value {
            Value::Str(text) => self.push(text),
            other => self.value(other),
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::List(items) => self.sequence(("[", "]"), items.iter().map(|item| (None, item))),
            Value::Map(map) => match HttpReply::from_value(value) {
                Some(reply) => {
                    self.push(&reply.prefix());
                    reply.body.into_iter().for_each(|body| self.value(body));
                }
                None => self.sequence(("{", "}"), map.iter().map(|(key, value)| (Some(&**key), value))),
            },
            Value::Str(text) => self.quoted(text),
            plain => self.push(&to_json(plain)),
        }
    }

    fn sequence<'a>(
        &mut self,
        (start, end): (&str, &str),
        entries: impl Iterator<Item = (Option<&'a str>, &'a Value)>,
    ) {
        self.push(start);
        for (at, (key, value)) in entries.enumerate() {
            if self.left == 0 {
                return;
            }
            self.push(if at > 0 { "," } else { "" });
            if let Some(key) = key {
                self.quoted(key);
                self.push(":");
            }
            self.value(value);
        }
        self.push(end);
    }

    fn quoted(&mut self, text: &str) {
        let start: String = text.chars().take(self.left).collect();
        self.push(&to_json(&Value::from(start)));
    }

    fn push(&mut self, text: &str) {
        let before = self.text.len();
        self.text.extend(text.chars().take(self.left));
        self.left -= self.text[before..].chars().count();
    }
}

/// Replaces characters that move the cursor, end a line or change the writing direction.
///
/// ```
/// assert_eq!(windlass_draw::text::one_line("a\nb\u{1b}[31m"), "a b [31m");
/// ```
pub fn one_line(text: &str) -> String {
    text.chars().map(|letter| if is_unprintable(letter) { ' ' } else { letter }).collect()
}

fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(letter, '\u{fffe}' | '\u{ffff}')
}

/// Truncates to `max` characters; the last one is `…` if there were more.
///
/// ```
/// assert_eq!(windlass_draw::text::truncate("äöüß", 3), "äö…");
/// ```
pub fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Formats a duration as `45s`, `2m 05s`, `3h 20m`, `4d 02h`.
///
/// ```
/// use windlass_value::Duration;
///
/// assert_eq!(windlass_draw::text::format_duration(Duration::from_secs(125)), "2m 05s");
/// ```
pub fn format_duration(duration: Duration) -> String {
    let secs = duration.0 / 1_000_000;
    match secs {
        0 => format!("{}ms", duration.as_ms()),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{secs}s"),
        60..3_600 => format!("{}m {:02}s", secs / 60, secs % 60),
        3_600..86_400 => format!("{}h {:02}m", secs / 3_600, secs / 60 % 60),
        _ => format!("{}d {:02}h", secs / 86_400, secs / 3_600 % 24),
    }
}

/// Formats a number with its noun: `1 run`, `2 runs`.
///
/// ```
/// assert_eq!(windlass_draw::text::pluralize(2, "run"), "2 runs");
/// ```
pub fn pluralize(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        let secs = |secs| format_duration(Duration::from_secs(secs));
        assert_eq!(format_duration(Duration::from_ms(12)), "12ms");
        assert_eq!(format_duration(Duration::from_ms(1_250)), "1.2s");
        assert_eq!((secs(45), secs(125), secs(12_000)), ("45s".into(), "2m 05s".into(), "3h 20m".into()));
        assert_eq!(secs(4 * 86_400 + 7_200), "4d 02h");
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        assert_eq!(truncate("äöü", 3), "äöü");
        assert_eq!(truncate("äöüß", 3), "äö…");
        assert_eq!(format_value(&Value::from("a\nb\u{1b}[31m"), 20), "a b [31m");
        assert_eq!(one_line("a\u{202e}b\u{2028}c\0"), "a b c ");
    }

    fn preview(json: &str, max: usize) -> String {
        format_value(&windlass_value::parse_json(json).expect("JSON"), max)
    }

    #[test]
    fn http_replies_are_previewed_by_their_body() {
        let headers = format!(r#"{{"content-type": "application/json", "etag": "{}"}}"#, "x".repeat(200));
        let loom =
            |status: u16, body: &str| format!(r#"{{"statusCode": {status}, "headers": {headers}, "body": {body}}}"#);
        assert_eq!(preview(&loom(200, r#"{"state": "ready"}"#), 60), r#"{"state":"ready"}"#);
        assert_eq!(preview(&loom(200, r#""ready""#), 60), "ready");
        assert_eq!(preview(&loom(503, r#"{"error": "busy"}"#), 60), r#"HTTP 503 {"error":"busy"}"#);
        assert_eq!(
            (preview(&loom(204, "null"), 60), preview(&loom(200, r#""""#), 60)),
            ("HTTP 204".into(), "HTTP 200".into())
        );
        let noetl = format!(r#"{{"status_code": 200, "headers": {headers}, "data": [1, 2]}}"#);
        assert_eq!(preview(&noetl, 60), "[1,2]");
        let inside = format!(r#"{{"fetch": {}, "rows": [{}]}}"#, loom(200, r#"{"n": 1}"#), loom(500, r#""no""#));
        assert_eq!(preview(&inside, 60), r#"{"fetch":{"n":1},"rows":[HTTP 500 "no"]}"#);
        let other = r#"{"statusCode":200,"headers":"none","body":1}"#;
        assert_eq!(preview(other, 60), other, "headers are an object");
    }

    #[test]
    fn a_preview_shows_the_beginning_of_a_large_value() {
        let rows = format!("[{}1]", r#"{"id": 1, "text": "\u00e4\n"},"#.repeat(50_000));
        assert_eq!(preview(&rows, 26), r#"[{"id":1,"text":"ä\n"},{"…"#);
        assert_eq!(preview(r#"["abc"]"#, 7), r#"["abc"]"#);
        assert_eq!(preview(r#"["abcd"]"#, 7), r#"["abcd…"#);
        assert_eq!(preview(r#"["a", {"b": null}, 1.5, true]"#, usize::MAX), r#"["a",{"b":null},1.5,true]"#);
        assert_eq!(preview(r#"[]"#, 0), "…");
    }
}
