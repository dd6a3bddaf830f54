//! The prompt of a judge: the results of its loop's iterations so far.

use std::sync::Arc;

use windlass_value::{EvalError, Value};

use super::CompiledFunction;
use super::caps::{PromptCaps, cut, cut_front};
use super::config::Config;
use super::iterations::newest_history;
use super::prompt::{RequiredResult, Sections, required_result};
use super::reader::ScopeReader;

struct Judge {
    name: Arc<str>,
    instructions: Option<Arc<str>>,
    max_iterations: usize,
    result: Option<RequiredResult>,
    caps: PromptCaps,
}

pub(super) fn judge_prompt(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let judge = Judge {
        name: config.text("name")?,
        instructions: config.optional_text("instructions")?,
        max_iterations: config.count("max_iterations")?.unwrap_or(1),
        result: required_result(config)?,
        caps: PromptCaps::read(config)?,
    };
    Ok(Box::new(move |reader| {
        let text = judge.text(reader)?;
        reader.pay(text.len())?;
        let message = Value::object([("role", Value::from("user")), ("content", Value::from(text))]);
        Ok(Value::list(vec![message]))
    }))
}

impl Judge {
    fn text(&self, reader: &mut ScopeReader<'_>) -> Result<String, EvalError> {
        let mut text = Sections::default();
        text.section("Evaluation", &self.brief());
        if let Some(owed) = &self.result {
            text.section("Required Result", &owed.text());
        }
        if let Some(instructions) = &self.instructions {
            text.section("Task of the Loop", &cut(instructions.trim_end(), self.caps.dependency));
        }
        let previous = reader.enclosing_variable("previous")?;
        let last = reader.part(&previous, "result")?;
        let mut end = Sections::default();
        if !last.is_null() {
            end.section("Last Result", &cut(&reader.json(&last)?, self.caps.dependency));
        }
        let entries = reader.enclosing_variable("history")?;
        // The newest iterations count most.
        let room = self.caps.prompt.saturating_sub(text.0.len() + end.0.len());
        let history = newest_history(reader, &entries, room)?;
        text.plain(&cut_front(&history, room));
        if !end.0.is_empty() {
            text.plain(&end.0);
        }
        Ok(text.0)
    }

    fn brief(&self) -> String {
        let Judge { name, max_iterations, .. } = self;
        format!(
            "You judge whether the loop `{name}` is done. Below is what its iterations have produced, the oldest first. \
             With `done: true` the loop ends; with `done: false` another iteration begins, up to {max_iterations} in all. \
             What you say is shown to the next iteration, so say what is still missing."
        )
    }
}
