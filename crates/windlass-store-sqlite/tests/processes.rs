//! Several processes on one store: this test program starts itself again as the other processes.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{Scratch, open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{
    BatchVerdict, ClaimResult, InboxRow, InboxVerdict, StoreErrorKind, StoreOwners, StoreRead, StoreScan, StoreWrite,
};
use windlass_value::Timestamp;

const ROLE: &str = "WINDLASS_STORE_TEST_ROLE";
const DIRECTORY: &str = "WINDLASS_STORE_TEST_DIRECTORY";

/// Entry point of the other processes, not a test. Without a role there is nothing to do.
#[test]
fn other_process() {
    let (Ok(role), Ok(directory)) = (std::env::var(ROLE), std::env::var(DIRECTORY)) else { return };
    let directory = Path::new(&directory);
    match role.as_str() {
        "busy writer" => write_until_killed(directory),
        "writer with a small disk" => write_until_full(directory),
        other => panic!("unknown role {other}"),
    }
}

fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{line}").and_then(|()| out.flush()).expect("the parent listens");
}

/// Claims the run and appends to it as fast as it can; prints a line after each commit.
fn write_until_killed(directory: &Path) {
    let store = open(directory);
    let owner = store.open_owner().expect("an owner");
    let ClaimResult::Owned { owner_epoch } = store.claim("r", &owner.name).expect("claim") else {
        panic!("the run is free")
    };
    print_line(&format!("owner {}", owner.name));
    let mut next = store.run("r").expect("read").expect("a run").ticks;
    loop {
        let mut batch = tick("r", next, body(next));
        batch.owner_epoch = owner_epoch;
        assert_eq!(store.append(vec![batch]).expect("append"), [BatchVerdict::Committed]);
        next += 1;
        print_line(&format!("acked {next}"));
    }
}

/// Writes until the system refuses to let a file grow, then tries every operation again.
fn write_until_full(directory: &Path) {
    let store = open(directory);
    let mut next = 0;
    let first = loop {
        match store.append(vec![tick("r", next, body(next))]) {
            Ok(_) => next += 1,
            Err(error) => break error,
        }
    };
    print_line(&format!("acked {next}"));
    assert_eq!(first.kind, StoreErrorKind::Full, "{first}");
    assert!(first.message.contains("may grow beyond"), "{first}");
    let again = store.append(vec![tick("r", next, body(next))]).expect_err("it is as full as before");
    assert_eq!(again.kind, StoreErrorKind::Full, "{again}");
    assert_eq!(store.run("r").expect("reading needs no disk space").expect("a run").ticks, next);
    let unlimited = Rlimit { current: None, ..getrlimit(Resource::Fsize) };
    setrlimit(Resource::Fsize, unlimited).expect("the limit is raised");
    assert_eq!(
        store.append(vec![tick("r", next, body(next))]).expect("there is room again"),
        [BatchVerdict::Committed]
    );
    print_line("goes on");
}

fn body(number: u64) -> Vec<u8> {
    format!("tick {number} ").repeat(30).into_bytes()
}

