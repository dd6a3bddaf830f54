//! The next action after a task has ended: by its retry, then by its rules, then by the default of all pipelines.
//!
//! | decided by, in this order | the pipeline |
//! |---|---|
//! | the task failed, and its own retry allows another attempt | waits, and retries the task |
//! | a rule that matches, and has not matched too often: continue | continues with the next task |
//! | – jump | continues with that task |
//! | – break | ends as succeeded |
//! | – fail | ends as failed, timed out or cancelled |
//! | – retry, and it allows another attempt | waits, and retries the task |
//! | – retry, and its attempts are spent | the next rule decides |
//! | no rule, and the task succeeded | continues with the next task |
//! | no rule, and the task failed | ends as failed |

use std::sync::Arc;

use windlass_value::{Duration, Value};

use super::pipeline::PipelinePosition;
use crate::plan::{Directive, TaskRule};
use crate::reduce::eval::Locals;
use crate::reduce::fault::FaultResult;
use crate::reduce::retry::RetryHistory;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameId, PipelineFrame};
use crate::{ErrorInfo, Status, TaskOutcome};

pub(super) enum TaskDecision {
    Continue,
    Jump(u32),
    Retry { wait: Duration, same_key: bool },
    Break,
    Fail { status: Status, error: Option<ErrorInfo> },
}

/// A rule that has matched, by its index in the task.
pub(super) struct MatchedRule<'a> {
    pub at: u32,
    pub rule: &'a TaskRule,
}

impl<'a> Reducer<'a> {
    /// Decides by the task's own retry; else by the first rule that matches; else a success continues and an error
    /// fails.
    pub(super) fn decide(
        &mut self,
        id: FrameId,
        outcome: &TaskOutcome,
        locals: Locals<'_>,
    ) -> Result<(TaskDecision, Option<MatchedRule<'a>>), ItemStop> {
        let PipelinePosition { task, body, scope, .. } = self.pipeline_frame(id)?;
        let (pc, since, min_wait) = (body.pc, body.first_try_at, requested_delay(outcome));
        let tried =
            RetryHistory { tries: body.attempt.saturating_sub(body.tries_before), since, requested_delay: min_wait };
        if let (Some(retry), Some(error)) = (&task.retry, &outcome.error)
            && let Some(wait) = self.retry_after(retry, error, tried, scope, locals)?
        {
            return Ok((retry_action(outcome, wait), None));
        }
        for (at, rule) in task.rules.iter().enumerate() {
            if let Some(when) = rule.when
                && !self.condition(when, scope, locals)?
            {
                continue;
            }
            if let Some(times) = &rule.max_matches
                && self.match_count(id, pc, at as u32)? >= self.count_with(times, scope, locals)?
            {
                continue;
            }
            let next = match &rule.directive {
                Directive::Continue => TaskDecision::Continue,
                Directive::Jump(to) => TaskDecision::Jump(*to),
                Directive::Break => TaskDecision::Break,
                Directive::Fail { status, error } => {
                    let error = error.map(|error| self.eval_with(error, scope, locals)).transpose()?;
                    let error = error.map(|error| self.resolve(&error)).transpose()?;
                    let plan = &self.program.plan;
                    TaskDecision::Fail {
                        status: *status,
                        error: error.as_ref().map(|error| plan.apply_hint(rule_error(error))),
                    }
                }
                Directive::Retry(retry) => {
                    let tries = self.tries_by_rule(id, pc, at as u32, rule)?;
                    let tried = RetryHistory { tries, since, requested_delay: min_wait };
                    match self.retry_after(retry, &retry_cause(outcome), tried, scope, locals)? {
                        // The writes of a rule can change what is sent: then it is a different effect.
                        Some(wait) if !rule.writes.is_empty() => {
                            TaskDecision::Retry { wait: at_least_requested(outcome, wait), same_key: false }
                        }
                        Some(wait) => retry_action(outcome, wait),
                        None => continue,
                    }
                }
            };
            return Ok((next, Some(MatchedRule { at: at as u32, rule })));
        }
        let fails = outcome.error.is_some();
        Ok((
            if fails { TaskDecision::Fail { status: Status::Failed, error: None } } else { TaskDecision::Continue },
            None,
        ))
    }

