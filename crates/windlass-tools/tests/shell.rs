//! The tool `shell`.

#![cfg(feature = "shell")]

use crate::support;

use support::{call, call_tool, class, error, part, summary};
use windlass_runtime::Tool;
use windlass_tools::{ShellOptions, ShellTool};

fn tool() -> ShellTool {
    ShellTool::new(ShellOptions { max_output_bytes: 1000, ..ShellOptions::default() })
}

#[tokio::test]
async fn runs_texts_and_programs() {
    let table = [
        (r#"{"command": "echo hello"}"#, r#"{"stdout":"hello\n","stderr":"","exit_code":0}"#),
        (r#"{"cmds": ["X=1", "echo $X >&2", "printf 2"]}"#, r#"{"stdout":"2","stderr":"1\n","exit_code":0}"#),
        (
            r#"{"argv": ["printf", "%s|", "a b", "$HOME", 3, {"k": 1}]}"#,
            r#"{"stdout":"a b|$HOME|3|{\"k\":1}|","stderr":"","exit_code":0}"#,
        ),
        (r#"{"command": "cat", "stdin": {"a": [1]}}"#, r#"{"stdout":"{\"a\":[1]}","stderr":"","exit_code":0}"#),
        (
            r#"{"command": "pwd; echo $X", "cwd": "/usr", "env": {"X": 5}}"#,
            r#"{"stdout":"/usr\n5\n","stderr":"","exit_code":0}"#,
        ),
        (
            r#"{"command": "echo \"$WINDLASS_KEY $WINDLASS_ATTEMPT\""}"#,
            r#"{"stdout":"run-1:sync[3]/fetch 2\n","stderr":"","exit_code":0}"#,
        ),
    ];
    for (input, expected) in table {
        assert_eq!(summary(&call_tool(&tool(), input).await), expected, "{input}");
    }
}

#[tokio::test]
async fn a_value_is_never_part_of_the_text() {
    let evil = r#"{"command": "echo \"$W1\"", "values": {"W1": "a'; echo \"b\" $(echo c) `echo d`; exit 3 #\n$HOME"}}"#;
    let outcome = call_tool(&tool(), evil).await;
    assert_eq!(part(&outcome, "stdout"), r#""a'; echo \"b\" $(echo c) `echo d`; exit 3 #\n$HOME\n""#);
    let typed = r#"{"command": "echo \"$A|$B|$C|$D\"", "values": {"A": 1, "B": true, "C": null, "D": [1]}}"#;
    assert_eq!(part(&call_tool(&tool(), typed).await, "stdout"), r#""1|true||[1]\n""#);
}

#[tokio::test]
async fn the_environment_is_clean() {
    let outcome = call_tool(&tool(), r#"{"command": "env | cut -d= -f1 | sort | tr '\n' ' '"}"#).await;
    assert_eq!(
        part(&outcome, "stdout"),
        r#""PATH PWD WINDLASS_ATTEMPT WINDLASS_KEY WINDLASS_PROCESS_MARK WINDLASS_RUN ""#
    );
    let options = ShellOptions::with_environment(|name| (name == "HOME").then(|| "/somewhere".to_owned()));
    let outcome = call_tool(&ShellTool::new(options), r#"{"command": "echo $HOME"}"#).await;
    assert_eq!(part(&outcome, "stdout"), r#""/somewhere\n""#);
}

#[tokio::test]
async fn failures_keep_what_was_written() {
    let outcome = call_tool(&tool(), r#"{"cmds": ["echo before", "echo no >&2; (exit 7)", "echo after"]}"#).await;
    assert_eq!(class(&outcome), ("exit_7", "shell", true));
    assert!(error(&outcome).message.ends_with("ended with exit code 7: no"), "{}", error(&outcome).message);
    assert_eq!(output_text(&outcome), r#""before\n" "no\n" 7"#);
    let outcome = call_tool(&tool(), r#"{"command": "kill -9 $$"}"#).await;
    assert_eq!(class(&outcome), ("exit_137", "shell", false));
    let quoted = r#"{"command": "test \"${W1}\" = '\"${W2}\"'", "values": {"W1": "a", "W2": "hush"}}"#;
    let outcome = call_tool(&tool(), quoted).await;
    assert_eq!(&*error(&outcome).message, "`test {{ … }} = {{ … }}` ended with exit code 1");
    for (input, code) in [
        (r#"{"argv": ["no-such-program-at-all"]}"#, "CannotStart"),
        (r#"{"command": "  "}"#, "BadInput"),
        (r#"{"command": "x", "values": {"a b": 1}}"#, "BadInput"),
        (r#"{"command": "x", "values": {"A": "\u0000"}}"#, "BadInput"),
        (r#"{"cmds": [1]}"#, "BadInput"),
        (r#"[]"#, "BadInput"),
    ] {
        assert_eq!(&*error(&call_tool(&tool(), input).await).code, code, "{input}");
    }
}

fn output_text(outcome: &windlass_core::TaskOutcome) -> String {
    ["stdout", "stderr", "exit_code"].map(|name| part(outcome, name)).join(" ")
}

#[tokio::test]
async fn output_beyond_the_limit_is_discarded() {
    let outcome = call_tool(&tool(), r#"{"command": "head -c 300000 /dev/zero | tr '\\0' x; echo end >&2"}"#).await;
    assert_eq!(part(&outcome, "stdout").len(), 1002);
    assert_eq!(part(&outcome, "stderr"), r#""end\n""#);
    assert_eq!(format!("{:?}", outcome.meta), r#"{"stdout_truncated":true,"stderr_truncated":false}"#);
}

/// Returns true if a process with this id runs. A zombie does not count.
fn is_running(number: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let state = state.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("X").to_owned();
    state != "X" && state != "Z"
}

/// Returns the process id that a background program has written.
async fn read_pid(file: &std::path::Path) -> String {
    loop {
        let text = tokio::fs::read_to_string(file).await.unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        tokio::task::yield_now().await;
    }
}

async fn wait_until_gone(number: &str) {
    while is_running(number) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn child_processes_end_with_the_call() {
    let folder = std::env::temp_dir().join(format!("windlass-shell-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = |name: &str, last: &str| {
        let file = folder.join(name);
        let command = format!("(sleep 1000 & echo $! > {}; wait) & {last}", file.display());
        (file, command)
    };
    // The timeout expires. On a busy machine that may happen before anything has started; then it is increased.
    let (file, command) = text("timeout", "while ! test -s $F; do :; done; echo begun; sleep 1000");
    for seconds in [0.5, 5.0, 50.0] {
        let env = format!(r#"{{"F": "{}"}}"#, file.display());
        let input = format!(r#"{{"command": "{command}", "timeout": {seconds}, "env": {env}}}"#);
        let outcome = call_tool(&tool(), &input).await;
        assert_eq!(class(&outcome), ("timeout", "timeout", false));
        if part(&outcome, "stdout") == r#""begun\n""# {
            break;
        }
        assert!(seconds < 50.0, "{}", part(&outcome, "stdout"));
    }
    wait_until_gone(&read_pid(&file).await).await;
    // The program ends and leaves a process behind that holds its output.
    let (file, command) = text("left", "while ! test -s $F; do :; done; echo done");
    let input = format!(r#"{{"command": "{command}", "env": {{"F": "{}"}}}}"#, file.display());
    assert_eq!(part(&call_tool(&tool(), &input).await, "stdout"), r#""done\n""#);
    wait_until_gone(&read_pid(&file).await).await;
    // The caller no longer waits.
    let (file, command) = text("dropped", "sleep 1000");
    let running = tokio::spawn(tool().call(call(&format!(r#"{{"command": "{command}"}}"#))));
    let number = read_pid(&file).await;
    assert!(is_running(&number));
    running.abort();
    wait_until_gone(&number).await;
    std::fs::remove_dir_all(folder).unwrap();
}
