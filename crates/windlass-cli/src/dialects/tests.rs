use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use windlass_runtime::RunStartOptions;
use windlass_store::{MemoryStore, Store};
use windlass_value::parse_json;

use super::*;
use crate::args::CliArgs;
use crate::project::Project;
use crate::report::EndedRun;
use crate::{host, inputs};

#[test]
fn every_sample_is_found_and_compiles() {
    let settings = CliSettings::default();
    for dialect in registry().iter().filter(|dialect| dialect.has_sources()) {
        let project = Project::read(SourceText::new("sample", dialect.sample()), None, &settings);
        let problems: Vec<_> = project.diagnostics.iter().flat_map(|(source, found)| found.reports(source)).collect();
        assert!(!project.has_errors(), "{}: {problems:?}", dialect.name());
        assert_eq!(&*project.plan().expect("a plan").dialect, dialect.name());
    }
}

/// The registry has one line for the toy dialect; the commands do not know it.
#[test]
fn a_registered_dialect_is_checked_run_and_reported() {
    let settings = CliSettings::default();
    let file = |text: &str| Project::read(SourceText::new("greeting.toy", text), None, &settings);
    let broken = file("toy greeting\nsya hello Hello\n");
    assert!(broken.has_errors());
    let reports = broken.diagnostics[0].1.reports(&broken.diagnostics[0].0);
    assert_eq!((reports[0].line, reports[0].hint.as_deref()), (2, Some("did you mean `say`?")));

    let project = file(toy::ToyDialect.sample());
    let input = parse_json(r#"{"name": "you", "nmae": "me"}"#).expect("JSON");
    let warnings = inputs::unused_input_warnings(project.plan().expect("a plan"), &input);
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("did you mean `name`?"), "{warnings:?}");

    let parsed = CliArgs::try_parse_from(["windlass", "run", "greeting.toy", "--dialect", "toy"]).expect("known");
    let crate::args::CliCommand::Run(args) = parsed.command else { panic!("another command") };
    assert_eq!(args.source.file, PathBuf::from("greeting.toy"));
    let (report, run, program, store) = host::runtime().expect("threads").block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = host::engine(&store, &settings, &args.testing).expect("an engine");
        let (hash, program) = project.add_to(&engine, &settings).expect("kept");
        let mut handle = engine.start(hash, input, RunStartOptions::default()).await.expect("started");
        let run = handle.run.clone();
        (handle.wait().await.expect("ended"), run, program, store)
    });
    let ended = EndedRun::new(&*store, &run, &program.plan, &report).expect("read");
    let shown = ended.to_value();
    assert_eq!(shown.get("dialect").and_then(Value::as_str), Some("toy"));
    assert_eq!(shown.get("output"), Some(&parse_json(r#"{"hello": "Hello, you"}"#).expect("JSON")));
    let summary = ended.summary(&parsed.global, None);
    assert!(summary.contains("outputs\n  hello: Hello, you"), "{summary}");
}
