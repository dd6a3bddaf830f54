//! Detection, names and refusals of a registry, with a dialect that exists only in this test.

mod toy;

use windlass_core::Limits;
use windlass_dialect::{
    CompileContext, CompileProblems, CompiledDefinition, Detection, Dialect, DialectRegistry, ParsedSource,
    RustDialect, UNKNOWN_DIALECT, output_sections,
};
use windlass_syntax::SourceText;
use windlass_value::Value;

use toy::ToyDialect;

/// Detects every text that begins with `toy` as its own.
struct GreedyDialect;

impl Dialect for GreedyDialect {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn describe(&self) -> &'static str {
        "anything"
    }

    fn detect(&self, reading: &ParsedSource<'_>) -> Detection {
        match &*reading.source.text {
            text if text.starts_with("toy") => Detection::Yes,
            text if text.starts_with("to") => Detection::Broken,
            _ => Detection::No,
        }
    }

    fn compile(
        &self,
        reading: &ParsedSource<'_>,
        context: &CompileContext,
    ) -> Result<CompiledDefinition, CompileProblems> {
        ToyDialect.compile(reading, context)
    }

    fn sample(&self) -> &'static str {
        "toy\n"
    }
}

fn detected(registry: &DialectRegistry, text: &str) -> Result<String, String> {
    let (source, limits) = (SourceText::new("file", text), Limits::default());
    let found = registry.detect(&ParsedSource::new(&source, &limits)).map(|dialect| dialect.name().to_owned());
    found.map_err(|found| {
        let problem = found.iter().next().expect("a problem");
        assert_eq!(problem.code, UNKNOWN_DIALECT);
        format!("{} ({})", problem.message, problem.hint.as_deref().unwrap_or_default())
    })
}

#[test]
fn a_source_belongs_to_the_only_dialect_that_detects_it() {
    let registry = DialectRegistry::new().with(ToyDialect).with(RustDialect);
    assert_eq!(detected(&registry, ToyDialect.sample()).as_deref(), Ok("toy"));
    let unknown = detected(&registry, "hello").expect_err("no dialect");
    assert!(unknown.contains("toy: lines, of which") && unknown.contains("--dialect"), "{unknown}");
    assert!(!unknown.contains("rust"), "code has no sources: {unknown}");
    let both = registry.with(GreedyDialect);
    let tie = detected(&both, ToyDialect.sample()).expect_err("a tie");
    assert!(tie.contains("several dialects: `greedy`, `toy`") && tie.contains("--dialect toy"), "{tie}");
    assert_eq!(detected(&both, "to be broken").as_deref(), Ok("greedy"));
}

#[test]
fn a_named_dialect_skips_detection() {
    let registry = DialectRegistry::new().with(ToyDialect).with(GreedyDialect).with(RustDialect);
    let source = SourceText::new("file", ToyDialect.sample());
    let compiled = registry.compile(&source, Some("greedy"), &CompileContext::default()).expect("a plan");
    assert_eq!((&*compiled.plan.dialect, &*compiled.plan.name), ("toy", "greeting"));
    for (name, hint) in [("tyo", "did you mean `toy`?"), ("rust", "`greedy`, `toy`")] {
        let problems = registry.compile(&source, Some(name), &CompileContext::default()).expect_err(name);
        let problem = problems.own.iter().next().expect("a problem");
        assert!(problem.hint.as_deref().is_some_and(|given| given.contains(hint)), "{problem:?}");
    }
    assert_eq!(registry.names(), ["greedy", "toy"]);
    assert_eq!(registry.get_or_rust("from elsewhere").name(), RustDialect::NAME);
}

#[test]
fn a_minimal_dialect_needs_few_methods() {
    let registry = DialectRegistry::new().with(ToyDialect);
    let text = "toy t\ninput name = x\nsya hello Hello\n";
    let problems =
        registry.compile(&SourceText::new("file", text), None, &CompileContext::default()).expect_err("a slip");
    let problem = problems.own.iter().next().expect("a problem");
    assert_eq!((problem.span.start, problem.hint.as_deref()), (21, Some("did you mean `say`?")));
    let plan = registry
        .compile(&SourceText::new("file", ToyDialect.sample()), None, &CompileContext::default())
        .expect("a plan")
        .plan;
    let unused = ToyDialect.check_input(&plan, &Value::object([("nmae", Value::from("you"))]));
    assert_eq!(unused[0].hint, "did you mean `name`?");
    assert!(ToyDialect.check_input(&plan, &Value::object([("name", Value::from("you"))])).is_empty());
    let output = Value::object([("hello", Value::from("Hello"))]);
    assert_eq!(ToyDialect.report(&plan, &output), output_sections(&plan, &output));
    assert_eq!(registry.languages().iter().map(|language| language.name()).collect::<Vec<_>>(), ["toy"]);
}
