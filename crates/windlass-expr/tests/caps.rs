//! Caps of a meter: a value that one cap allows is rejected with a smaller cap, and the error names the limit.

use windlass_expr::cel::{CelLanguage, source};
use windlass_expr::wdl::WdlLanguage;
use windlass_value::{EvalErrorKind, ExpressionMode, Language, Meter, MeterCaps, Value};

use crate::common::MockScope;

fn cel(text: &str) -> Value {
    source(text, [], None, [])
}

/// One line per cap.
#[test]
fn a_cap_rejects_larger_values() {
    let xml = format!("@xml('<a>{}</a>')", "<b/>".repeat(200));
    let table: [(&dyn Language, Value, MeterCaps, &str); 3] = [
        (
            &CelLanguage,
            cel("[1, 2, 3].all(x, x > 0)"),
            MeterCaps { max_cel_cost: 2, ..MeterCaps::default() },
            "max_cel_cost",
        ),
        (
            &WdlLanguage,
            "@range(0, 200)".into(),
            MeterCaps { max_range_items: 150, ..MeterCaps::default() },
            "max_range_items",
        ),
        (&WdlLanguage, xml.as_str().into(), MeterCaps { max_xml_nodes: 150, ..MeterCaps::default() }, "max_xml_nodes"),
    ];
    for (language, source, caps, name) in table {
        let expression =
            language.compile(&source, ExpressionMode::Value).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        let meter = || Meter::new(10_000, 10_000);
        expression.eval(&MockScope::new(), &mut meter()).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let error = expression.eval(&MockScope::new(), &mut meter().with_caps(caps)).expect_err(name);
        let hint = error.hint.unwrap_or_default();
        assert_eq!((error.kind, hint.contains(&format!("`limits.{name}`"))), (EvalErrorKind::Limit, true), "{hint}");
    }
}