    /// Returns the attempts as this rule counts them: those that rules have requested, or only its own.
    fn tries_by_rule(&self, id: FrameId, pc: u32, at: u32, rule: &TaskRule) -> FaultResult<u32> {
        let tries = match rule.max_matches.is_some() {
            true => u32::try_from(self.match_count(id, pc, at)?).unwrap_or(u32::MAX),
            false => self.pipeline_frame(id)?.body.rounds,
        };
        Ok(tries.saturating_add(1))
    }

    fn match_count(&self, id: FrameId, pc: u32, at: u32) -> FaultResult<u64> {
        Ok(self.pipeline_frame(id)?.body.matched.get(&(pc, at)).copied().unwrap_or(0))
    }

    /// Counts a match of a rule with a maximum number of matches, and an attempt that a rule has requested.
    pub(super) fn record_match(&mut self, id: FrameId, matched: &MatchedRule<'_>) -> FaultResult {
        let body = self.pipeline_frame_mut(id)?;
        if matched.rule.max_matches.is_some() {
            *body.matched.entry((body.pc, matched.at)).or_default() += 1;
        }
        if matches!(matched.rule.directive, Directive::Retry(_)) {
            body.rounds += 1;
            body.tries_before = body.attempt;
        }
        Ok(())
    }

    /// Resets the attempts of a task that the pipeline leaves, for the next time it is reached.
    pub(super) fn forget_tries(&mut self, id: FrameId) -> FaultResult {
        let PipelinePosition { pipeline, .. } = self.pipeline_frame(id)?;
        let body = self.pipeline_frame_mut(id)?;
        let PipelineFrame { pc, matched, .. } = body;
        let retries = |task: u32, rule: u32| {
            let rule = pipeline.tasks.get(task as usize).and_then(|task| task.rules.get(rule as usize));
            rule.is_some_and(|rule| matches!(rule.directive, Directive::Retry(_)))
        };
        matched.retain(|(task, rule), _| task != pc || !retries(*task, *rule));
        body.rounds = 0;
        body.tries_before = 0;
        Ok(())
    }
}

fn retry_action(outcome: &TaskOutcome, wait: Duration) -> TaskDecision {
    let same_key = outcome.error.as_ref().is_some_and(|error| !error.replied);
    TaskDecision::Retry { wait: at_least_requested(outcome, wait), same_key }
}

/// Returns the error that causes the retry of a task.
pub(super) fn retry_cause(outcome: &TaskOutcome) -> ErrorInfo {
    outcome.error.clone().unwrap_or_else(|| ErrorInfo::new("rule", "rule", "a rule requests a retry"))
}

fn at_least_requested(outcome: &TaskOutcome, wait: Duration) -> Duration {
    wait.max(requested_delay(outcome))
}

/// Returns the delay that the refusing server requested (Retry-After); the retry must not begin earlier.
fn requested_delay(outcome: &TaskOutcome) -> Duration {
    let ms = outcome.meta.get("retry_after_ms").and_then(Value::as_int).and_then(|ms| u64::try_from(ms).ok());
    Duration::from_ms(ms.unwrap_or(0))
}

/// Reads an error from a definition, `{code, message}`; missing parts are taken from `fallback`.
pub(super) fn error_from_definition(error: &Value, mut fallback: ErrorInfo) -> ErrorInfo {
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(Arc::from);
    fallback.code = text("code").unwrap_or(fallback.code);
    fallback.message = text("message").unwrap_or(fallback.message);
    fallback
}

/// Returns the error of a rule that fails its step.
pub(super) fn rule_error(error: &Value) -> ErrorInfo {
    error_from_definition(error, ErrorInfo::new("RuleFailed", "rule", "a rule fails the step"))
}
