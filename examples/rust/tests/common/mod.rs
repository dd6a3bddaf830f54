//! Runs the built examples as processes in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the path of a built example, next to the test.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows itself");
    let folder = test.parent().and_then(Path::parent).expect("tests live in deps").join("examples");
    let program = folder.join(name);
    assert!(
        program.exists(),
        "{} is missing: run `cargo build --package windlass-examples --examples` first",
        program.display()
    );
    program
}

/// Creates the command of an example with its arguments, in a directory.
pub(crate) fn command(folder: &Path, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(example(name));
    command.args(args).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs an example, checks that it succeeds, and returns its output.
pub(crate) fn run_example(folder: &Path, name: &str, args: &[&str]) -> String {
    let output = command(folder, name, args).output().expect("an example can be started");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} {args:?}: {}\n{stdout}{stderr}", output.status);
    stdout.into_owned()
}
