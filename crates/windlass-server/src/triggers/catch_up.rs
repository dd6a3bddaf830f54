//! Catching up on firings that were missed while the server was down.

use serde::{Deserialize, Serialize};
use windlass_core::ServerLimits;
use windlass_triggers::Schedule;
use windlass_value::Timestamp;

/// Maximum number of due times that are scanned one by one. If there are more, the scan covers only the last day, hour
/// or minute.
const MAX_TIMES_SCANNED: usize = 10_000;

/// Handling of firings that were missed while the server was down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CatchUp {
    /// Missed times are skipped.
    None,
    /// Fires for the newest missed time.
    #[default]
    Last,
    /// Fires for all missed times, at most for the newest `max_catch_up_runs` (100 by default).
    All,
}

impl CatchUp {
    /// Parses the value as written in definitions.
    pub(crate) fn parse(text: &str) -> Option<CatchUp> {
        match text {
            "none" => Some(CatchUp::None),
            "last" => Some(CatchUp::Last),
            "all" => Some(CatchUp::All),
            _ => None,
        }
    }
}

/// Times that became due since the last check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DueTimes {
    /// Times to fire at, oldest first.
    pub times: Vec<Timestamp>,
    /// The newest due time, whether it fires or not.
    pub newest: Option<Timestamp>,
    /// Number of skipped times, as far as they were counted.
    pub missed: usize,
}

/// Applies the rule to the times after `last` up to `now`.
pub(crate) fn due_times(
    schedule: &Schedule,
    last: Timestamp,
    now: Timestamp,
    rule: CatchUp,
    limits: &ServerLimits,
) -> DueTimes {
    let mut times = Vec::new();
    // After a long pause of a busy schedule only the newest times matter.
    for back in [i64::MAX, 24 * 3_600, 3_600, 60] {
        let from = last.max(Timestamp(now.0.saturating_sub(back.saturating_mul(1_000_000))));
        times.clear();
        let mut at = from;
        while times.len() <= MAX_TIMES_SCANNED
            && let Some(next) = schedule.next(at).filter(|next| *next <= now)
        {
            times.push(next);
            at = next;
        }
        if times.len() <= MAX_TIMES_SCANNED {
            break;
        }
    }
    let (newest, all) = (times.last().copied(), times.len());
    let times: Vec<Timestamp> = match rule {
        CatchUp::None => times.into_iter().rfind(|time| now <= *time + limits.catch_up_grace).into_iter().collect(),
        CatchUp::Last => newest.into_iter().collect(),
        CatchUp::All => times.split_off(times.len().saturating_sub(limits.max_catch_up_runs)),
    };
    DueTimes { missed: all - times.len(), times, newest }
}

#[cfg(test)]
mod tests {
    use windlass_value::Duration;

    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).unwrap_or_else(|| panic!("{text} is a time"))
    }

    #[test]
    fn missed_firings_are_caught_up_by_rule() {
        let hourly = Schedule::cron("0 * * * *", None).expect("a schedule");
        let (last, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T05:30:00Z"));
        let limits = ServerLimits::default();
        let count = |rule| due_times(&hourly, last, now, rule, &limits).times.len();
        assert_eq!((count(CatchUp::None), count(CatchUp::Last), count(CatchUp::All)), (0, 1, 5));
        let newest = at("2026-01-01T05:00:00Z");
        let found = due_times(&hourly, last, now, CatchUp::Last, &limits);
        assert_eq!(found, DueTimes { times: vec![newest], newest: Some(newest), missed: 4 });
        for rule in [CatchUp::None, CatchUp::Last, CatchUp::All] {
            let on_time = due_times(&hourly, at("2026-01-01T04:00:00Z"), at("2026-01-01T05:00:01Z"), rule, &limits);
            assert_eq!(on_time.times, [at("2026-01-01T05:00:00Z")], "{rule:?}: nothing was missed");
            assert_eq!(
                due_times(&hourly, at("2026-01-01T05:00:00Z"), now, rule, &limits),
                DueTimes::default(),
                "{rule:?}"
            );
        }
        let year = |limits: &ServerLimits| {
            due_times(&hourly, at("2025-01-01T00:00:00Z"), now, CatchUp::All, limits).times.len()
        };
        let fewer = ServerLimits { max_catch_up_runs: 7, ..ServerLimits::default() };
        assert_eq!((year(&limits), year(&fewer)), (limits.max_catch_up_runs, 7));
        let long_grace = ServerLimits { catch_up_grace: Duration::from_secs(7_200), ..ServerLimits::default() };
        let late = |limits: &ServerLimits| {
            due_times(&hourly, at("2026-01-01T03:30:00Z"), at("2026-01-01T04:30:00Z"), CatchUp::None, limits)
                .times
                .len()
        };
        assert_eq!((late(&limits), late(&long_grace)), (0, 1));
        // Every second for a year: the scan must not walk over all of them.
        let busy = Schedule::cron("* * * * * *", None).expect("a schedule");
        assert_eq!(due_times(&busy, at("2025-01-01T00:00:00Z"), now, CatchUp::Last, &limits).times, [now]);
    }
}
