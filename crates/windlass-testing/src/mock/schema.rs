//! The JSON Schema of mock files. A test compares it with the parser.

use windlass_value::{Map, Value};

use super::answers::{FAULTS, MAX_DELAY_MS, MAX_RETRY_AFTER_SECS, STOPS};
use super::rules::{AFTER_LAST, ROLES};

/// Returns the JSON Schema (2020-12) of mock files.
pub fn schema() -> Value {
    let answer = answer_properties();
    let mut rule = Map::new();
    rule.insert("when", reference("condition"));
    for (name, part) in answer.iter() {
        rule.insert(name.clone(), part.clone());
    }
    let one_or_attempts = Value::object([(
        "anyOf",
        Value::list(vec![
            reference("answer"),
            list_of(reference("answer"), "One answer per attempt; the last repeats."),
        ]),
    )]);
    let answers = list_of(one_or_attempts, "One answer per call of the step or request, or per turn of a model.");
    rule.insert("answers", answers);
    rule.insert("after_last", words("After the last of the answers", AFTER_LAST.map(|(word, _)| word)));
    let definitions = Value::object([
        ("rule", closed_object("The first rule that matches a call answers it.", rule)),
        ("condition", closed_object("Conditions; a call must match all of them.", condition_properties())),
        (
            "answer",
            Value::object([(
                "anyOf",
                Value::list(vec![
                    typed("string", "The text of a model's reply."),
                    closed_object("An HTTP response, a step's result or a model's reply.", answer),
                ]),
            )]),
        ),
    ]);
    let mut file = Map::new();
    file.insert("$schema", typed("string", "The address of this schema, for editors."));
    file.insert("mocks", list_of(reference("rule"), "The rules, in order."));
    file.insert("input", described("The input of runs that get none otherwise."));
    file.insert("otherwise", words("Calls of steps that no rule matches", ["call", "fail"]));
    let mut schema = Map::new();
    schema.insert("$schema", "https://json-schema.org/draft/2020-12/schema");
    schema.insert("title", "Windlass mock file");
    if let Value::Map(object) = closed_object("Answers for steps, HTTP requests and models.", file) {
        object.iter().for_each(|(key, value)| {
            schema.insert(key.clone(), value.clone());
        });
    }
    schema.insert("required", Value::list(vec!["mocks".into()]));
    schema.insert("$defs", definitions);
    Value::map(schema)
}

fn condition_properties() -> Map {
    let text = |about: &str| typed("string", about);
    let mut map = Map::new();
    map.insert("step", text("The end of the step's path: `fetch`, `pages.fetch`, `pages[3].fetch`; `*` is any text."));
    map.insert("run", text("The id of the run; `*` is any text."));
    map.insert("tool", text("The tool that the step calls, such as `http`; `*` is any text."));
    map.insert("definition", text("The definition of the step; `*` is any text."));
    map.insert("iteration", integer("The iteration of the innermost loop, from 0.", 0, None));
    map.insert("attempt", integer("The attempt, from 1.", 1, None));
    map.insert("call", integer("The number of the call among those that match, from 1.", 1, None));
    map.insert("method", text("The HTTP method."));
    map.insert("url", text("A path, or an address with its host; `*` is any text."));
    let values = Value::object([("type", Value::list(["string", "number", "boolean"].map(Value::from).to_vec()))]);
    let query = [("type", Value::from("object")), ("additionalProperties", values)];
    map.insert("query", Value::object(query));
    map.insert("contains", text("A text in the input of a step, the body of a request, or any message."));
    map.insert("role", words("The role of the agent", ROLES.map(|(word, _)| word)));
    map.insert("model", text("The name of the model; `*` is any text."));
    map.insert("turn", integer("The number of the question in its conversation, from 1.", 1, None));
    map.insert("pass", integer("The execution of the whole step, from 1.", 1, None));
    map.insert("last_contains", text("A text in the messages since the model's last reply."));
    map.insert("offered_tool", text("A tool that is offered to the model."));
    map
}

fn answer_properties() -> Map {
    let mut map = Map::new();
    map.insert("status", integer("The HTTP status; 200 if absent.", 200, Some(599)));
    map.insert("headers", typed("object", "The HTTP headers."));
    map.insert("body", described("The body: JSON, a text, `$echo`, or `{$content-type, $content}`."));
    map.insert("output", described("The result of the step, as its tool would return it."));
    let error = ["code", "kind", "message"].map(|name| {
        let types = if name == "code" { vec!["string".into(), "number".into()] } else { vec!["string".into()] };
        (name, Value::object([("type", Value::list(types))]))
    });
    let error = closed_object("The failure of the step.", error.into_iter().collect());
    map.insert("error", Value::object([("anyOf", Value::list(vec![typed("string", "The message."), error]))]));
    map.insert("text", described("The text of a model's reply; data are sent as their JSON text."));
    let call = [
        ("id", typed("string", "Generated if absent.")),
        ("name", typed("string", "The tool.")),
        ("arguments", described("The arguments of the call.")),
    ];
    let mut call = match closed_object("A call of a tool.", call.into_iter().collect()) {
        Value::Map(map) => Map::clone(&map),
        _ => Map::new(),
    };
    call.insert("required", Value::list(vec!["name".into()]));
    map.insert("calls", list_of(Value::map(call), "The tools that the model calls."));
    let counts = ["input", "output", "total", "reasoning", "cache_read", "cache_write"];
    let counts = counts.map(|name| (format!("{name}_tokens"), integer("A number of tokens.", 0, None)));
    map.insert("usage", closed_object("The tokens that the reply reports.", counts.into_iter().collect()));
    map.insert("stop", words("Why the model stopped", STOPS.map(|(word, _)| word)));
    map.insert("fault", words("A fault instead of a proper answer", FAULTS.map(|(word, _)| word)));
    map.insert("delay_ms", integer("The delay before the answer.", 0, Some(MAX_DELAY_MS)));
    map.insert("retry_after", integer("Seconds of the Retry-After header.", 0, Some(MAX_RETRY_AFTER_SECS)));
    map
}

fn described(about: &str) -> Value {
    Value::object([("description", about)])
}

fn typed(kind: &str, about: &str) -> Value {
    Value::object([("type", kind), ("description", about)])
}

fn integer(about: &str, from: i64, to: Option<i64>) -> Value {
    let mut map = Map::new();
    map.insert("type", "integer");
    map.insert("description", about);
    map.insert("minimum", from);
    if let Some(to) = to {
        map.insert("maximum", to);
    }
    Value::map(map)
}

fn words<const N: usize>(about: &str, words: [&str; N]) -> Value {
    let words = Value::list(words.map(Value::from).to_vec());
    Value::object([("enum", words), ("description", Value::from(format!("{about}.")))])
}

fn list_of(items: Value, about: &str) -> Value {
    Value::object([("type", Value::from("array")), ("items", items), ("description", about.into())])
}

fn closed_object(about: &str, properties: Map) -> Value {
    Value::object([
        ("type", Value::from("object")),
        ("description", about.into()),
        ("properties", Value::map(properties)),
        ("additionalProperties", false.into()),
    ])
}

fn reference(name: &str) -> Value {
    Value::object([("$ref", format!("#/$defs/{name}"))])
}
