//! Parses human-readable durations: `30s`, `200ms`, `1h30m`.

use syn::{Error, LitStr, Result};

/// Units from the largest to the smallest; each may occur once, in this order.
const UNITS: [(&str, u64); 6] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// Parses a duration into microseconds.
pub(crate) fn duration(text: &LitStr) -> Result<u64> {
    micros(&text.value()).map_err(|why| {
        let hint = "write a number and a unit, as in \"200ms\", \"30s\", \"5m\" or \"1h30m\" (d, h, m, s, ms, us)";
        Error::new(text.span(), format!("{why}\n{hint}"))
    })
}

fn micros(text: &str) -> std::result::Result<u64, String> {
    let (mut rest, mut total) = (text, 0u64);
    if rest.is_empty() {
        return Err("an empty duration".to_owned());
    }
    let mut units = &UNITS[..];
    while !rest.is_empty() {
        let digits = rest.find(|one: char| !one.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        if number.is_empty() {
            return Err(format!("`{text}` is not a duration: a number was expected before `{rest}`"));
        }
        let letters = after.find(|one: char| one.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        if unit.is_empty() {
            return Err(format!("`{text}` has no unit after `{number}`"));
        }
        let Some(at) = UNITS.iter().position(|(name, _)| *name == unit) else {
            return Err(format!("`{unit}` is not a unit of time"));
        };
        let Some(left) = units.iter().position(|(name, _)| *name == unit) else {
            return Err(format!("`{text}` has its units out of order: the larger come first, each once"));
        };
        let amount: u64 = number.parse().map_err(|_| format!("`{number}` is too large"))?;
        let span = amount.checked_mul(UNITS[at].1).and_then(|span| total.checked_add(span));
        total = span.ok_or_else(|| format!("`{text}` is too long"))?;
        units = &units[left + 1..];
        rest = next;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let table = [
            ("200ms", Ok(200_000)),
            ("30s", Ok(30_000_000)),
            ("1h30m", Ok(5_400_000_000)),
            ("1d2h3m4s5ms6us", Ok(93_784_005_006)),
            ("0s", Ok(0)),
            ("", Err("an empty duration")),
            ("30", Err("no unit after `30`")),
            ("s", Err("a number was expected")),
            ("30 s", Err("is not a unit")),
            ("30sec", Err("`sec` is not a unit")),
            ("1m1h", Err("out of order")),
            ("1s1s", Err("out of order")),
            ("99999999999999999999s", Err("too large")),
            ("9999999999999999999s", Err("too long")),
        ];
        for (text, expected) in table {
            match (micros(text), expected) {
                (Ok(got), Ok(wanted)) => assert_eq!(got, wanted, "{text}"),
                (Err(got), Err(wanted)) => assert!(got.contains(wanted), "{text}: {got}"),
                (got, wanted) => panic!("{text}: {got:?}, not {wanted:?}"),
            }
        }
    }
}
