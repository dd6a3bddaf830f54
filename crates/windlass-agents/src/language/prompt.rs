//! The first message to an agent: its task, and all it must know of earlier steps.

use std::sync::Arc;

use windlass_value::{EvalError, Map, Value};

use super::CompiledFunction;
use super::caps::{PromptCaps, cut};
use super::config::Config;
use super::reader::ScopeReader;

/// A step whose output is part of the prompt.
struct Dependency {
    id: Arc<str>,
    /// The number of scopes between the agent and the step.
    beyond: usize,
    /// Included whole, however long it is.
    whole: bool,
}

/// A result that an agent must submit: the tool that takes it, and its schema as text.
pub(super) struct RequiredResult {
    tool: Arc<str>,
    schema: Arc<str>,
}

/// The loop around an agent.
struct EnclosingLoop {
    name: Arc<str>,
    /// The loop runs over items.
    items: bool,
    /// The steps of the loop's body, in order; empty if the agent itself is the body.
    steps: Vec<Arc<str>>,
    /// The prompt includes the output of the previous iteration.
    previous: bool,
}

struct FirstMessage {
    instructions: Arc<str>,
    result: Option<RequiredResult>,
    heading: Arc<str>,
    dependencies: Vec<Dependency>,
    enclosing_loop: Option<EnclosingLoop>,
    inputs: Vec<Arc<str>>,
    files: bool,
    /// The prompt begins with the text that the run was started with.
    context: bool,
    caps: PromptCaps,
}

pub(super) fn first_message(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let first = FirstMessage {
        instructions: config.optional_text("instructions")?.unwrap_or_else(|| "".into()),
        result: required_result(config)?,
        heading: config.optional_text("heading")?.unwrap_or_else(|| "Previous Step Results".into()),
        dependencies: config.list("dependencies")?.iter().map(dependency).collect::<Result<_, _>>()?,
        enclosing_loop: config.inner("enclosing_loop")?.map(|around| enclosing_loop(&around)).transpose()?,
        inputs: config.texts("inputs")?,
        files: config.flag("files")?,
        context: config.flag("context")?,
        caps: PromptCaps::read(config)?,
    };
    Ok(Box::new(move |reader| {
        let message = first.message(reader)?;
        Ok(Value::list(vec![message]))
    }))
}

/// Reads the required result: `{tool, schema}`.
pub(super) fn required_result(config: &Config<'_>) -> Result<Option<RequiredResult>, String> {
    let Some(result) = config.inner("result")? else { return Ok(None) };
    let schema = result.value("schema").cloned().unwrap_or_default();
    let required =
        RequiredResult { tool: result.text("tool")?, schema: windlass_value::to_json_pretty(&schema).into() };
    result.check_all_read().map(|()| Some(required))
}

fn dependency(value: &Value) -> Result<Dependency, String> {
    let config = Config::new(value).ok_or("a dependency is an object")?;
    let beyond = config.count("beyond")?.unwrap_or(1);
    let dependency = Dependency { id: config.text("id")?, beyond, whole: config.flag("whole")? };
    config.check_all_read().map(|()| dependency)
}

fn enclosing_loop(config: &Config<'_>) -> Result<EnclosingLoop, String> {
    let enclosing = EnclosingLoop {
        name: config.text("name")?,
        items: config.flag("items")?,
        steps: config.texts("steps")?,
        previous: config.flag("previous")?,
    };
    config.check_all_read().map(|()| enclosing)
}

