//! Detection, names and refusals of a registry, with a dialect that exists in this test alone.

mod toy;

use windlass_core::Limits;
use windlass_dialect::{
    Compiled, Context, Detection, Dialect, Problems, Reading, Registry, RustCode, UNKNOWN_DIALECT, output_sections,
};
use windlass_syntax::Source;
use windlass_value::Value;

use toy::Toy;

/// Takes every text that begins with `toy` for its own.
struct Greedy;

impl Dialect for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn describe(&self) -> &'static str {
        "anything"
    }

    fn detect(&self, reading: &Reading<'_>) -> Detection {
        match &*reading.source.text {
            text if text.starts_with("toy") => Detection::Yes,
            text if text.starts_with("to") => Detection::Broken,
            _ => Detection::No,
        }
    }

    fn compile(&self, reading: &Reading<'_>, context: &Context) -> Result<Compiled, Problems> {
        Toy.compile(reading, context)
    }

    fn sample(&self) -> &'static str {
        "toy\n"
    }
}

fn detected(registry: &Registry, text: &str) -> Result<String, String> {
    let (source, limits) = (Source::new("file", text), Limits::default());
    let found = registry.detect(&Reading::new(&source, &limits)).map(|dialect| dialect.name().to_owned());
    found.map_err(|found| {
        let problem = found.iter().next().expect("a problem");
        assert_eq!(problem.code, UNKNOWN_DIALECT);
        format!("{} ({})", problem.message, problem.hint.as_deref().unwrap_or_default())
    })
}

#[test]
fn a_source_is_of_the_only_dialect_that_takes_it() {
    let registry = Registry::new().with(Toy).with(RustCode);
    assert_eq!(detected(&registry, Toy.sample()).as_deref(), Ok("toy"));
    let unknown = detected(&registry, "hello").expect_err("no dialect");
    assert!(unknown.contains("toy: lines, of which") && unknown.contains("--dialect"), "{unknown}");
    assert!(!unknown.contains("rust"), "code has no sources: {unknown}");
    let both = registry.with(Greedy);
    let tie = detected(&both, Toy.sample()).expect_err("a tie");
    assert!(tie.contains("several dialects: `greedy`, `toy`") && tie.contains("--dialect toy"), "{tie}");
    assert_eq!(detected(&both, "to be broken").as_deref(), Ok("greedy"));
}

#[test]
fn a_named_dialect_is_not_detected() {
    let registry = Registry::new().with(Toy).with(Greedy).with(RustCode);
    let source = Source::new("file", Toy.sample());
    let compiled = registry.compile(&source, Some("greedy"), &Context::default()).expect("a plan");
    assert_eq!((&*compiled.plan.dialect, &*compiled.plan.name), ("toy", "greeting"));
    for (name, hint) in [("tyo", "did you mean `toy`?"), ("rust", "`greedy`, `toy`")] {
        let problems = registry.compile(&source, Some(name), &Context::default()).expect_err(name);
        let problem = problems.own.iter().next().expect("a problem");
        assert!(problem.hint.as_deref().is_some_and(|given| given.contains(hint)), "{problem:?}");
    }
    assert_eq!(registry.names(), ["greedy", "toy"]);
    assert_eq!(registry.named("from elsewhere").name(), RustCode::NAME);
}

#[test]
fn a_dialect_needs_to_say_little() {
    let registry = Registry::new().with(Toy);
    let text = "toy t\ninput name = x\nsya hello Hello\n";
    let problems = registry.compile(&Source::new("file", text), None, &Context::default()).expect_err("a slip");
    let problem = problems.own.iter().next().expect("a problem");
    assert_eq!((problem.span.start, problem.hint.as_deref()), (21, Some("did you mean `say`?")));
    let plan = registry.compile(&Source::new("file", Toy.sample()), None, &Context::default()).expect("a plan").plan;
    let unused = Toy.check_input(&plan, &Value::object([("nmae", Value::from("you"))]));
    assert_eq!(unused[0].hint, "did you mean `name`?");
    assert!(Toy.check_input(&plan, &Value::object([("name", Value::from("you"))])).is_empty());
    let output = Value::object([("hello", Value::from("Hello"))]);
    assert_eq!(Toy.report(&plan, &output), output_sections(&plan, &output));
    assert_eq!(registry.languages().iter().map(|language| language.name()).collect::<Vec<_>>(), ["toy"]);
}
