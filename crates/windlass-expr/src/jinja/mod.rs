//! Jinja, the template language of playbooks: `"{{ iter.page + 1 }}"`. It is minijinja's, with these rules:
//!
//! - A text that is one template keeps the type of its value; text around a template makes a text; a text without one is
//!   itself. Line breaks at the end of a block do not count as text around it.
//! - A name or a property that is not there is an error that says what there is, unless `default` or `is defined` asks
//!   for it. Null is there. In a loop's own condition what is missing is null; a guard reports
//!   [`windlass_value::EvalErrorKind::Missing`], which means no.
//! - Filters, tests, functions and methods are looked up when a template is compiled. Nothing reads a clock or is
//!   random: `now()` and `uuid()` come from the tick.
//! - Values enter the engine as they are, by reference, and come back without loss; stored values are loaded when they
//!   are touched. Steps, items and bytes are counted.
//! - What counts as true is in `truth`; what names mean is in `names`.
//!
//! `tables` the names that can be used · `lower` syntax to what the engine runs · `path` names with their properties ·
//! `engine`, `session`, `object` evaluation · `filters` those that are ours · `source` what a tree refers to · `sql`
//! templates in SQL.

mod engine;
mod filters;
mod lists;
mod lower;
mod names;
mod object;
mod outcome;
mod path;
mod session;
mod source;
mod sql;
mod tables;
mod text;
mod truth;

use windlass_value::{
    BlobHash, CompileError, EvalError, EvalErrorKind, Expression, Language, Meter, Mode, PathPart, Scope, Value,
    to_json,
};

pub use source::{Reference, references};
pub use sql::{Each, Param, Statement, split_sql};

use engine::Program;
use path::Path;
use text::{Compiled, compile_condition, compile_text};
use truth::is_true;

use crate::wdl::values::Context;

/// How deep a source tree may nest.
const MAX_TREE_DEPTH: usize = 120;

/// The language.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jinja;

