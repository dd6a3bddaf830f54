//! Stubs for the calls of Loom and Logic Apps definitions.

use std::collections::BTreeMap;

use windlass_value::{Map, Value};

use super::Stub;
use super::reads::{ReadPlace, each_text, function_reads};
use super::shape::{ReadShape, ShapeKey};

/// Types that call nothing outside of the run.
const LOCAL_TYPES: [&str; 32] = [
    "appendtoarray",
    "appendtoarrayvariable",
    "appendtostring",
    "appendtostringvariable",
    "approval",
    "compose",
    "decrementvariable",
    "delay",
    "dountil",
    "foreach",
    "if",
    "incrementvariable",
    "initializevariable",
    "join",
    "parallel",
    "parsejson",
    "query",
    "response",
    "retry",
    "scope",
    "select",
    "setvariable",
    "switch",
    "table",
    "terminate",
    "until",
    "wait",
    "while",
    "changeset",
    "expression",
    "javascriptcode",
    "xslt",
];

/// An action with the loop around it.
struct FoundAction<'a> {
    name: String,
    kind: String,
    value: &'a Value,
    around: Option<String>,
}

/// A place in the result of a call.
type ResultPlace = (String, Vec<ShapeKey>);

struct Inference<'a> {
    actions: Vec<FoundAction<'a>>,
    /// The source of the body of each action, by lower-case name.
    bodies: BTreeMap<String, ResultPlace>,
    /// The source of the items of each loop or data action.
    items: BTreeMap<String, ResultPlace>,
    /// The sources of the values of variables, by lower-case name.
    variables: BTreeMap<String, ResultPlace>,
    shapes: BTreeMap<String, ReadShape>,
}

pub(super) fn stubs(tree: &Value) -> Vec<Stub> {
    let properties = tree.get("properties").and_then(|inner| inner.get("definition"));
    let root = tree.get("definition").or(properties).unwrap_or(tree);
    let mut actions = Vec::new();
    collect(root, None, &mut actions);
    let mut inference = Inference {
        actions,
        bodies: BTreeMap::new(),
        items: BTreeMap::new(),
        variables: BTreeMap::new(),
        shapes: BTreeMap::new(),
    };
    // The second pass knows the sources of all results, also of those that come later in the file.
    for _ in 0..2 {
        inference.find_sources();
    }
    inference.read_all(root);
    inference.stubs()
}

/// Collects the actions inside a value, in the order of the file. Everything with a `type` and a name is one, outside
/// of inputs.
fn collect<'a>(value: &'a Value, around: Option<&str>, found: &mut Vec<FoundAction<'a>>) {
    let Some(map) = value.as_map() else { return };
    for key in ["actions", "else", "default", "cases", "action", "trigger"] {
        let Some(inner) = map.get(key).filter(|_| key != "trigger") else { continue };
        match (key, inner) {
            ("actions", Value::List(items)) => items.iter().for_each(|item| {
                let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                collect_action(name, item, around, found);
            }),
            ("actions", Value::Map(entries)) => {
                entries.iter().for_each(|(name, item)| collect_action(name, item, around, found));
            }
            // Those that are single actions were collected with their switch, after which they are named.
            ("cases", Value::Map(entries)) => {
                let blocks = entries.iter().filter(|(_, case)| !is_single_action(case));
                blocks.for_each(|(_, case)| collect(case, around, found));
            }
            ("default", inner) if is_single_action(inner) => {}
            ("cases", Value::List(items)) => items.iter().for_each(|case| collect(case, around, found)),
            ("action", item) => collect_action("", item, around, found),
            (_, inner) => collect(inner, around, found),
        }
    }
    // A file may be the actions alone, by name, or a single action.
    if found.is_empty() && map.get("actions").is_none() {
        for (name, item) in map.iter().filter(|(_, item)| item.get("type").is_some_and(|kind| kind.as_str().is_some()))
        {
            collect_action(name, item, around, found);
        }
    }
}

/// Returns whether a case of a switch is one action instead of a block of actions.
fn is_single_action(case: &Value) -> bool {
    case.get("case").is_none() && case.get("type").is_some_and(|kind| kind.as_str().is_some())
}

fn collect_action<'a>(name: &str, value: &'a Value, around: Option<&str>, found: &mut Vec<FoundAction<'a>>) {
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let (is_loop, is_switch) = (kind == "foreach", kind == "switch");
    if !name.is_empty() {
        let around = around.map(str::to_owned);
        found.push(FoundAction { name: name.to_owned(), kind, value, around });
    }
    if is_switch {
        let cases = value.get("cases").and_then(Value::as_map).into_iter().flat_map(Map::iter);
        let default = value.get("default").map(|inner| ("default", inner));
        for (which, inner) in cases.map(|(key, case)| (&**key, case)).chain(default) {
            if is_single_action(inner) {
                collect_action(&format!("{name}_{which}"), inner, around, found);
            }
        }
    }
    let before = found.len();
    collect(value, if is_loop { Some(name) } else { around }, found);
    // A bare action of an unnamed wrapper, such as `retry`, keeps the name of the wrapper.
    if found.len() == before
        && let Some(inner) = value.get("action").filter(|inner| inner.get("type").is_some())
    {
        collect_action(name, inner, around, found);
    }
}

/// Returns a field of an action, which is on it or under `inputs`.
fn field<'a>(action: &'a Value, name: &str) -> Option<&'a Value> {
    action.get("inputs").and_then(|inputs| inputs.get(name)).or_else(|| action.get(name))
}

