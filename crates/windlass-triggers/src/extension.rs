//! `schedule` and `webhook` under `x-windlass`, for dialects that have no triggers. They become triggers of the
//! plan, like those of other dialects.

use windlass_core::Limits;
use windlass_core::plan::{SourceSpan, Trigger};
use windlass_syntax::{Diagnostic, Diagnostics, ObjectReader, Span, SyntaxNode, SyntaxNodeKind, nearest, to_value};
use windlass_value::{Map, Timestamp, Value};

use crate::schedule::{NEVER_FIRES, Schedule, zone_problem};

/// The diagnostic codes that a dialect uses for these problems.
#[derive(Clone, Copy, Debug)]
pub struct TriggerProblemCodes {
    pub unknown_key: &'static str,
    pub missing_key: &'static str,
    pub bad_value: &'static str,
    pub conflict: &'static str,
    pub over_limit: &'static str,
}

/// The nodes of `x-windlass` that declare triggers.
#[derive(Clone, Copy, Debug, Default)]
pub struct TriggerExtension<'n> {
    pub schedule: Option<&'n SyntaxNode>,
    pub webhook: Option<&'n SyntaxNode>,
}

/// Rules for missed fire times.
const CATCH_UP: [&str; 3] = ["none", "last", "all"];

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

const MAX_NAME_LETTERS: usize = 64;

const CRON_HINT: &str = "five fields: minute, hour, day of the month, month, day of the week, such as \"30 2 * * 1-5\"; six begin with seconds";

const SCHEDULE_HINT: &str = "write schedule: \"30 2 * * 1-5\", or {cron: \"30 2 * * 1-5\", timeZone: Europe/Berlin}";

impl TriggerExtension<'_> {
    /// Returns the triggers and reports every problem.
    pub fn triggers(self, limits: &Limits, codes: TriggerProblemCodes, found: &mut Diagnostics) -> Vec<Trigger> {
        let bounds = (limits.max_trigger_concurrency, limits.max_trigger_queued_runs);
        let mut reader = TriggerReader { codes, found, bounds, triggers: Vec::new() };
        for node in as_list(self.schedule) {
            reader.schedule(node);
        }
        for node in as_list(self.webhook) {
            reader.webhook(node);
        }
        let max_triggers = limits.max_definition_triggers;
        if let Some((_, span)) = reader.triggers.get(max_triggers) {
            let message = format!("the definition has more than {max_triggers} triggers");
            let hint = "raise `limits.max_definition_triggers` in windlass.toml, or split it into several definitions";
            reader.found.push(Diagnostic::error(codes.over_limit, *span, message).with_hint(hint));
        }
        reader.triggers.into_iter().map(|(trigger, _)| trigger).collect()
    }
}

/// Returns a single node or the items of a list.
fn as_list(node: Option<&SyntaxNode>) -> &[SyntaxNode] {
    node.map_or(&[], |node| node.as_list().unwrap_or(std::slice::from_ref(node)))
}

struct TriggerReader<'d> {
    codes: TriggerProblemCodes,
    found: &'d mut Diagnostics,
    /// Maximum number of concurrent runs of a trigger, and of queued runs.
    bounds: (i64, i64),
    triggers: Vec<(Trigger, Span)>,
}

