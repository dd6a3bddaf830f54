//! Rules of a mock file that name a step which no definition has: their answers are never used, and the step that was
//! meant calls its service.

use std::collections::BTreeSet;

use windlass_core::plan::{NodeKind, Plan};
use windlass_syntax::nearest;
use windlass_testing::mock::MockFile;

/// Adds the names by which rules may name the steps of a definition.
pub(crate) fn add_step_names(plan: &Plan, names: &mut BTreeSet<String>) {
    for node in &plan.nodes {
        // The name of a generated node consists of several parts.
        names.extend(node.name.split('.').map(str::to_owned));
        if let NodeKind::Pipeline(pipeline) = &node.kind {
            names.extend(pipeline.tasks.iter().map(|task| task.label.to_string()));
        }
    }
}

/// Returns a warning about rules that name none of these steps.
pub(crate) fn unknown_steps_warning(file: &MockFile, path: &str, known: &BTreeSet<String>) -> Option<String> {
    let unknown = file.unknown_steps(known);
    let one = |step: &String| match nearest(step, known.iter().map(String::as_str)) {
        Some(near) => format!("`{step}` (did you mean `{near}`?)"),
        None => format!("`{step}`"),
    };
    let names: Vec<String> = unknown.iter().map(one).collect();
    let path = std::path::Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy());
    (!names.is_empty()).then(|| format!("warning: rules of {path} name steps that do not exist: {}", names.join(", ")))
}

/// Returns only the misspelt names: of a file that also answers for definitions which are not known here.
pub(crate) fn misspelt_steps_warning(file: &MockFile, path: &str, known: &BTreeSet<String>) -> Option<String> {
    let is_near = |step: &&String| nearest(step, known.iter().map(String::as_str)).is_some();
    let others = file.unknown_steps(known).iter().filter(|step| !is_near(step)).cloned().collect::<BTreeSet<_>>();
    unknown_steps_warning(file, path, &known.union(&others).cloned().collect())
}
