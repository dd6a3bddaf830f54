//! Compact formatting of values, times and tables. Functions that drawings also need are in `windlass-draw`.

use windlass_core::amounts;
use windlass_core::plan::MONEY;
pub(crate) use windlass_draw::text::{format_duration, format_value, one_line, pluralize, truncate};
use windlass_store::RunLabels;
use windlass_value::Value;

/// Formats `15/100`, or `15` if the maximum is unknown.
pub(crate) fn format_ratio(count: u64, max: Option<u64>) -> String {
    max.map_or_else(|| count.to_string(), |max| format!("{count}/{max}"))
}

/// Formats a status word: `Running`, `Timed out`.
pub(crate) fn sentence_case(word: &str) -> String {
    let spaced = word.replace('_', " ");
    let mut letters = spaced.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Formats a table with columns as wide as their widest cell; the last one is not padded. Cells may be coloured.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| visible_width(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let pad = |(cell, width): (&String, &usize)| format!("{cell}{}", " ".repeat(width - visible_width(cell)));
        row.iter().zip(&widths).map(pad).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the number of characters without the escape codes of colours.
fn visible_width(cell: &str) -> usize {
    let mut parts = cell.split('\u{1b}');
    let first = parts.next().map_or(0, |part| part.chars().count());
    let after_code = |part: &str| part.split_once('m').map_or(0, |(_, text)| text.chars().count());
    first + parts.map(after_code).sum::<usize>()
}

/// Formats labels: `customer=acme, env=prod`.
pub(crate) fn labels(labels: &RunLabels, max: usize) -> String {
    let one = |(name, value): (&String, &String)| format!("{name}={}", one_line(value));
    truncate(&labels.iter().map(one).collect::<Vec<_>>().join(", "), max)
}

/// Returns labels as an object for programs.
pub(crate) fn labels_value(labels: &RunLabels) -> Value {
    Value::object(labels.iter().map(|(name, value)| (name.as_str(), Value::from(value.as_str()))))
}

/// Formats a size: `512 B`, `1.5 KiB`, `20.0 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let power = (number.max(1).ilog2() / 10) as usize;
    match power.checked_sub(1) {
        None => format!("{number} B"),
        Some(at) => {
            let at = at.min(units.len() - 1);
            format!("{:.1} {}", number as f64 / 1_024f64.powi(at as i32 + 1), units[at])
        }
    }
}

/// Formats the usage that jobs report, as `1,240 tokens, 0.0123`; returns `None` if they report nothing.
pub(crate) fn usage(usage: &Value) -> Option<String> {
    let amount = |what: &str| usage.get(what).and_then(Value::as_int).and_then(|amount| u64::try_from(amount).ok());
    let amount =
        |what: &str| amount(what).filter(|amount| *amount > 0).map(|amount| amounts::format_amount(what, amount));
    let tokens = amount("tokens").map(|tokens| format!("{tokens} token{}", if tokens == "1" { "" } else { "s" }));
    let money = amount(MONEY).map(|money| format!("cost {money}"));
    let parts: Vec<String> = tokens.into_iter().chain(money).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let cases = [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (1_536, "1.5 KiB"), (20 << 20, "20.0 MiB")];
        for (number, shown) in cases {
            assert_eq!(bytes(number), shown);
        }
        assert_eq!((bytes(u64::MAX).as_str(), pluralize(1, "run").as_str()), ("16777216.0 TiB", "1 run"));
    }

    #[test]
    fn tables_line_up() {
        let rows = [vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), "d".to_owned()]];
        assert_eq!(table(&rows), "a    bb\nccc  d");
        let coloured =
            [vec!["\u{1b}[32mok\u{1b}[0m".to_owned(), "1".to_owned()], vec!["failed".to_owned(), "2".to_owned()]];
        assert_eq!(table(&coloured), "\u{1b}[32mok\u{1b}[0m      1\nfailed  2");
    }
}
