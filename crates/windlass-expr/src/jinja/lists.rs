//! List filters whose output can be much larger than their input: they charge for the output first.

use std::sync::Arc;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, State, Value as Inner, filters};

use super::object::{describe, type_error};
use super::session::{EvalSession, to_engine_error};

type FilterResult = Result<Inner, Error>;

/// A list, even an empty one, takes more memory than one unit of fuel stands for.
const LIST_COST: u64 = 16;

pub(super) fn add(env: &mut Environment<'static>) {
    env.add_filter("slice", slice);
    env.add_filter("batch", batch);
    env.add_filter("sum", sum);
}

fn session(state: &State) -> Result<Arc<EvalSession>, Error> {
    EvalSession::from_state(state).ok_or_else(|| type_error("this is not available here", None))
}

/// Creates the requested number of lists, however few items there are.
fn slice(state: &mut State, value: Inner, count: usize, fill: Option<Inner>) -> FilterResult {
    session(state)?.spend((count as u64).saturating_mul(LIST_COST)).map_err(to_engine_error)?;
    filters::slice(state, value, count, fill)
}

/// Fills the last list up to the requested length.
fn batch(state: &mut State, value: Inner, count: usize, fill: Option<Inner>) -> FilterResult {
    if fill.is_some() {
        session(state)?.spend(count as u64).map_err(to_engine_error)?;
    }
    filters::batch(state, value, count, fill)
}

/// Adds numbers; concatenates strings or lists, depending on the type of `start`.
fn sum(
    state: &mut State,
    values: Inner,
    attribute: Option<Arc<str>>,
    start: Option<Inner>,
    kwargs: Kwargs,
) -> FilterResult {
    let attribute = match attribute {
        Some(attribute) => Some(attribute),
        None => kwargs.get::<Option<Arc<str>>>("attribute")?,
    };
    let start = match start {
        Some(start) => Some(start),
        None => kwargs.get::<Option<Inner>>("start")?,
    };
    kwargs.assert_all_used()?;
    let start = start.unwrap_or_else(|| Inner::from(0));
    if !matches!(start.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable) {
        return filters::sum(state, values, attribute.as_deref(), Some(start), Kwargs::from_iter(NO_KWARGS));
    }
    let session = session(state)?;
    let mut text = start.as_str().map(str::to_owned);
    let mut list = Vec::new();
    if text.is_none() {
        list = start.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
    }
    for value in values.try_iter()?.checked() {
        let mut value = value?;
        for name in attribute.iter().flat_map(|path| path.split('.')) {
            value = value.get_attr(name)?;
        }
        session.spend(1).map_err(to_engine_error)?;
        match (&mut text, value.as_str(), value.kind()) {
            (_, _, ValueKind::Undefined) => {}
            (Some(text), Some(more), _) => {
                session.check_size(text.len() + more.len()).map_err(to_engine_error)?;
                session.spend(more.len() as u64 / 32).map_err(to_engine_error)?;
                text.push_str(more);
            }
            (None, _, ValueKind::Seq | ValueKind::Iterable) => {
                for item in value.try_iter()?.checked() {
                    session.spend(1).map_err(to_engine_error)?;
                    list.push(item?);
                }
            }
            (text, _, _) => {
                let expected = if text.is_some() { "texts" } else { "lists" };
                return Err(type_error(
                    format!("`sum` needs {expected} after its start, got {}", describe(&value)),
                    None,
                ));
            }
        }
    }
    Ok(text.map_or_else(|| Inner::from(list), Inner::from))
}

const NO_KWARGS: [(&str, Inner); 0] = [];
