//! A killed program leaves no process running that its tools started.

#![cfg(all(feature = "python", feature = "shell"))]
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use support::call_tool;
use windlass_tools::{PythonOptions, PythonTool, ShellOptions, ShellTool};

/// The folder for the process ids of the children, set in the program that will be killed.
const FOLDER: &str = "WINDLASS_TEST_KILLED";

/// Returns true if a process with this id runs. A zombie does not count.
fn is_running(number: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let state = state.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("X").to_owned();
    state != "X" && state != "Z"
}

fn read_pid(file: &Path) -> String {
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        std::thread::yield_now();
    }
}

async fn start_some(folder: &str) {
    let shell = ShellTool::new(ShellOptions::default());
    let python = PythonTool::new(PythonOptions::with_environment(|name| std::env::var(name).ok()));
    // The reaper ignores groups that have already ended.
    for _ in 0..20 {
        assert!(call_tool(&shell, r#"{"command": "true"}"#).await.error.is_none());
    }
    let texts = format!(r#"{{"command": "echo $$ > {folder}/shell; sleep 1000 & echo $! > {folder}/inner; wait"}}"#);
    let code = format!(
        r#"{{"code": "import os, time\nwith open('{folder}/python', 'w') as file: print(os.getpid(), file=file)\nwhile True: pass"}}"#
    );
    tokio::join!(call_tool(&shell, &texts), call_tool(&python, &code));
}

#[tokio::test]
async fn a_program_that_is_killed_leaves_nothing_running() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return start_some(&folder).await;
    }
    let folder = std::env::temp_dir().join(format!("windlass-killed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "a_program_that_is_killed_leaves_nothing_running"]).env(FOLDER, &folder);
    let mut program = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let numbers = ["shell", "inner", "python"].map(|name| read_pid(&folder.join(name)));
    assert!(numbers.iter().all(|number| is_running(number)), "{numbers:?}");
    program.kill().unwrap();
    program.wait().unwrap();
    while numbers.iter().any(|number| is_running(number)) {
        std::thread::yield_now();
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The first program has barely started: its group may not yet have been reported to the reaper.
#[tokio::test]
async fn a_program_killed_while_a_child_starts_leaves_nothing_running() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let shell = ShellTool::new(ShellOptions::default());
        call_tool(&shell, &format!(r#"{{"command": "echo $$ > {folder}/first; exec sleep 1000"}}"#)).await;
        return;
    }
    for round in 0..10 {
        let folder = std::env::temp_dir().join(format!("windlass-killed-{}-{round}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "a_program_killed_while_a_child_starts_leaves_nothing_running"]).env(FOLDER, &folder);
        let mut program = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let number = read_pid(&folder.join("first"));
        program.kill().unwrap();
        program.wait().unwrap();
        let begun = std::time::Instant::now();
        while is_running(&number) {
            assert!(begun.elapsed() < std::time::Duration::from_secs(120), "round {round}: {number} is still running");
            std::thread::yield_now();
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
