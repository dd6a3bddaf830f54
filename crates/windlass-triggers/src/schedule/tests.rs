//! Table cases, and properties of every schedule around daylight saving changes.

use proptest::prelude::*;
use windlass_value::parse_json;

use super::*;

fn at(text: &str) -> Timestamp {
    Timestamp::parse_rfc3339(text).unwrap_or_else(|| panic!("{text} is a time"))
}

fn every(settings: &str) -> Schedule {
    let settings = parse_json(settings).expect("JSON");
    Schedule::recurrence(&settings, at("2026-01-10T10:20:30Z")).expect("a schedule")
}

fn next_times(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let mut last = at(after);
    let mut found = Vec::new();
    while found.len() < count
        && let Some(next) = schedule.next(last)
    {
        assert!(next > last, "{next} comes after {last}");
        found.push(next.to_string().replace(".000Z", "Z"));
        last = next;
    }
    found
}

#[test]
fn recurrences_match_the_table() {
    let berlin = r#""timeZone": "Europe/Berlin""#;
    let cases: Vec<(String, &str, &[&str])> = vec![
        (r#"{"frequency": "Minute", "interval": 15}"#.into(), "2026-01-10T10:20:30Z", &[
            "2026-01-10T10:35:30Z", "2026-01-10T10:50:30Z",
        ]),
        (r#"{"frequency": "Hour", "interval": 6, "startTime": "2026-01-01T00:00:00Z"}"#.into(), "2025-01-01T00:00:00Z", &[
            "2026-01-01T00:00:00Z", "2026-01-01T06:00:00Z",
        ]),
        (r#"{"frequency": "Day", "interval": 1, "schedule": {"hours": [8, 17], "minutes": [0, 30]}}"#.into(), "2026-02-01T08:10:00Z", &[
            "2026-02-01T08:30:00Z", "2026-02-01T17:00:00Z", "2026-02-01T17:30:00Z", "2026-02-02T08:00:00Z",
        ]),
        (r#"{"frequency": "Day", "interval": 3, "startTime": "2026-01-01T06:00:00Z", "endTime": "2026-01-07T06:00:00Z"}"#.into(), "2026-01-01T06:00:00Z", &[
            "2026-01-04T06:00:00Z", "2026-01-07T06:00:00Z",
        ]),
        (r#"{"frequency": "Week", "interval": 2, "startTime": "2026-01-05T09:00:00Z", "schedule": {"weekDays": ["Monday", "Friday"]}}"#.into(), "2026-01-01T00:00:00Z", &[
            "2026-01-05T09:00:00Z", "2026-01-09T09:00:00Z", "2026-01-19T09:00:00Z", "2026-01-23T09:00:00Z",
        ]),
        // The end of a month: a start on the 31st fires on the last day of each month; `monthDays` [31] fires only in
        // months that have this day.
        (r#"{"frequency": "Month", "interval": 1, "startTime": "2026-01-31T12:00:00Z"}"#.into(), "2026-01-31T12:00:00Z", &[
            "2026-02-28T12:00:00Z", "2026-03-31T12:00:00Z", "2026-04-30T12:00:00Z",
        ]),
        (r#"{"frequency": "Month", "interval": 1, "startTime": "2026-01-01T00:00:00Z", "schedule": {"monthDays": [31], "hours": [1], "minutes": [0]}}"#.into(), "2026-02-01T00:00:00Z", &[
            "2026-03-31T01:00:00Z", "2026-05-31T01:00:00Z",
        ]),
        (r#"{"frequency": "Month", "interval": 1, "startTime": "2026-01-01T00:00:00Z", "schedule": {"monthDays": [-1], "hours": [1], "minutes": [0]}}"#.into(), "2028-02-01T00:00:00Z", &[
            "2028-02-29T01:00:00Z", "2028-03-31T01:00:00Z",
        ]),
        (r#"{"frequency": "Month", "interval": 1, "startTime": "2026-01-01T00:00:00Z", "schedule": {"monthlyOccurrences": [{"day": "Tuesday", "occurrence": 2}, {"day": "Friday", "occurrence": -1}], "hours": [9], "minutes": [0]}}"#.into(), "2026-03-01T00:00:00Z", &[
            "2026-03-10T09:00:00Z", "2026-03-27T09:00:00Z", "2026-04-14T09:00:00Z",
        ]),
        (r#"{"frequency": "Year", "interval": 1, "startTime": "2024-02-29T00:00:00Z"}"#.into(), "2024-03-01T00:00:00Z", &[
            "2025-02-28T00:00:00Z", "2026-02-28T00:00:00Z",
        ]),
        // The clocks go forward on 2026-03-29 at 02:00, and back on 2026-10-25 at 03:00.
        (format!(r#"{{"frequency": "Day", "interval": 1, {berlin}, "startTime": "2026-03-28T02:30:00"}}"#), "2026-03-27T00:00:00Z", &[
            "2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z",
        ]),
        (format!(r#"{{"frequency": "Day", "interval": 1, {berlin}, "startTime": "2026-10-24T02:30:00"}}"#), "2026-10-24T00:30:00Z", &[
            "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z",
        ]),
        (format!(r#"{{"frequency": "Hour", "interval": 1, {berlin}, "startTime": "2026-10-25T00:00:00"}}"#), "2026-10-24T23:59:59Z", &[
            "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z",
        ]),
    ];
    for (settings, after, expected) in cases {
        assert_eq!(next_times(&every(&settings), after, expected.len()), expected, "{settings} after {after}");
    }
    let ended = every(r#"{"frequency": "Day", "interval": 1, "endTime": "2026-01-11T00:00:00Z"}"#);
    assert_eq!(ended.next(at("2026-01-12T00:00:00Z")), None);
}

