//! Runs the cases of `tests/cases-language/*.txt`.
//!
//! One case per line: `source => expected JSON`, `source => has: parts of the first message`, in their order and with
//! ` ~ ` between, `source => lacks: parts`, `source => error: parts of the message` or `source => refused: parts` for a
//! source that does not compile. `⏎` is a line break. A line `given: {…}` sets the scope of the lines after it:
//! - `own`, `around`, `global`: variables; `local`: names; `iteration`: the loop iteration `{name, index, item, count}`;
//!   `input`, `parameters`: those of the run
//! - `steps`: `{id: {status, output, usage}}`; `beyond`: `{"2": {id: …}}`, steps seen from that many scopes further
//!   out
//!
//! A text `@name` in it is a stored value with the content from `blobs`. Lines that begin with `#` are comments.

use std::sync::Arc;

use windlass_agents::language::AgentLanguage;
use windlass_value::{
    BlobHash, ContentSummary, EvalError, EvalErrorKind, EvalScope, ExpressionMode, IterationRecords, IterationView,
    Language, Level, Meter, NodeView, RunView, StoredValue, Timestamp, Value, parse_json, to_json,
};

const NOW: Timestamp = Timestamp(1_794_735_000_125_000);
const STATUSES: [&str; 5] = ["succeeded", "failed", "skipped", "cancelled", "timed_out"];

fn json(text: &str) -> Value {
    parse_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

struct TestScope {
    given: Value,
    run: RunView,
}

/// Returns the hash of a stored value, made of the letters of its name.
fn hash_of_name(name: &str) -> BlobHash {
    let mut hash = [0; 32];
    name.bytes().take(32).enumerate().for_each(|(at, byte)| hash[at] = byte);
    BlobHash(hash)
}

fn with_stored(value: &Value) -> Value {
    match value {
        Value::Str(text) => match text.strip_prefix('@') {
            Some(name) => {
                let chunked = name.starts_with("chunked");
                let items = if chunked { 3 } else { 0 };
                Value::Stored(Arc::new(StoredValue {
                    hash: hash_of_name(name),
                    size: 70_000,
                    items,
                    chunked,
                    summary: ContentSummary::default(),
                }))
            }
            None => value.clone(),
        },
        Value::List(items) => Value::list(items.iter().map(with_stored).collect()),
        Value::Map(map) => Value::object(map.iter().map(|(key, value)| (key.clone(), with_stored(value)))),
        other => other.clone(),
    }
}

impl TestScope {
    fn new(given: &Value) -> TestScope {
        let given = with_stored(given);
        let part = |name: &str| given.get(name).cloned().unwrap_or_default();
        let run =
            RunView { input: part("input"), parameters: part("parameters"), ..RunView::new("run-1", "flow", NOW) };
        TestScope { given, run }
    }

    fn find(&self, path: &[&str]) -> Option<Value> {
        path.iter().try_fold(self.given.clone(), |value, key| value.get(key).cloned())
    }

    fn node_view(&self, name: &str, step: &Value) -> NodeView {
        let part = |key: &str| step.get(key).cloned().unwrap_or_default();
        let status = part("status");
        NodeView {
            name: name.into(),
            status: STATUSES.iter().find(|known| Some(**known) == status.as_str()).unwrap_or(&"succeeded"),
            inputs: Value::Null,
            output: part("output"),
            error: Value::Null,
            attempts: 1,
            started_at: NOW,
            ended_at: NOW,
            iteration_records: IterationRecords::None,
            body_nodes: None,
            usage: part("usage"),
        }
    }
}

impl EvalScope for TestScope {
    fn variable(&self, level: Level, name: &str) -> Option<Value> {
        match level {
            Level::Step => self.find(&["own", name]),
            Level::Run => self.find(&["global", name]),
            Level::Any | Level::Iteration => self.find(&["own", name]).or_else(|| self.find(&["around", name])),
        }
    }

    fn local(&self, name: &str) -> Option<Value> {
        self.find(&["local", name])
    }

    fn node(&self, name: &str) -> Option<NodeView> {
        self.find(&["steps", name]).map(|step| self.node_view(name, &step))
    }

    fn node_outside(&self, owners: usize, name: &str) -> Option<NodeView> {
        match self.find(&["beyond", &owners.to_string(), name]) {
            Some(step) => Some(self.node_view(name, &step)),
            None => self.node(name),
        }
    }

    fn children(&self, _: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        None
    }

    fn iteration(&self, name: Option<&str>) -> Option<IterationView> {
        let iteration = self.find(&["iteration"])?;
        let own = iteration.get("name").and_then(Value::as_str).unwrap_or("loop");
        name.is_none_or(|name| name == own).then(|| IterationView {
            loop_name: own.into(),
            iteration_index: iteration.get("index").and_then(Value::as_int).unwrap_or(0) as u64,
            item: iteration.get("item").cloned().unwrap_or_default(),
            previous: Value::Null,
            loop_started_at: NOW,
            item_name: None,
            count: iteration.get("count").and_then(Value::as_int).map(|count| count as u64),
            concurrent: false,
        })
    }

    fn run(&self) -> &RunView {
        &self.run
    }

    fn now(&self) -> Timestamp {
        NOW
    }

    fn random(&self) -> u64 {
        0
    }

    fn blob(&self, stored: &StoredValue) -> Result<Value, EvalError> {
        let blobs = self.given.get("blobs").and_then(Value::as_map);
        let found = blobs.and_then(|blobs| blobs.iter().find(|(name, _)| hash_of_name(name) == stored.hash));
        found.map(|(_, value)| value.clone()).ok_or_else(|| EvalError::need_blobs(vec![stored.hash]))
    }
}

fn kind(error: &EvalError) -> &'static str {
    match error.kind {
        EvalErrorKind::Missing => "missing",
        EvalErrorKind::Type => "type",
        EvalErrorKind::Invalid => "invalid",
        EvalErrorKind::Limit => "limit",
        EvalErrorKind::NeedBlobs => "blobs",
    }
}

