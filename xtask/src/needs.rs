//! What the tests need of the machine. It is asked for before anything is built.

use std::process::Command;

// The tests look in the same places.
#[path = "../../crates/windlass-tools/src/test_postgres/programs.rs"]
mod postgres;

const PYTHON: &str = "python3 (3.10 or later) is not installed: `apt-get install python3` (or `dnf install python3`)";
const IS_NEW_ENOUGH: &str = "import sys; sys.exit(sys.version_info < (3, 10))";

/// Says what is missing, all of it, and how to install it.
pub fn there() -> bool {
    let postgres = postgres::programs().is_none().then(|| match std::env::var_os(postgres::VARIABLE) {
        None => postgres::INSTALL.to_owned(),
        Some(folder) => format!("{} is set to {folder:?}, where initdb or postgres is missing", postgres::VARIABLE),
    });
    let runs = Command::new("python3").args(["-c", IS_NEW_ENOUGH]).output();
    let python = (!runs.is_ok_and(|output| output.status.success())).then(|| PYTHON.to_owned());
    let missing: Vec<String> = postgres.into_iter().chain(python).collect();
    for one in &missing {
        println!("missing: {one}");
    }
    if !missing.is_empty() {
        println!("The tests start servers and interpreters of their own; nothing was run.");
    }
    missing.is_empty()
}
