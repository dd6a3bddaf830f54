//! Triggers, stored in the plan for the trigger service.

use windlass_core::plan::{ExprId, Trigger};
use windlass_dialect::{DiagnosticSink, source_span};
use windlass_syntax::{
    Diagnostic, ObjectReader, Span, SpannedKey, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_list, expect_text,
    format_names, nearest, to_value,
};
use windlass_value::{ExpressionMode, Map, Timestamp, Value};

use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr::{self, ExprLanguage};
use crate::scopes::TRIGGER;

/// The source of runs of a trigger type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StartedBy {
    /// A caller that may wait for a reply.
    Caller,
    /// A schedule or polling.
    Clock,
    /// A source that this engine does not support.
    Unsupported,
}

const TYPES: &[(&str, StartedBy)] = &[
    ("apiConnection", StartedBy::Unsupported),
    ("apiConnectionNotification", StartedBy::Unsupported),
    ("apiConnectionWebhook", StartedBy::Unsupported),
    ("apiManagement", StartedBy::Unsupported),
    ("batch", StartedBy::Unsupported),
    ("http", StartedBy::Clock),
    ("httpWebhook", StartedBy::Unsupported),
    ("manual", StartedBy::Caller),
    ("openApiConnection", StartedBy::Unsupported),
    ("openApiConnectionNotification", StartedBy::Unsupported),
    ("openApiConnectionWebhook", StartedBy::Unsupported),
    ("recurrence", StartedBy::Clock),
    ("request", StartedBy::Caller),
    ("serviceProvider", StartedBy::Unsupported),
    ("slidingWindow", StartedBy::Unsupported),
];

const FREQUENCIES: &[&str] = &["Second", "Minute", "Hour", "Day", "Week", "Month", "Year"];
const WEEK_DAYS: &[&str] = &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const OPTIONS: &[&str] = &["SingleInstance", "EnableSchemaValidation", "SuppressWorkflowHeaders"];

