//! The rules of the canonical form: `eval` entries, `expr` with a directive, or `else`.

use windlass_dialect::Findings;
use windlass_syntax::{Key, Node, Object, Span, did_you_mean, expect_list, list_of};
use windlass_value::Mode;

use crate::codes;
use crate::compiler::Compiler;
use crate::form::{Rule, Then};

const DIRECTIVES: [&str; 5] = ["continue", "retry", "jump", "break", "fail"];
/// Other words for the task before.
const BACK: [&str; 4] = ["previous", "prev", "_previous", "@previous"];

impl Compiler<'_> {
    pub(crate) fn eval_rules(&mut self, node: &Node) -> Vec<Rule> {
        let Some(entries) = expect_list(node, "`eval`", &mut self.diagnostics) else { return Vec::new() };
        let mut rules = Vec::new();
        for entry in entries {
            self.after_the_last(&rules, entry.span);
            rules.extend(self.eval_rule(entry));
        }
        rules
    }

    /// What comes after a rule without a condition is never looked at.
    pub(crate) fn after_the_last(&mut self, rules: &[Rule], span: Span) {
        let endless = |rule: &Rule| rule.when.is_none() && !matches!(rule.then, Then::Retry(_));
        if rules.last().is_some_and(endless) {
            let message = "this rule is never looked at: the one before it matches always";
            self.warning(codes::NEVER_REACHED, span, message, "put `else` last");
        }
    }

    fn eval_rule(&mut self, node: &Node) -> Option<Rule> {
        let mut entry = Object::read(node, "an `eval` entry", &mut self.diagnostics)?;
        if let Some((_, otherwise)) = entry.take_entry("else") {
            entry.finish(codes::UNKNOWN_KEY, "an `else` entry", &mut self.diagnostics);
            let mut inner = Object::read(otherwise, "`else`", &mut self.diagnostics)?;
            let rule = self.flat_rule(&mut inner, otherwise.span);
            inner.finish(codes::UNKNOWN_KEY, "`else`", &mut self.diagnostics);
            return rule;
        }
        for (wrong, hint) in [
            ("when", "in an `eval` entry the condition is `expr`"),
            ("cond", "the condition is `expr`"),
            (
                "then",
                "in an `eval` entry the directive stands beside `expr`: write `do: …` in place of `then: {do: …}`",
            ),
        ] {
            if entry.peek(wrong).is_some()
                && let Some((key, _)) = entry.take_entry(wrong)
            {
                let message = format!("`{wrong}` does not belong into an `eval` entry");
                self.error(codes::OLD_SPELLING, key.span, message, hint);
            }
        }
        let condition = entry.take("expr");
        if condition.is_none() {
            let hint = "add `expr: \"{{ … }}\"`, or write `else:`";
            self.error(codes::MISSING_KEY, node.span, "this `eval` entry has no condition", hint);
        }
        let when = match condition {
            Some(condition) => self.expression(condition, Mode::Condition),
            // Where it leads to is looked at all the same.
            None => self.made_up("{{ false }}", Mode::Condition, node.span),
        };
        let rule = self.flat_rule(&mut entry, node.span);
        entry.finish(codes::UNKNOWN_KEY, "an `eval` entry", &mut self.diagnostics);
        rule.map(|rule| Rule { when: Some(when), ..rule })
    }

    /// A directive and its writes, all in one object.
    fn flat_rule(&mut self, entry: &mut Object, span: Span) -> Option<Rule> {
        let then = self.directive(entry, span);
        let writes = self.eval_writes(entry);
        let previous = entry.take("set_prev").map(|node| self.value(node));
        then.map(|then| Rule { writes, previous, ..Rule::new(None, then) })
    }

    /// `do` and what belongs to it.
    pub(crate) fn directive(&mut self, entry: &mut Object, span: Span) -> Option<Then> {
        let parts = ["attempts", "backoff", "delay", "to"].map(|name| (name, entry.take_entry(name)));
        let [(_, attempts), (_, backoff), (_, delay), (_, to)] = parts;
        let Some(node) = entry.take("do") else {
            let hint = format!("add `do`: {}", list_of(DIRECTIVES));
            self.error(codes::MISSING_KEY, span, "this rule does not say what to `do`", hint);
            return None;
        };
        let word = node.as_str().unwrap_or_default().trim();
        let stray = |wanted: &[&str]| -> Option<&Key> {
            parts.iter().filter(|(name, _)| !wanted.contains(name)).find_map(|(_, found)| found.map(|(key, _)| key))
        };
        let (then, own): (Then, &[&str]) = match word {
            "continue" => (Then::Continue, &[]),
            "break" => (Then::Break, &[]),
            "fail" => (Then::Fail, &[]),
            "retry" => {
                let node = |found: Option<(&Key, &'_ Node)>| found.map(|(_, node)| node.clone());
                let (attempts, backoff, delay) = (node(attempts), node(backoff), node(delay));
                let retry = self.tries(attempts.as_ref(), backoff.as_ref(), delay.as_ref());
                (Then::Retry(retry), &["attempts", "backoff", "delay"])
            }
            "jump" => (self.jump(to, node.span)?, &["to"]),
            other => {
                let message = format!("there is no directive `{other}`");
                let hint = did_you_mean(other, DIRECTIVES).unwrap_or_else(|| format!("one of {}", list_of(DIRECTIVES)));
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

    fn jump(&mut self, to: Option<(&Key, &Node)>, span: Span) -> Option<Then> {
        let Some((_, node)) = to else {
            self.error(codes::MISSING_KEY, span, "`jump` does not say where to", "add `to` with the label of a task");
            return None;
        };
        let label = node.as_str().unwrap_or_default().trim();
        match BACK.contains(&label) {
            true => Some(Then::Back(node.span)),
            false => Some(Then::Jump(label.to_owned(), node.span)),
        }
    }
}
