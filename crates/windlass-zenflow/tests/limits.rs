//! Checks that every limit of workflows has an effect, as a problem or in the plan. Each case is a line.

use std::sync::Arc;

use windlass_core::Limits;
use windlass_syntax::{Colour, SourceText};
use windlass_value::Duration;
use windlass_zenflow::{CoordinatorMode, DiskFiles, ZenflowOptions, compile};

/// Returns the plan, or the problems.
fn compile_with(text: &str, limits: Limits, folder: &std::path::Path) -> String {
    let options = ZenflowOptions {
        limits,
        folder: Some(folder.to_owned()),
        files: Arc::new(DiskFiles),
        tools: vec!["read".to_owned()],
        default_model: Some("small".to_owned()),
        coordinator: CoordinatorMode::On,
        ..ZenflowOptions::default()
    };
    let source = SourceText::new(folder.join("w.yaml").display().to_string(), text);
    match compile(&source, &options) {
        Ok(compiled) => format!("{:?}", compiled.plan),
        Err(problems) => problems.own.render(&source, Colour::Never),
    }
}

#[test]
fn every_limit_has_an_effect() {
    let folder = std::env::temp_dir().join(format!("windlass-zenflow-limits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("text.md"), "Work on it.").unwrap();
    std::fs::write(folder.join("other.md"), "@text.md").unwrap();
    let plain =
        "name: w\nsteps:\n  - {id: a, instructions: Do it.}\n  - {id: b, dependsOn: [a], instructions: And that.}\n";
    let from_file = "name: w\nsteps:\n  - {id: a, instructions: '@other.md'}\n";
    let with_file = "name: w\nsteps:\n  - {id: a, instructions: Do it., contextFiles: [text.md]}\n";
    let budget = "name: w\nsteps:\n  - {id: a, instructions: Do it., x-windlass: {budget: {tokens: 90000}}}\n";
    type Change = fn(&mut Limits);
    let table: [(Change, &str, &str); 19] = [
        (|l| l.max_description_chars = 4, plain, "`limits.max_description_chars`"),
        (|l| l.max_text_file_bytes = 4, from_file, "`limits.max_text_file_bytes`"),
        (|l| l.max_text_file_depth = 1, from_file, "`limits.max_text_file_depth`"),
        (|l| l.max_context_file_bytes = 4, with_file, "`limits.max_context_file_bytes`"),
        (|l| l.max_prompt_bytes = 777_001, plain, "777001"),
        (|l| l.max_prompt_dependency_bytes = 777_002, plain, "777002"),
        (|l| l.max_whole_prompt_bytes = 777_003, plain, "777003"),
        (|l| l.default_agent_turns = 777_004, plain, "777004"),
        (|l| l.default_result_attempts = 777_014, plain, "777014"),
        (|l| l.default_repeated_calls = 777_015, plain, "777015"),
        (|l| l.max_agent_wakes = 777_005, plain, "wakes: 777005"),
        (|l| l.default_reply_tokens = 777_006, budget, "777006"),
        (|l| l.min_reply_tokens = 777_013, budget, "777013"),
        (|l| l.max_coordinator_wakes = 777_007, plain, "wakes: 777007"),
        (|l| l.max_coordinator_turns = 777_008, plain, "777008"),
        (|l| l.max_coordinator_time = Duration(777_009), plain, "777009"),
        (|l| l.max_coordinator_end_time = Duration(777_010), plain, "777010"),
        (|l| l.max_coordinator_hold = Duration(777_012), plain, "777012"),
        (|l| l.max_coordinator_hold = Duration(777_012), plain, "129502"),
    ];
    for (change, text, expected) in table {
        let mut limits = Limits::default();
        change(&mut limits);
        let (now, before) = (compile_with(text, limits, &folder), compile_with(text, Limits::default(), &folder));
        assert!(now.contains(expected), "{expected}: {now}");
        assert!(!before.contains(expected), "{expected}: {before}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
