//! A name with the properties and items read from it: `outcome.result.items[0]`. The path is resolved step by step in
//! the scope itself, so only its final value enters the engine, and a stored value that is only passed on stays
//! stored.

use std::sync::Arc;

use windlass_value::{EvalError, EvalErrorKind, EvalScope, Meter, Value, nearest};

use super::outcome::is_promised;
use super::roots::{PathRoot, ResolvedRoot, available_names, root_value};
use super::task_results::{current_step, task_results};
use crate::wdl::values::{WdlContext, is_stored_list};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum JinjaStep {
    Key(Arc<str>),
    Index(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct JinjaPath {
    pub name: Arc<str>,
    pub root: PathRoot,
    pub steps: Vec<JinjaStep>,
}

impl JinjaPath {
    pub(crate) fn new(name: &str, steps: Vec<JinjaStep>) -> JinjaPath {
        JinjaPath { name: name.into(), root: PathRoot::from_name(name), steps }
    }

    /// Renders the name and the first `steps` steps.
    pub(crate) fn render_prefix(&self, steps: usize) -> String {
        let mut text = self.name.to_string();
        for step in &self.steps[..steps] {
            match step {
                JinjaStep::Key(key) => {
                    text.push('.');
                    text.push_str(key);
                }
                JinjaStep::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }

    pub(crate) fn render(&self) -> String {
        self.render_prefix(self.steps.len())
    }

    pub(crate) fn value(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        meter.spend(1 + self.steps.len() as u64)?;
        let first = match self.steps.first() {
            Some(JinjaStep::Key(key)) => Some(&**key),
            _ => None,
        };
        let root = root_value(&self.root, &self.name, first, scope);
        let root = match self.results_of_tasks(root.as_ref(), scope, meter)? {
            Some(results) => Some(results),
            None => root,
        };
        let Some(ResolvedRoot { mut value, used, reply }) = root else { return Err(self.no_name(scope)) };
        if reply {
            value = self.body(value, scope, meter)?;
        }
        for (index, step) in self.steps.iter().enumerate().skip(used) {
            value = match self.step(&value, step, scope, meter)? {
                Some(next) => next,
                None if self.is_promised(index) => Value::Null,
                None if self.is_result_alias(index, scope) => value,
                None => match self.through_result(&value, step, scope, meter)? {
                    Some(next) => next,
                    None => return Err(self.no_step(&value, index, scope, meter)),
                },
            };
        }
        Ok(value)
    }

    /// Returns the body of a reply; any other value is returned unchanged.
    fn body(&self, value: Value, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let key = |name: &str| JinjaStep::Key(name.into());
        if self.step(&value, &key("status_code"), scope, meter)?.is_none() {
            return Ok(value);
        }
        let data = self.step(&value, &key("data"), scope, meter)?;
        Ok(data.unwrap_or(value))
    }

    /// Resolves a step that the result itself lacks: for a reply, its `body`, which is an alias of `data`, and the
    /// body's properties; for rows, the columns, if there is exactly one row.
    fn through_result(
        &self,
        value: &Value,
        step: &JinjaStep,
        scope: &dyn EvalScope,
        meter: &mut Meter,
    ) -> Result<Option<Value>, EvalError> {
        let content = match value {
            Value::Stored(stored) => WdlContext::new(scope, meter).load_for_lookup(stored)?,
            other => other.clone(),
        };
        let part =
            |of: [&str; 3], name: &str| content.get(name).filter(|_| of.iter().all(|part| content.get(part).is_some()));
        if let Some(body) = part(["status_code", "headers", "data"], "data") {
            return match step {
                JinjaStep::Key(key) if &**key == "body" => Ok(Some(body.clone())),
                step => self.step(body, step, scope, meter),
            };
        }
        let (Some(rows), JinjaStep::Key(_)) = (part(["rows", "rowcount", "columns"], "rows"), step) else {
            return Ok(None);
        };
        let mut row = |index| self.step(rows, &JinjaStep::Index(index), scope, meter);
        match (row(0)?, row(1)?) {
            (Some(only), None) => self.step(&only, step, scope, meter),
            _ => Ok(None),
        }
    }

    /// Returns the results of a step's tasks, if the path reads them: `results`, or `results` of a step whose own result
    /// has none.
    fn results_of_tasks(
        &self,
        root: Option<&ResolvedRoot>,
        scope: &dyn EvalScope,
        meter: &mut Meter,
    ) -> Result<Option<ResolvedRoot>, EvalError> {
        let first = self.steps.first();
        match (&self.root, first) {
            (PathRoot::TaskResults, _) if root.is_none() => {
                let Some(step) = current_step(scope) else { return Ok(None) };
                Ok(task_results(&step, scope, meter)?.map(ResolvedRoot::at_root))
            }
            (PathRoot::Name, Some(results @ JinjaStep::Key(key))) if &**key == "results" => {
                let own = root.map(|root| self.step(&root.value, results, scope, meter)).transpose()?.flatten();
                if own.is_some() {
                    return Ok(None);
                }
                Ok(task_results(&self.name, scope, meter)?.map(ResolvedRoot::after_first_step))
            }
            _ => Ok(None),
        }
    }

    fn is_promised(&self, index: usize) -> bool {
        let key = |index: usize| match self.steps.get(index) {
            Some(JinjaStep::Key(key)) => Some(&**key),
            _ => None,
        };
        let property = if index == 0 { Some(None) } else { key(index).map(Some) };
        match (key(0), property) {
            (Some(part), Some(property)) if index < 2 => is_promised(&self.name, part, property),
            _ => false,
        }
    }

    /// Returns whether `data` of a step that has ended stands for its result, which has no such property.
    fn is_result_alias(&self, index: usize, scope: &dyn EvalScope) -> bool {
        let data = matches!(self.steps.first(), Some(JinjaStep::Key(key)) if &**key == "data");
        index == 0
            && data
            && matches!(self.root, PathRoot::Name | PathRoot::TaskResults)
            && scope.node(&self.name).is_some()
    }

    fn step(
        &self,
        value: &Value,
        step: &JinjaStep,
        scope: &dyn EvalScope,
        meter: &mut Meter,
    ) -> Result<Option<Value>, EvalError> {
        let mut context = WdlContext::new(scope, meter);
        Ok(match (value, step) {
            (Value::Map(map), JinjaStep::Key(key)) => map.get(key).cloned(),
            (Value::Map(map), JinjaStep::Index(index)) => map.get(&index.to_string()).cloned(),
            (Value::List(items), JinjaStep::Index(index)) => {
                resolve_index(*index, items.len()).map(|at| items[at].clone())
            }
            (Value::Stored(stored), JinjaStep::Index(index)) if is_stored_list(stored) => {
                match resolve_index(*index, stored.items as usize) {
                    Some(at) => context.stored_item(stored, at)?,
                    None => None,
                }
            }
            (Value::Stored(stored), step) => {
                let content = context.load_for_lookup(stored)?;
                return self.step(&content, step, scope, meter);
            }
            (Value::Str(text), JinjaStep::Index(index)) => {
                let at = resolve_index(*index, text.chars().count());
                at.and_then(|at| text.chars().nth(at)).map(|letter| Value::from(letter.to_string()))
            }
            _ => None,
        })
    }

    fn no_name(&self, scope: &dyn EvalScope) -> EvalError {
        if let (Some(JinjaStep::Key(key)), true) = (self.steps.first(), self.root.is_namespace()) {
            let names = available_names(&self.root, scope);
            return no_property(&self.name, key, names.iter().map(|name| &**name));
        }
        let names = available_names(&PathRoot::Name, scope);
        let mut message = format!("there is no `{}` here", self.name);
        if !names.is_empty() {
            message.push_str(&format!("; there are {}", format_names(names.iter().map(|name| &**name))));
        }
        let error = EvalError::new(EvalErrorKind::Missing, message);
        match nearest(&self.name, names.iter().map(|name| &**name)) {
            Some(close) => error.with_hint(format!("did you mean `{close}`?")),
            None => error.with_hint(format!("`{} | default(…)` provides a value when it is missing", self.name)),
        }
    }

    fn no_step(&self, value: &Value, index: usize, scope: &dyn EvalScope, meter: &mut Meter) -> EvalError {
        let before = self.render_prefix(index);
        let content = WdlContext::new(scope, meter).content(value.clone()).unwrap_or_default();
        missing_error(&before, &content, &self.steps[index])
    }
}

fn resolve_index(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 { index.checked_add(i64::try_from(length).ok()?)? } else { index };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// Returns the error that explains why a value has no such property or item.
pub(super) fn missing_error(before: &str, value: &Value, step: &JinjaStep) -> EvalError {
    match (value, step) {
        (Value::Map(map), JinjaStep::Key(key)) => {
            let keys: Vec<&str> = map.keys().map(|key| &**key).collect();
            no_property(before, key, keys.iter().copied())
        }
        (Value::Null, JinjaStep::Key(key)) => {
            let error = EvalError::new(EvalErrorKind::Missing, format!("`{before}` is null and has no `{key}`"));
            error.with_hint(format!("`{before}.{key} | default(…)` provides a value for that case"))
        }
        (Value::List(items), JinjaStep::Index(index)) => {
            let message = format!("`{before}` has no item {index}; it has {} items", items.len());
            EvalError::new(EvalErrorKind::Missing, message)
        }
        (other, step) => {
            let expected = match step {
                JinjaStep::Key(key) => format!("property `{key}`"),
                JinjaStep::Index(index) => format!("item {index}"),
            };
            let message = format!("`{before}` is {} and has no {expected}", crate::wdl::values::describe(other));
            EvalError::new(EvalErrorKind::Missing, message)
        }
    }
}

fn no_property<'a>(before: &str, key: &str, keys: impl Iterator<Item = &'a str> + Clone) -> EvalError {
    let mut message = match before {
        "output_select" => format!("`output_select` selects `{key}`, but the result has no such property"),
        _ => format!("`{before}` has no property `{key}`"),
    };
    match keys.clone().next() {
        Some(_) => message.push_str(&format!("; it has {}", format_names(keys.clone()))),
        None => message.push_str("; it is empty"),
    }
    let error = EvalError::new(EvalErrorKind::Missing, message);
    let selecting =
        before.strip_prefix("output_select").is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    match nearest(key, keys) {
        Some(close) => error.with_hint(format!("did you mean `{close}`?")),
        None if selecting => error.with_hint("select an existing property, or leave it out of `output_select`"),
        None => error.with_hint(format!("`{before}.{key} | default(…)` provides a value when it is missing")),
    }
}

/// Formats the first few names.
fn format_names<'a>(names: impl Iterator<Item = &'a str> + Clone) -> String {
    const MAX_NAMES: usize = 10;
    let mut text = names.clone().take(MAX_NAMES).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.count() > MAX_NAMES {
        text.push_str(", …");
    }
    text
}