impl FirstMessage {
    fn message(&self, reader: &mut ScopeReader<'_>) -> Result<Value, EvalError> {
        let mut text = Sections::default();
        if let Some(context) = self.flow_context(reader)? {
            text.plain(&context);
        }
        text.section("Task", &self.task(reader));
        if let Some(owed) = &self.result {
            text.section("Required Result", &owed.text());
        }
        self.inputs(reader, &mut text)?;
        self.dependency_results(reader, &mut text)?;
        self.previous_iteration(reader, &mut text)?;
        let parts = self.files(reader, &mut text)?;
        let last = self.item(reader)?;
        let whole = self.dependencies.iter().any(|dependency| dependency.whole);
        let max_bytes = if whole { self.caps.whole } else { self.caps.prompt };
        // The item of the iteration is never cut.
        let mut text = cut(&text.0, max_bytes.saturating_sub(last.len()));
        text.push_str(&last);
        reader.pay(text.len())?;
        let content = match parts.is_empty() {
            true => Value::from(text),
            false => {
                let written = Value::object([("type", Value::from("text")), ("text", Value::from(text))]);
                Value::list(std::iter::once(written).chain(parts).collect())
            }
        };
        Ok(Value::object([("role", Value::from("user")), ("content", content)]))
    }

    /// Returns the instructions. Steps in a repeated body get the heading `## Iteration 2`.
    fn task(&self, reader: &ScopeReader<'_>) -> String {
        let repeated = self.enclosing_loop.as_ref().filter(|around| !around.items && !around.steps.is_empty());
        let iteration = repeated.and_then(|around| reader.iteration(Some(&around.name)));
        match iteration {
            Some(iteration) => {
                format!("## Iteration {}\n\n{}", iteration.iteration_index + 1, self.instructions.trim_end())
            }
            None => self.instructions.trim_end().to_owned(),
        }
    }

    fn flow_context(&self, reader: &ScopeReader<'_>) -> Result<Option<String>, EvalError> {
        Ok(if self.context { flow_context(reader) } else { None })
    }

    fn inputs(&self, reader: &mut ScopeReader<'_>, text: &mut Sections) -> Result<(), EvalError> {
        let mut given = Map::new();
        for name in &self.inputs {
            given.insert(name.clone(), reader.run().parameters.get(name).cloned().unwrap_or_default());
        }
        if !given.is_empty() {
            let given = reader.json(&Value::map(given))?;
            text.section("Inputs", &given);
        }
        Ok(())
    }

    /// Adds the results of completed dependencies.
    fn dependency_results(&self, reader: &mut ScopeReader<'_>, text: &mut Sections) -> Result<(), EvalError> {
        let mut inside = Sections::default();
        for dependency in &self.dependencies {
            let Some(ended) = reader.step(dependency.beyond, &dependency.id)?.filter(|ended| ended.is_completed())
            else {
                continue;
            };
            // A dependency that is shown whole is cut only together with the prompt, whose cut would remove a marker
            // inside.
            let max_bytes = if dependency.whole { usize::MAX } else { self.caps.dependency };
            inside.part(&format!("{} (completed)", dependency.id), &cut(ended.content.trim_end(), max_bytes));
            if !ended.result.is_null() {
                let result = reader.json(&ended.result)?;
                inside.part(&format!("{} result", dependency.id), &cut(&result, max_bytes));
            }
        }
        if !inside.0.is_empty() {
            text.section(&self.heading, &inside.0);
        }
        Ok(())
    }

    fn previous_iteration(&self, reader: &mut ScopeReader<'_>, text: &mut Sections) -> Result<(), EvalError> {
        let Some(around) = self.enclosing_loop.as_ref().filter(|around| around.previous) else { return Ok(()) };
        let Some(iteration) = reader.iteration(Some(&around.name)).filter(|iteration| iteration.iteration_index > 0)
        else {
            return Ok(());
        };
        let previous = reader.enclosing_variable("previous")?;
        let mut inside = Sections::default();
        if around.steps.is_empty() {
            inside.plain(&cut(reader.text(&previous, "content")?.trim_end(), self.caps.dependency));
            let result = reader.part(&previous, "result")?;
            if !result.is_null() {
                inside.part("Result", &cut(&reader.json(&result)?, self.caps.dependency));
            }
        }
        let steps = reader.part(&previous, "steps")?;
        for id in &around.steps {
            let step = reader.part(&steps, id)?;
            if &*reader.text(&step, "status")? != "completed" {
                continue;
            }
            let content = reader.text(&step, "content")?;
            inside.part(&format!("{id} (completed)"), &cut(content.trim_end(), self.caps.dependency));
            let result = reader.part(&step, "result")?;
            if !result.is_null() {
                inside.part(&format!("{id} result"), &cut(&reader.json(&result)?, self.caps.dependency));
            }
        }
        text.section(&format!("Previous Iteration Output (Iteration {})", iteration.iteration_index), &inside.0);
        let feedback = reader.enclosing_variable("feedback")?;
        let feedback_text = reader.text(&feedback, "text")?;
        // If the judge gave no feedback in this iteration, the variable still has the feedback of an earlier one.
        let fresh = feedback.get("iteration").and_then(Value::as_int) == i64::try_from(iteration.iteration_index).ok();
        if fresh && !feedback_text.is_empty() {
            let heading = format!("Judge Feedback (Iteration {})", iteration.iteration_index);
            text.section(&heading, &cut(feedback_text.trim_end(), self.caps.dependency));
        }
        Ok(())
    }

