//! A compiled expression and its evaluation. Names are resolved at compile time wherever possible.

use std::sync::Arc;

use windlass_value::{EvalError, EvalErrorKind, Map, Value};

use super::functions::{EagerFunction, LazyFunction, LoadedArguments, PreparedFunction};
use super::path::{WdlPath, eval_path};
use super::values::{MissingBlobs, WdlContext, WdlResult, to_text};
use super::variable::{VariableName, read_variable};

pub(crate) enum WdlNode {
    Constant(Value),
    Variable(Box<VariableName>),
    Call(Box<WdlCall>),
    Lazy(LazyFunction, Box<[WdlNode]>),
    Path(Box<WdlPath>),
    /// Text with expressions in it.
    Join(Box<[WdlNode]>),
    Object(Box<[(ObjectKey, WdlNode)]>),
    List(Box<[WdlNode]>),
    /// An expression with its source text, which is named in its errors.
    Source(Arc<str>, Box<WdlNode>),
}

pub(crate) struct WdlCall {
    pub run: CallRun,
    pub content: LoadedArguments,
    pub returns_existing: bool,
    pub arguments: Box<[WdlNode]>,
}

pub(crate) enum CallRun {
    Function(EagerFunction),
    Prepared(PreparedFunction),
}

impl WdlCall {
    #[inline]
    fn run(&self, context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
        match &self.run {
            CallRun::Function(run) => run(context, arguments),
            CallRun::Prepared(run) => run(context, arguments),
        }
    }
}

pub(crate) enum ObjectKey {
    Fixed(Arc<str>),
    Computed(WdlNode),
}

pub(crate) fn eval(node: &WdlNode, context: &mut WdlContext) -> WdlResult {
    context.charge_node()?;
    match node {
        WdlNode::Constant(value) => Ok(value.clone()),
        WdlNode::Variable(name) => read_variable(context, name),
        WdlNode::Call(call) => eval_call(call, context),
        WdlNode::Lazy(run, arguments) => run(context, arguments),
        WdlNode::Path(path) => eval_path(path, context),
        WdlNode::Join(parts) => eval_join(parts, context),
        WdlNode::Object(entries) => eval_object(entries, context),
        WdlNode::List(items) => {
            let (mut values, mut gathering) = (Vec::with_capacity(items.len()), MissingBlobs::default());
            for item in items {
                values.push(gathering.defer(eval(item, context))?);
            }
            gathering.finish()?;
            Ok(Value::list(values))
        }
        WdlNode::Source(text, inner) => eval(inner, context).map_err(|error| error.with_expression(text)),
    }
}

/// Evaluates a call; up to two arguments need no allocation.
fn eval_call(call: &WdlCall, context: &mut WdlContext) -> WdlResult {
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
                    let mut gathering = MissingBlobs::default();
                    gathering.defer(first)?;
                    gathering.defer(second)?;
                    gathering.finish().map(|()| Value::Null)
                }
            }
        }
        many => {
            let (mut values, mut gathering) = (Vec::with_capacity(many.len()), MissingBlobs::default());
            for (index, node) in many.iter().enumerate() {
                values.push(gathering.defer(argument(call, node, index, context))?);
            }
            gathering.finish()?;
            call.run(context, &values)
        }
    }
}

#[inline]
fn argument(call: &WdlCall, node: &WdlNode, index: usize, context: &mut WdlContext) -> WdlResult {
    let value = match node {
        // Inlined, since most calls have a constant or a variable among their arguments.
        WdlNode::Constant(value) => {
            context.charge_node()?;
            value.clone()
        }
        WdlNode::Variable(name) => {
            context.charge_node()?;
            read_variable(context, name)?
        }
        node => eval(node, context)?,
    };
    if !matches!(value, Value::Stored(_)) {
        return Ok(value);
    }
    let needs_content = match call.content {
        LoadedArguments::All => true,
        LoadedArguments::First => index == 0,
        LoadedArguments::None => false,
    };
    match &value {
        Value::Stored(stored) if needs_content => context.load(stored),
        _ => Ok(value),
    }
}

fn eval_join(parts: &[WdlNode], context: &mut WdlContext) -> WdlResult {
    let mut out = String::new();
    for part in parts {
        let value = eval(part, context)?;
        let append = |out: &mut String, text: &str, context: &mut WdlContext| -> Result<(), EvalError> {
            context.charge_bytes(text.len())?;
            context.meter.check_size(out.len() + text.len())?;
            out.push_str(text);
            Ok(())
        };
        match &value {
            Value::Str(text) => append(&mut out, text, context)?,
            other => {
                let text = to_text(context, other)?;
                append(&mut out, &text, context)?;
            }
        }
    }
    Ok(Value::from(out))
}

fn eval_object(entries: &[(ObjectKey, WdlNode)], context: &mut WdlContext) -> WdlResult {
    let (mut map, mut gathering) = (Map::with_capacity(entries.len()), MissingBlobs::default());
    for (key, node) in entries {
        let key = match key {
            ObjectKey::Fixed(name) => name.clone(),
            ObjectKey::Computed(node) => {
                let value = eval(node, context)?;
                to_text(context, &value)?
            }
        };
        let value = gathering.defer(eval(node, context))?;
        map.insert(key, value);
    }
    gathering.finish()?;
    Ok(Value::map(map))
}
