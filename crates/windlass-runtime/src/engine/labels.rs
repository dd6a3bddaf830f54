//! Labels of a run: those that the caller gives, those that the definition computes from the input, and those that a
//! child run inherits.

use windlass_core::{
    AdmissionError, Limits, Program, definition_labels, label_name_problem, label_text, label_value_problem,
};
use windlass_store::{RunLabels, Store};
use windlass_value::{RunView, Value};

use crate::{BlobCache, RuntimeError, recovery};

/// The start of a run, as far as its labels depend on it.
pub(super) struct LabelSources<'s> {
    pub program: &'s Program,
    /// The run as its expressions see it when it starts, without its parameters.
    pub run: &'s RunView,
    pub seed: u64,
    /// The labels that the caller gives. They replace those of the definition.
    pub given: &'s RunLabels,
    /// The labels of the parent run. Those of the run itself replace them.
    pub inherited: &'s RunLabels,
}

impl LabelSources<'_> {
    /// Returns the labels of the run, or the problem with the first that is invalid.
    ///
    /// Labels of the parent that do not fit into the limit are left out, in the order of their names: a child must not
    /// fail because of them.
    pub(super) fn labels(&self, store: &dyn Store) -> Result<RunLabels, RuntimeError> {
        let limits = &self.program.limits;
        let mut labels = self.computed(store)?;
        labels.extend(self.given.iter().map(|(name, value)| (name.clone(), value.clone())));
        check(&labels, limits)?;
        let free = limits.max_run_labels - labels.len();
        let inherited: Vec<_> = self.inherited.iter().filter(|(name, _)| !labels.contains_key(*name)).collect();
        labels.extend(inherited.into_iter().take(free).map(|(name, value)| (name.clone(), value.clone())));
        Ok(labels)
    }

    fn computed(&self, store: &dyn Store) -> Result<RunLabels, RuntimeError> {
        let mut values = BlobCache::default();
        let labels = loop {
            match definition_labels(self.program, self.run, self.seed, &mut values) {
                Ok(labels) => break labels,
                Err(AdmissionError::Rejected(error)) => {
                    return Err(RuntimeError::Input(format!("the labels cannot be computed: {}", error.message)));
                }
                Err(AdmissionError::NeedBlobs(hashes)) => recovery::fetch_blobs(store, &hashes, &mut values)?,
            }
        };
        let text = |(name, value): (std::sync::Arc<str>, Value)| match label_text(&value) {
            Some(text) => Ok((name.to_string(), text)),
            None => {
                Err(RuntimeError::Input(format!("the label `{name}` must be a text or a number, not {}", value.kind())))
            }
        };
        labels.into_iter().map(text).collect()
    }
}

fn check(labels: &RunLabels, limits: &Limits) -> Result<(), RuntimeError> {
    let problem = |(name, value): (&String, &String)| {
        label_name_problem(name, limits).or_else(|| label_value_problem(name, value, limits))
    };
    if let Some(problem) = labels.iter().find_map(problem) {
        return Err(RuntimeError::Input(problem));
    }
    let max = limits.max_run_labels;
    match labels.len() > max {
        true => Err(RuntimeError::Input(format!("a run has at most {max} labels (`max_run_labels`)"))),
        false => Ok(()),
    }
}
