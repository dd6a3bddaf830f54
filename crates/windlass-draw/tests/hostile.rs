//! Names come from definitions, and definitions are untrusted. A drawing with hostile names has the same structure
//! as with plain names: no more lines, no more elements, and the names as text.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use support::{event_of, steps};
use windlass_core::plan::Plan;
use windlass_draw::{Drawing, DrawingFormat, RunDrawing};

/// Each line is a case.
const NAMES: &[&str] = &[
    "plain",
    "",
    " ",
    "a\"]; click n1 href \"javascript:alert(1)\"",
    "a\"] --> n2[\"b",
    "]) }} |x| ((y))",
    "<script>alert(1)</script>",
    "</text></svg><script>alert(1)</script>",
    "]]><!--",
    "&lt;b&gt; &amp; &#34; #quot; #lt;",
    "two\nlines\r\nand\tmore",
    "\n  end\n  subgraph evil",
    "%%{init: {\"securityLevel\": \"loose\"}}%%",
    "%% comment",
    "`**markdown**`",
    "$$\\frac{1}{0}$$",
    "back\\slash\\",
    "\\n \\N \\G \\\"",
    "\"; } digraph x { a -> b; //",
    "<b>html</b>=label",
    "\u{0}\u{1}\u{1b}[31mred\u{7f}\u{85}",
    "\u{202e}desrever\u{2028}\u{2066}",
    "\u{fffe}\u{ffff}\u{feff}",
    "ünïcödé 😀 漢字 é",
    "end",
    "class default fill:#f00",
    "x:::failed",
    "javascript:alert(1)",
    "' onload='alert(1)",
    "{{ 7 * 7 }} ${x}",
    "a[3].b[0]",
    "n1",
    "@2",
];

fn workflow(name: &str) -> Plan {
    steps(&json!({
        "name": name, "start": name, "stop": format!("{name}!"),
        "events": {
            (name): { "kind": "start", "version": 2 },
            (format!("{name}!")): { "kind": "stop" },
            (format!("{name}?")): { "kind": "input_required" },
            (format!("{name}.")): { "kind": "human_response" },
        },
        "steps": [
            { "name": name, "accepts": [name], "produces": [format!("{name}?")], "handler": [1, 2], "attempts": 3 },
            { "name": format!("{name}2"), "accepts": [format!("{name}.")], "produces": [format!("{name}!")],
              "join": "collect", "needs": [format!("{name}.")], "key": name },
        ],
    }))
}

fn draw_run(name: &str, plan: &Plan) -> Drawing {
    let at = "2026-11-16T05:00:00Z";
    let events = [
        json!({ "seq": 1, "at": at, "type": "workflow.started", "path": "" }),
        json!({ "seq": 2, "at": at, "type": "step.started", "path": name, "token": name, "firing": 0, "from": [] }),
        json!({ "seq": 3, "at": at, "type": "step.failed", "path": name, "firing": 0, "status": "failed", "error": { "code": name } }),
        json!({ "seq": 4, "at": at, "type": "step.started", "path": format!("{name}2"), "token": format!("{name}."), "firing": 1, "from": [0] }),
        json!({ "seq": 5, "at": at, "type": "event.unhandled", "path": "", "event": name }),
        json!({ "seq": 6, "at": at, "type": "workflow.idle", "path": "", "waits": [name] }),
        json!({ "seq": 7, "at": at, "type": name, "path": name, "data": name }),
    ];
    let mut drawing = RunDrawing::new(plan).with_run_name(name);
    events.iter().for_each(|event| drawing.event(&event_of(&event.to_string())));
    drawing.finish()
}

/// Returns both drawings of every name.
fn drawings() -> Vec<(&'static str, [Drawing; 2])> {
    let both = |name: &'static str| {
        let plan = workflow(name);
        (name, [windlass_draw::plan(&plan), draw_run(name, &plan)])
    };
    NAMES.iter().copied().map(both).collect()
}

