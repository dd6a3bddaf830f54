//! Templates in SQL.

use windlass_expr::jinja::{JinjaLanguage, NameQuote, split_sql};
use windlass_value::{ExpressionMode, Language, Value};

use super::text;

/// No template stays in the text of a statement, unless it is marked as raw; what becomes a parameter compiles; splitting
/// is deterministic.
pub(crate) fn sql(data: &[u8]) {
    let Some((variant, text)) = text(data) else { return };
    let quote = if variant % 2 == 0 { NameQuote::Double } else { NameQuote::Backtick };
    let rendered = |found: &Result<Vec<_>, Vec<_>>| format!("{found:?}");
    let first = split_sql(text, quote);
    assert_eq!(rendered(&first), rendered(&split_sql(text, quote)));
    match first {
        Ok(statements) => {
            for statement in &statements {
                if statement.raw.is_empty() {
                    assert!(!statement.sql.contains("{{"), "a template stays in {:?}", statement.sql);
                }
                for param in &statement.params {
                    let template = Value::from(param.template.as_str());
                    let compiled = JinjaLanguage.compile(&template, ExpressionMode::Value);
                    assert!(compiled.is_ok(), "the parameter {:?} of {text:?} does not compile", param.template);
                }
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "{text:?} is refused without a reason");
            for error in errors {
                assert!(text.get(error.range.clone()).is_some(), "{:?} is no part of {text:?}", error.range);
            }
        }
    }
}
