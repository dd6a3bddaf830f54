//! The rules of the canonical form: `eval` entries, `expr` with a directive, or `else`.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{ObjectReader, Span, SpannedKey, SyntaxNode, did_you_mean, expect_list, format_names};
use windlass_value::ExpressionMode;

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::form::{NoetlRule, RuleAction};

const DIRECTIVES: [&str; 5] = ["continue", "retry", "jump", "break", "fail"];
/// Names for the previous task.
const PREVIOUS_TASK: [&str; 4] = ["previous", "prev", "_previous", "@previous"];

impl NoetlCompiler<'_> {
    pub(crate) fn eval_rules(&mut self, node: &SyntaxNode) -> Vec<NoetlRule> {
        let Some(entries) = expect_list(node, "`eval`", &mut self.diagnostics) else { return Vec::new() };
        let mut rules = Vec::new();
        for entry in entries {
            self.warn_unreachable_rule(&rules, entry.span);
            rules.extend(self.eval_rule(entry));
        }
        rules
    }

    /// Warns about a rule after one without a condition, which is never evaluated.
    pub(crate) fn warn_unreachable_rule(&mut self, rules: &[NoetlRule], span: Span) {
        let endless = |rule: &NoetlRule| rule.when.is_none() && !matches!(rule.then, RuleAction::Retry(_));
        if rules.last().is_some_and(endless) {
            let message = "this rule is never evaluated: the one before it always matches";
            self.warning(codes::NEVER_REACHED, span, message, "put `else` last");
        }
    }

    fn eval_rule(&mut self, node: &SyntaxNode) -> Option<NoetlRule> {
        let mut entry = ObjectReader::read(node, "an `eval` entry", &mut self.diagnostics)?;
        if let Some((_, otherwise)) = entry.take_entry("else") {
            entry.finish(codes::UNKNOWN_KEY, "an `else` entry", &mut self.diagnostics);
            let mut inner = ObjectReader::read(otherwise, "`else`", &mut self.diagnostics)?;
            let rule = self.flat_rule(&mut inner, otherwise.span);
            inner.finish(codes::UNKNOWN_KEY, "`else`", &mut self.diagnostics);
            return rule;
        }
        for (wrong, hint) in [
            ("when", "in an `eval` entry the condition is `expr`"),
            ("cond", "the condition is `expr`"),
            (
                "then",
                "in an `eval` entry the directive is a sibling of `expr`: write `do: …` in place of `then: {do: …}`",
            ),
        ] {
            if entry.peek(wrong).is_some()
                && let Some((key, _)) = entry.take_entry(wrong)
            {
                let message = format!("`{wrong}` does not belong in an `eval` entry");
                self.error(codes::OLD_SPELLING, key.span, message, hint);
            }
        }
        let condition = entry.take("expr");
        if condition.is_none() {
            let hint = "add `expr: \"{{ … }}\"`, or write `else:`";
            self.error(codes::MISSING_KEY, node.span, "this `eval` entry has no condition", hint);
        }
        let when = match condition {
            Some(condition) => self.expression(condition, ExpressionMode::Condition),
            // The rule is compiled nevertheless, so that its jump target is checked.
            None => self.synthetic_template("{{ false }}", ExpressionMode::Condition, node.span),
        };
        let rule = self.flat_rule(&mut entry, node.span);
        entry.finish(codes::UNKNOWN_KEY, "an `eval` entry", &mut self.diagnostics);
        rule.map(|rule| NoetlRule { when: Some(when), ..rule })
    }

    /// Reads a directive and its writes from one object.
    fn flat_rule(&mut self, entry: &mut ObjectReader, span: Span) -> Option<NoetlRule> {
        let then = self.directive(entry, span);
        let writes = self.eval_writes(entry);
        let previous = entry.take("set_prev").map(|node| self.value(node));
        then.map(|then| NoetlRule { writes, previous, ..NoetlRule::new(None, then) })
    }

    /// Reads `do` and its parameters.
    pub(crate) fn directive(&mut self, entry: &mut ObjectReader, span: Span) -> Option<RuleAction> {
        let parts = ["attempts", "backoff", "delay", "to"].map(|name| (name, entry.take_entry(name)));
        let [(_, attempts), (_, backoff), (_, delay), (_, to)] = parts;
        let Some(node) = entry.take("do") else {
            let hint = format!("add `do`: {}", format_names(DIRECTIVES));
            self.error(codes::MISSING_KEY, span, "this rule has no `do`", hint);
            return None;
        };
        let word = node.as_str().unwrap_or_default().trim();
        let stray = |allowed: &[&str]| -> Option<&SpannedKey> {
            parts.iter().filter(|(name, _)| !allowed.contains(name)).find_map(|(_, found)| found.map(|(key, _)| key))
        };
        let (then, own): (RuleAction, &[&str]) = match word {
            "continue" => (RuleAction::Continue, &[]),
            "break" => (RuleAction::Break, &[]),
            "fail" => (RuleAction::Fail, &[]),
            "retry" => {
                let node = |found: Option<(&SpannedKey, &'_ SyntaxNode)>| found.map(|(_, node)| node.clone());
                let (attempts, backoff, delay) = (node(attempts), node(backoff), node(delay));
                let retry = self.retry_policy(attempts.as_ref(), backoff.as_ref(), delay.as_ref());
                (RuleAction::Retry(retry), &["attempts", "backoff", "delay"])
            }
            "jump" => (self.jump(to, node.span)?, &["to"]),
            other => {
                let message = format!("there is no directive `{other}`");
                let hint =
                    did_you_mean(other, DIRECTIVES).unwrap_or_else(|| format!("one of {}", format_names(DIRECTIVES)));
                self.error(codes::BAD_VALUE, node.span, message, hint);
                return None;
            }
        };
        if let Some(key) = stray(own) {
            let message = format!("`{}` does not belong to `do: {word}`", key.text);
            let hint = if key.text == "to" { "only `jump` has a `to`" } else { "only `retry` has it" };
            self.error(codes::CONFLICT, key.span, message, hint);
        }
        Some(then)
    }

    fn jump(&mut self, to: Option<(&SpannedKey, &SyntaxNode)>, span: Span) -> Option<RuleAction> {
        let Some((_, node)) = to else {
            self.error(codes::MISSING_KEY, span, "`jump` has no target", "add `to` with the label of a task");
            return None;
        };
        let label = node.as_str().unwrap_or_default().trim();
        match PREVIOUS_TASK.contains(&label) {
            true => Some(RuleAction::JumpToPrevious(node.span)),
            false => Some(RuleAction::Jump(label.to_owned(), node.span)),
        }
    }
}
