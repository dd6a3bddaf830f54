//! The result of a finished run for people. The caller decides on the layout.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_value::Value;

/// Entries that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportSection {
    /// `None`: the entries have no heading.
    pub heading: Option<&'static str>,
    /// The values, in the order in which they are shown.
    pub entries: Vec<ReportEntry>,
}

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportEntry {
    /// The label of the value.
    pub name: String,
    /// The value itself; the caller shortens it as `detail` says.
    pub value: Value,
    /// The part of the value that is shown.
    pub detail: ReportDetail,
}

/// The amount of detail in which a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportDetail {
    /// The beginning of the value, on one line.
    OneLine,
    /// The complete value.
    Full,
    /// The complete value; a text keeps its lines.
    FullText,
}

impl ReportSection {
    /// Creates a section of one entry without a heading.
    pub fn single(name: impl Into<String>, value: impl Into<Value>, detail: ReportDetail) -> ReportSection {
        let entry = ReportEntry { name: name.into(), value: value.into(), detail };
        ReportSection { heading: None, entries: vec![entry] }
    }
}

/// Presents the output of most dialects: outputs that the definition declares are shown in full, implicit outputs
/// of steps on one line.
pub fn output_sections(plan: &Plan, output: &Value) -> Vec<ReportSection> {
    let detail = if plan.outputs.is_some() { ReportDetail::Full } else { ReportDetail::OneLine };
    match output {
        Value::Null => Vec::new(),
        Value::Map(map) if map.is_empty() => Vec::new(),
        Value::Map(map) => {
            let entry = |(name, value): (&Arc<str>, &Value)| ReportEntry {
                name: name.to_string(),
                value: value.clone(),
                detail,
            };
            vec![ReportSection { heading: Some("outputs"), entries: map.iter().map(entry).collect() }]
        }
        other => vec![ReportSection::single("output", other.clone(), detail)],
    }
}