/// Returns the text without quoted parts, each replaced by `""`.
fn unquoted(text: &str, escapes: bool) -> String {
    let (mut out, mut inside, mut letters) = (String::new(), false, text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if inside && escapes => drop(letters.next()),
            '"' => {
                inside = !inside;
                out.push('"');
            }
            '\n' => {
                assert!(!inside, "a line ends within quotes: {text}");
                out.push('\n');
            }
            _ if !inside => out.push(letter),
            _ => {}
        }
    }
    assert!(!inside, "a quote is open at the end: {text}");
    out
}

/// Asserts that the text without quoted labels is the same for every name. `tidy` removes differences that are allowed:
/// an arrow may have a label or none, and a box one line more.
fn assert_same_skeleton(format: DrawingFormat, escapes: bool, tidy: impl Fn(&str) -> String) {
    let all = drawings();
    let skeleton = |drawing: &Drawing| tidy(&unquoted(&drawing.write(format), escapes));
    let [plan, run] = &all[0].1;
    let expected = [skeleton(plan), skeleton(run)];
    for (name, drawn) in &all {
        for (drawing, expected) in drawn.iter().zip(&expected) {
            assert_eq!(&skeleton(drawing), expected, "the name {name:?} shows through");
        }
    }
}

#[test]
fn hostile_names_do_not_change_mermaid() {
    // A token that is named after its step has no label.
    assert_same_skeleton(DrawingFormat::Mermaid, false, |text| text.replace("|\"\"|", ""));
    for (name, drawn) in drawings() {
        let text = drawn.map(|drawing| drawing.to_mermaid()).join("\n");
        for forbidden in ["%%", "`", "\\", "$", "<script", "<b>", "&"] {
            assert!(!text.contains(forbidden), "{forbidden} comes through from {name:?}: {text}");
        }
    }
}

#[test]
fn hostile_names_do_not_change_dot() {
    assert_same_skeleton(DrawingFormat::Dot, true, |text| {
        text.replace(" [label=\"\"]", "").replace("label=\"\", ", "")
    });
}

#[test]
fn hostile_names_do_not_change_svg() {
    for (name, drawn) in drawings() {
        for drawing in drawn {
            let text = drawing.to_svg();
            let document =
                roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{name:?}: {error}\n{text}"));
            for element in document.descendants().filter(roxmltree::Node::is_element) {
                let tag = element.tag_name().name();
                assert!(
                    ["svg", "title", "defs", "marker", "path", "rect", "text"].contains(&tag),
                    "{name:?} makes a {tag}"
                );
                for attribute in element.attributes() {
                    assert!(!attribute.name().starts_with("on"), "{name:?} makes {}", attribute.name());
                }
            }
            let shown: String = document.descendants().filter_map(|node| node.text()).collect();
            let short = name.chars().count() <= 40 && name.chars().all(|letter| !letter.is_whitespace());
            if short && windlass_draw::text::one_line(name) == name {
                assert!(shown.contains(name), "{name:?} is not in {shown}");
            }
        }
    }
}

#[test]
fn json_keeps_the_names_unchanged() {
    for (name, [plan, run]) in drawings() {
        let [plan, run] = [plan, run]
            .map(|drawing| -> serde_json::Value { serde_json::from_str(&drawing.write(DrawingFormat::Json)).unwrap() });
        let names = |drawing: &serde_json::Value| -> Vec<String> {
            let nodes = drawing["nodes"].as_array().unwrap().iter();
            nodes.map(|node| node["name"].as_str().unwrap().to_owned()).collect()
        };
        assert!(names(&plan).contains(&name.to_owned()) && names(&run).contains(&name.to_owned()), "{name:?}: {plan}");
    }
}

#[test]
fn no_name_contains_cursor_controls() {
    for (name, drawn) in drawings() {
        for text in drawn.iter().flat_map(|drawing| [drawing.to_mermaid(), drawing.to_dot(), drawing.to_svg()]) {
            assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{name:?}: {text:?}");
        }
    }
}
