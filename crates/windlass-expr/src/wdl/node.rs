//! A compiled expression and its evaluation. Nothing is looked up by name here that could be looked up before.

use std::sync::Arc;

use windlass_value::{EvalError, EvalErrorKind, Map, Value};

use super::functions::{Content, Eager, Lazy, Prepared};
use super::path::{Path, eval_path};
use super::values::{Context, Gathering, Outcome, text_of};
use super::variable::{VariableName, read_variable};

pub(crate) enum Node {
    Constant(Value),
    Variable(Box<VariableName>),
    Call(Box<Call>),
    Lazy(Lazy, Box<[Node]>),
    Path(Box<Path>),
    /// Text with expressions in it.
    Join(Box<[Node]>),
    Object(Box<[(ObjectKey, Node)]>),
    List(Box<[Node]>),
    /// An expression of the source, named when it fails.
    Source(Arc<str>, Box<Node>),
}

pub(crate) struct Call {
    pub run: CallRun,
    pub content: Content,
    pub reads: bool,
    pub arguments: Box<[Node]>,
}

pub(crate) enum CallRun {
    Function(Eager),
    Prepared(Prepared),
}

impl Call {
    #[inline]
    fn run(&self, context: &mut Context, arguments: &[Value]) -> Outcome {
        match &self.run {
            CallRun::Function(run) => run(context, arguments),
            CallRun::Prepared(run) => run(context, arguments),
        }
    }
}

pub(crate) enum ObjectKey {
    Fixed(Arc<str>),
    Computed(Node),
}

pub(crate) fn eval(node: &Node, context: &mut Context) -> Outcome {
    context.step()?;
    match node {
        Node::Constant(value) => Ok(value.clone()),
        Node::Variable(name) => read_variable(context, name),
        Node::Call(call) => eval_call(call, context),
        Node::Lazy(run, arguments) => run(context, arguments),
        Node::Path(path) => eval_path(path, context),
        Node::Join(parts) => eval_join(parts, context),
        Node::Object(entries) => eval_object(entries, context),
        Node::List(items) => {
            let (mut values, mut gathering) = (Vec::with_capacity(items.len()), Gathering::default());
            for item in items {
                values.push(gathering.take(eval(item, context))?);
            }
            gathering.finish()?;
            Ok(Value::list(values))
        }
        Node::Source(text, inner) => eval(inner, context).map_err(|error| error.within(text)),
    }
}

/// Few arguments need no allocation.
fn eval_call(call: &Call, context: &mut Context) -> Outcome {
    match &*call.arguments {
        [] => call.run(context, &[]),
        [a] => {
            let values = [argument(call, a, 0, context)?];
            call.run(context, &values)
        }
        [a, b] => {
            let first = argument(call, a, 0, context);
            if matches!(&first, Err(error) if error.kind != EvalErrorKind::NeedBlobs) {
                return first;
            }
            match (first, argument(call, b, 1, context)) {
                (Ok(a), Ok(b)) => call.run(context, &[a, b]),
                (first, second) => {
                    let mut gathering = Gathering::default();
                    gathering.take(first)?;
                    gathering.take(second)?;
                    gathering.finish().map(|()| Value::Null)
                }
            }
        }
        many => {
            let (mut values, mut gathering) = (Vec::with_capacity(many.len()), Gathering::default());
            for (index, node) in many.iter().enumerate() {
                values.push(gathering.take(argument(call, node, index, context))?);
            }
            gathering.finish()?;
            call.run(context, &values)
        }
    }
}

#[inline]
fn argument(call: &Call, node: &Node, index: usize, context: &mut Context) -> Outcome {
    let value = match node {
        // Without a call, since most calls have a constant or a variable among their arguments.
        Node::Constant(value) => {
            context.step()?;
            value.clone()
        }
        Node::Variable(name) => {
            context.step()?;
            read_variable(context, name)?
        }
        node => eval(node, context)?,
    };
    if !matches!(value, Value::Stored(_)) {
        return Ok(value);
    }
    let wanted = match call.content {
        Content::All => true,
        Content::First => index == 0,
        Content::None => false,
    };
    match &value {
        Value::Stored(stored) if wanted => context.load(stored),
        _ => Ok(value),
    }
}

fn eval_join(parts: &[Node], context: &mut Context) -> Outcome {
    let mut out = String::new();
    for part in parts {
        let value = eval(part, context)?;
        let append = |out: &mut String, text: &str, context: &mut Context| -> Result<(), EvalError> {
            context.bytes(text.len())?;
            context.meter.check_size(out.len() + text.len())?;
            out.push_str(text);
            Ok(())
        };
        match &value {
            Value::Str(text) => append(&mut out, text, context)?,
            other => {
                let text = text_of(context, other)?;
                append(&mut out, &text, context)?;
            }
        }
    }
    Ok(Value::from(out))
}

fn eval_object(entries: &[(ObjectKey, Node)], context: &mut Context) -> Outcome {
    let (mut map, mut gathering) = (Map::with_capacity(entries.len()), Gathering::default());
    for (key, node) in entries {
        let key = match key {
            ObjectKey::Fixed(name) => name.clone(),
            ObjectKey::Computed(node) => {
                let value = eval(node, context)?;
                text_of(context, &value)?
            }
        };
        let value = gathering.take(eval(node, context))?;
        map.insert(key, value);
    }
    gathering.finish()?;
    Ok(Value::map(map))
}
