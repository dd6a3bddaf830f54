//! `windlass explain`

use crate::support;

use support::TestDir;

#[test]
fn a_code_is_explained_by_number_and_by_name() {
    let place = TestDir::new();
    for text in ["WND-2001", "wnd-2001", "2001", "LoopCountExceeded"] {
        let done = place.windlass(&["explain", text]);
        done.exits(0).has("## Cause").has("## Example").has("## Fix");
        assert!(done.out.starts_with("# WND-2001: "), "{}", done.out);
        assert_eq!(done.out.matches("\n## Fix\n").count(), 1, "{}", done.out);
    }
}

#[test]
fn all_codes_of_a_name_are_explained() {
    let place = TestDir::new();
    let done = place.windlass(&["explain", "duplicate_step"]);
    done.exits(0);
    let (first, second) = done.out.split_once("\n---\n\n").expect("a line between two pages");
    assert!(first.starts_with("# WND-1307: ") && second.starts_with("# WND-1402: "), "{}", done.out);
    let json = place.json(&["explain", "duplicate_step", "--json"]);
    assert_eq!((&json[0]["code"], &json[1]["code"]), (&"WND-1307".into(), &"WND-1402".into()), "{json}");
}

#[test]
fn json_has_the_page_and_its_fields() {
    let place = TestDir::new();
    let json = place.json(&["explain", "1301", "--json"]);
    assert_eq!(json["code"], "WND-1301");
    assert_eq!(json["names"], serde_json::json!(["missing_name"]));
    assert_eq!(json["severity"], "error");
    let title = json["title"].as_str().expect("a title");
    assert!(json["page"].as_str().is_some_and(|page| page.starts_with(&format!("# WND-1301: {title}\n"))), "{json}");
}

#[test]
fn without_a_code_all_are_listed() {
    let place = TestDir::new();
    let done = place.windlass(&["explain"]);
    done.exits(0).has("WND-0001").has("WND-2001").has("LoopCountExceeded").has("`windlass explain CODE`");
    assert_eq!(done.out.lines().count(), windlass_errors::all().len());
    let json = place.json(&["explain", "--json"]);
    let codes = json.as_array().expect("a list").iter().map(|entry| entry["code"].as_str().expect("a code"));
    assert!(codes.eq(windlass_errors::all().iter().map(|entry| entry.code)), "{json}");
}

#[test]
fn an_unknown_code_is_a_usage_error_with_the_nearest_names() {
    let place = TestDir::new();
    let cases = [("LoopCountExceded", "`LoopCountExceeded`"), ("WND-1O20", "`WND-1020`"), ("20011", "`WND-2001`")];
    for (text, near) in cases {
        place.windlass(&["explain", text]).exits(3).has("there is no error code").has(near).has("`windlass explain`");
    }
    let done = place.windlass(&["explain", "entirely-unrelated-text"]);
    done.exits(3).has("`windlass explain` lists them");
    assert!(!done.err.contains("did you mean"), "{}", done.err);
}
