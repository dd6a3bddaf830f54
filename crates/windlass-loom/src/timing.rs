//! Time: durations, intervals, timeouts, and the actions that wait.

use windlass_core::Status;
use windlass_core::plan::{Amount, ExprId, NodeKind, NodeTimeout, Wait};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{
    Diagnostic, ObjectReader, Span, SpannedText, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_text, format_names,
};
use windlass_value::{Duration, Value};

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr;
use crate::scopes::NameScopeId;
use crate::types::ActionType;

const UNITS: &[(&str, u64)] = &[("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400), ("week", 604_800)];

/// The longest wait in months, 100 years.
const MAX_MONTHS: i64 = 1_200;

fn is_month(unit: &str) -> bool {
    unit.trim().eq_ignore_ascii_case("month") || unit.trim().eq_ignore_ascii_case("months")
}

impl LoomCompiler<'_> {
    pub(crate) fn wait(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let scope = current.position.scope;
        let (key, node) = match current.fields.take_any(&["interval", "until", "signal"], &mut self.diagnostics) {
            Some(found) => found,
            None => {
                current.fields.missing("interval", &mut self.diagnostics);
                return None;
            }
        };
        if key.text.eq_ignore_ascii_case("signal") {
            return self.wait_for_signal(current, node);
        }
        if key.text.eq_ignore_ascii_case("interval") {
            if node.get("unit").and_then(SyntaxNode::as_str).is_some_and(is_month) {
                return self.months(node, scope).map(|until| NodeKind::Wait(Wait::Until(until)));
            }
            return self.interval(node, scope).map(|amount| NodeKind::Wait(Wait::Delay(amount)));
        }
        let timestamp = match node.as_map() {
            Some(_) => {
                let mut object = ObjectReader::read(node, "`until`", &mut self.diagnostics)?;
                let timestamp = object.take("timestamp");
                object.finish(codes::UNKNOWN_KEY, "`until`", &mut self.diagnostics);
                if timestamp.is_none() {
                    self.error(codes::MISSING_KEY, node.span, "`until` has no `timestamp`", "add the `timestamp`");
                }
                timestamp?
            }
            None => node,
        };
        expect_text(timestamp, "`timestamp`", &mut self.diagnostics)?;
        Some(NodeKind::Wait(Wait::Until(self.value(timestamp, scope))))
    }

    /// Compiles a wait of months. Months differ in length, so the wait ends at a point in time, counted from the start of
    /// the action.
    fn months(&mut self, node: &SyntaxNode, scope: NameScopeId) -> Option<ExprId> {
        let mut object = ObjectReader::read(node, "an interval", &mut self.diagnostics)?;
        let count = object.take("count");
        object.ignore(&["unit"]);
        object.finish(codes::UNKNOWN_KEY, "an interval", &mut self.diagnostics);
        let Some(count) = count else {
            let hint = "an interval is {\"count\": 1, \"unit\": \"month\"}";
            self.error(codes::MISSING_KEY, node.span, "the interval has no `count`", hint);
            return None;
        };
        let text = match &count.kind {
            SyntaxNodeKind::Number(Value::Int(number)) if (0..=MAX_MONTHS).contains(number) => {
                SpannedText::synthetic(format!("@addToTime(utcNow(), {number}, 'Month')"))
            }
            SyntaxNodeKind::Str(text) if expr::is_whole_expression(&text.text) => {
                text.wrap("@addToTime(utcNow(), ", 1, ", 'Month')")
            }
            _ => {
                let message = format!("`count` cannot be {}", count.describe());
                let hint = format!("a whole number of months, from 0 to {MAX_MONTHS}");
                self.error(codes::BAD_VALUE, count.span, message, hint);
                return None;
            }
        };
        Some(self.value(&SyntaxNode::new(count.span, SyntaxNodeKind::Str(text)), scope))
    }

    /// Reads `{"interval": {"count", "unit"}}`, `{"count", "unit"}`, or a duration.
    pub(crate) fn delay(&mut self, node: &SyntaxNode, scope: NameScopeId) -> Option<Amount<Duration>> {
        match node.as_map() {
            Some(entries) if entries.iter().any(|(key, _)| key.text.eq_ignore_ascii_case("interval")) => {
                let mut object = ObjectReader::read(node, "`delay`", &mut self.diagnostics)?;
                let interval = object.take("interval");
                object.finish(codes::UNKNOWN_KEY, "`delay`", &mut self.diagnostics);
                self.interval(interval?, scope)
            }
            _ => self.interval(node, scope),
        }
    }

    /// Reads `{"count", "unit"}`, or a duration.
    fn interval(&mut self, node: &SyntaxNode, scope: NameScopeId) -> Option<Amount<Duration>> {
        if node.as_map().is_none() {
            return self.duration(node, "the interval", scope);
        }
        let mut object = ObjectReader::read(node, "an interval", &mut self.diagnostics)?;
        let (count, unit) = (object.take("count"), object.take("unit"));
        object.finish(codes::UNKNOWN_KEY, "an interval", &mut self.diagnostics);
        for (found, name) in [(count, "count"), (unit, "unit")] {
            if found.is_none() {
                let hint = "an interval is {\"count\": 5, \"unit\": \"second\"}, or \"PT5S\"";
                self.error(codes::MISSING_KEY, node.span, format!("the interval has no `{name}`"), hint);
            }
        }
        let seconds = self.unit(unit?);
        let (count, seconds) = (count?, seconds?);
        match &count.kind {
            SyntaxNodeKind::Str(text) if expr::is_whole_expression(&text.text) => {
                let scaled = match seconds {
                    1 => text.clone(),
                    _ => text.wrap("@mul(", 1, &format!(", {seconds})")),
                };
                let node = SyntaxNode::new(count.span, SyntaxNodeKind::Str(scaled));
                Some(Amount::Computed(self.value(&node, scope)))
            }
            SyntaxNodeKind::Number(number) => self.duration_from_count(number, seconds, count.span).map(Amount::Fixed),
            _ => {
                let message = format!("`count` must be a number or an expression, found {}", count.describe());
                self.error(codes::WRONG_KIND, count.span, message, "such as 5, or \"@variables('seconds')\"");
                None
            }
        }
    }

    fn duration_from_count(&mut self, number: &Value, seconds: u64, span: Span) -> Option<Duration> {
        let micros = match number {
            Value::Int(count) => u64::try_from(*count).ok().and_then(|count| count.checked_mul(seconds * 1_000_000)),
            Value::Float(count) if *count >= 0.0 && *count < 1e12 => {
                Some((count * seconds as f64 * 1e6).round() as u64)
            }
            _ => None,
        };
        if micros.is_none() {
            let message = format!("`count` cannot be {number:?}");
            self.error(codes::BAD_VALUE, span, message, "it is 0 or more");
        }
        micros.map(Duration)
    }

    /// Returns the number of seconds of a unit.
    fn unit(&mut self, node: &SyntaxNode) -> Option<u64> {
        let text = &expect_text(node, "`unit`", &mut self.diagnostics)?.text;
        let lower = text.trim().to_lowercase();
        let singular = lower.strip_suffix('s').unwrap_or(&lower);
        if let Some((_, seconds)) = UNITS.iter().find(|(name, _)| *name == singular) {
            return Some(*seconds);
        }
        let problem = match singular {
            "month" | "year" => {
                let message = format!("the unit `{text}` is not supported here: it has no fixed length");
                Diagnostic::error(codes::NOT_SUPPORTED, node.span, message).with_hint(
                    "wait until a point in time: {\"until\": {\"timestamp\": \"@addToTime(utcNow(), 1, 'Month')\"}}",
                )
            }
            _ => {
                let names = || UNITS.iter().map(|(name, _)| *name);
                let hint =
                    did_you_mean(singular, names()).unwrap_or_else(|| format!("units: {}", format_names(names())));
                Diagnostic::error(codes::BAD_VALUE, node.span, format!("there is no unit `{text}`")).with_hint(hint)
            }
        };
        self.push(problem);
        None
    }

    /// Reads an ISO 8601 duration, or an expression that evaluates to one.
    pub(crate) fn duration(&mut self, node: &SyntaxNode, what: &str, scope: NameScopeId) -> Option<Amount<Duration>> {
        let SyntaxNodeKind::Str(text) = &node.kind else {
            let message = format!("{what} must be a duration such as \"PT5S\", found {}", node.describe());
            self.error(codes::WRONG_KIND, node.span, message, "write it as ISO 8601: \"PT30S\", \"PT5M\", \"PT1H\"");
            return None;
        };
        if expr::is_expression(&text.text) {
            return Some(Amount::Computed(self.value(node, scope)));
        }
        self.fixed_duration(text, node.span, what).map(Amount::Fixed)
    }

    fn fixed_duration(&mut self, text: &SpannedText, span: Span, what: &str) -> Option<Duration> {
        let parsed = Duration::parse_iso(&text.text);
        if parsed.is_none() {
            let message = format!("{what} is not a duration: {:?}", text.text);
            self.error(codes::BAD_DURATION, span, message, duration_hint(&text.text));
        }
        parsed
    }

    /// Reads a duration that must be a literal.
    pub(crate) fn literal_duration(&mut self, node: &SyntaxNode, what: &str) -> Option<Duration> {
        let text = expect_text(node, what, &mut self.diagnostics)?;
        if expr::is_expression(&text.text) {
            let message = format!("{what} cannot be an expression: that is not supported");
            self.error(codes::NOT_SUPPORTED, node.span, message, "write a literal in ISO 8601: \"PT1M\"");
            return None;
        }
        self.fixed_duration(text, node.span, what)
    }

    /// Reads the timeout of an action. `timeout` is Loom's, `limit.timeout` Azure's; a condition loop reads its `limit`
    /// itself.
    pub(crate) fn action_timeout(&mut self, current: &mut CurrentAction, kind: ActionType) -> Option<NodeTimeout> {
        let scope = current.position.scope;
        let own = current.fields.action().take_entry("timeout");
        let loops = matches!(kind, ActionType::Until | ActionType::While | ActionType::DoUntil);
        let limit = if loops { None } else { current.fields.action().take("limit") };
        let limit = limit.and_then(|node| self.limit_timeout(node));
        if let (Some((key, _)), Some(other)) = (own, limit) {
            let problem =
                Diagnostic::error(codes::CONFLICT, key.span, "`timeout` and `limit.timeout` exclude each other");
            self.push(problem.with_label(other.span, "the other").with_hint("keep one of the two"));
        }
        let (node, after, status) = match own {
            Some((_, node)) => (node, self.timeout_amount(node, scope)?, Status::TimedOut),
            None => (limit?, self.duration(limit?, "`timeout`", scope)?, Status::Cancelled),
        };
        if after == Amount::Fixed(Duration::ZERO) {
            self.error(codes::BAD_VALUE, node.span, "`timeout` cannot be zero", "leave it out for no timeout");
        }
        Some(NodeTimeout { after, status })
    }

    fn limit_timeout<'n>(&mut self, node: &'n SyntaxNode) -> Option<&'n SyntaxNode> {
        let mut object = ObjectReader::read(node, "`limit`", &mut self.diagnostics)?;
        let timeout = object.take("timeout");
        object.finish(codes::UNKNOWN_KEY, "`limit` of this action", &mut self.diagnostics);
        timeout
    }

    /// Reads a timeout. A number is in milliseconds, as in Loom.
    fn timeout_amount(&mut self, node: &SyntaxNode, scope: NameScopeId) -> Option<Amount<Duration>> {
        match &node.kind {
            SyntaxNodeKind::Number(Value::Int(ms)) if *ms > 0 => {
                Some(Amount::Fixed(Duration::from_ms(ms.unsigned_abs())))
            }
            SyntaxNodeKind::Number(_) => {
                let hint = "a number is in milliseconds and more than 0; better write \"PT30S\"";
                self.error(codes::BAD_VALUE, node.span, format!("`timeout` cannot be {}", node.describe()), hint);
                None
            }
            _ => self.duration(node, "`timeout`", scope),
        }
    }
}

fn duration_hint(text: &str) -> String {
    let lower = text.trim().to_lowercase();
    let digits: String = lower.chars().take_while(char::is_ascii_digit).collect();
    let unit = match lower[digits.len()..].trim() {
        "s" | "sec" | "second" | "seconds" => Some("S"),
        "m" | "min" | "minute" | "minutes" => Some("M"),
        "h" | "hour" | "hours" => Some("H"),
        _ => None,
    };
    match unit {
        Some(unit) if !digits.is_empty() => format!("write \"PT{digits}{unit}\""),
        _ if lower.starts_with('p') && !lower.contains('t') && lower.contains(['y', 'm']) => {
            "years and months have no fixed length; minutes are written after a T: \"PT5M\"".to_owned()
        }
        _ => "durations are ISO 8601: \"PT30S\", \"PT5M\", \"PT1H30M\", \"P1D\"".to_owned(),
    }
}
