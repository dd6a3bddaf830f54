//! Fire times of schedules. Pure: computes the next time from a schedule and a time.
//!
//! Days, weeks, months and years follow local time in the schedule's zone: eight in the morning stays eight in the
//! morning. A local time that daylight saving skips is shifted forward by the length of the gap, and by a cron
//! expression to the end of the gap; a local time that occurs twice counts the first time only. Seconds, minutes
//! and hours are spans of real time, also in a cron expression that leaves the hour open.

use std::str::FromStr;

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, ToSpan, Zoned};
use windlass_core::plan::Trigger;
use windlass_value::{Timestamp, Value};

/// Maximum number of days searched for a matching day.
const MAX_SEARCH_DAYS: i32 = 366 * 30;

/// Years within which every combination of weekday and day of the year occurs.
const CYCLE: std::ops::Range<i16> = 2024..2052;

/// The message for a schedule that never fires.
pub const NEVER_FIRES: &str = "this schedule never fires";

#[derive(Clone, Debug)]
pub enum Schedule {
    Every(Box<Recurrence>),
    Cron { cron: Box<Cron>, zone: TimeZone },
}

#[derive(Clone, Debug)]
pub struct Recurrence {
    frequency: Frequency,
    interval: i64,
    /// Start of counting. Nothing fires before it.
    anchor: Zoned,
    /// The anchor itself is a fire time.
    from_anchor: bool,
    end: Option<Timestamp>,
    hours: Vec<i8>,
    minutes: Vec<i8>,
    week_days: Vec<Weekday>,
    /// Counted from the end of the month if negative.
    month_days: Vec<i8>,
    /// The n-th weekday of a month; counted from the end if negative.
    occurrences: Vec<(Weekday, i8)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Frequency {
    Seconds(i64),
    Day,
    Week,
    Month,
    Year,
}

impl Schedule {
    /// Reads the schedule from the settings of a trigger, if there is one. A recurrence without a start is counted from
    /// `registered`.
    pub fn from_trigger(trigger: &Trigger, registered: Timestamp) -> Result<Option<Schedule>, String> {
        let text = |name: &str| trigger.settings.get(name).and_then(Value::as_str);
        match (trigger.settings.get("recurrence"), text("cron")) {
            (Some(recurrence), _) => Schedule::recurrence(recurrence, registered).map(Some),
            (None, Some(cron)) => Schedule::cron(cron, text("timeZone")).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Parses a cron expression of five fields, or of six with seconds first.
    pub fn cron(text: &str, zone: Option<&str>) -> Result<Schedule, String> {
        let parser = CronParser::builder().seconds(Seconds::Optional).build();
        // The library's message is about its own internals.
        let cron = parser.parse(text).map_err(|_| format!("`{text}` is not a cron expression"))?;
        Ok(Schedule::Cron { cron: Box::new(cron), zone: find_zone(zone)? })
    }

    pub(crate) fn recurrence(settings: &Value, registered: Timestamp) -> Result<Schedule, String> {
        let text = |name: &str| settings.get(name).and_then(Value::as_str).map(str::trim);
        // The compiler has already resolved Windows zone names.
        let zone = find_zone(text("zone").or_else(|| text("timeZone")))?;
        let frequency = match text("frequency").map(str::to_ascii_lowercase).as_deref() {
            Some("second") => Frequency::Seconds(1),
            Some("minute") => Frequency::Seconds(60),
            Some("hour") => Frequency::Seconds(3_600),
            Some("day") => Frequency::Day,
            Some("week") => Frequency::Week,
            Some("month") => Frequency::Month,
            Some("year") => Frequency::Year,
            other => {
                return Err(format!(
                    "the frequency {other:?} is not supported: write a constant frequency in the definition"
                ));
            }
        };
        let interval = settings.get("interval").map_or(Some(1), Value::as_int).filter(|interval| *interval >= 1);
        let interval = interval.ok_or("the interval is computed: write a constant interval in the definition")?;
        let start = text("startTime").map(|text| parse_time(text, &zone)).transpose()?;
        let end = text("endTime").map(|text| parse_time(text, &zone)).transpose()?;
        let empty = Value::Null;
        let schedule = settings.get("schedule").unwrap_or(&empty);
        let list = |name: &str| schedule.get(name).and_then(Value::as_list).unwrap_or_default();
        let numbers = |name: &str| -> Result<Vec<i8>, String> {
            let small = |value: &Value| value.as_int().and_then(|number| i8::try_from(number).ok());
            let odd = || format!("`{name}` of the schedule has an entry that is not a small integer");
            list(name).iter().map(|value| small(value).ok_or_else(odd)).collect()
        };
        let week_days = list("weekDays").iter().filter_map(Value::as_str).map(week_day).collect::<Result<_, _>>()?;
        let occurrence = |value: &Value| -> Result<(Weekday, i8), String> {
            let day = value.get("day").or_else(|| value.get("dayOfWeek")).and_then(Value::as_str).unwrap_or_default();
            let which = value.get("occurrence").and_then(Value::as_int).unwrap_or(1);
            let which = i8::try_from(which).ok().filter(|which| *which != 0 && which.unsigned_abs() <= 5);
            Ok((week_day(day)?, which.ok_or("an occurrence is from 1 to 5, or from -5 to -1")?))
        };
        let occurrences = list("monthlyOccurrences").iter().map(occurrence).collect::<Result<_, _>>()?;
        let anchor = start.as_ref().map_or_else(|| zoned(registered, &zone), |start| Ok(start.clone()))?;
        Ok(Schedule::Every(Box::new(Recurrence {
            frequency,
            interval,
            anchor,
            from_anchor: start.is_some(),
            end: end.map(|end| Timestamp(end.timestamp().as_microsecond())),
            hours: numbers("hours")?,
            minutes: numbers("minutes")?,
            week_days,
            month_days: numbers("monthDays")?,
            occurrences,
        })))
    }

    /// Returns whether any time matches. Checked before a search, because a search without a result takes very long.
    pub fn ever_fires(&self) -> bool {
        match self {
            Schedule::Every(recurrence) => recurrence.ever_fires(),
            Schedule::Cron { cron, .. } => has_a_day(cron),
        }
    }

    /// Returns the schedule if it ever fires.
    pub fn if_ever_fires(self) -> Result<Schedule, String> {
        if self.ever_fires() { Ok(self) } else { Err(NEVER_FIRES.to_owned()) }
    }

    /// Returns the first fire time after this one.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Schedule::Every(recurrence) => recurrence.next(after),
            Schedule::Cron { cron, zone } => {
                let next = cron.find_next_occurrence(&zoned(after, zone).ok()?, false).ok()?;
                Some(Timestamp(next.timestamp().as_microsecond()))
            }
        }
    }
}

fn has_a_day(cron: &Cron) -> bool {
    use croner::Weekday::{Friday, Monday, Saturday, Sunday, Thursday, Tuesday, Wednesday};
    const DAYS: [croner::Weekday; 7] = [Sunday, Monday, Tuesday, Wednesday, Thursday, Friday, Saturday];
    let fits = |date: Date| {
        let (year, month, day) = (i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs());
        let week_day = DAYS[usize::from(date.weekday().to_sunday_zero_offset().unsigned_abs()) % 7];
        cron.pattern.day_match(year, month.into(), day.into(), week_day).unwrap_or(false)
    };
    let months =
        || (1..=12_i8).filter(|month| cron.pattern.month_match((*month).unsigned_abs().into()).unwrap_or(false));
    let days = |year: i16, month: i8| (1..=31_i8).filter_map(move |day| Date::new(year, month, day).ok());
    CYCLE.flat_map(|year| months().map(move |month| (year, month))).any(|(year, month)| days(year, month).any(fits))
}

impl Recurrence {
    /// Returns whether it ever fires, regardless of its end: an expired recurrence has fired.
    fn ever_fires(&self) -> bool {
        let anchor = Timestamp(self.anchor.timestamp().as_microsecond());
        let far = Timestamp(anchor.0.saturating_add(i64::from(MAX_SEARCH_DAYS) * 86_400 * 1_000_000));
        let endless = Recurrence { end: None, ..self.clone() };
        endless.next(anchor).is_some_and(|next| next <= far)
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let anchor = Timestamp(self.anchor.timestamp().as_microsecond());
        // A recurrence with a given start time fires at that time as well. Otherwise the anchor is only its phase: a clock
        // that was set back since must not keep it from firing until then.
        let after = if self.from_anchor { after.max(Timestamp(anchor.0 - 1)) } else { after };
        let next = match self.frequency {
            Frequency::Seconds(seconds) => {
                let step = seconds.checked_mul(self.interval)?.checked_mul(1_000_000)?;
                let intervals = after.0.checked_sub(anchor.0)?.div_euclid(step) + 1;
                Timestamp(anchor.0.checked_add(intervals.checked_mul(step)?)?)
            }
            _ => self.next_day(after)?,
        };
        self.end.is_none_or(|end| next <= end).then_some(next)
    }

