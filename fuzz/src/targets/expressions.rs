//! The expression languages: text to expression to value.

use windlass_value::{ExpressionMode, Language, Meter, MeterCaps, Value, encode, parse_json};

use super::text;
use crate::scope::FuzzScope;

pub(crate) fn wdl(data: &[u8]) {
    evaluate(&windlass_expr::wdl::WdlLanguage, data);
}

pub(crate) fn jinja(data: &[u8]) {
    evaluate(&windlass_expr::jinja::JinjaLanguage, data);
}

pub(crate) fn cel(data: &[u8]) {
    evaluate(&windlass_expr::cel::CelLanguage, data);
}

pub(crate) fn agent(data: &[u8]) {
    evaluate(&windlass_agents::language::AgentLanguage, data);
}

const FUEL: u64 = 20_000;
const MAX_OUTPUT_BYTES: usize = 1 << 16;

/// The size of a value is an estimate: its encoding may be a little larger.
const MAX_ENCODED_BYTES: usize = 4 * MAX_OUTPUT_BYTES;

/// Evaluating twice gives the same, fuel never grows, and a result is not larger than allowed.
fn evaluate(language: &dyn Language, data: &[u8]) {
    let Some((variant, text)) = text(data) else { return };
    let modes =
        [ExpressionMode::Value, ExpressionMode::Condition, ExpressionMode::LoopCondition, ExpressionMode::Guard];
    let mode = modes[usize::from(variant) % modes.len()];
    // Sources are texts, and trees of texts.
    let source = match parse_json(text) {
        Ok(tree @ (Value::Map(_) | Value::List(_))) => tree,
        _ => Value::from(text),
    };
    let Ok(expression) = language.compile(&source, mode) else { return };
    let once = || {
        let caps = MeterCaps { max_cel_cost: 100_000, max_range_items: 10_000, max_xml_nodes: 10_000 };
        let mut meter = Meter::new(FUEL, MAX_OUTPUT_BYTES).with_caps(caps);
        let outcome = expression.eval(&FuzzScope::new(), &mut meter);
        assert!(meter.fuel <= FUEL, "the evaluation gained fuel");
        (outcome.map(|value| encode(&value)).map_err(|error| (error.kind, error.message)), meter.fuel)
    };
    let first = once();
    assert!(first == once(), "the second evaluation differs");
    if let (Ok(bytes), _) = first {
        assert!(bytes.len() <= MAX_ENCODED_BYTES, "a result of {} bytes", bytes.len());
    }
}
