//! Custom number formats: `#,##0.00;(#,##0.00);'none'`. Digits fill the places of the pattern from the decimal point
//! outwards, so literals may stand between them.

use windlass_value::Digits;

use super::locale::Locale;

/// An element of a section.
enum Item {
    /// `0` or `#`.
    Place,
    Point,
    Percent(char),
    /// `E+00`: the letter, whether a plus is shown, the minimum number of digits.
    Exponent(char, bool, usize),
    Literal(char),
}

#[derive(Default)]
struct Section {
    items: Vec<Item>,
    /// The number of places in all (`places`), and before the decimal point (`whole`).
    places: usize,
    whole: usize,
    first_zero: Option<usize>,
    last_zero: Option<usize>,
    grouped: bool,
    scientific: bool,
    /// The power of ten by which percent signs and commas multiply.
    shift: i64,
}

pub(crate) fn format(number: Digits, pattern: &str, locale: &Locale) -> Option<String> {
    let sections: Vec<Section> = split(pattern)?.iter().map(|text| parse_section(text)).collect::<Option<_>>()?;
    let filled = |index: usize| sections.get(index).filter(|section| !section.items.is_empty());
    let first = sections.first()?;
    let (section, signed) = match (number.negative, number.is_zero()) {
        (true, _) => filled(1).map_or((first, true), |second| (second, false)),
        (false, true) => (filled(2).unwrap_or(first), false),
        (false, false) => (first, false),
    };
    let negative = number.negative;
    let rounded = section.round(number.clone());
    // A number that rounds to zero uses the section for zero.
    if let (true, Some(zero)) = (rounded.is_zero(), filled(2)) {
        return Some(zero.write(&zero.round(number), locale));
    }
    let text = section.write(&rounded, locale);
    Some(if negative && signed && !rounded.is_zero() { format!("-{text}") } else { text })
}

impl Section {
    fn round(&self, mut number: Digits) -> Digits {
        if !number.is_zero() {
            number.point += self.shift;
            let places = match self.scientific {
                true => self.places as i64 - number.point,
                false => (self.places - self.whole) as i64,
            };
            number.round(places);
        }
        number
    }

    fn write(&self, number: &Digits, locale: &Locale) -> String {
        // The place of a digit counts from the decimal point: 0 is the first before it, -1 the first after it.
        let point = if number.is_zero() { 0 } else { number.point };
        let exponent = if number.is_zero() { 0 } else { point - self.whole as i64 };
        let shown = if self.scientific { self.whole as i64 } else { point };
        let digit = |place: i64| -> Option<u8> {
            let index = shown - 1 - place;
            if index < 0 { Some(0) } else { number.digits.get(index as usize).copied() }
        };
        let least_whole = self.first_zero.map_or(0, |first| self.whole as i64 - first as i64).max(0);
        let least_fraction = self.last_zero.map_or(0, |last| last as i64 + 1 - self.whole as i64).max(0);
        let has_fraction = least_fraction > 0 || (0..number.digits.len() as i64).any(|index| shown - 1 - index < 0);
        let mut out = String::new();
        let put = |out: &mut String, place: i64, value: u8| {
            out.push(char::from(b'0' + value));
            if self.grouped && place > 0 && place % 3 == 0 {
                out.push_str(locale.group);
            }
        };
        let mut place = self.whole as i64;
        let (mut begun, mut pointed) = (false, false);
        for item in &self.items {
            match item {
                Item::Place | Item::Point if !begun => {
                    begun = true;
                    // Digits beyond the first place are written before it.
                    for beyond in (place..shown).rev() {
                        put(&mut out, beyond, digit(beyond).unwrap_or(0));
                    }
                }
                _ => {}
            }
            match item {
                Item::Place => {
                    place -= 1;
                    let value = match place >= 0 {
                        true if place < shown || place < least_whole => Some(digit(place).unwrap_or(0)),
                        true => None,
                        false => digit(place).or((-place <= least_fraction).then_some(0)),
                    };
                    if let Some(value) = value {
                        put(&mut out, place, value);
                    }
                }
                Item::Point if !pointed && has_fraction && self.places > self.whole => {
                    pointed = true;
                    out.push_str(locale.decimal);
                }
                Item::Point => {}
                Item::Percent(sign) | Item::Literal(sign) => out.push(*sign),
                Item::Exponent(letter, plus, width) => {
                    let sign = match (exponent < 0, plus) {
                        (true, _) => "-",
                        (false, true) => "+",
                        (false, false) => "",
                    };
                    out.push_str(&format!("{letter}{sign}{:0>width$}", exponent.unsigned_abs()));
                }
            }
        }
        out
    }
}

/// Splits at unquoted semicolons.
fn split(pattern: &str) -> Option<Vec<String>> {
    let (mut sections, mut quote, mut escaped) = (vec![String::new()], None, false);
    for c in pattern.chars() {
        let separates = c == ';' && quote.is_none() && !escaped;
        let was_escaped = escaped;
        escaped = c == '\\' && !was_escaped && quote.is_none();
        match quote {
            Some(open) if open == c => quote = None,
            None if !was_escaped && (c == '\'' || c == '"') => quote = Some(c),
            _ => {}
        }
        match separates {
            true => sections.push(String::new()),
            false => sections.last_mut()?.push(c),
        }
    }
    (sections.len() <= 3).then_some(sections)
}

fn parse_section(pattern: &str) -> Option<Section> {
    let mut section = Section::default();
    let (mut letters, mut point, mut commas) = (pattern.chars(), None, 0);
    while let Some(c) = letters.next() {
        match c {
            '0' | '#' => {
                // A comma between digits groups; each comma after the last digit before the decimal point divides by a
                // thousand.
                section.grouped |= commas > 0;
                commas = 0;
                if c == '0' {
                    section.first_zero.get_or_insert(section.places);
                    section.last_zero = Some(section.places);
                }
                section.places += 1;
                section.items.push(Item::Place);
            }
            ',' if section.places > 0 && point.is_none() => commas += 1,
            ',' => {}
            '.' if point.is_none() => {
                section.shift -= 3 * std::mem::take(&mut commas);
                point = Some(section.places);
                section.items.push(Item::Point);
            }
            '.' => {}
            '%' => {
                section.shift += 2;
                section.items.push(Item::Percent('%'));
            }
            '‰' => {
                section.shift += 3;
                section.items.push(Item::Percent('‰'));
            }
            '\\' => section.items.push(Item::Literal(letters.next()?)),
            '\'' | '"' => {
                let (quoted, rest) = letters.as_str().split_once(c)?;
                section.items.extend(quoted.chars().map(Item::Literal));
                letters = rest.chars();
            }
            'e' | 'E' if parse_exponent(letters.as_str()).is_some() => {
                let (plus, width, length) = parse_exponent(letters.as_str())?;
                letters = letters.as_str()[length..].chars();
                section.scientific = true;
                section.items.push(Item::Exponent(c, plus, width.min(10)));
            }
            other => section.items.push(Item::Literal(other)),
        }
    }
    section.shift -= 3 * commas;
    section.whole = point.unwrap_or(section.places);
    Some(section)
}

/// Parses `+00`, `-00` or `00` after the exponent letter: whether a plus is shown, the number of zeros and of bytes.
fn parse_exponent(text: &str) -> Option<(bool, usize, usize)> {
    let sign = usize::from(text.starts_with(['+', '-']));
    let zeros = text[sign..].bytes().take_while(|byte| *byte == b'0').count();
    (zeros > 0).then_some((text.starts_with('+'), zeros, sign + zeros))
}