fn evaluate(source: &Value, given: &Value, meter: &mut Meter) -> String {
    match AgentLanguage.compile(source, ExpressionMode::Value) {
        Err(errors) => format!("refused: {}", errors[0].message),
        Ok(expression) => match expression.eval(&TestScope::new(given), meter) {
            Ok(value) => to_json(&value),
            Err(error) => format!("error: {}: {}", kind(&error), error.message),
        },
    }
}

/// Returns the text of the first message.
fn message(found: &str) -> String {
    let Ok(value) = parse_json(found) else { return found.to_owned() };
    let first = value.as_list().and_then(|messages| messages.first()).and_then(|first| first.get("content")).cloned();
    match first {
        Some(Value::Str(text)) => text.to_string(),
        Some(Value::List(parts)) => {
            parts.first().and_then(|part| part.get("text")).and_then(Value::as_str).unwrap_or_default().to_owned()
        }
        _ => found.to_owned(),
    }
}

fn fits(found: &str, expected: &str) -> bool {
    let parts = |text: &str| text.split(" ~ ").map(|part| part.replace('⏎', "\n")).collect::<Vec<_>>();
    let in_order = |text: &str, expected_parts: &str| {
        let mut rest = text;
        parts(expected_parts).iter().all(|part| match rest.find(part.as_str()) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    };
    if let Some(expected_parts) = expected.strip_prefix("has: ") {
        return in_order(&message(found), expected_parts);
    }
    if let Some(unexpected_parts) = expected.strip_prefix("lacks: ") {
        return parts(unexpected_parts).iter().all(|part| !message(found).contains(part.as_str()));
    }
    for mark in ["error: ", "refused: "] {
        if let Some(expected_parts) = expected.strip_prefix(mark) {
            return found.starts_with(mark) && in_order(found, expected_parts);
        }
    }
    json(expected) == parse_json(found).unwrap_or(Value::from(found))
}

#[test]
fn every_case_evaluates_as_expected() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases-language");
    let mut wrong = Vec::new();
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("cases").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut count = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file of cases");
        let mut given = json("{}");
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            if let Some(now) = line.strip_prefix("given: ") {
                given = json(now);
                continue;
            }
            let (source, expected) = line.rsplit_once(" => ").unwrap_or_else(|| panic!("{line}: what is expected?"));
            let found = evaluate(&json(source), &given, &mut Meter::new(1_000_000, 1 << 24));
            count += 1;
            if !fits(&found, expected) {
                let position = format!("{}:{}", file.file_name().expect("a name").to_string_lossy(), number + 1);
                wrong.push(format!("{position}\n  {source}\n  wanted {expected}\n  got    {}", message(&found)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 90, "only {count} cases were found");
}

#[test]
fn long_texts_are_cut_and_paid_for() {
    let long = "ü".repeat(200_000);
    let step = Value::object([("output", Value::object([("content", Value::from(long.as_str()))]))]);
    let given = Value::object([("steps", Value::object([("a", step.clone()), ("b", step)]))]);
    let source = |whole: bool, more: usize| {
        let dependency = |id: &str| Value::object([("id", Value::from(id)), ("whole", Value::Bool(whole))]);
        let dependencies = std::iter::repeat_n(dependency("a"), more).chain([dependency("b")]).collect();
        Value::object([
            ("agent", Value::from("first_message")),
            ("instructions", Value::from("Work.")),
            ("dependencies", Value::list(dependencies)),
        ])
    };
    let found = |source: &Value, fuel: u64| evaluate(source, &given, &mut Meter::new(fuel, 1 << 24));
    let text = message(&found(&source(false, 1), 1_000_000));
    assert_eq!(text.matches("[cut here: 383648 more bytes]").count(), 2);
    assert!(text.len() < 34_000, "{}", text.len());
    let text = message(&found(&source(false, 20), 1_000_000));
    assert!(text.len() <= 120 * 1024 && text.ends_with("more bytes]"), "{}", text.len());
    let text = message(&found(&source(true, 1), 1_000_000));
    assert!(text.len() > 800_000 && !text.contains("cut here"), "{}", text.len());
    let text = message(&found(&source(true, 20), 1_000_000));
    assert!(text.len() <= 1024 * 1024 && text.ends_with("more bytes]"), "{}", text.len());
    let missing: usize = text.rsplit(' ').nth(2).and_then(|count| count.parse().ok()).expect("a marker");
    assert!(missing + text.len() > 20 * 400_000, "{missing}");
    assert!(found(&source(true, 20), 100).starts_with("error: limit"));
    let small = evaluate(&source(true, 1), &given, &mut Meter::new(1_000_000, 1_000));
    assert!(small.starts_with("error: limit"), "{small}");
}
