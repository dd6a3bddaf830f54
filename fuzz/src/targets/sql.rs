//! Templates in SQL.

use windlass_expr::jinja::{JinjaLanguage, NameQuote, split_sql};
use windlass_value::{ExpressionMode, Language, Meter, Value};

use super::text;
use crate::scope::FuzzScope;

const FUEL: u64 = 20_000;
const MAX_OUTPUT_BYTES: usize = 1 << 16;

/// The text of a statement depends on no variable, unless a part is marked as raw or is a checked name; what becomes a
/// parameter compiles; splitting is deterministic.
pub(crate) fn sql(data: &[u8]) {
    let Some((variant, text)) = text(data) else { return };
    let quote = if variant % 2 == 0 { NameQuote::Double } else { NameQuote::Backtick };
    let rendered = |found: &Result<Vec<_>, Vec<_>>| format!("{found:?}");
    let first = split_sql(text, quote);
    assert_eq!(rendered(&first), rendered(&split_sql(text, quote)));
    match first {
        Ok(statements) => {
            for statement in &statements {
                let compile = |text: &str| JinjaLanguage.compile(&Value::from(text), ExpressionMode::Value);
                for (index, param) in statement.params.iter().enumerate() {
                    let place = format!("${}", index + 1);
                    assert!(statement.sql.contains(&place), "{place} is not in {:?}", statement.sql);
                    assert!(compile(&param.template).is_ok(), "{:?} of {text:?} does not compile", param.template);
                }
                let Ok(sql) = compile(&statement.sql) else { panic!("{:?} does not compile", statement.sql) };
                if statement.raw.is_empty() && statement.names.is_empty() {
                    let in_scope = sql.eval(&FuzzScope::new(), &mut Meter::new(FUEL, MAX_OUTPUT_BYTES));
                    let without = sql.eval(&FuzzScope::empty(), &mut Meter::new(FUEL, MAX_OUTPUT_BYTES));
                    assert_eq!(in_scope, without, "{:?} depends on a variable", statement.sql);
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
