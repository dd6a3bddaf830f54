//! A store that is lost, damaged or copied: as its operator meets it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::support::TestDir;
use crate::support::server::{TestServer, wait_until};

const SHOW: &str = r#"{"name": "show", "actions": {"show": {"type": "compose", "inputs": 1}}}"#;

/// Starts a server that has acknowledged some runs.
fn serving(place: &TestDir) -> TestServer {
    let server = TestServer::start(place, &[], &[]);
    server.register("show", SHOW);
    for _ in 0..20 {
        server.run_to_end("show", &json!({}));
    }
    server
}

#[test]
fn a_server_whose_store_is_removed_or_replaced_ends_within_a_second() {
    for replaced in [false, true] {
        let place = TestDir::new();
        let mut server = serving(&place);
        let moved = place.path("moved");
        fs::rename(place.path(".windlass"), &moved).expect("moved");
        if replaced {
            fs::create_dir(place.path(".windlass")).expect("a directory");
            fs::copy(moved.join("windlass.db"), place.path(".windlass/windlass.db")).expect("copied");
        }
        let began = Instant::now();
        wait_until("it has ended", || server.process.has_ended());
        assert!(began.elapsed() < Duration::from_secs(2), "a second, and a busy machine: {:?}", began.elapsed());
        let (code, _, err) = server.process.stop();
        assert_eq!(code, Some(1), "{err}");
        let expected = if replaced { "was replaced by another file" } else { "was removed" };
        assert!(err.contains(expected) && err.contains("WND-2641"), "{err}");
        let _ = fs::remove_dir_all(place.path(".windlass"));
        fs::rename(&moved, place.path(".windlass")).expect("moved back");
        let listed = place.json(&["list", "--json", "--limit", "99"]);
        assert_eq!(listed.as_array().map(Vec::len), Some(20), "nothing that was acknowledged is lost: {listed}");
    }
}

#[test]
fn a_flipped_bit_in_the_log_of_a_killed_server_is_refused_and_repaired() {
    let place = TestDir::new();
    let server = serving(&place);
    server.process.signal(Signal::KILL);
    drop(server);
    let log = place.path(".windlass/windlass.db-wal");
    let mut bytes = fs::read(&log).expect("a log");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&log, bytes).expect("written");
    for words in [&["list"][..], &["doctor"], &["run", "show.json"]] {
        place.write("show.json", SHOW);
        place.windlass(words).exits(3).has("acknowledged commits").has("WND-2640").has("windlass repair --dry-run");
    }
    let planned = place.windlass(&["repair", "--dry-run"]);
    planned.exits(1).has("correct one flipped bit").has("lost: nothing").has("nothing was changed");
    place.windlass(&["list"]).exits(3).has("WND-2640");
    place.windlass(&["repair"]).exits(0).has("correct one flipped bit").has("the files as they were are in");
    place.windlass(&["doctor"]).exits(0).has("no damage");
    assert_eq!(place.json(&["list", "--json", "--limit", "99"]).as_array().map(Vec::len), Some(20));
    place.windlass(&["repair"]).exits(0).has("nothing to repair");
}

#[test]
fn a_database_that_is_removed_or_copied_alone_is_refused() {
    let place = TestDir::new();
    place.write("show.json", SHOW);
    place.windlass(&["run", "show.json"]).exits(0);
    assert!(!place.path(".windlass/windlass.db-wal").exists(), "a clean end leaves no log");
    fs::create_dir(place.path("alone")).expect("a directory");
    fs::copy(place.path(".windlass/windlass.db"), place.path("alone/windlass.db")).expect("copied");
    place.windlass(&["list", "--store", "alone"]).exits(3).has("no head record").has("WND-2640");
    fs::remove_file(place.path(".windlass/windlass.db")).expect("removed");
    place.windlass(&["list"]).exits(3).has("is missing").has("WND-2640");
    place.windlass(&["run", "show.json"]).exits(3).has("is missing");
}

#[test]
fn a_copy_of_a_store_that_a_server_uses_is_refused_or_complete() {
    let place = TestDir::new();
    let server = serving(&place);
    for copy in 0..4 {
        let name = format!("copy-{copy}");
        let copied = std::process::Command::new("cp")
            .args([Path::new("-r"), &place.path(".windlass"), &place.path(&name)])
            .status()
            .expect("cp");
        assert!(copied.success());
        server.run_to_end("show", &json!({}));
        let listed = place.windlass(&["list", "--json", "--limit", "99", "--store", &name]);
        match listed.code {
            Some(0) => {
                let held = listed.json().as_array().map_or(0, Vec::len);
                assert!(held >= 20 + copy, "{held} runs of {}", 20 + copy);
                place.windlass(&["doctor", "--store", &name]);
            }
            _ => drop(listed.has("WND-2640")),
        }
    }
}
