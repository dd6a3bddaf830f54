//! Validation of run paths and event types in requests: an impossible value is an error, not an empty result.

use windlass_core::EventKind;
use windlass_core::plan::{NodeKind, Plan};
use windlass_store::RunRow;
use windlass_syntax::did_you_mean;

use super::extract::printable;
use crate::workers::is_engine_event;
use crate::{ApiProblem, App};

const TYPES_LISTED: &str = "docs/events.md lists the types of the engine; workers may publish others";

/// Rejects a path that cannot exist in the run's plan.
pub(crate) fn check_path(app: &App, row: &RunRow, path: &str) -> Result<(), ApiProblem> {
    let program = app.engine.program(&row.plan)?;
    let path_names = path_names(&program.plan);
    let without_iteration = without_iteration(path);
    let ends_with = |name: &&str| {
        let before = without_iteration.strip_suffix(name);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    if path_names.iter().any(ends_with) {
        return Ok(());
    }
    let last = without_iteration.rsplit('.').next().unwrap_or(without_iteration);
    let problem = ApiProblem::not_found(format!("the run `{}` has no step `{}`", row.run, printable(path)));
    let hint = did_you_mean(last, path_names.iter().copied());
    Err(problem
        .hint(hint.unwrap_or_else(|| format!("GET /api/v1/runs/{}/steps lists the steps that have started", row.run))))
}

/// Returns all names that can occur in paths.
fn path_names(plan: &Plan) -> Vec<&str> {
    let tasks = plan.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Pipeline(pipeline) => Some(pipeline.tasks.iter().map(|task| &*task.label)),
        _ => None,
    });
    let nodes = plan.nodes.iter().filter(|node| !node.hidden).map(|node| &*node.name);
    nodes.chain(tasks.flatten()).filter(|name| !name.is_empty()).collect()
}

/// Strips an iteration: `sync` of `sync[3]`, `sync[]` and `sync.3`.
fn without_iteration(path: &str) -> &str {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let bracket = path.strip_suffix(']').and_then(|inner| inner.rsplit_once('['));
    let dot = path.rsplit_once('.').filter(|(_, number)| !number.is_empty());
    bracket.or(dot).filter(|(_, number)| is_number(number)).map_or(path, |(before, _)| before)
}

/// The event types of a filter.
pub(crate) struct EventTypes(Vec<String>);

impl EventTypes {
    /// Parses one type, or several separated by commas. Rejects a type in the engine's namespace that does not exist.
    pub(crate) fn parse(text: Option<&str>) -> Result<EventTypes, ApiProblem> {
        let values = text.into_iter().flat_map(|words| words.split(',')).map(str::trim);
        let types = EventTypes(values.filter(|word| !word.is_empty()).map(str::to_owned).collect());
        let invalid = types.unknown().find(|kind| is_engine_event(kind));
        invalid.map_or(Ok(()), |kind| Err(unknown_type(kind)))?;
        Ok(types)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, kind: &str) -> bool {
        self.0.iter().any(|own| own == kind)
    }

    fn unknown(&self) -> impl Iterator<Item = &String> {
        self.0.iter().filter(|kind| !EventKind::TYPES.contains(&kind.as_str()))
    }

    /// Checks the types after all events of a run were scanned without a match. Workers may publish their own types, so
    /// an unknown one is rejected only if it resembles a known one, or if there will be no more events.
    pub(crate) fn check_found_none(&self, has_ended: bool) -> Result<(), ApiProblem> {
        let invalid = self.unknown().find(|kind| has_ended || suggestion(kind).is_some());
        invalid.map_or(Ok(()), |kind| Err(unknown_type(kind)))
    }
}

fn suggestion(kind: &str) -> Option<String> {
    did_you_mean(kind, EventKind::TYPES.iter().copied())
}

fn unknown_type(kind: &str) -> ApiProblem {
    let problem = ApiProblem::bad_request(format!("`{}` is not an event type", printable(kind)));
    problem.hint(suggestion(kind).unwrap_or_else(|| TYPES_LISTED.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iteration_is_not_part_of_a_name() {
        let table = [
            ("sync", "sync"),
            ("sync[3]", "sync"),
            ("sync[]", "sync"),
            ("sync.3", "sync"),
            ("sync[3].fetch", "sync[3].fetch"),
            ("v1.2", "v1"),
            ("sync[x]", "sync[x]"),
            ("", ""),
        ];
        for (path, without) in table {
            assert_eq!(without_iteration(path), without, "{path}");
        }
    }
}
