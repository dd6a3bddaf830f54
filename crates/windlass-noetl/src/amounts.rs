//! Numbers and durations, literal or computed, and the backoff of retries.

use windlass_core::plan::{Amount, Backoff, Growth, Jitter, Retry};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, Span, SyntaxNode, SyntaxNodeKind, did_you_mean};
use windlass_value::{Duration, Value};

use crate::compiler::NoetlCompiler;
use crate::{codes, expr};

/// The default number of attempts of a rule, including the first.
const DEFAULT_ATTEMPTS: u64 = 3;
/// The first delay of a backoff without one.
const DEFAULT_DELAY: Duration = Duration::from_secs(1);
const GROWTHS: [&str; 4] = ["fixed", "linear", "exponential", "none"];

impl NoetlCompiler<'_> {
    /// Reads seconds, an ISO 8601 duration, or a template that evaluates to either.
    pub(crate) fn duration(&mut self, node: &SyntaxNode, what: &str) -> Option<Amount<Duration>> {
        let fixed = match &node.kind {
            SyntaxNodeKind::Number(number) => {
                number.as_f64().filter(|seconds| (0.0..1e9).contains(seconds)).map(from_seconds)
            }
            SyntaxNodeKind::Str(text) if expr::is_template(&text.text) => {
                return Some(Amount::Computed(self.value(node)));
            }
            SyntaxNodeKind::Str(text) => {
                let seconds = text.text.trim().parse::<f64>().ok().filter(|seconds| (0.0..1e9).contains(seconds));
                seconds.map(from_seconds).or_else(|| Duration::parse_iso(text.text.trim()))
            }
            _ => None,
        };
        if fixed.is_none() {
            let message = format!("`{what}` must be a duration, found {}", node.describe());
            self.error(codes::BAD_VALUE, node.span, message, "write a number of seconds, or a duration such as PT30S");
        }
        fixed.map(Amount::Fixed)
    }

    /// Reads a whole number of at least `min`, or a template that evaluates to one.
    pub(crate) fn count(&mut self, node: &SyntaxNode, what: &str, min: u64) -> Option<Amount<u64>> {
        let number = match &node.kind {
            SyntaxNodeKind::Number(Value::Int(number)) => u64::try_from(*number).ok(),
            SyntaxNodeKind::Str(text) if expr::is_template(&text.text) => {
                return Some(Amount::Computed(self.value(node)));
            }
            SyntaxNodeKind::Str(text) => text.text.trim().parse().ok(),
            _ => None,
        };
        let fixed = number.filter(|number| *number >= min);
        if fixed.is_none() {
            let message = format!("`{what}` must be a whole number of at least {min}, found {}", node.describe());
            self.error(codes::BAD_VALUE, node.span, message, "such as 3, or \"{{ workload.tries }}\"");
        }
        fixed.map(Amount::Fixed)
    }

    /// Reads the total number of attempts. A computed number is checked against the limit at run time.
    pub(crate) fn attempts(&mut self, node: &SyntaxNode, what: &str) -> Option<Amount<u64>> {
        let amount = self.count(node, what, 1)?;
        let max = self.limits().max_retry_attempts;
        if let Amount::Fixed(tries) = amount
            && tries > max
        {
            let message = format!("`{what}` is {tries}, more than the {max} attempts that the engine allows");
            let hint =
                "request fewer attempts, or ask the operator to raise `limits.max_retry_attempts` in windlass.toml";
            self.error(codes::OVER_LIMIT, node.span, message, hint);
        }
        Some(amount)
    }

    /// Reads `attempts`, `backoff` and `delay` of a rule. A delay without a backoff is constant.
    pub(crate) fn retry_policy(
        &mut self,
        attempts: Option<&SyntaxNode>,
        backoff: Option<&SyntaxNode>,
        delay: Option<&SyntaxNode>,
    ) -> Retry {
        let attempts =
            attempts.and_then(|node| self.attempts(node, "attempts")).unwrap_or(Amount::Fixed(DEFAULT_ATTEMPTS));
        let delay = delay.and_then(|node| self.duration(node, "delay"));
        let growth = backoff.and_then(|node| self.growth(node));
        let interval = match (&growth, delay) {
            (_, Some(delay)) => delay,
            (Some(Growth::Linear | Growth::Exponential(_)), None) => Amount::Fixed(DEFAULT_DELAY),
            (_, None) => Amount::Fixed(Duration(0)),
        };
        new_retry(attempts, interval, growth.unwrap_or(Growth::Fixed))
    }

    fn growth(&mut self, node: &SyntaxNode) -> Option<Growth> {
        let name = node.as_str().map(str::to_owned).unwrap_or_else(|| node.describe());
        match name.trim().to_lowercase().as_str() {
            "fixed" | "constant" | "none" => Some(Growth::Fixed),
            "linear" => Some(Growth::Linear),
            "exponential" => Some(Growth::Exponential(2.0)),
            _ => {
                let hint = did_you_mean(&name, GROWTHS).unwrap_or("one of fixed, linear, exponential".to_owned());
                let problem = Diagnostic::error(codes::BAD_VALUE, node.span, format!("there is no backoff `{name}`"));
                self.push(problem.with_hint(hint));
                None
            }
        }
    }

    /// Subtracts a constant from a number, which may be computed: for example, to get retries from attempts.
    pub(crate) fn subtract(&mut self, amount: Amount<u64>, by: u64, span: Span) -> Amount<u64> {
        match amount {
            Amount::Fixed(number) => Amount::Fixed(number.saturating_sub(by)),
            Amount::Computed(id) => {
                let source = &self.plan.expressions[id.0 as usize].source;
                let inner = source.as_str().and_then(expr::single_expression).map(str::to_owned);
                match inner {
                    Some(inner) => {
                        let text = format!("{{{{ [(({inner}) | int) - {by}, 0] | max }}}}");
                        Amount::Computed(self.synthetic_template(text, windlass_value::ExpressionMode::Value, span))
                    }
                    None => Amount::Computed(id),
                }
            }
        }
    }
}

pub(crate) fn new_retry(attempts: Amount<u64>, interval: Amount<Duration>, growth: Growth) -> Retry {
    let backoff = Backoff { interval, growth, min: None, max: None, jitter: Jitter::None };
    Retry { attempts, backoff, on: Vec::new(), window: None }
}

fn from_seconds(seconds: f64) -> Duration {
    Duration((seconds * 1e6).round() as u64)
}
