//! Points in time as WDL defines them: ticks of 100 ns since the year 1, in UTC or without a stated zone.

use windlass_value::Timestamp;

pub(crate) const TICKS_PER_SECOND: i64 = 10_000_000;
pub(crate) const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;
const EPOCH_TICKS: i64 = 621_355_968_000_000_000;
/// The last tick of the year 9999.
const MAX_TICKS: i64 = 3_155_378_975_999_999_999;
/// Days from 0001-01-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_162;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct WdlMoment {
    pub ticks: i64,
    /// Written with `Z` or an offset; otherwise no zone is stated, and none is printed.
    pub utc: bool,
}

/// A moment split into date and time fields.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct CivilDateTime {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// The fraction of the second, in ticks.
    pub fraction: i64,
}

impl WdlMoment {
    pub(crate) fn from_timestamp(time: Timestamp) -> Option<WdlMoment> {
        WdlMoment { ticks: 0, utc: true }.with_ticks(time.0.checked_mul(10)?.checked_add(EPOCH_TICKS)?)
    }

    /// Returns a moment with the same zone and other ticks, if they are within the calendar.
    pub(crate) fn with_ticks(self, ticks: i64) -> Option<WdlMoment> {
        (0..=MAX_TICKS).contains(&ticks).then_some(WdlMoment { ticks, ..self })
    }

    pub(crate) fn add_ticks(self, ticks: i64) -> Option<WdlMoment> {
        self.with_ticks(self.ticks.checked_add(ticks)?)
    }

    /// Adds months. A day that the resulting month does not have becomes its last day.
    pub(crate) fn add_months(self, months: i64) -> Option<WdlMoment> {
        let mut civil = self.civil();
        let total = (civil.year * 12 + civil.month - 1).checked_add(months)?;
        (civil.year, civil.month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        if !(1..=9999).contains(&civil.year) {
            return None;
        }
        civil.day = civil.day.min(days_in_month(civil.year, civil.month));
        self.with_ticks(civil.ticks()?)
    }

    pub(crate) fn civil(self) -> CivilDateTime {
        let (days, of_day) = (self.ticks.div_euclid(TICKS_PER_DAY), self.ticks.rem_euclid(TICKS_PER_DAY));
        let (year, month, day) = civil_from_days(days - EPOCH_DAYS);
        let seconds = of_day / TICKS_PER_SECOND;
        CivilDateTime {
            year,
            month,
            day,
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            fraction: of_day % TICKS_PER_SECOND,
        }
    }

    /// Returns the seconds since 1970.
    pub(crate) fn epoch_seconds(self) -> i64 {
        (self.ticks - EPOCH_TICKS).div_euclid(TICKS_PER_SECOND)
    }

    /// Returns the day of the week; Sunday is 0.
    pub(crate) fn day_of_week(self) -> i64 {
        // The first of January of the year 1 is a Monday.
        (self.ticks.div_euclid(TICKS_PER_DAY) + 1).rem_euclid(7)
    }

    pub(crate) fn day_of_year(self) -> i64 {
        let first = CivilDateTime { month: 1, day: 1, ..self.civil() };
        first.days().map_or(0, |days| self.ticks.div_euclid(TICKS_PER_DAY) - days + 1)
    }
}

impl CivilDateTime {
    /// Returns the days since 0001-01-01; None for a date that does not exist.
    fn days(&self) -> Option<i64> {
        let (year, month) = (self.year, self.month);
        let exists = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&self.day);
        exists.then(|| days_from_civil(year, month, self.day) + EPOCH_DAYS)
    }

    pub(crate) fn ticks(&self) -> Option<i64> {
        let within = (0..24).contains(&self.hour) && (0..60).contains(&self.minute) && (0..60).contains(&self.second);
        if !within || !(0..TICKS_PER_SECOND).contains(&self.fraction) {
            return None;
        }
        let seconds = self.hour * 3_600 + self.minute * 60 + self.second;
        Some(self.days()? * TICKS_PER_DAY + seconds * TICKS_PER_SECOND + self.fraction)
    }

