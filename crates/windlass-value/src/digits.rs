//! Numbers as decimal digits, for comparing and printing numbers of different kinds.

use std::cmp::Ordering;

use crate::Value;

/// The number `0.d₁d₂d₃… × 10^point`, without zeros at either end; zero has no digits and no sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digits {
    pub negative: bool,
    /// Each from 0 to 9.
    pub digits: Vec<u8>,
    pub point: i64,
}

impl Digits {
    /// Returns the digits of a number; a float stands for its shortest round-trip digits.
    pub fn from_value(value: &Value) -> Option<Digits> {
        match value {
            Value::Int(number) => Digits::parse(&number.to_string()),
            Value::Float(number) => Digits::parse(&format!("{number:e}")),
            Value::Big(text) => Digits::parse(text),
            _ => None,
        }
    }

    /// Parses digits with an optional sign, point and exponent.
    pub fn parse(text: &str) -> Option<Digits> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let negative = mantissa.starts_with('-');
        let mantissa = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if all().next().is_none() || !all().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let leading = all().take_while(|byte| *byte == b'0').count();
        let mut digits: Vec<u8> = all().skip(leading).map(|byte| byte - b'0').collect();
        let kept = digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
        digits.truncate(kept);
        match digits.is_empty() {
            true => Some(Digits { negative: false, digits, point: 0 }),
            false => {
                let point = exponent.checked_add(whole.len() as i64 - leading as i64)?;
                Some(Digits { negative, digits, point })
            }
        }
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Rounds to `places` digits after the point, or before it if negative; halves round away from zero.
    pub fn round(&mut self, places: i64) {
        let kept = self.point.saturating_add(places);
        let Ok(kept) = usize::try_from(kept) else {
            *self = Digits { negative: false, digits: Vec::new(), point: 0 };
            return;
        };
        let up = self.digits.get(kept).is_some_and(|digit| *digit >= 5);
        self.digits.truncate(kept);
        if up {
            match self.digits.iter().rposition(|digit| *digit != 9) {
                Some(last) => {
                    self.digits[last] += 1;
                    self.digits.truncate(last + 1);
                }
                None => {
                    self.digits = vec![1];
                    self.point += 1;
                }
            }
        }
        let kept = self.digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
        self.digits.truncate(kept);
        if kept == 0 {
            (self.negative, self.point) = (false, 0);
        }
    }
}

impl Ord for Digits {
    fn cmp(&self, other: &Digits) -> Ordering {
        let sign = |number: &Digits| match (number.is_zero(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let by_size = || self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits));
        sign(self).cmp(&sign(other)).then_with(|| match self.negative {
            true => by_size().reverse(),
            false => by_size(),
        })
    }
}

impl PartialOrd for Digits {
    fn partial_cmp(&self, other: &Digits) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn big(text: &str) -> Value {
        Value::Big(text.into())
    }

    #[test]
    fn numbers_of_all_kinds_compare_by_what_they_mean() {
        assert_eq!(big("1.50"), Value::Float(1.5));
        assert_eq!(big("1.00"), Value::Int(1));
        assert_eq!(big("0.1"), Value::Float(0.1));
        assert_eq!(big("1e3"), big("1000"));
        assert_eq!(big("-0.0"), Value::Int(0));
        assert_ne!(big("12345678901234567891"), Value::Float(12345678901234567890.0));
        assert_ne!(big("1"), Value::from("1"));
        let order = |a: &str, b: &str| Digits::parse(a).cmp(&Digits::parse(b));
        assert_eq!(order("-2", "-1.5"), Ordering::Less);
        assert_eq!(order("0.099", "0.1"), Ordering::Less);
        assert_eq!(order("10", "9.99"), Ordering::Greater);
        assert_eq!(order("0", "-0.000"), Ordering::Equal);
    }

    #[test]
    fn halves_round_away_from_zero() {
        let rounded = |text: &str, places: i64| {
            let mut digits = Digits::parse(text).expect("a number");
            digits.round(places);
            digits
        };
        for (text, places, expected) in [
            ("2.675", 2, "2.68"),
            ("9.96", 1, "10"),
            ("0.04", 1, "0"),
            ("0.5", 0, "1"),
            ("149", -2, "100"),
            ("7", 3, "7"),
        ] {
            assert_eq!(rounded(text, places), rounded(expected, 30), "{text}");
        }
    }
}
