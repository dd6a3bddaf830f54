//! The rules of the v10 form: `spec.policy.rules` with `when` and `then`, and `spec.policy.admit`.

use windlass_core::plan::ExprId;
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, Span, SpannedText, SyntaxNode, expect_bool, expect_list};
use windlass_value::ExpressionMode;

use crate::compiler::NoetlCompiler;
use crate::form::{NoetlRule, RuleAction};
use crate::{codes, expr};

impl NoetlCompiler<'_> {
    /// Reads `policy` of a task.
    pub(crate) fn policy_rules(&mut self, node: &SyntaxNode) -> Vec<NoetlRule> {
        let Some(mut policy) = ObjectReader::read(node, "`policy`", &mut self.diagnostics) else { return Vec::new() };
        let rules = policy.take("rules");
        policy.add_known(&["admit"]);
        policy.finish(codes::UNKNOWN_KEY, "the `policy` of a task", &mut self.diagnostics);
        let Some(entries) = rules.and_then(|rules| expect_list(rules, "`rules`", &mut self.diagnostics)) else {
            return Vec::new();
        };
        let mut rules = Vec::new();
        for entry in entries {
            self.warn_unreachable_rule(&rules, entry.span);
            rules.extend(self.policy_rule(entry));
        }
        rules
    }

    fn policy_rule(&mut self, node: &SyntaxNode) -> Option<NoetlRule> {
        let mut entry = ObjectReader::read(node, "a rule", &mut self.diagnostics)?;
        if let Some((key, otherwise)) = entry.take_entry("else") {
            entry.finish(codes::UNKNOWN_KEY, "an `else` rule", &mut self.diagnostics);
            let mut inner = ObjectReader::read(otherwise, "`else`", &mut self.diagnostics)?;
            let Some(then) = inner.take("then") else {
                let message = "`else` without `then` is not supported: what is written here would be lost";
                let problem = Diagnostic::error(codes::OLD_SPELLING, key.span, message);
                self.push(problem.with_hint("write `else: {then: {do: continue, set: {…}}}`"));
                return None;
            };
            inner.finish(codes::UNKNOWN_KEY, "`else`", &mut self.diagnostics);
            return self.then_rule(then);
        }
        if let Some((key, _)) = entry.take_entry("expr") {
            self.error(
                codes::OLD_SPELLING,
                key.span,
                "a rule's condition is `when`",
                "write `when` in place of `expr`",
            );
        }
        if let Some((key, _)) = entry.take_entry("cond") {
            self.error(
                codes::OLD_SPELLING,
                key.span,
                "a rule's condition is `when`",
                "write `when` in place of `cond`",
            );
        }
        let (condition, then) = (entry.take("when"), entry.take("then"));
        entry.finish(codes::UNKNOWN_KEY, "a rule", &mut self.diagnostics);
        for (name, missing) in [("when", condition.is_none()), ("then", then.is_none())] {
            if missing {
                self.error(
                    codes::MISSING_KEY,
                    node.span,
                    format!("this rule has no `{name}`"),
                    format!("add `{name}`"),
                );
            }
        }
        let when = match condition {
            Some(condition) => self.expression(condition, ExpressionMode::Condition),
            // The rule is compiled nevertheless, so that its jump target is checked.
            None => self.synthetic_template("{{ false }}", ExpressionMode::Condition, node.span),
        };
        let rule = self.then_rule(then?)?;
        Some(NoetlRule { when: Some(when), ..rule })
    }

    fn then_rule(&mut self, node: &SyntaxNode) -> Option<NoetlRule> {
        let mut then = ObjectReader::read(node, "`then`", &mut self.diagnostics)?;
        let directive = self.directive(&mut then, node.span);
        let writes = then.take("set").map(|set| self.scoped_writes(set)).unwrap_or_default();
        then.finish(codes::UNKNOWN_KEY, "`then`", &mut self.diagnostics);
        directive.map(|then| NoetlRule { writes, ..NoetlRule::new(None, then) })
    }

    /// Reads `spec.policy.admit`: the first matching rule decides whether the token may enter.
    pub(crate) fn admit(&mut self, node: &SyntaxNode) -> Option<ExprId> {
        let mut admit = ObjectReader::read(node, "`admit`", &mut self.diagnostics)?;
        let (mode, rules) = (admit.take("mode"), admit.take("rules"));
        if rules.is_none() {
            let hint =
                "write `admit: {rules: [{when: \"{{ … }}\", then: {allow: true}}, {else: {then: {allow: false}}}]}`";
            self.error(codes::MISSING_KEY, node.span, "`admit` has no `rules`", hint);
            admit.take_rest();
        }
        admit.finish(codes::UNKNOWN_KEY, "`admit`", &mut self.diagnostics);
        if let Some(mode) = mode.filter(|mode| mode.as_str() != Some("exclusive")) {
            let message = format!("`mode` of `admit` is {}", mode.describe());
            self.error(codes::BAD_VALUE, mode.span, message, "the first rule that matches decides: `exclusive`");
        }
        let entries = expect_list(rules?, "`rules`", &mut self.diagnostics)?;
        let mut text = String::new();
        let mut otherwise = true;
        let mut open = 0;
        for entry in entries {
            let (condition, allow, span) = self.admit_rule(entry)?;
            match condition {
                Some(condition) => {
                    let Some(inner) = condition.as_str().and_then(expr::single_expression) else {
                        let hint = "write one template: \"{{ … }}\"";
                        self.error(codes::BAD_VALUE, span, "the condition is not a single template", hint);
                        return None;
                    };
                    self.check_template(condition, ExpressionMode::Condition);
                    text.push_str(&format!("({} if ({inner}) else ", allow));
                    open += 1;
                }
                None => otherwise = allow,
            }
        }
        text.push_str(&format!("{otherwise}{}", ")".repeat(open)));
        let source = SyntaxNode::new(
            node.span,
            windlass_syntax::SyntaxNodeKind::Str(SpannedText::synthetic(format!("{{{{ {text} }}}}"))),
        );
        Some(self.expression(&source, ExpressionMode::Condition))
    }

    fn admit_rule<'n>(&mut self, node: &'n SyntaxNode) -> Option<(Option<&'n SyntaxNode>, bool, Span)> {
        let mut entry = ObjectReader::read(node, "an `admit` rule", &mut self.diagnostics)?;
        let (condition, then) = match entry.take("else") {
            Some(otherwise) => (None, otherwise.get("then").or(Some(otherwise))),
            None => (entry.take("when"), entry.take("then")),
        };
        entry.finish(codes::UNKNOWN_KEY, "an `admit` rule", &mut self.diagnostics);
        let allow = then.and_then(|then| then.get("allow"));
        let Some(allow) = allow else {
            self.error(codes::MISSING_KEY, node.span, "this rule has no `allow`", "add `then: {allow: true}`");
            return None;
        };
        let allow = expect_bool(allow, "`allow`", &mut self.diagnostics)?;
        Some((condition, allow, node.span))
    }
}

/// Reports whether a rule always matches, so that no rule after it applies.
pub(crate) fn always_matches(rule: &NoetlRule) -> bool {
    rule.when.is_none() && !matches!(rule.then, RuleAction::Retry(_))
}