impl TriggerReader<'_> {
    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.found.push(Diagnostic::error(code, span, message).with_hint(hint));
    }

    fn schedule(&mut self, node: &SyntaxNode) {
        if let SyntaxNodeKind::Str(text) = &node.kind {
            let mut settings = Map::new();
            settings.insert("cron", text.text.trim());
            self.check_cron((node, text.text.trim()), None);
            return self.add("schedule", None, node, settings);
        }
        if node.as_map().is_none() {
            let message = format!("`schedule` cannot be {}", node.describe());
            return self.error(self.codes.bad_value, node.span, message, SCHEDULE_HINT);
        }
        let Some(mut object) = ObjectReader::read_exact(node, "`schedule`", self.found) else { return };
        let name = object.take("name");
        let mut settings = Map::new();
        let cron = object.take("cron").map(|node| (node, self.text(node, "cron")));
        let zone = object.take("timeZone").map(|node| (node, self.text(node, "timeZone")));
        let zone = zone.and_then(|(node, text)| text.map(|text| (node, text)));
        match cron {
            None => self.error(self.codes.missing_key, node.span, "`schedule` has no `cron`", SCHEDULE_HINT),
            Some((node, Some(cron))) => {
                self.check_cron((node, cron), zone);
                settings.insert("cron", cron);
            }
            Some((_, None)) => {}
        }
        if let Some((_, zone)) = zone {
            settings.insert("timeZone", zone);
        }
        if let Some(rule) = object.take("catchUp").and_then(|node| self.one_of(node, "catchUp", &CATCH_UP)) {
            settings.insert("catchUp", rule);
        }
        if let Some(input) = object.take("input") {
            match input.as_map() {
                Some(_) => drop(settings.insert("input", to_value(input))),
                None => {
                    let message = format!("`input` cannot be {}", input.describe());
                    self.error(self.codes.bad_value, input.span, message, "it is an object: the input of the run");
                }
            }
        }
        self.bounds(&mut object, &mut settings);
        object.finish(self.codes.unknown_key, "`schedule`", self.found);
        self.add("schedule", name, node, settings);
    }

    fn webhook(&mut self, node: &SyntaxNode) {
        let mut settings = Map::new();
        if matches!(node.kind, SyntaxNodeKind::Bool(true)) {
            return self.add("webhook", None, node, settings);
        }
        if node.as_map().is_none() {
            let message = format!("`webhook` cannot be {}", node.describe());
            let hint = "write webhook: true, or an object with `name`, `method`, `runs`, `maximumWaitingRuns`";
            return self.error(self.codes.bad_value, node.span, message, hint);
        }
        let Some(mut object) = ObjectReader::read_exact(node, "`webhook`", self.found) else { return };
        let name = object.take("name");
        if let Some(method) = object.take("method").and_then(|node| self.one_of(node, "method", &METHODS)) {
            settings.insert("inputs", Value::object([("method", Value::from(method))]));
        }
        self.bounds(&mut object, &mut settings);
        object.finish(self.codes.unknown_key, "`webhook`", self.found);
        self.add("webhook", name, node, settings);
    }

    fn add(&mut self, kind: &'static str, name: Option<&SyntaxNode>, node: &SyntaxNode, settings: Map) {
        let (name, span) = match name {
            Some(node) => match self.text(node, "name") {
                Some(name) => (name, node.span),
                None => return,
            },
            None => (kind, node.span),
        };
        let letter = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        if name.is_empty() || name.len() > MAX_NAME_LETTERS || !name.chars().all(letter) {
            let message = format!("`{}` cannot be the name of a trigger", name.escape_debug());
            let hint = "letters, digits, `_` and `-`, at most 64: it is a part of its address";
            return self.error(self.codes.bad_value, span, message, hint);
        }
        if self.triggers.iter().any(|(known, _)| known.name.eq_ignore_ascii_case(name)) {
            let message = format!("two triggers are called `{name}`");
            return self.error(self.codes.conflict, span, message, "give each its own `name`");
        }
        let trigger = Trigger {
            name: name.into(),
            kind: kind.into(),
            validation: None,
            conditions: Vec::new(),
            split: None,
            settings: Value::map(settings),
            span: SourceSpan { start: node.span.start as u32, end: node.span.end as u32 },
        };
        self.triggers.push((trigger, span));
    }

    fn bounds(&mut self, object: &mut ObjectReader<'_>, settings: &mut Map) {
        for (name, max) in [("runs", self.bounds.0), ("maximumWaitingRuns", self.bounds.1)] {
            let Some(node) = object.take(name) else { continue };
            match &node.kind {
                SyntaxNodeKind::Number(Value::Int(number)) if (1..=max).contains(number) => {
                    settings.insert(name, *number);
                }
                _ => {
                    let message = format!("`{name}` cannot be {}", node.describe());
                    let hint = format!("it is a whole number from 1 to {max}");
                    self.error(self.codes.bad_value, node.span, message, hint);
                }
            }
        }
        let waits = object.peek("maximumWaitingRuns").filter(|_| object.peek("runs").is_none());
        if let Some((key, _)) = waits {
            let message = "`maximumWaitingRuns` has no effect without `runs`: no run waits";
            self.error(self.codes.missing_key, key.span, message, "add `runs`: the maximum number of concurrent runs");
        }
    }

    fn check_cron(&mut self, (node, cron): (&SyntaxNode, &str), zone: Option<(&SyntaxNode, &str)>) {
        if let Some((node, zone)) = zone
            && let Some((message, hint)) = zone_problem(zone)
        {
            return self.error(self.codes.bad_value, node.span, message, hint);
        }
        match Schedule::cron(cron, zone.map(|(_, zone)| zone)) {
            Err(message) => self.error(self.codes.bad_value, node.span, message, CRON_HINT),
            Ok(schedule) => {
                let next = schedule.if_ever_fires().ok().and_then(|schedule| schedule.next(Timestamp(0)));
                if next.is_none() {
                    self.error(self.codes.bad_value, node.span, NEVER_FIRES, "check the day, the month and the year");
                }
            }
        }
    }

    fn one_of(&mut self, node: &SyntaxNode, what: &str, names: &[&'static str]) -> Option<&'static str> {
        let text = self.text(node, what)?;
        let found = names.iter().find(|name| name.eq_ignore_ascii_case(text)).copied();
        if found.is_none() {
            let all = || format!("it is one of {}", names.join(", "));
            let hint = nearest(text, names.iter().copied()).map(|name| format!("did you mean `{name}`?"));
            let message = format!("`{what}` cannot be `{text}`");
            self.error(self.codes.bad_value, node.span, message, hint.unwrap_or_else(all));
        }
        found
    }

    fn text<'n>(&mut self, node: &'n SyntaxNode, what: &str) -> Option<&'n str> {
        let text = node.as_str().map(str::trim);
        if text.is_none() {
            let message = format!("`{what}` cannot be {}", node.describe());
            self.error(self.codes.bad_value, node.span, message, "it is a text; write it in quotes");
        }
        text
    }
}