/// The names of all filters, tests, functions and methods, for documentation.
pub fn names() -> [(&'static str, &'static [&'static str]); 4] {
    [("filter", tables::FILTERS), ("test", tables::TESTS), ("function", tables::FUNCTIONS), ("method", tables::METHODS)]
}

impl Language for Jinja {
    fn name(&self) -> &'static str {
        "jinja"
    }

    fn compile(&self, source: &Value, mode: Mode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        let mut compiler = Compiler { errors: Vec::new(), pointer: Vec::new(), mode };
        let node = match mode {
            Mode::Value => compiler.tree(source),
            Mode::Condition | Mode::LoopCondition | Mode::Guard => compiler.condition(source),
        };
        match compiler.errors.is_empty() {
            true => Ok(Box::new(node)),
            false => Err(compiler.errors),
        }
    }
}

enum Node {
    Constant(Value),
    /// A path alone; the text of the template for messages.
    Path {
        path: Path,
        text: String,
        lenient: bool,
    },
    Program {
        program: Box<Program>,
        text: String,
    },
    Truth(Box<Node>),
    List(Vec<Node>),
    Object(Vec<(Node, Node)>),
}

impl Expression for Node {
    fn eval(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Value, EvalError> {
        let value = self.value(scope, meter)?;
        if matches!(self, Node::List(_) | Node::Object(_)) {
            meter.check_size(value.size_up_to(meter.max_output_bytes))?;
        }
        Ok(value)
    }
}

impl Node {
    fn value(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Value, EvalError> {
        match self {
            Node::Constant(value) => {
                meter.spend(1)?;
                Ok(value.clone())
            }
            Node::Path { path, text, lenient } => match path.value(scope, meter) {
                Err(error) if *lenient && error.kind == EvalErrorKind::Missing => Ok(Value::Null),
                result => result.map_err(|error| error.within(text)),
            },
            Node::Program { program, text } => program.eval(scope, meter).map_err(|error| error.within(text)),
            Node::Truth(node) => {
                let value = node.value(scope, meter)?;
                let content = Context::new(scope, meter).content(value)?;
                Ok(Value::Bool(is_true(&content)))
            }
            Node::List(nodes) => {
                let mut gathered = Vec::new();
                let items: Vec<Value> = gather(nodes.iter().map(|node| node.value(scope, meter)), &mut gathered)?;
                needs(gathered)?;
                Ok(Value::list(items))
            }
            Node::Object(entries) => {
                let mut gathered = Vec::new();
                let pairs = entries.iter().map(|(key, node)| {
                    let key = key.value(scope, meter)?;
                    Ok((key_text(&key), node.value(scope, meter)?))
                });
                let pairs: Vec<(String, Value)> = gather(pairs, &mut gathered)?;
                needs(gathered)?;
                Ok(Value::object(pairs))
            }
        }
    }
}

fn key_text(key: &Value) -> String {
    key.as_str().map_or_else(|| to_json(key), str::to_owned)
}

fn constant(node: &Node) -> Option<Value> {
    match node {
        Node::Constant(value) => Some(value.clone()),
        _ => None,
    }
}

/// Goes on past blobs that are not at hand, so that all of them are asked for at once.
fn gather<T>(
    results: impl Iterator<Item = Result<T, EvalError>>,
    blobs: &mut Vec<BlobHash>,
) -> Result<Vec<T>, EvalError> {
    let mut values = Vec::new();
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(error) if error.kind == EvalErrorKind::NeedBlobs => blobs.extend(error.blobs),
            Err(error) => return Err(error),
        }
    }
    Ok(values)
}

fn needs(blobs: Vec<BlobHash>) -> Result<(), EvalError> {
    if blobs.is_empty() { Ok(()) } else { Err(EvalError::need_blobs(blobs)) }
}

struct Compiler {
    errors: Vec<CompileError>,
    pointer: Vec<PathPart>,
    mode: Mode,
}

impl Compiler {
    fn error(&mut self, message: impl Into<String>, hint: Option<String>, range: std::ops::Range<usize>) {
        self.errors.push(CompileError { message: message.into(), hint, pointer: self.pointer.clone(), range });
    }

    fn problems(&mut self, problems: Vec<lower::Problem>) -> Node {
        for problem in problems {
            self.error(problem.message, problem.hint, problem.range);
        }
        Node::Constant(Value::Null)
    }

    fn tree(&mut self, source: &Value) -> Node {
        if self.pointer.len() > MAX_TREE_DEPTH {
            self.error(format!("the value nests deeper than {MAX_TREE_DEPTH}"), None, 0..0);
            return Node::Constant(Value::Null);
        }
        match source {
            Value::Str(text) => self.text(text),
            Value::List(items) => {
                let nodes: Vec<Node> =
                    items.iter().enumerate().map(|(index, item)| self.inside(PathPart::Index(index), item)).collect();
                match nodes.iter().map(constant).collect::<Option<Vec<Value>>>() {
                    Some(values) => Node::Constant(Value::list(values)),
                    None => Node::List(nodes),
                }
            }
            Value::Map(map) => {
                let mut entries = Vec::with_capacity(map.len());
                for (key, item) in map.iter() {
                    self.pointer.push(PathPart::Key(key.clone()));
                    let name = self.text(key);
                    self.pointer.pop();
                    entries.push((name, self.inside(PathPart::Key(key.clone()), item)));
                }
                let constants = entries.iter().map(|(key, node)| Some((key_text(&constant(key)?), constant(node)?)));
                match constants.collect::<Option<Vec<(String, Value)>>>() {
                    Some(values) => Node::Constant(Value::object(values)),
                    None => Node::Object(entries),
                }
            }
            other => Node::Constant(other.clone()),
        }
    }

    fn inside(&mut self, part: PathPart, source: &Value) -> Node {
        self.pointer.push(part);
        let node = self.tree(source);
        self.pointer.pop();
        node
    }

    fn text(&mut self, text: &str) -> Node {
        match compile_text(text) {
            Ok(compiled) => node(compiled, text, false),
            Err(problems) => self.problems(problems),
        }
    }

    fn condition(&mut self, source: &Value) -> Node {
        let lenient = self.mode == Mode::LoopCondition;
        match source {
            Value::Str(text) => match compile_condition(text, lenient) {
                Ok(Compiled::Constant(value)) => Node::Constant(Value::Bool(is_true(&value))),
                Ok(compiled) => Node::Truth(Box::new(node(compiled, text, lenient))),
                Err(problems) => self.problems(problems),
            },
            Value::List(_) | Value::Map(_) => {
                let hint = "write it as a text: \"{{ a == b }}\"".to_owned();
                self.error(format!("a condition is a template, got {}", source.kind()), Some(hint), 0..0);
                Node::Constant(Value::Null)
            }
            other => Node::Constant(Value::Bool(is_true(other))),
        }
    }
}

fn node(compiled: Compiled, text: &str, lenient: bool) -> Node {
    let text = text.trim_end().to_owned();
    match compiled {
        Compiled::Constant(value) => Node::Constant(value),
        Compiled::Path(path) => Node::Path { path, text, lenient },
        Compiled::Program(program) => Node::Program { program, text },
    }
}