impl LoomCompiler<'_> {
    pub(crate) fn triggers(&mut self, node: &SyntaxNode) {
        let Some(object) = ObjectReader::read(node, "`triggers`", &mut self.diagnostics) else { return };
        let max = self.limits().max_definition_triggers;
        let mut kinds = Vec::new();
        for (index, (key, node)) in object.unread_entries().enumerate() {
            if index == max {
                let message = format!("the definition has more than {max} triggers");
                self.over_limit(key.span, message, "max_definition_triggers");
                break;
            }
            kinds.extend(self.trigger(key, node));
        }
        let has_caller = kinds.iter().any(|(_, listens)| *listens == StartedBy::Caller);
        self.trigger_without_caller = kinds.first().filter(|_| !has_caller).map(|(name, _)| *name);
    }

    fn trigger(&mut self, key: &SpannedKey, node: &SyntaxNode) -> Option<(&'static str, StartedBy)> {
        let mut object = ObjectReader::read(node, "a trigger", &mut self.diagnostics)?;
        let (kind, started_by) = self.trigger_type(&mut object)?;
        if started_by == StartedBy::Unsupported {
            let message = format!("a trigger of type `{kind}` never starts a run here");
            self.warning(codes::NO_EFFECT, key.span, message, "its settings are kept; start the run manually");
        }
        let mut settings = Map::new();
        object.ignore(&["description", "metadata", "splitOnConfiguration", "evaluatedRecurrence"]);
        for name in ["kind", "inputs", "correlation"] {
            if let Some(node) = object.take(name) {
                settings.insert(name, to_value(node));
            }
        }
        match object.take("recurrence") {
            Some(node) => {
                if let Some(recurrence) = self.recurrence(node) {
                    settings.insert("recurrence", recurrence);
                }
            }
            None if kind == "recurrence" || kind == "slidingWindow" => {
                let hint = "add \"recurrence\": {\"frequency\": \"Hour\", \"interval\": 1}";
                self.error(
                    codes::MISSING_KEY,
                    key.span,
                    format!("the trigger `{}` has no `recurrence`", key.text),
                    hint,
                );
            }
            None => {}
        }
        let options = object.take("operationOptions");
        let validated = options.is_some_and(|node| self.trigger_options(node, &mut settings));
        let validates = node.get("inputs").and_then(|inputs| inputs.get("schema")).filter(|_| validated);
        let validates = validates.map(|schema| self.validation(schema));
        if let Some(node) = object.take("runtimeConfiguration") {
            self.trigger_configuration(kind, node, &mut settings);
        }
        let conditions = object.take("conditions").map(|node| self.trigger_conditions(node)).unwrap_or_default();
        let split = object.take("splitOn").and_then(|node| self.split_on(node));
        object.finish(codes::UNKNOWN_KEY, "a trigger", &mut self.diagnostics);
        self.plan.triggers.push(Trigger {
            name: key.text.as_str().into(),
            kind: kind.into(),
            validation: validates,
            conditions,
            split,
            settings: Value::map(settings),
            span: source_span(node.span),
        });
        Some((kind, started_by))
    }

    /// Reads the type of a trigger. Without a type it is started manually.
    fn trigger_type(&mut self, object: &mut ObjectReader) -> Option<(&'static str, StartedBy)> {
        let names = || TYPES.iter().map(|(name, _)| *name);
        let Some(node) = object.take("type") else { return Some(("manual", StartedBy::Caller)) };
        let written = expect_text(node, "`type`", &mut self.diagnostics)?.text.trim();
        let found = TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(written)).copied();
        if found.is_none() {
            let close = nearest(written, names());
            let hint = close.map(|name| format!("did you mean `{name}`?"));
            let hint = hint.unwrap_or_else(|| format!("types: {}", format_names(names())));
            self.error(codes::UNKNOWN_TYPE, node.span, format!("there is no trigger type `{written}`"), hint);
        }
        found
    }

    /// Compiles the validation of a delivery, which works like `parseJson`.
    fn validation(&mut self, schema: &SyntaxNode) -> ExprId {
        let content = SyntaxNode::text("@triggerBody()", Span::at(schema.span.start));
        let source = SyntaxNode::object(schema.span, [("content", content), ("schema", unevaluated(schema))]);
        self.expression_in(ExprLanguage::Parse, &source, ExpressionMode::Value, TRIGGER)
    }

    /// Compiles trigger conditions. They see the delivery and parameters; there is no run yet.
    fn trigger_conditions(&mut self, node: &SyntaxNode) -> Vec<ExprId> {
        let items = expect_list(node, "`conditions`", &mut self.diagnostics).unwrap_or_default();
        let condition = |item: &SyntaxNode| {
            let mut object = ObjectReader::read(item, "a condition", &mut self.diagnostics)?;
            let expression = object.take("expression");
            object.ignore(&["dependsOn"]);
            object.finish(codes::UNKNOWN_KEY, "a condition", &mut self.diagnostics);
            if expression.is_none() {
                self.error(codes::MISSING_KEY, item.span, "the condition has no `expression`", "add an `expression`");
            }
            Some(self.expression(expression?, ExpressionMode::Condition, TRIGGER))
        };
        items.iter().filter_map(condition).collect()
    }

    fn split_on(&mut self, node: &SyntaxNode) -> Option<ExprId> {
        let text = expect_text(node, "`splitOn`", &mut self.diagnostics)?;
        if !expr::is_whole_expression(&text.text) {
            let hint = "such as \"@triggerBody()?['value']\"";
            self.error(codes::BAD_VALUE, node.span, "`splitOn` must be an expression that evaluates to an array", hint);
            return None;
        }
        Some(self.value(node, TRIGGER))
    }

    /// Reads the options and reports whether deliveries are validated.
    fn trigger_options(&mut self, node: &SyntaxNode, settings: &mut Map) -> bool {
        let Some(text) = expect_text(node, "`operationOptions`", &mut self.diagnostics) else { return false };
        let mut validated = false;
        for option in text.text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            match OPTIONS.iter().find(|known| known.eq_ignore_ascii_case(option)) {
                Some(&"SingleInstance") => {
                    settings.insert("singleInstance", true);
                }
                Some(&"EnableSchemaValidation") => {
                    settings.insert("validates", true);
                    validated = true;
                }
                Some(_) => {}
                None => {
                    let hint = did_you_mean(option, OPTIONS.iter().copied());
                    let hint = hint.unwrap_or_else(|| format!("supported: {}", format_names(OPTIONS.iter().copied())));
                    let message = format!("the operation option `{option}` of a trigger is not supported");
                    self.error(codes::NOT_SUPPORTED, node.span, message, hint);
                }
            }
        }
        validated
    }

    fn trigger_configuration(&mut self, kind: &str, node: &SyntaxNode, settings: &mut Map) {
        let Some(mut object) = ObjectReader::read(node, "`runtimeConfiguration`", &mut self.diagnostics) else {
            return;
        };
        if let Some(node) = object.take("secureData") {
            // The inputs and outputs of a trigger are the input of the run.
            self.plan.redaction.inputs |= !self.secure_data(node).is_none();
        }
        object.ignore(&["staticResult"]);
        if let Some((key, _)) = object.take_entry("paginationPolicy").filter(|_| kind == "http") {
            let hint = "remove it, and let an `http` action of the run get the pages";
            self.error(codes::NOT_SUPPORTED, key.span, "a polled trigger takes one page only", hint);
        }
        let concurrency = object.take("concurrency");
        object.finish(codes::UNKNOWN_KEY, "`runtimeConfiguration` of a trigger", &mut self.diagnostics);
        let concurrency = concurrency.and_then(|node| ObjectReader::read(node, "`concurrency`", &mut self.diagnostics));
        let Some(mut concurrency) = concurrency else { return };
        let bounds = (self.limits().max_trigger_concurrency, self.limits().max_trigger_queued_runs);
        for (name, max) in [("runs", bounds.0), ("maximumWaitingRuns", bounds.1)] {
            if let Some(node) = concurrency.take(name) {
                match &node.kind {
                    SyntaxNodeKind::Number(Value::Int(number)) if (1..=max).contains(number) => {
                        settings.insert(name, *number);
                    }
                    _ => {
                        let message = format!("`{name}` cannot be {}", node.describe());
                        self.error(
                            codes::BAD_VALUE,
                            node.span,
                            message,
                            format!("it is a whole number from 1 to {max}"),
                        );
                    }
                }
            }
        }
        if let (Some((key, _)), None) = (concurrency.peek("maximumWaitingRuns"), concurrency.peek("runs")) {
            let message = "`maximumWaitingRuns` has no effect without `runs`: no run waits";
            self.warning(codes::NO_EFFECT, key.span, message, "add `runs`: the maximum number of concurrent runs");
        }
        concurrency.finish(codes::UNKNOWN_KEY, "`concurrency` of a trigger", &mut self.diagnostics);
    }

    /// Reads a recurrence and normalises names and numbers; computed values stay as they are.
    fn recurrence(&mut self, node: &SyntaxNode) -> Option<Value> {
        let mut object = ObjectReader::read(node, "`recurrence`", &mut self.diagnostics)?;
        let mut kept = Map::new();
        match object.take("frequency") {
            Some(node) => {
                if let Some(name) = self.one_of(node, "frequency", FREQUENCIES) {
                    kept.insert("frequency", name);
                }
            }
            None => self.error(codes::MISSING_KEY, node.span, "`recurrence` has no `frequency`", frequencies()),
        }
        let interval = object.take("interval");
        kept.insert(
            "interval",
            interval.map_or(Some(1i64.into()), |node| self.interval_count(node)).unwrap_or_default(),
        );
        for name in ["startTime", "endTime"] {
            if let Some(node) = object.take(name) {
                self.check_start(node, name);
                kept.insert(name, to_value(node));
            }
        }
        if let Some(node) = object.take("timeZone") {
            self.check_zone(node);
            kept.insert("timeZone", to_value(node));
            // For schedulers that do not know the Windows names of time zones.
            let written = node.as_str().unwrap_or_default();
            if let Some(zone) = expr::zone_name(written).filter(|zone| zone != written) {
                kept.insert("zone", zone);
            }
        }
        if let Some(schedule) = object.take("schedule").and_then(|node| self.schedule(node)) {
            kept.insert("schedule", schedule);
        }
        object.finish(codes::UNKNOWN_KEY, "`recurrence`", &mut self.diagnostics);
        Some(Value::map(kept))
    }

    /// Returns the canonical spelling of a name from a list; an expression is left unchanged.
    fn one_of(&mut self, node: &SyntaxNode, what: &str, names: &'static [&'static str]) -> Option<Value> {
        let text = expect_text(node, &format!("`{what}`"), &mut self.diagnostics)?.text.trim();
        let found = names.iter().find(|name| name.eq_ignore_ascii_case(text));
        if found.is_none() && !expr::is_expression(text) {
            let all = || format!("it is one of {}", names.join(", "));
            let hint = did_you_mean(text, names.iter().copied()).unwrap_or_else(all);
            self.error(codes::BAD_VALUE, node.span, format!("`{what}` cannot be `{text}`"), hint);
            return None;
        }
        Some(Value::from(found.copied().unwrap_or(text)))
    }

    fn interval_count(&mut self, node: &SyntaxNode) -> Option<Value> {
        match &node.kind {
            SyntaxNodeKind::Number(Value::Int(number)) if *number >= 1 => Some((*number).into()),
            SyntaxNodeKind::Str(text) if expr::is_expression(&text.text) => Some(text.text.as_str().into()),
            _ => {
                let message = format!("`interval` cannot be {}", node.describe());
                self.error(codes::BAD_VALUE, node.span, message, "it is a whole number from 1");
                None
            }
        }
    }

    /// Checks a time. Azure's times may omit the zone, which `timeZone` then gives.
    fn check_start(&mut self, node: &SyntaxNode, name: &str) {
        let Some(text) = expect_text(node, &format!("`{name}`"), &mut self.diagnostics) else { return };
        let text = text.text.trim();
        let readable = |text: &str| Timestamp::parse_rfc3339(text).is_some();
        if !expr::is_expression(text) && !readable(text) && !readable(&format!("{text}Z")) {
            let hint = "write it as 2030-01-01T08:00:00Z, or without the Z together with a `timeZone`";
            self.error(codes::BAD_VALUE, node.span, format!("`{name}` is not a time: {text:?}"), hint);
        }
    }

    fn check_zone(&mut self, node: &SyntaxNode) {
        let Some(text) = expect_text(node, "`timeZone`", &mut self.diagnostics) else { return };
        if let Some((message, hint)) = expr::zone_problem(&text.text).filter(|_| !expr::is_expression(&text.text)) {
            self.error(codes::BAD_VALUE, node.span, message, hint);
        }
    }

    fn schedule(&mut self, node: &SyntaxNode) -> Option<Value> {
        let mut object = ObjectReader::read(node, "`schedule`", &mut self.diagnostics)?;
        let mut kept = Map::new();
        for (name, min, max) in [("hours", 0, 23), ("minutes", 0, 59), ("monthDays", -31, 31)] {
            if let Some(node) = object.take(name) {
                kept.insert(name, self.numbers(node, name, min, max));
            }
        }
        if let Some(node) = object.take("weekDays") {
            let items = expect_list(node, "`weekDays`", &mut self.diagnostics).unwrap_or_default();
            let days = items.iter().filter_map(|item| self.one_of(item, "weekDays", WEEK_DAYS)).collect();
            kept.insert("weekDays", Value::list(days));
        }
        if let Some(node) = object.take("monthlyOccurrences") {
            expect_list(node, "`monthlyOccurrences`", &mut self.diagnostics);
            kept.insert("monthlyOccurrences", to_value(node));
        }
        object.finish(codes::UNKNOWN_KEY, "`schedule`", &mut self.diagnostics);
        Some(Value::map(kept))
    }

    /// Reads a list of numbers; designers also write them as texts.
    fn numbers(&mut self, node: &SyntaxNode, name: &str, min: i64, max: i64) -> Value {
        let one = std::slice::from_ref(node);
        let mut kept = Vec::new();
        for item in node.as_list().unwrap_or(one) {
            let number = match &item.kind {
                SyntaxNodeKind::Number(Value::Int(number)) => Some(*number),
                SyntaxNodeKind::Str(text) => text.text.trim().parse().ok(),
                _ => None,
            };
            match number.filter(|number| (min..=max).contains(number)) {
                Some(number) => kept.push(Value::from(number)),
                None => {
                    let message = format!("`{name}` cannot hold {}", item.describe());
                    let problem = Diagnostic::error(codes::BAD_VALUE, item.span, message);
                    self.push(problem.with_hint(format!("whole numbers from {min} to {max}")));
                }
            }
        }
        Value::list(kept)
    }
}

fn frequencies() -> String {
    format!("add one of {}", FREQUENCIES.join(", "))
}

/// Escapes a schema, which is a literal: a name such as `@odata.id` means itself; `@@`, as in exports, stands for
/// `@`.
fn unevaluated(node: &SyntaxNode) -> SyntaxNode {
    let kind = match &node.kind {
        SyntaxNodeKind::Str(text) if needs_escape(&text.text) => {
            return SyntaxNode::text(expr::literal_text(&text.text), node.span);
        }
        SyntaxNodeKind::List(items) => SyntaxNodeKind::List(items.iter().map(unevaluated).collect()),
        SyntaxNodeKind::Map(entries) => SyntaxNodeKind::Map(
            entries
                .iter()
                .map(|(key, value)| match needs_escape(&key.text) {
                    true => (SpannedKey { text: expr::literal_text(&key.text), ..key.clone() }, unevaluated(value)),
                    false => (key.clone(), unevaluated(value)),
                })
                .collect(),
        ),
        other => other.clone(),
    };
    SyntaxNode::new(node.span, kind)
}

fn needs_escape(text: &str) -> bool {
    expr::is_expression(text) && !text.starts_with("@@")
}
