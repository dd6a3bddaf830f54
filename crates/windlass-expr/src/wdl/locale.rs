//! Locale-specific notation of dates and numbers: the table `locales.txt`, parsed once.

use std::sync::LazyLock;

use windlass_value::nearest;

use super::values::truncate;

#[derive(Clone, Debug)]
pub(crate) struct Locale {
    pub name: &'static str,
    pub months: Vec<&'static str>,
    /// Month names used next to a day number.
    pub months_genitive: Vec<&'static str>,
    pub months_short: Vec<&'static str>,
    /// Sunday first.
    pub days: Vec<&'static str>,
    pub days_short: Vec<&'static str>,
    /// Before noon, after noon.
    pub halves: Vec<&'static str>,
    pub era: &'static str,
    pub date: &'static str,
    pub long_date: &'static str,
    pub time: &'static str,
    pub long_time: &'static str,
    pub month_day: &'static str,
    pub year_month: &'static str,
    /// Separators of dates and of times.
    pub separators: Vec<&'static str>,
    pub decimal: &'static str,
    pub group: &'static str,
    pub currency: &'static str,
    pub currency_digits: usize,
    /// Positive, negative; `n` is the number, `¤` the symbol.
    pub currency_pattern: Vec<&'static str>,
    pub percent: &'static str,
}

impl Locale {
    fn set(&mut self, key: &str, value: &'static str) {
        let list = || value.split('|').collect::<Vec<_>>();
        match key {
            "months" => {
                self.months = list();
                self.months_genitive = list();
            }
            "months-of" => self.months_genitive = list(),
            "months-short" => self.months_short = list(),
            "days" => self.days = list(),
            "days-short" => self.days_short = list(),
            "halves" => self.halves = list(),
            "era" => self.era = value,
            "date" => self.date = value,
            "long-date" => self.long_date = value,
            "time" => self.time = value,
            "long-time" => self.long_time = value,
            "month-day" => self.month_day = value,
            "year-month" => self.year_month = value,
            "separators" => self.separators = list(),
            "decimal" => self.decimal = value,
            "group" => self.group = if value == "nbsp" { "\u{a0}" } else { value },
            "currency" => self.currency = value,
            "currency-digits" => self.currency_digits = value.parse().unwrap_or(2),
            "currency-pattern" => self.currency_pattern = list(),
            "percent" => self.percent = value,
            _ => debug_assert!(false, "the locale {} has an unknown key {key}", self.name),
        }
    }

    fn empty() -> Locale {
        Locale {
            name: "",
            months: Vec::new(),
            months_genitive: Vec::new(),
            months_short: Vec::new(),
            days: Vec::new(),
            days_short: Vec::new(),
            halves: Vec::new(),
            era: "",
            date: "",
            long_date: "",
            time: "",
            long_time: "",
            month_day: "",
            year_month: "",
            separators: Vec::new(),
            decimal: ".",
            group: ",",
            currency: "",
            currency_digits: 2,
            currency_pattern: Vec::new(),
            percent: "n%",
        }
    }
}

static LOCALES: LazyLock<Vec<Locale>> = LazyLock::new(|| {
    let mut all: Vec<Locale> = Vec::new();
    for line in include_str!("locales.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((name, base)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let base = all.iter().find(|known| known.name == base.trim()).cloned();
            all.push(Locale { name, ..base.unwrap_or_else(Locale::empty) });
        } else if let (Some((key, value)), Some(locale)) = (line.split_once(" = "), all.last_mut()) {
            locale.set(key, value);
        }
    }
    all
});

/// Returns the default locale: `en-us`.
pub(crate) fn default_locale() -> &'static Locale {
    &LOCALES[0]
}

/// Finds a locale in any letter case; a language alone selects its first locale, an empty name the default.
pub(crate) fn find(name: &str) -> Option<&'static Locale> {
    let of_language = |locale: &&Locale| {
        let language = locale.name.split('-').next();
        language.is_some_and(|language| language.eq_ignore_ascii_case(name))
    };
    match name {
        "" => Some(default_locale()),
        _ => LOCALES
            .iter()
            .find(|locale| locale.name.eq_ignore_ascii_case(name))
            .or_else(|| LOCALES.iter().find(of_language)),
    }
}

/// Returns the message and the hint for an unknown locale.
pub(crate) fn unknown_locale(name: &str) -> (String, String) {
    let names = || LOCALES.iter().map(|locale| locale.name);
    let language = name.split(['-', '_']).next().and_then(find).map(|locale| locale.name);
    let hint = match nearest(name, names()).or(language) {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!("known are {}", names().collect::<Vec<_>>().join(", ")),
    };
    (format!("there is no locale `{}`", truncate(name)), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_locale_is_complete() {
        assert!(LOCALES.len() >= 31);
        for locale in LOCALES.iter() {
            let lists = [&locale.months, &locale.months_genitive, &locale.months_short];
            assert!(lists.iter().all(|list| list.len() == 12), "{}: months", locale.name);
            assert!([&locale.days, &locale.days_short].iter().all(|list| list.len() == 7), "{}: days", locale.name);
            let pairs = [&locale.halves, &locale.separators, &locale.currency_pattern];
            assert!(pairs.iter().all(|list| list.len() == 2), "{}: pairs", locale.name);
            assert!(locale.currency_pattern.iter().all(|pattern| pattern.contains('n') && pattern.contains('¤')));
            assert!(locale.percent.contains('n'));
            for pattern in [locale.date, locale.long_date, locale.month_day, locale.year_month] {
                assert!(pattern.contains('M'), "{}: {pattern}", locale.name);
            }
        }
    }
}