impl Inference<'_> {
    fn is_call(action: &FoundAction<'_>) -> bool {
        !action.kind.is_empty() && !LOCAL_TYPES.contains(&&*action.kind)
    }

    /// Finds the sources of results that other actions pass on: parsed, filtered, or item by item.
    fn find_sources(&mut self) {
        let calls = self.actions.iter().filter(|action| Inference::is_call(action)).map(|action| action.name.clone());
        for name in calls.collect::<Vec<_>>() {
            self.bodies.insert(name.to_lowercase(), (name.clone(), vec![ShapeKey::Field("body".to_owned())]));
        }
        let mut schemas = Vec::new();
        for action in &self.actions {
            let source =
                |name: &str| self.single_source(field(action.value, name)?.as_str()?, action.around.as_deref());
            let name = action.name.to_lowercase();
            match action.kind.as_str() {
                "parsejson" => {
                    if let Some(place) = source("content") {
                        schemas.extend(field(action.value, "schema").map(|schema| (place.clone(), schema.clone())));
                        self.bodies.insert(name, place);
                    }
                }
                "setvariable" => {
                    let variable = field(action.value, "name").and_then(Value::as_str).map(str::to_lowercase);
                    self.variables.extend(variable.zip(source("value")));
                }
                "query" | "select" | "foreach" => {
                    let from = if action.kind == "foreach" { "foreach" } else { "from" };
                    let Some((call, mut path)) = source(from).or_else(|| source("items")) else { continue };
                    if action.kind == "query" {
                        self.bodies.insert(name.clone(), (call.clone(), path.clone()));
                    }
                    path.push(ShapeKey::Element);
                    self.shapes.entry(call.clone()).or_default().at(&path);
                    self.items.insert(name, (call, path));
                }
                _ => {}
            }
        }
        for ((call, path), schema) in schemas {
            self.shapes.entry(call).or_default().at(&path).add_schema(&schema, 0);
        }
    }

    /// Returns the place that a text of one expression reads.
    fn single_source(&self, text: &str, around: Option<&str>) -> Option<ResultPlace> {
        let reads = function_reads(text);
        let read = reads.iter().find(|read| read.is_whole)?;
        self.place(read, around)
    }

    fn place(&self, read: &ReadPlace, around: Option<&str>) -> Option<ResultPlace> {
        let argument = read.argument.as_ref().map(|name| name.to_lowercase());
        let (base, rest): (&ResultPlace, &[ShapeKey]) = match read.head.as_str() {
            "body" => (self.bodies.get(&argument?)?, &read.path),
            "outputs" | "actions" => {
                let mut rest = read.path.as_slice();
                if read.head == "actions" && rest.first() == Some(&ShapeKey::Field("outputs".to_owned())) {
                    rest = &rest[1..];
                }
                let is_body = rest.first() == Some(&ShapeKey::Field("body".to_owned()));
                (self.bodies.get(&argument?)?, if is_body { &rest[1..] } else { return None })
            }
            "items" => (self.items.get(&argument?)?, &read.path),
            "variables" => (self.variables.get(&argument?)?, &read.path),
            "item" => (self.items.get(&around?.to_lowercase())?, &read.path),
            _ => return None,
        };
        let path = base.1.iter().chain(rest).cloned().collect();
        Some((base.0.clone(), path))
    }

    fn read_all(&mut self, root: &Value) {
        let mut reads: Vec<(ReadPlace, Option<String>)> = Vec::new();
        for action in &self.actions {
            // In a data action, `item()` is an element of its own list.
            let is_data = matches!(action.kind.as_str(), "query" | "select" | "table");
            let around = if is_data { Some(action.name.clone()) } else { action.around.clone() };
            for (_, own) in
                action.value.as_map().into_iter().flat_map(Map::iter).filter(|(key, _)| &***key != "actions")
            {
                each_text(own, &mut |text| {
                    reads.extend(function_reads(text).into_iter().map(|read| (read, around.clone())));
                });
            }
        }
        for part in ["outputs", "triggers"] {
            let part = root.get(part).cloned().unwrap_or_default();
            each_text(&part, &mut |text| reads.extend(function_reads(text).into_iter().map(|read| (read, None))));
        }
        for (read, around) in reads {
            let Some((call, mut path)) = self.place(&read, around.as_deref()) else { continue };
            path.extend(read.is_list.then_some(ShapeKey::Element));
            let part = self.shapes.entry(call).or_default().at(&path);
            if let Some(value) = read.compared {
                part.set_sample(value);
            }
        }
    }

    fn stubs(&self) -> Vec<Stub> {
        let empty = ReadShape::default();
        let calls = self.actions.iter().filter(|action| Inference::is_call(action));
        let stub = |action: &FoundAction<'_>| {
            let body = self.shapes.get(&action.name).and_then(|shape| shape.get("body")).unwrap_or(&empty);
            let sample = if body.is_empty() { Value::map(Map::new()) } else { body.sample("body") };
            let answer = match action.kind.as_str() {
                "http" | "activity" | "actor" => ("body", sample),
                "ai" => ("text", sample),
                _ => ("output", Value::object([("statusCode", Value::Int(200)), ("body", sample)])),
            };
            Stub { comment: comment(action), step: action.name.clone(), answer }
        };
        calls.map(stub).collect()
    }
}

fn comment(action: &FoundAction<'_>) -> String {
    let text = |name: &str| field(action.value, name).and_then(Value::as_str).map(str::to_owned);
    let kind = action.value.get("type").and_then(Value::as_str).unwrap_or_default();
    let what = match text("uri").or_else(|| text("url")) {
        Some(url) => format!("{} {url}", text("method").unwrap_or_else(|| "GET".to_owned())),
        None => text("activityType").or_else(|| text("name")).unwrap_or_default(),
    };
    format!("{kind} {what}").trim_end().to_owned()
}
