//! Settings of automatic retention: `[retention]`.

use serde::Deserialize;
use windlass_runtime::{RetentionBounds, RetentionPolicy, RetentionRule};
use windlass_store::RunStatus;
use windlass_syntax::nearest;
use windlass_value::Duration;

use super::services::read;
use crate::durations;
use crate::failure::CliFailure;

/// An age that keeps runs whatever their age.
const FOREVER: &str = "forever";

/// The age that a server uses if the settings name none.
pub(crate) const SERVER_MAX_AGE: Duration = Duration::from_secs(30 * 86_400);

/// How long ids of removed runs are known if the settings do not say it, counted from the start of the run.
const DEFAULT_KEEP_IDS: Duration = Duration::from_secs(7 * 86_400);

/// The `[retention]` section.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RetentionSettings {
    /// `None`: nothing is said about the age.
    max_age: Option<MaxAge>,
    max_runs: Option<u64>,
    max_bytes: Option<u64>,
    keep_ids: Option<Duration>,
    rules: Vec<RetentionRule>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum MaxAge {
    Forever,
    Age(Duration),
}

impl MaxAge {
    fn bound(self) -> Option<Duration> {
        match self {
            MaxAge::Forever => None,
            MaxAge::Age(age) => Some(age),
        }
    }
}

impl RetentionSettings {
    /// Returns the policy of a server.
    pub(crate) fn server_policy(&self) -> RetentionPolicy {
        self.policy(Some(SERVER_MAX_AGE))
    }

    /// Returns the policy that the settings state, and nothing else.
    pub(crate) fn stated_policy(&self) -> RetentionPolicy {
        self.policy(None)
    }

    fn policy(&self, default_max_age: Option<Duration>) -> RetentionPolicy {
        let max_age = self.max_age.map_or(default_max_age, MaxAge::bound);
        RetentionPolicy {
            rules: self.rules.clone(),
            others: RetentionBounds { max_age, max_runs: self.max_runs, max_bytes: self.max_bytes },
            keep_ids: self.keep_ids.unwrap_or(DEFAULT_KEEP_IDS),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    max_age: Option<String>,
    max_runs: Option<u64>,
    max_bytes: Option<u64>,
    keep_ids: Option<String>,
    #[serde(default)]
    rules: Vec<RuleSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSection {
    definition: Option<String>,
    status: Option<String>,
    max_age: Option<String>,
    max_runs: Option<u64>,
    max_bytes: Option<u64>,
}

pub(crate) fn parse_retention(table: toml::Value) -> Result<RetentionSettings, CliFailure> {
    let Section { max_age, max_runs, max_bytes, keep_ids, rules } = read(table, "retention")?;
    Ok(RetentionSettings {
        max_age: max_age.as_deref().map(parse_age).transpose()?,
        max_runs,
        max_bytes,
        keep_ids: keep_ids.as_deref().map(|text| parse_duration("keep_ids", text)).transpose()?,
        rules: rules.into_iter().map(parse_rule).collect::<Result<_, _>>()?,
    })
}

fn parse_rule(rule: RuleSection) -> Result<RetentionRule, CliFailure> {
    let RuleSection { definition, status, max_age, max_runs, max_bytes } = rule;
    if definition.is_none() && status.is_none() {
        return Err(CliFailure::setting("a rule under [retention] names neither `definition` nor `status`")
            .hint("bounds of all other runs stand in [retention] itself"));
    }
    let max_age = max_age.as_deref().map(parse_age).transpose()?.and_then(MaxAge::bound);
    let bounds = RetentionBounds { max_age, max_runs, max_bytes };
    Ok(RetentionRule { definition, status: status.as_deref().map(parse_status).transpose()?, bounds })
}

fn parse_age(text: &str) -> Result<MaxAge, CliFailure> {
    match text {
        FOREVER => Ok(MaxAge::Forever),
        text => parse_duration("max_age", text).map(MaxAge::Age),
    }
}

fn parse_duration(key: &str, text: &str) -> Result<Duration, CliFailure> {
    durations::parse(text).map_err(|_| {
        let message = format!("`{key}` under [retention] is not a duration: {text}");
        CliFailure::setting(message).hint("such as \"30d\", \"12h\" or \"P30D\"; `max_age` may also be \"forever\"")
    })
}

fn parse_status(word: &str) -> Result<RunStatus, CliFailure> {
    let ended = || RunStatus::ALL.into_iter().filter(|status| status.is_final()).map(RunStatus::as_str);
    RunStatus::parse(word).filter(|status| status.is_final()).ok_or_else(|| {
        let failure = CliFailure::setting(format!("no run ends with the status `{word}`"));
        match nearest(word, ended()) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint(format!("there are: {}", ended().collect::<Vec<_>>().join(", "))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RetentionSettings, String> {
        let whole: toml::Table = toml::from_str(text).expect("valid TOML");
        parse_retention(whole.get("retention").cloned().expect("the section")).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_server_keeps_runs_for_30_days_unless_the_settings_say_otherwise() {
        let age = |text: &str| parse(text).expect("valid").server_policy().others.max_age;
        assert_eq!(RetentionSettings::default().server_policy().others.max_age, Some(Duration::from_secs(2_592_000)));
        assert!(RetentionSettings::default().stated_policy().keeps_all());
        assert_eq!(age("[retention]\nmax_runs = 5\n"), Some(SERVER_MAX_AGE));
        assert_eq!(age("[retention]\nmax_age = \"2d\"\n"), Some(Duration::from_secs(172_800)));
        assert_eq!(age("[retention]\nmax_age = \"forever\"\n"), None);
    }

    #[test]
    fn every_retention_setting_is_read() {
        let read = parse(
            "[retention]\nmax_age = \"P30D\"\nmax_runs = 7\nmax_bytes = 9\nkeep_ids = \"12h\"\n\
             [[retention.rules]]\ndefinition = \"orders\"\nstatus = \"failed\"\nmax_age = \"90d\"\n\
             [[retention.rules]]\nstatus = \"cancelled\"\nmax_runs = 3\nmax_bytes = 4\n",
        );
        let policy = read.expect("valid").stated_policy();
        assert_eq!((policy.others.max_runs, policy.others.max_bytes), (Some(7), Some(9)));
        assert_eq!(policy.keep_ids, Duration::from_secs(43_200));
        assert_eq!(
            (policy.rules[0].definition.as_deref(), policy.rules[0].status),
            (Some("orders"), Some(RunStatus::Failed))
        );
        assert_eq!(policy.rules[0].bounds.max_age, Some(Duration::from_secs(90 * 86_400)));
        assert_eq!(policy.rules[1].bounds, RetentionBounds { max_age: None, max_runs: Some(3), max_bytes: Some(4) });
    }

    #[test]
    fn invalid_retention_settings_are_rejected() {
        for (text, why) in [
            ("[retention]\nmax_age = \"soon\"\n", "is not a duration"),
            ("[retention]\nmax_agee = \"3d\"\n", "unknown field"),
            ("[retention]\nmax_runs = -1\n", "invalid value"),
            ("[[retention.rules]]\nmax_age = \"3d\"\n", "neither `definition` nor `status`"),
            ("[[retention.rules]]\nstatus = \"faild\"\n", "did you mean `failed`"),
            ("[[retention.rules]]\nstatus = \"running\"\n", "no run ends with"),
        ] {
            let wrong = parse(text).expect_err(text);
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }
}
