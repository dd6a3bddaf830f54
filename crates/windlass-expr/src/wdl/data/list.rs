//! Query filters items, Select maps them, Join concatenates them to one text.

use std::sync::Arc;

use windlass_value::{EvalError, EvalScope, Expression, Meter, Value};

use super::{OperationParts, at_item, body, for_item, items};
use crate::wdl::compile::WdlCompiler;
use crate::wdl::node::{WdlNode, eval};
use crate::wdl::values::{MissingBlobs, WdlContext, WdlResult, describe, preview, to_text, type_error};

pub(super) fn query(parts: &mut OperationParts) -> Option<Box<dyn Expression>> {
    let from = parts.list();
    let keep = parts.part("where", |compiler, source| {
        let text = source.as_str().map_or_else(|| preview(source), str::to_owned);
        (WdlCompiler::condition(compiler, source), text)
    });
    let (keep, text) = keep?;
    Some(Box::new(Query { from: from?, keep, text }))
}

struct Query {
    from: WdlNode,
    keep: WdlNode,
    /// The condition as written, for messages.
    text: String,
}

impl Expression for Query {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let mut context = WdlContext::new(scope, meter);
        let list = items(&mut context, &self.from)?;
        let (mut kept, mut gathering) = (Vec::new(), MissingBlobs::default());
        for (index, item) in list.as_list().unwrap_or_default().iter().enumerate() {
            context.charge_items(1)?;
            match gathering.defer(for_item(&mut context, &self.keep, index, item))? {
                Value::Bool(true) => kept.push(item.clone()),
                Value::Bool(false) => {}
                // `defer` returns null for a condition that needs missing blobs; `finish` then fails.
                Value::Null if !gathering.is_empty() => {}
                other => return Err(at_item(not_boolean(&other, &self.text), index)),
            }
        }
        gathering.finish()?;
        body(&context, Value::list(kept))
    }
}

fn not_boolean(value: &Value, text: &str) -> EvalError {
    type_error(format!("`where` gives {}, which is neither true nor false", describe(value)))
        .with_hint("compare it: equals(…), greater(…), empty(…), not(…)")
        .with_expression(text)
}

pub(super) fn select(parts: &mut OperationParts) -> Option<Box<dyn Expression>> {
    let (from, make) = (parts.list(), parts.tree("select"));
    Some(Box::new(Select { from: from?, make: make? }))
}

struct Select {
    from: WdlNode,
    make: WdlNode,
}

impl Expression for Select {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let mut context = WdlContext::new(scope, meter);
        let list = items(&mut context, &self.from)?;
        let list = list.as_list().unwrap_or_default();
        context.reserve_items(list.len())?;
        let (mut made, mut gathering) = (Vec::with_capacity(list.len()), MissingBlobs::default());
        for (index, item) in list.iter().enumerate() {
            made.push(gathering.defer(for_item(&mut context, &self.make, index, item))?);
        }
        gathering.finish()?;
        body(&context, Value::list(made))
    }
}

pub(super) fn join(parts: &mut OperationParts) -> Option<Box<dyn Expression>> {
    let (from, with) = (parts.list(), parts.tree("joinWith"));
    Some(Box::new(Join { from: from?, with: with? }))
}

struct Join {
    from: WdlNode,
    with: WdlNode,
}

impl Expression for Join {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let mut context = WdlContext::new(scope, meter);
        let list = items(&mut context, &self.from)?;
        let delimiter = delimiter(&mut context, &self.with)?;
        let mut out = String::new();
        for (index, item) in list.as_list().unwrap_or_default().iter().enumerate() {
            let text = to_text(&mut context, item)?;
            context.charge_items(1)?;
            context.reserve_bytes(text.len() + delimiter.len())?;
            context.meter.check_size(out.len() + text.len() + delimiter.len())?;
            out.push_str(if index > 0 { &delimiter } else { "" });
            out.push_str(&text);
        }
        body(&context, Value::from(out))
    }
}

fn delimiter(context: &mut WdlContext, with: &WdlNode) -> Result<Arc<str>, EvalError> {
    let value: WdlResult = eval(with, context);
    match value? {
        Value::Str(text) => Ok(text),
        Value::Null => Ok("".into()),
        other => Err(type_error(format!("`joinWith` must be a text, got {}", describe(&other)))),
    }
}
