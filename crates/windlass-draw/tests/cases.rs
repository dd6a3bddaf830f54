//! Each case is a file. `cases/plans/NAME.loom.json`, `.noetl.yaml` or `.steps.json` is drawn as its plan.
//! `cases/runs/NAME.jsonl` is a run: its first line names a definition and, optionally, `max_nodes` and `as_of`; each
//! further line is an event as `windlass events --json` prints it, or `{"missing": [from, to]}`. The expected
//! drawings are next to the case in every format. `UPDATE=1 cargo test` writes the actual output; then review the
//! difference.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value as Json;
use support::{DEFINITIONS, check, event_of, files, folder, plan_of};
use windlass_draw::{Drawing, DrawingFormat, RunDrawing};
use windlass_value::Timestamp;

fn compare(path: &Path, drawing: &Drawing, failures: &mut Vec<String>) {
    let file = path.file_name().unwrap().to_string_lossy();
    let name = file.split('.').next().unwrap();
    for format in DrawingFormat::ALL {
        let ending = if format == DrawingFormat::Mermaid { "mmd" } else { format.as_str() };
        let expected_file = path.with_file_name(format!("{name}.drawn.{ending}"));
        check(&expected_file, &drawing.write(format), failures);
    }
}

#[test]
fn plans_are_drawn() {
    let mut failures = Vec::new();
    for path in files("plans", &DEFINITIONS) {
        compare(&path, &windlass_draw::plan(&plan_of(&path)), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn runs_are_drawn() {
    let mut failures = Vec::new();
    for path in files("runs", &[".jsonl"]) {
        let text = fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        let head: Json = serde_json::from_str(lines.next().unwrap()).unwrap();
        let plan = plan_of(&folder("plans").join(head["definition"].as_str().unwrap()));
        let mut drawing = RunDrawing::new(&plan);
        if let Some(name) = head["run"].as_str() {
            drawing = drawing.with_run_name(name);
        }
        if let Some(max_nodes) = head["max_nodes"].as_u64() {
            drawing = drawing.with_max_nodes(max_nodes as usize);
        }
        if let Some(now) = head["as_of"].as_str() {
            drawing = drawing.as_of(Timestamp::parse_rfc3339(now).unwrap());
        }
        for line in lines {
            let json: Json = serde_json::from_str(line).unwrap();
            match json["missing"].as_array() {
                Some(range) => drawing.missing(range[0].as_u64().unwrap(), range[1].as_u64().unwrap()),
                None => drawing.event(&event_of(line)),
            }
        }
        compare(&path, &drawing.finish(), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
