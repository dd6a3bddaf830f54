//! The arcs of a step: `next` in all its spellings.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::EventKind;
use windlass_core::plan::{ExprId, VariableUpdate};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{
    Diagnostic, ObjectReader, Span, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_list, expect_text, format_names,
};
use windlass_value::ExpressionMode;

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::failure_arcs::ArcEnds;
use crate::form::StepArc;
use crate::key_support;

/// The events with which a step can end.
const EVENTS: [&str; 3] = [EventKind::STEP_DONE, EventKind::STEP_FAILED, EventKind::LOOP_DONE];

/// Returns the texts that a condition compares `event.name` with.
fn compared_events(text: &str) -> Vec<(&str, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    for (at, word) in text.match_indices("event.name") {
        let start = at + word.len();
        let rest = text[start..].trim_start();
        let Some(rest) = rest.strip_prefix("==").or_else(|| rest.strip_prefix("!=")) else { continue };
        let rest = rest.trim_start();
        let Some(quote) = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"')) else { continue };
        if let Some((name, _)) = rest[1..].split_once(quote) {
            let begin = text.len() - rest.len() + 1;
            found.push((name, begin..begin + name.len()));
        }
    }
    found
}

/// The contents of `next`, before the step's own `next_mode` is applied.
#[derive(Default)]
pub(crate) struct NextArcs {
    pub arcs: Vec<StepArc>,
    pub inclusive: Option<bool>,
}

