//! The result of a finished run as people read it. How it is drawn is decided by whoever shows it.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_value::Value;

/// Entries that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportSection {
    /// None: the entries stand alone.
    pub heading: Option<&'static str>,
    pub entries: Vec<ReportEntry>,
}

/// A value by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportEntry {
    pub name: String,
    pub value: Value,
    pub detail: ReportDetail,
}

/// How much of a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportDetail {
    /// Its beginning, on one line.
    OneLine,
    /// All of it.
    Full,
    /// All of it, and a text with its lines.
    FullText,
}

impl ReportSection {
    /// An entry that stands alone.
    pub fn single(name: impl Into<String>, value: impl Into<Value>, detail: ReportDetail) -> ReportSection {
        let entry = ReportEntry { name: name.into(), value: value.into(), detail };
        ReportSection { heading: None, entries: vec![entry] }
    }
}

/// The output of most dialects: outputs that the definition asks for are shown whole, and those that every step happens to
/// give at a glance.
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