    /// Adds text files to the prompt and returns pictures and other files as attachments.
    fn files(&self, reader: &mut ScopeReader<'_>, text: &mut Sections) -> Result<Vec<Value>, EvalError> {
        let mut parts = Vec::new();
        if !self.files {
            return Ok(parts);
        }
        let files = reader.own_variable("files")?;
        let mut inside = Sections::default();
        for file in reader.list(&files)? {
            let file = reader.load(&file)?;
            let path = reader.text(&file, "path")?;
            let problem = reader.text(&file, "problem")?;
            let media = reader.text(&file, "media")?;
            if !problem.is_empty() {
                inside.part(&path, &format!("[this file could not be read: {problem}]"));
            } else if media.is_empty() {
                let content = reader.text(&file, "text")?;
                reader.pay(content.len())?;
                inside.part(&path, content.trim_end());
            } else {
                inside.part(&path, &format!("[attached: {media}]"));
                parts.push(attachment(&path, &media, reader.part(&file, "data")?));
            }
        }
        if !inside.0.is_empty() {
            text.section("Context Files", &inside.0);
        }
        Ok(parts)
    }

    fn item(&self, reader: &mut ScopeReader<'_>) -> Result<String, EvalError> {
        let each = self.enclosing_loop.as_ref().filter(|around| around.items);
        let Some(iteration) = each.and_then(|around| reader.iteration(Some(&around.name))) else {
            return Ok(String::new());
        };
        let item = reader.json(&iteration.item)?;
        Ok(format!(
            "\n\n## forEach Item (index: {})\n\n{}",
            iteration.iteration_index,
            cut(&item, self.caps.prompt / 2)
        ))
    }
}

fn attachment(path: &Arc<str>, media: &Arc<str>, data: Value) -> Value {
    let kind = if media.starts_with("image/") { "image" } else { "file" };
    Value::object([
        ("type", Value::from(kind)),
        ("media", Value::Str(media.clone())),
        ("data", data),
        ("name", Value::Str(path.clone())),
    ])
}

impl RequiredResult {
    /// Returns the instructions to submit the result.
    pub(crate) fn text(&self) -> String {
        let RequiredResult { tool, schema } = self;
        format!(
            "When your work is done, call the tool `{tool}` with the result. Only what you give to it counts as your \
             result. Its arguments must be valid against this JSON Schema:\n\n```json\n{schema}\n```"
        )
    }
}

/// Returns the text that the run was started with, if there is one.
pub(super) fn flow_context(reader: &ScopeReader<'_>) -> Option<String> {
    let given = reader.run().input.get("context").and_then(Value::as_str).filter(|text| !text.trim().is_empty())?;
    Some(format!("[Flow Context]\n{}", given.trim_end()))
}

/// A text of sections with headings.
#[derive(Default)]
pub(super) struct Sections(pub String);

impl Sections {
    pub(crate) fn plain(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push_str("\n\n");
        }
        self.0.push_str(text);
    }

    pub(crate) fn section(&mut self, heading: &str, text: &str) {
        self.plain(&format!("## {heading}\n\n{text}"));
    }

    pub(crate) fn part(&mut self, heading: &str, text: &str) {
        self.plain(&format!("### {heading}\n\n{text}"));
    }
}
