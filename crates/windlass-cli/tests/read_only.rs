//! A store that cannot be written can still be looked at.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::support::server::{TestServer, wait_until};
use crate::support::{CommandOutput, TestDir, command_output};

const COUNTING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/loom/counting.json");
const HELLO: &str = r#"{"name": "hello", "actions": {"greet": {"type": "compose", "inputs": "hi"}}}"#;

/// Runs a command as a user to whom permissions apply: root loses its right to ignore them.
fn look(place: &TestDir, arguments: &[&str]) -> CommandOutput {
    let command = place.command(arguments);
    let mut command = match geteuid().is_root() {
        false => command,
        true => {
            let mut limited = Command::new("setpriv");
            limited.args(["--bounding-set=-dac_override,-dac_read_search", "--"]);
            limited.arg(command.get_program()).args(command.get_args()).current_dir(place.path(""));
            limited
        }
    };
    command.env("TMPDIR", place.path("tmp")).env_remove("WINDLASS_STORE").env_remove("WINDLASS_SERVER");
    command_output(command.output().expect("the program starts; setpriv is in util-linux"))
}

/// Sets the permissions of the store and returns its files with their content.
fn set_writable(place: &TestDir, writable: bool) -> BTreeMap<String, Vec<u8>> {
    let store = place.path(".windlass");
    let (of_directory, of_file) = if writable { (0o755, 0o644) } else { (0o555, 0o444) };
    fs::set_permissions(&store, Permissions::from_mode(0o755)).unwrap();
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&store).unwrap() {
        let path = entry.unwrap().path();
        let mode = if path.is_dir() { of_directory } else { of_file };
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let content = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        files.insert(path.file_name().unwrap().to_string_lossy().into_owned(), content);
    }
    fs::set_permissions(&store, Permissions::from_mode(of_directory)).unwrap();
    files
}

fn assert_readable(place: &TestDir, run: &str) {
    let before = set_writable(place, false);
    look(place, &["list"]).exits(0).has(run);
    look(place, &["status", run]).exits(0).has("succeeded");
    look(place, &["events", run]).exits(0).has("workflow.finished");
    look(place, &["doctor"]).exits(0).has("no problems");
    look(place, &["cancel", run]).exits(3);
    assert_eq!(set_writable(place, false), before, "nothing was changed");
    assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0, "the copies are removed");
}

#[test]
fn a_store_without_write_permission_can_be_looked_at() {
    let place = TestDir::new();
    fs::create_dir(place.path("tmp")).unwrap();
    place.windlass(&["run", COUNTING, "--virtual-time", "--id", "counted"]).exits(0);
    assert_readable(&place, "counted");
    look(&place, &["iterations", "counted"]).exits(0).has("12");
    look(&place, &["restart", "counted", "--from", "count"]).has("can only be read").has("owner of the store");
    look(&place, &["run", COUNTING, "--virtual-time", "--id", "other"]).has("ermission denied");
    set_writable(&place, true);

    // The newest commits of a server that was killed are in the log alone.
    place.write("hello.json", HELLO);
    let mut server = TestServer::start(&place, &[], &[]);
    place.windlass(&["register", "hello.json"]).exits(0);
    place.windlass(&["start", "hello", "--id", "greeted"]).exits(0);
    server.process.signal(Signal::KILL);
    wait_until("it is gone", || server.process.has_ended());
    assert!(fs::metadata(place.path(".windlass/windlass.db-wal")).unwrap().len() > 0);
    assert_readable(&place, "greeted");
    look(&place, &["list"]).has("counted");
    set_writable(&place, true);
    place.windlass(&["list"]).exits(0).has("greeted").has("counted");
}