    /// Returns the moment, given the offset in minutes east of UTC if a zone is stated.
    pub(crate) fn moment(&self, offset: Option<i64>) -> Option<WdlMoment> {
        let moment = WdlMoment { ticks: 0, utc: offset.is_some() };
        moment.with_ticks(self.ticks()?)?.add_ticks(-offset.unwrap_or(0) * 60 * TICKS_PER_SECOND)
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since 1970, computed by eras of 400 years that begin in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_year - (153 * march_month + 2) / 5 + 1)
}

/// Parses ISO 8601: `2026-11-15T09:30:00.125Z`, a date alone, an offset instead of the `Z`.
pub(crate) fn parse_iso8601(text: &str) -> Option<WdlMoment> {
    let mut reader = DateReader { rest: text.trim() };
    let mut civil = CivilDateTime { year: 0, month: 0, day: 0, hour: 0, minute: 0, second: 0, fraction: 0 };
    civil.year = reader.number(4, 4)?;
    reader.expect('-')?;
    civil.month = reader.number(1, 2)?;
    reader.expect('-')?;
    civil.day = reader.number(1, 2)?;
    if reader.expect('T').or_else(|| reader.expect('t')).or_else(|| reader.expect(' ')).is_some() {
        reader.space();
        reader.time_of_day(&mut civil)?;
    }
    let offset = reader.zone()?;
    reader.rest.is_empty().then_some(())?;
    civil.moment(offset)
}

pub(crate) struct DateReader<'a> {
    pub rest: &'a str,
}

impl<'a> DateReader<'a> {
    pub(crate) fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    pub(crate) fn expect(&mut self, expected: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }

    pub(crate) fn take(&mut self, matches: fn(u8) -> bool, max_length: usize) -> &'a str {
        let length = self.rest.bytes().take(max_length).take_while(|byte| matches(*byte)).count();
        let (head, rest) = self.rest.split_at(length);
        self.rest = rest;
        head
    }

    pub(crate) fn word(&mut self) -> &'a str {
        self.take(|byte| byte.is_ascii_alphabetic(), 20)
    }

    pub(crate) fn number(&mut self, min_digits: usize, max_digits: usize) -> Option<i64> {
        let digits = self.take(|byte| byte.is_ascii_digit(), max_digits);
        (digits.len() >= min_digits).then(|| digits.parse().ok()).flatten()
    }

    /// Reads `9:30`, `9:30:15` or `9:30:15.125`.
    pub(crate) fn clock(&mut self, civil: &mut CivilDateTime) -> Option<()> {
        civil.hour = self.number(1, 2)?;
        self.expect(':')?;
        civil.minute = self.number(2, 2)?;
        if self.expect(':').is_some() {
            civil.second = self.number(2, 2)?;
            if self.expect('.').is_some() {
                let digits = self.take(|byte| byte.is_ascii_digit(), 30);
                let seven: String = digits.chars().chain("0000000".chars()).take(7).collect();
                civil.fraction = (!digits.is_empty()).then(|| seven.parse().ok()).flatten()?;
            }
        }
        Some(())
    }

    fn time_of_day(&mut self, civil: &mut CivilDateTime) -> Option<()> {
        self.clock(civil)?;
        let before = self.rest;
        self.space();
        match self.word().to_ascii_uppercase().as_str() {
            "AM" if (1..=12).contains(&civil.hour) => civil.hour %= 12,
            "PM" if (1..=12).contains(&civil.hour) => civil.hour = civil.hour % 12 + 12,
            "AM" | "PM" => return None,
            _ => self.rest = before,
        }
        Some(())
    }

    /// Reads an offset in minutes east of UTC; `Some(None)` when no zone is written.
    pub(crate) fn zone(&mut self) -> Option<Option<i64>> {
        self.space();
        if self.rest.is_empty() {
            return Some(None);
        }
        let sign = match self.rest.as_bytes()[0] {
            b'+' => 1,
            b'-' => -1,
            _ => {
                let name = self.word();
                return ["Z", "UTC", "GMT"].iter().any(|zone| zone.eq_ignore_ascii_case(name)).then_some(Some(0));
            }
        };
        self.rest = &self.rest[1..];
        let hours = self.number(2, 2)?;
        let minutes = match (self.expect(':').is_some(), self.rest.is_empty()) {
            (false, true) => 0,
            _ => self.number(2, 2)?,
        };
        (hours <= 14 && minutes < 60).then_some(Some(sign * (hours * 60 + minutes)))
    }
}
