//! Values, times and tables in few characters.

use windlass_value::{Duration, Value, to_json};

/// A value on one line, cut if it is long.
pub fn short(value: &Value, max: usize) -> String {
    // What is far too long is not written out only to be cut.
    if value.size_up_to(64 * 1024) > 64 * 1024 {
        return format!("({}, too long to show)", value.kind());
    }
    let text = value.as_str().map_or_else(|| to_json(value), one_line);
    cut(&text, max)
}

/// Control characters would move the cursor of whoever looks.
pub fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

pub fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// `45s`, `2m 05s`, `3h 20m`, `4d 02h`.
pub fn span(duration: Duration) -> String {
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

/// `15/100`, or `15` when there is no telling how many there will be.
pub fn of(count: u64, most: Option<u64>) -> String {
    most.map_or_else(|| count.to_string(), |most| format!("{count}/{most}"))
}

/// `Running`, `Timed out`.
pub fn sentence_case(word: &str) -> String {
    let spaced = word.replace('_', " ");
    let mut letters = spaced.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Columns as wide as their widest cell; the last one is not padded.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// `1 run`, `2 runs`.
pub fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// `512 B`, `1.5 KiB`, `20.0 MiB`.
pub fn bytes(number: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let cases = [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (1_536, "1.5 KiB"), (20 << 20, "20.0 MiB")];
        for (number, shown) in cases {
            assert_eq!(bytes(number), shown);
        }
        assert_eq!((bytes(u64::MAX).as_str(), count(1, "run").as_str()), ("16777216.0 TiB", "1 run"));
    }

    #[test]
    fn spans_are_short() {
        let secs = |secs| span(Duration::from_secs(secs));
        assert_eq!(span(Duration::from_ms(12)), "12ms");
        assert_eq!(span(Duration::from_ms(1_250)), "1.2s");
        assert_eq!((secs(45), secs(125), secs(12_000)), ("45s".into(), "2m 05s".into(), "3h 20m".into()));
        assert_eq!(secs(4 * 86_400 + 7_200), "4d 02h");
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(short(&Value::from("a\nb\u{1b}[31m"), 20), "a b [31m");
    }

    #[test]
    fn tables_line_up() {
        let rows = [vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), "d".to_owned()]];
        assert_eq!(table(&rows), "a    bb\nccc  d");
    }
}
