//! The number of calls that each condition has matched.

use std::collections::BTreeMap;

use super::rules::{MockCondition, MockRule};

/// Counts for the conditions of a file. Rules with the same condition share a count, so that the second of them can
/// answer the second call.
#[derive(Default)]
pub(super) struct MatchCounts {
    all: u64,
    by_condition: BTreeMap<MockCondition, u64>,
}

impl MatchCounts {
    /// Counts a call once for every condition that it matches.
    pub(super) fn count<'a>(&mut self, rules: impl Iterator<Item = &'a MockRule>, matches: impl Fn(&MockRule) -> bool) {
        self.all += 1;
        let mut conditions: Vec<&MockCondition> = rules.filter(|rule| matches(rule)).map(|rule| &rule.when).collect();
        conditions.sort_unstable();
        conditions.dedup();
        for when in conditions {
            match self.by_condition.get_mut(when) {
                Some(count) => *count += 1,
                None => {
                    self.by_condition.insert(when.clone(), 1);
                }
            }
        }
    }

    /// Returns the number of the latest call among those that match the rule's condition.
    pub(super) fn call_number(&self, rule: &MockRule) -> u64 {
        self.by_condition.get(&rule.when).copied().unwrap_or(1)
    }

    /// Returns the number of all calls.
    pub(super) fn all(&self) -> u64 {
        self.all
    }
}