impl NoetlCompiler<'_> {
    pub(crate) fn next(&mut self, node: &SyntaxNode) -> NextArcs {
        match &node.kind {
            SyntaxNodeKind::Null => NextArcs::default(),
            SyntaxNodeKind::Str(_) => NextArcs { arcs: self.plain_arc(node).into_iter().collect(), inclusive: None },
            SyntaxNodeKind::List(items) => {
                // Plain names all fire; arcs with conditions are evaluated in order.
                let plain = !items.is_empty() && items.iter().all(|item| item.as_str().is_some());
                let arcs = items.iter().filter_map(|item| self.arc(item)).collect();
                NextArcs { arcs, inclusive: plain.then_some(true) }
            }
            _ => self.next_object(node),
        }
    }

    /// Reads `{spec: {mode}, arcs: […]}`.
    fn next_object(&mut self, node: &SyntaxNode) -> NextArcs {
        let Some(mut object) = ObjectReader::read(node, "`next`", &mut self.diagnostics) else {
            return NextArcs::default();
        };
        let (arcs, spec) = (object.take("arcs"), object.take("spec"));
        if object.peek("step").is_some() {
            object.take_rest();
            let hint = "write a list: `next: [{step: …}]`";
            self.error(codes::WRONG_KIND, node.span, "`next` is one arc, not a list of them", hint);
            return NextArcs::default();
        }
        object.finish(codes::UNKNOWN_KEY, "`next`", &mut self.diagnostics);
        let inclusive = spec.and_then(|spec| self.next_spec(spec));
        let Some(arcs) = arcs else {
            self.error(codes::MISSING_KEY, node.span, "`next` has no `arcs`", "add `arcs: [{step: …}]`");
            return NextArcs::default();
        };
        let items = expect_list(arcs, "`arcs`", &mut self.diagnostics).unwrap_or_default();
        NextArcs { arcs: items.iter().filter_map(|item| self.arc(item)).collect(), inclusive }
    }

    fn next_spec(&mut self, node: &SyntaxNode) -> Option<bool> {
        let mut spec = ObjectReader::read(node, "`next.spec`", &mut self.diagnostics)?;
        let (mode, no_match) = (spec.take("mode"), spec.take("on_no_match"));
        key_support::check_keys(self, spec, &key_support::NEXT_SPEC, "`next.spec`");
        if let Some(node) = no_match.filter(|node| !matches!(node.as_str(), Some("complete" | "quiet"))) {
            let message = format!("`on_no_match` is {}", node.describe());
            self.error(codes::BAD_VALUE, node.span, message, "`complete` or `quiet`: the token ends here");
        }
        mode.and_then(|mode| self.next_mode(mode))
    }

    pub(crate) fn next_mode(&mut self, node: &SyntaxNode) -> Option<bool> {
        match expect_text(node, "the mode", &mut self.diagnostics)?.text.trim() {
            "exclusive" => Some(false),
            "inclusive" => Some(true),
            other => {
                let names = ["exclusive", "inclusive"];
                let hint = did_you_mean(other, names).unwrap_or_else(|| format!("one of {}", format_names(names)));
                let message = format!("there is no mode `{other}`");
                self.push(Diagnostic::error(codes::BAD_VALUE, node.span, message).with_hint(hint));
                None
            }
        }
    }

    fn plain_arc(&mut self, node: &SyntaxNode) -> Option<StepArc> {
        let step = self.target(node)?;
        self.record_args(&step, Some(BTreeSet::new()));
        Some(StepArc {
            step,
            span: node.span,
            ends: ArcEnds::DONE,
            when: None,
            when_failed: None,
            needs_writes: false,
            blind: None,
            payload: None,
            writes: Vec::new(),
            keys: Vec::new(),
        })
    }

    fn arc(&mut self, node: &SyntaxNode) -> Option<StepArc> {
        if node.as_str().is_some() {
            return self.plain_arc(node);
        }
        let mut arc = ObjectReader::read(node, "an arc", &mut self.diagnostics)?;
        self.old_arc_keys(&mut arc);
        let spec = arc.take("spec");
        let on = spec.and_then(|spec| self.arc_spec(spec));
        let (mut step, when) = (arc.take("step"), arc.take("when"));
        for wrong in ["name", "to", "target", "goto"] {
            if step.is_none()
                && arc.peek(wrong).is_some()
                && let Some((key, node)) = arc.take_entry(wrong)
            {
                let hint = format!("write `step: {}`", node.as_str().unwrap_or("…"));
                self.error(codes::UNKNOWN_KEY, key.span, format!("an arc has no `{wrong}`"), hint);
                step = Some(node);
            }
        }
        let (args, set) = (arc.take_entry("args"), arc.take_entry("set"));
        arc.finish(codes::UNKNOWN_KEY, "an arc", &mut self.diagnostics);
        let Some(step) = step else {
            self.error(codes::MISSING_KEY, node.span, "this arc has no `step`", "add `step`: where it leads to");
            return None;
        };
        let step = self.target(step);
        if let (Some((first, _)), Some((second, _))) = (args, set) {
            let problem = Diagnostic::error(codes::MIXED, second.span, "`args` and `set` exclude each other");
            self.push(
                problem.with_label(first.span, "the other").with_hint("`args` is the canonical form's, `set` is v10's"),
            );
        }
        let ends = self.arc_ends(on, when);
        // `on` says what is meant.
        let unsaid = when.filter(|_| on.is_none() && !ends.failed);
        let blind = unsaid.zip(step.as_ref()).and_then(|(when, step)| self.blind_condition(step, when));
        // `on` says what is meant.
        let needed = when.filter(|_| on.is_none()).map(|when| self.needed_writes(when)).unwrap_or_default();
        if ends.failed && on.is_none() {
            when.into_iter().for_each(|when| self.warn_data_alternatives(when));
        }
        let (when, when_failed) = when.map(|when| self.arc_condition(when, ends, &needed)).unwrap_or_default();
        let (payload, writes) = match (args, set) {
            (Some((_, args)), _) => (Some(args.clone()), Vec::new()),
            (None, Some((_, set))) => self.arc_set(set),
            (None, None) => (None, Vec::new()),
        };
        let keys = match payload.as_ref().map(|payload| payload.as_map()) {
            None => Some(BTreeSet::new()),
            Some(entries) => entries.map(|entries| entries.iter().map(|(key, _)| key.text.clone()).collect()),
        };
        let payload = payload.map(|payload| self.value(&payload));
        let step = step?;
        self.record_args(&step, keys.clone());
        let keys = keys.into_iter().flatten().collect();
        let needs_writes = !needed.is_empty();
        Some(StepArc { step, span: node.span, ends, when, when_failed, needs_writes, blind, payload, writes, keys })
    }

    /// Reads `spec` of an arc and returns its `on`.
    fn arc_spec<'n>(&mut self, node: &'n SyntaxNode) -> Option<&'n SyntaxNode> {
        if matches!(node.kind, SyntaxNodeKind::Null) {
            return None;
        }
        let mut spec = ObjectReader::read(node, "the `spec` of an arc", &mut self.diagnostics)?;
        let on = spec.take("on");
        key_support::check_keys(self, spec, &key_support::ARC_SPEC, "the `spec` of an arc");
        on
    }

    /// Compiles a condition for each end after which the arc may fire.
    fn arc_condition(
        &mut self,
        when: &SyntaxNode,
        ends: ArcEnds,
        needed: &[String],
    ) -> (Option<ExprId>, Option<ExprId>) {
        self.check_events(when);
        self.check_status_words(when);
        let source = self.check_template(when, ExpressionMode::Condition);
        let done = ends.done.then(|| self.add_expression(source.clone(), ExpressionMode::Condition, when.span));
        let failed = ends.failed.then(|| {
            let source = self.failure_condition(&source, needed);
            self.add_expression(source, ExpressionMode::Guard, when.span)
        });
        (done, failed)
    }

    /// Checks the events that a condition compares with: a condition on an event that never occurs is never met.
    fn check_events(&mut self, node: &SyntaxNode) {
        let SyntaxNodeKind::Str(text) = &node.kind else { return };
        for (name, range) in compared_events(&text.text) {
            let span = text.span_of(range, node.span);
            let own = if self.context.iterator.is_some() || self.context.looped {
                EventKind::LOOP_DONE
            } else {
                EventKind::STEP_DONE
            };
            let hint = match name {
                EventKind::STEP_FAILED => continue,
                name if name == own => continue,
                EventKind::STEP_DONE | EventKind::LOOP_DONE => {
                    let message = format!("`{name}` never occurs here: this step ends with `{own}`");
                    self.warning(codes::NEVER_REACHED, span, message, format!("write '{own}'"));
                    continue;
                }
                "call.done" | "step.exit" | "command.completed" => format!("write '{own}'"),
                "call.error" | "command.failed" | "step.error" => "write 'step.failed'".to_owned(),
                other => did_you_mean(other, EVENTS).unwrap_or_else(|| format!("one of {}", format_names(EVENTS))),
            };
            self.error(codes::BAD_VALUE, span, format!("there is no event `{name}` at the end of a step"), hint);
        }
    }

    fn old_arc_keys(&mut self, arc: &mut ObjectReader) {
        for (old, hint) in [
            ("cond", "write `when` in place of `cond`"),
            ("condition", "write `when` in place of `condition`"),
            ("then", "write `- step: …` with `when` next to it"),
            ("else", "write an arc without `when`, and put it last"),
        ] {
            if arc.peek(old).is_some()
                && let Some((key, _)) = arc.take_entry(old)
            {
                self.error(codes::OLD_SPELLING, key.span, format!("an arc has no `{old}`"), hint);
            }
        }
    }

    /// Reads `set` of an arc: bare names go with the token; `ctx.x` is written when the arc fires.
    fn arc_set(&mut self, node: &SyntaxNode) -> (Option<SyntaxNode>, Vec<VariableUpdate>) {
        let Some(object) = ObjectReader::read(node, "`set`", &mut self.diagnostics) else { return (None, Vec::new()) };
        let (mut bare, mut writes) = (Vec::new(), Vec::new());
        for (key, value) in object.unread_entries() {
            match key.text.split_once('.') {
                None => bare.push((key.clone(), value.clone())),
                Some(("ctx", name)) if !name.contains('.') => writes.extend(self.ctx_write(key.span, name, value)),
                Some(("input" | "args", name)) if !name.contains('.') => {
                    bare.push((windlass_syntax::SpannedKey { text: name.to_owned(), span: key.span }, value.clone()));
                }
                Some(_) => {
                    let message = format!("an arc cannot write `{}`", key.text);
                    let hint = "it writes ctx.x, or passes plain names";
                    self.error(codes::BAD_VALUE, key.span, message, hint);
                }
            }
        }
        let payload = (!bare.is_empty()).then(|| SyntaxNode::new(node.span, SyntaxNodeKind::Map(bare)));
        (payload, writes)
    }

    fn target(&mut self, node: &SyntaxNode) -> Option<Arc<str>> {
        let name = expect_text(node, "`step`", &mut self.diagnostics)?.text.trim();
        self.find_step(name, node.span)
    }

    pub(crate) fn find_step(&mut self, name: &str, span: Span) -> Option<Arc<str>> {
        if self.steps.contains_key(name) {
            return Some(name.into());
        }
        let names = || self.steps.keys().map(String::as_str);
        let hint = did_you_mean(name, names()).unwrap_or_else(|| format!("steps here: {}", format_names(names())));
        self.error(codes::UNKNOWN_STEP, span, format!("there is no step `{name}`"), hint);
        None
    }

    /// Records the names that a step's token may carry.
    pub(crate) fn record_args(&mut self, step: &str, keys: Option<BTreeSet<String>>) {
        let known = self.declared_names.args.entry(step.to_owned()).or_insert_with(|| Some(BTreeSet::new()));
        match (known.as_mut(), keys) {
            (Some(known), Some(keys)) => known.extend(keys),
            _ => *known = None,
        }
    }

    /// Warns about arcs that are never taken in exclusive mode: before each of their ends, an arc without a condition.
    pub(crate) fn unreachable_arcs(&mut self, arcs: &[StepArc], inclusive: bool) {
        let mut covered = ArcEnds { done: false, failed: false };
        for arc in arcs.iter().filter(|_| !inclusive) {
            if (covered.done || !arc.ends.done) && (covered.failed || !arc.ends.failed) {
                let message = format!("the arc to `{}` is never taken: the one before it has no condition", arc.step);
                let hint = "give that one a `when`, put it last, or set `inclusive`";
                self.warning(codes::NEVER_REACHED, arc.span, message, hint);
            } else if arc.when.is_none() && arc.when_failed.is_none() {
                covered = ArcEnds { done: covered.done || arc.ends.done, failed: covered.failed || arc.ends.failed };
            }
        }
    }
}