struct OtherProcess {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl OtherProcess {
    fn start(role: &str, directory: &Path, wrapper: Option<&str>) -> OtherProcess {
        let this = std::env::current_exe().expect("this program");
        let mut command = match wrapper {
            None => Command::new(&this),
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", script]).arg(&this);
                shell
            }
        };
        command.args(["--exact", "other_process", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(DIRECTORY, directory).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the other process starts");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        OtherProcess { process, lines }
    }

    /// Reads until a line that begins with the word, and returns what follows it.
    fn read_line(&mut self, word: &str) -> String {
        let mut lines = self.lines.by_ref().map(|line| line.expect("text"));
        let found = lines.find_map(|line| line.strip_prefix(word).map(|rest| rest.trim().to_owned()));
        found.unwrap_or_else(|| panic!("the other process should say {word:?}"))
    }

    fn read_acked(&mut self, at_least: u64) {
        while self.read_line("acked").parse::<u64>().expect("a number") < at_least {}
    }

    /// Kills the process without warning and returns the last number it had acknowledged.
    fn kill(mut self) -> u64 {
        self.process.kill().expect("killed");
        self.process.wait().expect("waited for");
        // The last line may be truncated: then its number is incomplete and does not count as acknowledged.
        let lines: Vec<String> = self.lines.by_ref().map_while(Result::ok).collect();
        let whole = lines.iter().rev().skip(1).find_map(|line| line.strip_prefix("acked "));
        whole.map_or(0, |number| number.parse().expect("a number"))
    }
}

#[test]
fn kill_9_in_the_middle_of_appends_loses_nothing_acknowledged() {
    let scratch = Scratch::new();
    open(scratch.path()).append(vec![creation("r")]).expect("append");
    let mut held = 0;
    for life in 1..=6 {
        let mut other = OtherProcess::start("busy writer", scratch.path(), None);
        let owner = other.read_line("owner");
        let acked = held + 23 * life;
        other.read_acked(acked);
        let acknowledged = other.kill();

        let store = open(scratch.path());
        assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
        held = store.run("r").expect("read").expect("a run").ticks;
        assert!(held >= acknowledged.max(acked), "{acked} and {acknowledged} acknowledged, {held} held");
        let rows = store.journal("r", 0, u32::MAX).expect("read");
        assert_eq!(rows.len() as u64, held);
        assert!(rows.iter().zip(0..).all(|(row, number)| row.body == body(number)), "byte for byte");
        assert!(!store.owner_alive(&owner).expect("alive"), "the end of the process ends the owner's liveness");
    }
}

#[test]
fn a_busy_writer_does_not_starve_a_second_process() {
    const MESSAGES: usize = 200;
    let scratch = Scratch::new();
    let store = open(scratch.path());
    store.append(vec![creation("r")]).expect("append");
    let mut other = OtherProcess::start("busy writer", scratch.path(), None);
    let owner = other.read_line("owner");
    other.read_acked(20);
    // Its output must be read meanwhile, or it blocks on the pipe instead of being busy.
    let listening = std::thread::spawn(move || {
        other.read_acked(400);
        other
    });

    let commits = || store.run("r").expect("read").expect("a run").ticks;
    let mut waits = Vec::new();
    for number in 0..MESSAGES {
        let request_id = format!("signal-{number}").into();
        let message = InboxRow { run: "r".into(), request_id, body: b"go".to_vec(), at: Timestamp(1) };
        let before = commits();
        let verdict = store.inbox_put(&message).expect("put");
        waits.push(commits() - before);
        assert_eq!(verdict, InboxVerdict::Accepted { owner: Some(owner.clone()) });
    }
    assert_eq!(store.inbox("r", 1_000).expect("read").len(), MESSAGES);
    let mut other = listening.join().expect("the busy writer continues");
    other.read_acked(commits());
    other.kill();
    waits.sort();
    let (half, worst) = (waits[MESSAGES / 2], waits[MESSAGES - 1]);
    println!("inbox_put next to a busy writer: half of them wait for {half} of its commits or fewer, one for {worst}");
    // Without the fair lock the busy writer goes first hundreds of times. Counting commits makes the test independent
    // of the machine's speed.
    assert!(half <= 30, "half of them wait for more than {half} commits");
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
}

/// The system refuses to let a file grow beyond a limit, which a writer sees as a full disk.
#[test]
#[cfg(unix)]
fn a_file_that_may_not_grow_is_a_full_disk_and_loses_nothing_acknowledged() {
    let scratch = Scratch::new();
    open(scratch.path()).append(vec![creation("r")]).expect("append");
    let script = r#"trap "" XFSZ; ulimit -S -f 1000; exec "$0" "$@""#;
    let mut other = OtherProcess::start("writer with a small disk", scratch.path(), Some(script));
    let acknowledged: u64 = other.read_line("acked").parse().expect("a number");
    other.read_line("goes on");
    assert!(other.process.wait().expect("it ends by itself").success());
    assert!(acknowledged > 20, "{acknowledged} commits before the limit");

    let (store, next) = (open(scratch.path()), acknowledged + 1);
    assert_eq!(store.run("r").expect("read").expect("a run").ticks, next);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
    assert_eq!(store.append(vec![tick("r", next, vec![1])]).expect("append"), [BatchVerdict::Committed]);
}
