//! Requirements of the tests on the machine, checked before anything is built.

use std::path::Path;
use std::process::Command;

// The tests search the same paths.
#[path = "../../crates/windlass-testing/src/test_postgres/programs.rs"]
mod postgres;

const PYTHON: &str = "python3 (3.10 or later) is not installed: `apt-get install python3` (or `dnf install python3`)";
const IS_NEW_ENOUGH: &str = "import sys; sys.exit(sys.version_info < (3, 10))";

const NODE: &str = "node (20.19 or later) with npm is not installed: `apt-get install nodejs npm` (or from nodejs.org)";
const NODE_IS_NEW_ENOUGH: &str = "const [a, b] = process.versions.node.split('.').map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)";
const DENY: &str = "cargo-deny is not installed: `cargo install --locked cargo-deny`";
const COMPILER: &str = "a C++ compiler is not installed: `apt-get install g++` (or `dnf install gcc-c++`)";
const CHROMIUM: &str = "chromium is not installed: `apt-get install chromium` (or set WINDLASS_CHROMIUM to a Chromium)";

/// `cargo xtask needs`; with `--packages` only what the system's package manager installs.
pub(crate) fn needs(rest: &[String]) -> bool {
    match rest.iter().any(|argument| argument == "--packages") {
        true => report_missing(&missing_packages()),
        false => check_all(),
    }
}

/// Reports all missing requirements and how to install them.
pub(crate) fn check_all() -> bool {
    let deny = (!works(env!("CARGO"), &["deny", "--version"])).then(|| DENY.to_owned());
    let missing: Vec<String> = missing_packages().into_iter().chain(deny).collect();
    report_missing(&missing)
}

fn missing_packages() -> Vec<String> {
    let postgres = postgres::programs().is_none().then(|| match std::env::var_os(postgres::VARIABLE) {
        None => postgres::INSTALL.to_owned(),
        Some(folder) => format!("{} is set to {folder:?}, where initdb or postgres is missing", postgres::VARIABLE),
    });
    let runs = Command::new("python3").args(["-c", IS_NEW_ENOUGH]).output();
    let python = (!runs.is_ok_and(|output| output.status.success())).then(|| PYTHON.to_owned());
    let named = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let compiler = (!works(&named, &["--version"])).then(|| COMPILER.to_owned());
    postgres.into_iter().chain(python).chain(compiler).chain(missing_for_web_ui(true)).collect()
}

/// Checks only the requirements of the web UI: node to build it, and a browser to test it.
pub(crate) fn check_web_ui(with_browser: bool) -> bool {
    report_missing(&missing_for_web_ui(with_browser).collect::<Vec<_>>())
}

fn missing_for_web_ui(with_browser: bool) -> impl Iterator<Item = String> {
    let node = !works("node", &["-e", NODE_IS_NEW_ENOUGH]) || !works("npm", &["--version"]);
    let chromium = with_browser && !chromium_paths().iter().any(|path| Path::new(path).is_file());
    node.then(|| NODE.to_owned()).into_iter().chain(chromium.then(|| CHROMIUM.to_owned()))
}

/// Reports whether a command ends successfully.
fn works(name: &str, arguments: &[&str]) -> bool {
    Command::new(name).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// The paths that the browser tests search, too.
fn chromium_paths() -> Vec<String> {
    let chosen = std::env::var("WINDLASS_CHROMIUM").ok();
    let usual = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    chosen.into_iter().chain(usual.map(str::to_owned)).collect()
}

fn report_missing(missing: &[String]) -> bool {
    for one in missing {
        println!("missing: {one}");
    }
    if !missing.is_empty() {
        println!("The tests start their own servers, interpreters and browsers; nothing was run.");
    }
    missing.is_empty()
}
