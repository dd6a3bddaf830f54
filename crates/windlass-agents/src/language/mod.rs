//! The language `agent`: the machinery of agents as pure functions over a scope. Prompts, requests, transcripts and what
//! steps give are put together here, so that all of it is journaled and none of it is done twice.
//!
//! A source is an object: `{"agent": FUNCTION, …}` with what the compiler of a workflow knows beforehand.
//!
//! - `config` what a source says · `read` what a scope holds, in the words of a workflow
//! - `prompt` the first message · `judge` the prompt of a judge · `caps` how long texts may be
//! - `reply` what follows from a model's reply · `request` what is sent to a model · `acts` calls of tools and their replies
//! - `mail` letters · `turns` what a turn leaves behind · `outputs` what steps, loops, includes and runs give

mod acts;
mod caps;
mod config;
mod judge;
mod mail;
mod outputs;
mod prompt;
mod read;
mod reply;
mod request;
mod iterations;

use windlass_value::{CompileError, EvalError, Expression, Language, Meter, Mode, Scope, Value};

use config::Config;
use read::Reader;

/// The language `agent`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agent;

/// What a function does when it is asked.
type Made = Box<dyn Fn(&mut Reader<'_>) -> Result<Value, EvalError> + Send + Sync>;

/// Reads what its source says, once.
type Makes = fn(&Config<'_>) -> Result<Made, String>;

/// Every function, by name.
const FUNCTIONS: &[(&str, Makes)] = &[
    ("value", value),
    ("ok", ok),
    ("given", given),
    ("first", prompt::first),
    ("judge", judge::prompt),
    ("request", request::request),
    ("reserve", request::reserve),
    ("asked", reply::asked),
    ("assistant", reply::assistant),
    ("submitted", reply::submitted),
    ("forced", reply::forced),
    ("unsubmitted", reply::unsubmitted),
    ("demands", reply::demands),
    ("calls", acts::calls),
    ("kept", acts::kept),
    ("names", acts::names),
    ("troubled", acts::troubled),
    ("trouble", acts::trouble),
    ("tool", acts::tool),
    ("verdict", acts::verdict),
    ("done", acts::done),
    ("answer", acts::answer),
    ("answers", acts::answers),
    ("finished", acts::finished),
    ("after", acts::after),
    ("argument", acts::argument),
    ("arguments", acts::arguments),
    ("letter", mail::letter),
    ("posted", mail::posted),
    ("wraps", mail::wraps),
    ("letters", mail::letters),
    ("mailed", mail::mailed),
    ("coordinated", mail::coordinated),
    ("spun", mail::spun),
    ("ending", mail::ending),
    ("welcome", mail::welcome),
    ("turn", iterations::iteration_output),
    ("remember", iterations::history_entry),
    ("judged", iterations::judged),
    ("unaskable", iterations::unaskable),
    ("error", error),
    ("trouble_told", mail::trouble_told),
    ("feedback", iterations::feedback),
    ("remark", iterations::remark),
    ("iteration", iterations::iteration_entry),
    ("results", outputs::results),
    ("each", outputs::each),
    ("repeat", outputs::repeat),
    ("include", outputs::include),
    ("called", outputs::called),
    ("run", outputs::run),
];

struct Function {
    name: &'static str,
    made: Made,
}

impl Language for Agent {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn compile(&self, source: &Value, _mode: Mode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        let refuse = |message: String| vec![CompileError { message, hint: None, pointer: Vec::new(), range: 0..0 }];
        let config = Config::new(source).ok_or_else(|| refuse(format!("{source:?} is no expression of agents")))?;
        let name = config.text("agent").map_err(refuse)?;
        let Some((name, makes)) = FUNCTIONS.iter().find(|(known, _)| *known == &*name) else {
            return Err(refuse(format!("agents have no function `{name}`")));
        };
        let made = makes(&config).and_then(|made| config.all_read().map(|()| made));
        match made {
            Ok(made) => Ok(Box::new(Function { name, made })),
            Err(problem) => Err(refuse(format!("{name}: {problem}"))),
        }
    }
}

impl Expression for Function {
    fn eval(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Value, EvalError> {
        meter.spend(1)?;
        let mut reader = Reader::new(scope, meter);
        let value = (self.made)(&mut reader).map_err(|error| error.within(self.name))?;
        let max_bytes = meter.max_output_bytes;
        meter.check_size(value.size_up_to(max_bytes))?;
        Ok(value)
    }
}

/// A value that is known beforehand.
fn value(config: &Config<'_>) -> Result<Made, String> {
    let value = config.value("value").cloned().ok_or("it needs a `value`")?;
    Ok(Box::new(move |_| Ok(value.clone())))
}

/// Whether a task has ended well.
fn ok(_: &Config<'_>) -> Result<Made, String> {
    Ok(Box::new(|reader| Ok(Value::Bool(!reader.has_failed()))))
}

/// Why a task has failed.
fn error(_: &Config<'_>) -> Result<Made, String> {
    Ok(Box::new(|reader| reader.error()))
}

/// What a task has given. What is stored elsewhere stays there.
fn given(_: &Config<'_>) -> Result<Made, String> {
    Ok(Box::new(|reader| Ok(reader.raw())))
}
