//! Malicious or broken files: each is rejected or accepted quickly, and nothing panics.

use std::fmt::Write as _;

use windlass_syntax::{Colour, SourceText};
use windlass_testing::cases::{Cases, assert_well_formed};
use windlass_zenflow::{ZenflowOptions, compile, looks_like_workflow};

fn diagnostics(source: &SourceText, options: &ZenflowOptions) -> String {
    let own = match compile(source, options) {
        Ok(compiled) => {
            assert_well_formed(&compiled.plan);
            compiled.warnings
        }
        Err(problems) => {
            assert!(problems.own.has_errors());
            problems.own
        }
    };
    for problem in own.iter() {
        assert!(source.text.get(problem.span.start..problem.span.end).is_some(), "{problem:?}");
    }
    own.render(source, Colour::Never)
}

fn assert_refused(name: &str, text: String) -> String {
    let source = SourceText::new(name, text);
    let options = ZenflowOptions { tools: vec!["read".to_owned()], ..ZenflowOptions::default() };
    let rendered = diagnostics(&source, &options);
    assert!(rendered.contains("error["), "{name} is accepted");
    rendered
}

fn list(count: usize, mut item: impl FnMut(usize) -> String) -> String {
    (0..count).map(|number| item(number) + "\n").collect()
}

#[test]
fn oversized_documents_are_refused_quickly() {
    let many = 20_000;
    let step = "steps:\n  - {id: a, instructions: Work.}\n";
    assert_refused(
        "steps.yaml",
        format!("name: a\nsteps:\n{}", list(many, |at| format!("  - {{id: s{at}, dependsOn: [s{}]}}", at + 1))),
    );
    assert_refused("same.yaml", format!("name: a\nsteps:\n{}", list(many, |_| "  - {id: a, agent: b}".to_owned())));
    assert_refused("agents.yaml", format!("name: a\nagents:\n{}{step}", list(many, |at| format!("  a{at}: {{}}"))));
    assert_refused("keys.yaml", format!("name: a\n{step}{}", list(many, |at| format!("k{at}: 1"))));
    assert_refused("same_keys.yaml", format!("name: a\n{step}{}", list(many, |_| "name: b".to_owned())));
    let waits: Vec<String> = (0..many).map(|at| format!("d{at}")).collect();
    assert_refused(
        "waits.yaml",
        format!("name: a\nsteps:\n  - {{id: a, instructions: Work., dependsOn: [{}]}}\n", waits.join(", ")),
    );
    let tools = list(many, |at| format!("      - tool-{at}"));
    assert_refused("tools.yaml", format!("name: a\nagents:\n  a:\n    description: b\n    tools:\n{tools}{step}"));
    let inner = |at: usize| list(100, |inner| format!("        - {{id: i{inner}, dependsOn: [x{at}], agent: y}}"));
    let loops =
        list(100, |at| format!("  - id: l{at}\n    loop:\n      maxIterations: 1\n      steps:\n{}", inner(at)));
    assert_refused("loops.yaml", format!("name: a\nsteps:\n{loops}"));
    let includes = list(many, |at| format!("  i{at}: ../x{at}.yaml"));
    assert_refused("includes.yaml", format!("name: a\nincludes:\n{includes}{step}"));
}

#[test]
fn oversized_expressions_are_refused_quickly() {
    for condition in [
        "(".repeat(100_000),
        "!".repeat(100_000) + "true",
        "a.".repeat(100_000) + "b",
        "[".repeat(50_000) + &"]".repeat(50_000),
        "steps.".repeat(50_000),
        "'".repeat(99_999),
    ] {
        assert_refused(
            "cel.yaml",
            format!("name: a\nsteps:\n  - id: a\n    instructions: Work.\n    condition: \"{condition}\"\n"),
        );
    }
    // A long but valid expression is accepted.
    let long = vec!["true"; 200].join(" && ");
    let source = SourceText::new(
        "cel.yaml",
        format!("name: a\nsteps:\n  - id: a\n    instructions: Work.\n    condition: {long}\n"),
    );
    assert_eq!(diagnostics(&source, &ZenflowOptions::default()), "");
}

#[test]
fn deep_and_large_schemas_are_handled() {
    let mut schema = "{type: object}".to_owned();
    for _ in 0..20 {
        schema = format!("{{type: object, properties: {{a: {schema}}}}}");
    }
    let flow = |schema: &str| {
        format!(
            "name: a\nagents:\n  a:\n    description: b\n    resultSchema: {schema}\nsteps:\n  - {{id: a, instructions: Work.}}\n"
        )
    };
    assert_eq!(diagnostics(&SourceText::new("a.yaml", flow(&schema)), &ZenflowOptions::default()), "");
    let around = "{$ref: '#/$defs/a', $defs: {a: {$ref: '#/$defs/b'}, b: {$ref: '#/$defs/a'}}}";
    diagnostics(&SourceText::new("a.yaml", flow(around)), &ZenflowOptions::default());
    let mut wide = "{type: object, properties: {".to_owned();
    for at in 0..5_000 {
        let _ = write!(wide, "p{at}: {{type: nothing}}, ");
    }
    assert_refused("wide.yaml", flow(&(wide + "}}")));
}

struct Generator(u64);

impl Generator {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below.max(1)
    }
}

/// Mutates cases by removing, inserting and duplicating pieces.
#[test]
fn nothing_panics_on_any_text() {
    let parts = [
        "\n",
        " ",
        "  - ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "&a ",
        "*a",
        "<<: *a\n",
        "null",
        "-1",
        "1e999",
        "@",
        "{{x}}",
        "steps",
        "loop:\n",
        "id: a\n",
        "forEach",
        "include: a",
        "\u{202e}",
        "\u{feff}",
        "\t",
        "|\n",
        "#",
        "---\n",
        "dependsOn: [a]",
        "condition: steps.a-b.x",
        "x-windlass: {budget: {money: 1}}",
        "resultSchema: {type: 3}",
        "\r\n",
        "é",
    ];
    let cases = Cases::in_crate(env!("CARGO_MANIFEST_DIR"));
    let sources: Vec<SourceText> = ["good", "bad"]
        .iter()
        .flat_map(|folder| cases.load(folder))
        .map(|(_, source)| source)
        .filter(|source| source.text.len() < 3_000)
        .collect();
    let options = ZenflowOptions { strict_files: false, tools: vec!["read".to_owned()], ..ZenflowOptions::default() };
    let mut generator = Generator(7);
    let mut read_anyway = 0;
    for round in 0..3_200 {
        let source = &sources[round % sources.len()];
        let mut text: Vec<char> = source.text.chars().collect();
        for _ in 0..1 + generator.next(4) {
            let at = generator.next(text.len() + 1);
            match generator.next(4) {
                0 => drop(text.drain(at..(at + generator.next(12)).min(text.len()))),
                1 => {
                    let piece: Vec<char> = text[at..(at + generator.next(60)).min(text.len())].to_vec();
                    let to = generator.next(text.len() + 1);
                    drop(text.splice(to..to, piece));
                }
                _ => drop(text.splice(at..at, parts[generator.next(parts.len())].chars())),
            }
        }
        let changed = SourceText::new(source.name.clone(), text.into_iter().collect::<String>());
        let first = diagnostics(&changed, &options);
        assert_eq!(first, diagnostics(&changed, &options));
        read_anyway += usize::from(looks_like_workflow(&changed, &options.limits));
    }
    assert!(read_anyway > 500, "{read_anyway}");
}
