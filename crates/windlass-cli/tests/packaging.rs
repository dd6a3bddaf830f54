//! Commands that packages and containers use: completions, manual pages, the health of a server.

use std::process::Command;

use crate::support::TestDir;
use crate::support::server::TestServer;

#[test]
fn completions_know_commands_and_options() {
    let place = TestDir::new();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let done = place.windlass(&["completions", shell]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        for word in ["iterations", "virtual-time", "health"] {
            assert!(done.out.contains(word), "{shell} does not complete {word}");
        }
    }
    let script = place.write("windlass.bash", place.windlass(&["completions", "bash"]).out);
    let complete = format!(
        "source {}; COMP_WORDS=(windlass iter); COMP_CWORD=1; _windlass windlass iter windlass; echo \"${{COMPREPLY[*]}}\"",
        script.display()
    );
    let completed = Command::new("bash").args(["-c", &complete]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), "iterations");
}

#[test]
fn every_visible_command_has_a_manual_page() {
    let place = TestDir::new();
    std::fs::create_dir(place.path("man")).unwrap();
    let done = place.windlass(&["man", "man"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let pages = std::fs::read_dir(place.path("man")).unwrap().map(|entry| entry.unwrap().file_name());
    let pages: Vec<String> = pages.map(|name| name.to_string_lossy().into_owned()).collect();
    for page in ["windlass.1", "windlass-run.1", "windlass-token-create.1", "windlass-health.1"] {
        assert!(pages.iter().any(|found| found == page), "{page} is missing in {pages:?}");
    }
    for hidden in ["windlass-man.1", "windlass-completions.1", "windlass-workflow.1", "windlass-help.1"] {
        assert!(!pages.iter().any(|found| found == hidden), "{hidden}");
    }
    let page = std::fs::read_to_string(place.path("man/windlass.1")).unwrap();
    assert!(page.contains(env!("CARGO_PKG_VERSION")) && !page.contains("features:"), "{page}");
    assert_eq!(place.windlass(&["man", "missing"]).code, Some(3));
}

#[test]
fn the_health_of_a_server_is_an_exit_code() {
    let place = TestDir::new();
    let none = place.windlass(&["health"]);
    assert_eq!(none.code, Some(1), "{}", none.err);
    assert!(none.err.contains("no server uses this store") && none.err.contains("WND-1527"), "{}", none.err);
    let server = TestServer::start(&place, &[], &[]);
    let found = place.windlass(&["health"]);
    assert_eq!((found.code, found.json()["status"].as_str()), (Some(0), Some("ok")), "{}", found.err);
    let ready = place.windlass(&["health", "--ready", "--server", &server.url()]);
    assert_eq!((ready.code, ready.json()["status"].as_str()), (Some(0), Some("ready")), "{}", ready.err);
    let other = place.windlass(&["health", "--server", "http://127.0.0.1:9"]);
    assert_eq!(other.code, Some(1), "{}", other.err);
}
