//! Stubs of a mock file for every call of a definition, inferred from how its results are read.

mod loom;
mod noetl;
mod reads;
mod schema_samples;
mod shape;
mod zenflow;

use windlass_core::Limits;
use windlass_dialect::ParsedSource;
use windlass_syntax::{Diagnostics, SourceText, SyntaxNode, to_value};
use windlass_value::{Value, to_json};

use crate::dialects::registry;

/// One rule with a comment about its call.
struct Stub {
    comment: String,
    step: String,
    /// The key of the answer and its value.
    answer: (&'static str, Value),
}

/// Finds the calls of a parsed definition and the shapes of their results.
type Infer = fn(&Value) -> Vec<Stub>;

/// How each dialect's definitions are read.
const INFERENCES: [(&str, Infer); 3] = [("loom", loom::stubs), ("noetl", noetl::stubs), ("zenflow", zenflow::stubs)];

/// Returns the text of a mock file for a definition, which may have problems as long as it can be parsed.
pub(crate) fn for_definition(
    source: &SourceText,
    dialect: Option<&str>,
    limits: &Limits,
) -> Result<String, Diagnostics> {
    let parsed = ParsedSource::new(source, limits);
    let dialect = registry().choose(&parsed, dialect)?.name();
    let tree = tree(&parsed)?;
    let infer = INFERENCES.iter().find(|(name, _)| *name == dialect).map_or(loom::stubs as Infer, |(_, infer)| *infer);
    let stubs = infer(&tree);
    Ok(render(source, &stubs))
}

fn tree(parsed: &ParsedSource<'_>) -> Result<Value, Diagnostics> {
    let mut found = Diagnostics::new();
    let limits = windlass_dialect::parse_limits(parsed.limits);
    let tree: Option<SyntaxNode> = match parsed.looks_like_json() {
        true => windlass_syntax::parse_json(parsed.source, limits, &mut found),
        false => windlass_syntax::parse_yaml(parsed.source, limits, windlass_syntax::ScalarRules::Core, &mut found),
    };
    tree.as_ref().map(to_value).ok_or(found)
}

fn render(source: &SourceText, stubs: &[Stub]) -> String {
    let mut text = format!(
        "# Answers for the calls of {}: edit them.\n# docs/mocks.md has the format. \
         Use: windlass run {0} --static THIS_FILE\n",
        source.name
    );
    if stubs.is_empty() {
        return text + "# The definition makes no calls.\nmocks: []\n";
    }
    text.push_str("mocks:\n");
    for Stub { comment, step, answer: (key, value) } in stubs {
        let one_line: String = comment.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let step = to_json(&Value::from(step.as_str()));
        text.push_str(&format!("  # {one_line}\n  - when: {{step: {step}}}\n    {key}: {}\n", to_json(value)));
    }
    text
}