    /// Searches day by day, from the day before: a skipped local time may have been shifted over midnight.
    fn next_day(&self, after: Timestamp) -> Option<Timestamp> {
        let zone = self.anchor.time_zone();
        let mut date = zoned(after, zone).ok()?.date().yesterday().ok()?;
        for _ in 0..MAX_SEARCH_DAYS {
            if self.matches_date(date) {
                let mut times: Vec<Timestamp> = self.times(date, zone).filter(|time| *time > after).collect();
                times.sort_unstable();
                if let Some(first) = times.first() {
                    return Some(*first);
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn times(&self, date: Date, zone: &TimeZone) -> impl Iterator<Item = Timestamp> {
        let anchor = self.anchor.datetime();
        let own = |given: &[i8], anchor: i8| if given.is_empty() { vec![anchor] } else { given.to_vec() };
        let hours = own(&self.hours, anchor.hour());
        let minutes = own(&self.minutes, anchor.minute());
        let second = if self.minutes.is_empty() { anchor.second() } else { 0 };
        let pairs =
            hours.into_iter().flat_map(move |hour| minutes.clone().into_iter().map(move |minute| (hour, minute)));
        let zone = zone.clone();
        pairs.filter_map(move |(hour, minute)| {
            let shown = DateTime::new(date.year(), date.month(), date.day(), hour, minute, second, 0).ok()?;
            let time = zone.to_ambiguous_timestamp(shown).compatible().ok()?;
            Some(Timestamp(time.as_microsecond()))
        })
    }

    fn matches_date(&self, date: Date) -> bool {
        let anchor = self.anchor.date();
        if self.from_anchor && date < anchor {
            return false;
        }
        let months = |date: Date| i64::from(date.year()) * 12 + i64::from(date.month());
        let every = |passed: i64| passed.rem_euclid(self.interval) == 0;
        match self.frequency {
            Frequency::Seconds(_) => false,
            Frequency::Day => {
                every(days_between(anchor, date))
                    && (self.week_days.is_empty() || self.week_days.contains(&date.weekday()))
            }
            Frequency::Week => {
                let weeks = days_between(monday(anchor), monday(date)) / 7;
                let own = [anchor.weekday()];
                let days = if self.week_days.is_empty() { &own[..] } else { &self.week_days };
                every(weeks) && days.contains(&date.weekday())
            }
            Frequency::Month => every(months(date) - months(anchor)) && self.matches_day_of_month(date, anchor),
            Frequency::Year => {
                let own_month = date.month() == anchor.month();
                every(i64::from(date.year() - anchor.year())) && own_month && self.matches_day_of_month(date, anchor)
            }
        }
    }

    fn matches_day_of_month(&self, date: Date, anchor: Date) -> bool {
        let last = date.days_in_month();
        if self.month_days.is_empty() && self.occurrences.is_empty() {
            // Counted in months, a day that a month does not have becomes its last day.
            return date.day() == anchor.day().min(last);
        }
        let from_end = date.day() - last - 1;
        let by_day = self.month_days.iter().any(|day| *day == date.day() || *day == from_end);
        let (nth, nth_from_end) = ((date.day() - 1) / 7 + 1, (date.day() - last) / 7 - 1);
        let by_week =
            |(day, which): &(Weekday, i8)| *day == date.weekday() && (*which == nth || *which == nth_from_end);
        by_day || self.occurrences.iter().any(by_week)
    }
}

fn days_between(from: Date, to: Date) -> i64 {
    from.until(to).map_or(0, |span| i64::from(span.get_days()))
}

fn monday(date: Date) -> Date {
    let back = i64::from(date.weekday().to_monday_zero_offset());
    date.checked_sub(back.days()).unwrap_or(date)
}

fn week_day(name: &str) -> Result<Weekday, String> {
    const DAYS: [(&str, Weekday); 7] = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    let found = DAYS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
    found.map(|(_, day)| *day).ok_or_else(|| format!("`{name}` is not a day of the week"))
}

/// Returns the problem with a zone name, if there is one, and what was probably meant.
pub fn zone_problem(name: &str) -> Option<(String, String)> {
    let message = find_zone(Some(name)).err()?;
    let names: Vec<String> = jiff::tz::TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    let hint = windlass_syntax::did_you_mean(name, names.iter().map(String::as_str));
    Some((message, hint.unwrap_or_else(|| "a name such as `Europe/Berlin` or `UTC`".to_owned())))
}

/// Finds a time zone. The zone rules are part of the program: two servers must not differ.
fn find_zone(name: Option<&str>) -> Result<TimeZone, String> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    let found = jiff::tz::TimeZoneDatabase::bundled().get(name);
    found.map_err(|_| format!("there is no time zone `{name}`; names are such as `Europe/Berlin` or `UTC`"))
}

fn zoned(at: Timestamp, zone: &TimeZone) -> Result<Zoned, String> {
    let instant = Instant::from_microsecond(at.0).map_err(|error| error.to_string())?;
    Ok(instant.to_zoned(zone.clone()))
}

/// Parses a time: with an offset it is an instant, without one it is local time in the zone.
fn parse_time(text: &str, zone: &TimeZone) -> Result<Zoned, String> {
    let unreadable = || format!("`{text}` is not a timestamp: write it as 2030-01-01T08:00:00Z");
    if let Ok(instant) = Instant::from_str(text) {
        return Ok(instant.to_zoned(zone.clone()));
    }
    let shown = DateTime::from_str(text).map_err(|_| unreadable())?;
    zone.to_ambiguous_zoned(shown).compatible().map_err(|_| unreadable())
}

#[cfg(test)]
mod tests;