#[test]
fn cron_expressions_use_local_time_of_their_zone() {
    let cases = [
        ("0 8 * * 1-5", None, "2026-01-09T08:00:00Z", "2026-01-12T08:00:00Z"),
        ("*/10 * * * * *", None, "2026-01-09T08:00:01Z", "2026-01-09T08:00:10Z"),
        ("0 9 L * *", Some("Europe/Berlin"), "2026-06-01T00:00:00Z", "2026-06-30T07:00:00Z"),
        ("30 7 * * *", Some("America/New_York"), "2026-03-08T00:00:00Z", "2026-03-08T11:30:00Z"),
    ];
    for (text, zone, after, expected) in cases {
        let schedule = Schedule::cron(text, zone).expect(text);
        assert_eq!(next_times(&schedule, after, 1), [expected], "{text}");
    }
    assert!(Schedule::cron("61 * * * *", None).is_err());
    assert!(Schedule::cron("* * * * *", Some("Mars/Phobos")).is_err_and(|why| why.contains("Mars/Phobos")));
}

/// Cron expressions across daylight saving changes: each requested time of day once, and real hours in between.
#[test]
fn cron_expressions_handle_daylight_saving_changes() {
    let berlin = Some("Europe/Berlin");
    let cases: Vec<(&str, Option<&str>, &str, &[&str])> = vec![
        // Forward on 2026-03-29 from 02:00 to 03:00: 02:30 does not exist and fires at the first moment that does.
        (
            "30 2 * * *",
            berlin,
            "2026-03-28T00:00:00Z",
            &["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        // Back on 2026-10-25 from 03:00 to 02:00: 02:30 occurs twice and counts the first time.
        (
            "30 2 * * *",
            berlin,
            "2026-10-24T00:00:00Z",
            &["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        // Every hour and every half hour of real time, through both changes.
        ("0 * * * *", berlin, "2026-03-29T00:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"]),
        (
            "0 * * * *",
            berlin,
            "2026-10-24T23:00:00Z",
            &["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"],
        ),
        (
            "*/30 * * * *",
            berlin,
            "2026-10-25T00:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"],
        ),
        // Here the clocks go forward by half an hour; elsewhere midnight does not exist.
        (
            "15 2 * * *",
            Some("Australia/Lord_Howe"),
            "2026-10-03T00:00:00Z",
            &["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
        ),
        (
            "0 0 * * *",
            Some("America/Santiago"),
            "2026-09-05T05:00:00Z",
            &["2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"],
        ),
    ];
    for (text, zone, after, expected) in cases {
        let schedule = Schedule::cron(text, zone).expect(text);
        assert_eq!(next_times(&schedule, after, expected.len()), expected, "{text} in {zone:?} after {after}");
    }
}

const ZONES: [&str; 5] = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"];

proptest! {
    /// From any starting point the times are the same in the same order; no day has more fire times than requested.
    #[test]
    fn the_next_time_does_not_depend_on_the_starting_point(
        zone in 0usize..5, hour in 0i64..24, minute in 0i64..60, second_hour in 0i64..24, start in 1_700_000_000i64..1_800_000_000, skip in 0i64..100_000_000,
    ) {
        let settings = format!(
            r#"{{"frequency": "Day", "interval": 1, "timeZone": "{}", "schedule": {{"hours": [{hour}, {second_hour}], "minutes": [{minute}]}}}}"#,
            ZONES[zone]
        );
        let settings = parse_json(&settings).expect("JSON");
        let schedule = Schedule::recurrence(&settings, Timestamp(start * 1_000_000)).expect("a schedule");
        let from = Timestamp((start + skip) * 1_000_000);
        let first = schedule.next(from).expect("there is always another day");
        let second = schedule.next(first).expect("and another");
        prop_assert!(from < first && first < second);
        prop_assert!(second.0 - first.0 <= 50 * 3_600 * 1_000_000, "about a day apart at most");
        // From any time in between the result is the same.
        let between = Timestamp(first.0 + (second.0 - first.0) / 2);
        prop_assert_eq!(schedule.next(between), Some(second));
        prop_assert_eq!(schedule.next(Timestamp(first.0 - 1)), Some(first));
        // Local time matches the request, unless daylight saving skips it.
        let zone = find_zone(Some(ZONES[zone])).expect("a zone");
        let shown = zoned(first, &zone).expect("in range").datetime();
        let asked = i64::from(shown.minute()) == minute && [hour, second_hour].contains(&i64::from(shown.hour()));
        let skipped = (0..240).any(|minutes| {
            let Ok(before) = shown.checked_sub(minutes.minutes()) else { return false };
            let hit = i64::from(before.minute()) == minute && [hour, second_hour].contains(&i64::from(before.hour()));
            hit && zone.to_ambiguous_timestamp(before).is_ambiguous()
        });
        prop_assert!(asked || skipped, "{} shows {}", ZONES[0], shown);
    }
}
