//! The bytes of references to stored values. Expressions and events see a reference as its JSON, so its text and the
//! checksum inside are part of every replay: a run must be replayed by the program that wrote it, or its format number
//! is raised.

use std::fmt::Write as _;
use std::sync::Arc;

use windlass_core::Values;
use windlass_runtime::BlobCache;
use windlass_store::RUN_FORMAT;
use windlass_value::{Map, StoredValue, Value, encode, parse_json, to_json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stored_values.golden");

/// One value of each kind that a reference describes.
fn values() -> Vec<(&'static str, Value)> {
    let json = |text: &str| parse_json(text).expect("JSON");
    let many: Map = (0..40).map(|number| (format!("key {number:02}"), Value::Int(number))).collect();
    vec![
        ("null", Value::Null),
        ("boolean", Value::Bool(true)),
        ("integer", Value::Int(-7)),
        ("float", json("1.5e300")),
        ("large number", json("123456789012345678901234567890.10")),
        ("text", json(r#""tabs\tquotes\" \u0001 ü 🦀""#)),
        ("array", json(r#"[1, [2.0, null], {"a": "b"}]"#)),
        ("object", json(r#"{"z": 1, "a": {"inner": []}, "long": ""}"#)),
        ("many keys", Value::map(many)),
    ]
}

/// Renders the format number, and for each value its JSON and the reference as bytes and as JSON.
fn render() -> String {
    let mut out = format!("RUN_FORMAT {RUN_FORMAT}\n");
    let mut blobs = BlobCache::default();
    let mut write = |name: &str, content: &str, stored: StoredValue| {
        let reference = Value::Stored(Arc::new(stored));
        let hex: String = encode(&reference).iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(out, "\n{name}\n  content {content}\n  bytes {hex}\n  json {}", to_json(&reference));
        reference
    };
    let mut inside = Vec::new();
    for (name, value) in values() {
        let stored = blobs.put(&value);
        inside.push(write(name, &to_json(&value), stored));
    }
    let list = Value::list(inside);
    let stored = blobs.put(&list);
    write("array of references", &to_json(&list), stored.clone());
    write("chunked array", &to_json(&list), StoredValue { items: 5_000, chunked: true, ..stored });
    out
}

#[test]
fn references_keep_their_bytes_within_a_format() {
    let (now, before) = (render(), std::fs::read_to_string(FILE).unwrap_or_default());
    let format = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    // A format that has a file is never rewritten: its runs exist.
    if std::env::var_os("UPDATE").is_some() && format(&now) != format(&before) {
        return std::fs::write(FILE, &now).expect("the file can be written");
    }
    let changed: Vec<_> = before.lines().zip(now.lines()).filter(|(before, now)| before != now).collect();
    assert!(
        now == before,
        "references to stored values have changed: {changed:#?}\nA run that was written before would be replayed with \
         other values. Raise RUN_FORMAT in crates/windlass-store/src/row.rs, then run this test with UPDATE=1."
    );
}
