//! A store with the damaged row of one run, as its users see it.

use crate::support;

use rusqlite::Connection;
use support::{TestDir, counting};

/// Flips what the row of a run says, bypassing the store.
fn damage(place: &TestDir, run: &str) {
    let shell = Connection::open(place.path(".windlass/windlass.db")).expect("any tool can open it");
    let changed = shell.execute("UPDATE runs SET status = 'runnimg' WHERE id = ?1", [run]);
    assert_eq!(changed.expect("the row can be changed"), 1);
}

#[test]
fn a_damaged_run_is_listed_named_and_removed_and_the_others_work() {
    let place = TestDir::new();
    place.write("flow.json", counting(1, "PT0.01S"));
    for run in ["old", "ill", "new"] {
        place.json(&["run", "flow.json", "--id", run, "--json"]);
    }
    damage(&place, "ill");

    let listed = place.json(&["list", "--json"]);
    let runs: Vec<(&str, &str)> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| (run["run"].as_str().expect("an id"), run["status"].as_str().expect("a status")))
        .collect();
    assert_eq!(runs, [("ill", "damaged"), ("new", "succeeded"), ("old", "succeeded")], "{listed}");
    place.windlass(&["list"]).exits(0).has("damaged").has("doctor");
    assert_eq!(place.json(&["list", "--status", "damaged", "--json"]).as_array().map(Vec::len), Some(1));
    assert_eq!(place.json(&["list", "--status", "succeeded", "--json"]).as_array().map(Vec::len), Some(2));
    let refused = place.windlass(&["status", "ill"]);
    assert_ne!(refused.has("damaged").code, Some(0));
    place.windlass(&["status", "new"]).exits(0).has("succeeded");
    place.json(&["run", "flow.json", "--id", "more", "--json"]);

    place.windlass(&["doctor"]).exits(1).has("ill: ").has("clean --damaged runs/2");
    place.windlass(&["clean", "--damaged", "new"]).exits(3).has("neither a damaged row");
    place.windlass(&["clean", "--damaged", "runs/2", "--older-than", "1d"]).exits(3);
    place.windlass(&["clean", "--damaged", "ill", "--dry-run"]).exits(0).has("runs/2 would be removed");
    let removed = place.json(&["clean", "--damaged", "runs/2", "--json"]);
    assert_eq!(removed["removed"][0], "runs/2", "{removed}");
    place.windlass(&["doctor"]).exits(0).has("no problems");
    assert_eq!(place.json(&["list", "--json"]).as_array().map(Vec::len), Some(3));
}
