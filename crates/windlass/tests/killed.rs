//! kill -9 of a real process that runs a workflow, and another process that resumes it.
//!
//! This test program starts itself again: `the_process` is the workflow's process if the environment says so, and a
//! no-op otherwise.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use support::{
    Answer, Begin, Directory, Done, HOUR, Item, Question, Worked, answer, done, event_lines, events, refused,
};
use windlass::{All, Context, Engine, RetryPolicy, Workflow};
use windlass_core::{Tick, TickKind};
use windlass_runtime::codec::{self, TickEntryHeader};
use windlass_store::{StoreOwners, StoreRead};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

const STORE: &str = "WINDLASS_TEST_STORE";
const WORKFLOW: &str = "WINDLASS_TEST_WORKFLOW";
const STUCK: &str = "WINDLASS_TEST_STUCK";

/// The prefix of lines for the parent process; the test harness writes other lines.
const MARK: &str = "@ ";

fn report(what: &str) {
    println!("{MARK}{what}");
}

/// Reports the current point. If the process is to be killed here, it waits forever.
async fn reach_point(point: String) {
    report(&point);
    if std::env::var(STUCK).is_ok_and(|stuck| stuck == point) {
        std::future::pending::<()>().await;
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Totals {
    count: u64,
}

fn workflow(name: &str) -> Workflow {
    match name {
        "counts" => Workflow::builder("counts")
            .step("split", |_: Begin| async { Ok((1..=6).map(|n| Item { n }).collect::<Vec<_>>()) })
            .step("work", |ctx: Context<Totals>, item: Item| async move {
                ctx.add("count", 1)?;
                reach_point(format!("work {}", item.n)).await;
                Ok(Worked { n: item.n })
            })
            .workers(2)
            .step("gather", |ctx: Context<Totals>, all: All<Worked>| async move {
                done(format!("{} of {}", ctx.state()?.count, all.len()))
            })
            .build(),
        "retries" => Workflow::builder("retries")
            .step("split", |_: Begin| async { Ok((1..=3).map(|n| Item { n }).collect::<Vec<_>>()) })
            .step("work", |ctx: Context, item: Item| async move {
                reach_point(format!("work {} attempt {}", item.n, ctx.attempt())).await;
                match ctx.attempt() {
                    3 => Ok(Worked { n: item.n }),
                    _ => Err(refused()),
                }
            })
            .workers(1)
            .retry(RetryPolicy::exponential(HOUR).attempts(3))
            .step("gather", |all: All<Worked>| async move { done(all.len().to_string()) })
            .build(),
        // It hangs in its only step, in real time.
        "hangs" => Workflow::builder("hangs")
            .timeout(HOUR)
            .step("hang", |_: Begin| async {
                reach_point("hanging".to_owned()).await;
                std::future::pending::<()>().await;
                done("")
            })
            .build(),
        _ => Workflow::builder("asks")
            .step("ask", |ctx: Context, _: Begin| async move {
                let first = ctx.wait_for::<Answer>().asking(Question { n: 1 }).await?;
                reach_point(format!("has {}", first.n)).await;
                let second = ctx.wait_for::<Answer>().await?;
                reach_point(format!("has {}", second.n)).await;
                done(format!("{} {}", first.n, second.n))
            })
            .build(),
    }
    .expect("a workflow")
}

/// The process: starts or resumes the run, reads answers from its input, reports the result.
#[test]
fn the_process() {
    let Ok(directory) = std::env::var(STORE) else { return };
    let workflow = workflow(&std::env::var(WORKFLOW).unwrap_or_default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let real_time = std::env::var(WORKFLOW).is_ok_and(|name| name == "hangs");
        let engine = Engine::open(&directory).virtual_time(!real_time).workflow(&workflow).build().unwrap();
        let handle = engine.start(&workflow, Begin { n: 0 }).id("r").await.unwrap();
        report("started");
        let outside = handle.clone();
        tokio::task::spawn_blocking(move || {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                let n = line.trim().parse().expect("a number");
                let sent = tokio::runtime::Handle::current().block_on(outside.send(answer(n)));
                report(&match sent {
                    Ok(()) => format!("accepted {n}"),
                    Err(error) => error.to_string(),
                });
            }
        });
        let end = match handle.result::<Done>().await {
            Ok(end) => end,
            Err(error) => Done { text: error.code().to_owned() },
        };
        for one in event_lines(&events(&handle, 0).await) {
            report(&format!("event {one}"));
        }
        report(&format!("end {}", end.text));
    });
    // The task that reads the input may still be blocked.
    runtime.shutdown_background();
}

struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    lines_read: Vec<String>,
}

impl Process {
    /// Starts a process that runs this workflow in this store and stops at a point.
    fn start(directory: &Directory, workflow: &str, stuck: &str) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("a test knows itself"))
            .args(["--exact", "the_process", "--nocapture", "--test-threads=1"])
            .env(STORE, directory.path())
            .env(WORKFLOW, workflow)
            .env(STUCK, stuck)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process can be started");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Process { child, lines, lines_read: Vec::new() }
    }

    /// Reads its output up to this message.
    fn read_until(&mut self, what: &str) {
        for line in self.lines.by_ref() {
            let line = line.expect("its output");
            // The harness may write to the same line before the first message.
            if let Some((_, message)) = line.split_once(MARK) {
                self.lines_read.push(message.to_owned());
                if message == what {
                    return;
                }
            }
        }
        panic!("it has ended without `{what}`: {:#?}", self.lines_read);
    }

    fn send_answer(&mut self, n: u64) {
        use std::io::Write;
        let input = self.child.stdin.as_mut().expect("its input");
        writeln!(input, "{n}").expect("it reads");
    }

    /// Kills it with SIGKILL.
    fn kill(mut self) -> Vec<String> {
        use std::os::unix::process::ExitStatusExt;
        self.child.kill().expect("it can be killed");
        let status = self.child.wait().expect("it was started here");
        assert_eq!(status.signal(), Some(9), "it was not killed: {:#?}", self.lines_read);
        std::mem::take(&mut self.lines_read)
    }

    fn finish(mut self, end: &str) -> Vec<String> {
        self.read_until(&format!("end {end}"));
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it was started here").success());
        std::mem::take(&mut self.lines_read)
    }
}

impl Drop for Process {
    /// A failing test leaves no process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_count_is_exact_when_steps_are_killed() {
    let directory = Directory::new();
    for stuck in ["work 2", "work 5"] {
        let mut process = Process::start(&directory, "counts", stuck);
        process.read_until(stuck);
        process.kill();
    }
    Process::start(&directory, "counts", "").finish("6 of 6");
}

#[test]
fn an_accepted_event_survives() {
    // Killed as soon as it is accepted; killed when the step has it, before its result is stored; each answer once.
    let directory = Directory::new();
    // It stops where the step has the answer: however late the kill is, the step has not reached its second wait.
    let mut process = Process::start(&directory, "asks", "has 1");
    process.read_until("started");
    process.send_answer(1);
    process.read_until("accepted 1");
    process.kill();

    let mut process = Process::start(&directory, "asks", "has 1");
    process.read_until("has 1");
    process.kill();

    let mut process = Process::start(&directory, "asks", "has 2");
    process.read_until("has 1");
    process.send_answer(2);
    process.read_until("has 2");
    process.kill();

    let lines_read = Process::start(&directory, "asks", "").finish("1 2");
    assert_eq!(lines_read.iter().filter(|one| one.starts_with("event question")).count(), 1, "{lines_read:#?}");
}

#[test]
fn retries_go_on_with_their_counts_in_their_order() {
    // The order without a kill; then killed in the middle of an attempt, four times in one run.
    let tries =
        |lines_read: &[String]| lines_read.iter().filter(|one| one.starts_with("work")).cloned().collect::<Vec<_>>();
    let whole = tries(&Process::start(&Directory::new(), "retries", "").finish("3"));
    assert_eq!(whole.len(), 9);
    let directory = Directory::new();
    let mut lines_read = Vec::new();
    for at in [0, 1, 4, 7] {
        let mut process = Process::start(&directory, "retries", &whole[at]);
        process.read_until(&whole[at]);
        lines_read.extend(tries(&process.kill()));
    }
    lines_read.extend(tries(&Process::start(&directory, "retries", "").finish("3")));
    assert_eq!(lines_read.len(), 13, "each killed attempt is repeated once, with its number");
    lines_read.dedup();
    assert_eq!(lines_read, whole);
}

/// Returns the ticks of the run, as its journal has them.
fn journal(store: &SqliteStore) -> Vec<Tick> {
    let rows = store.journal("r", 0, u32::MAX).unwrap();
    let entries = |body: &[u8]| codec::decode::<Vec<TickEntryHeader>>(body, "the journal").unwrap();
    rows.iter().flat_map(|row| entries(&row.body)).map(|entry| entry.tick).collect()
}

/// The timeout counts the time in which a killed process was up. Everything that is compared was journaled or is a
/// heartbeat, so a slow machine changes nothing.
#[test]
fn the_time_of_killed_processes_counts_towards_the_timeout() {
    let directory = Directory::new();
    let mut expected = Vec::new();
    for _ in 0..3 {
        let mut process = Process::start(&directory, "hangs", "");
        process.read_until("hanging");
        let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
        let owner = store.run("r").unwrap().unwrap().owner.unwrap();
        let last = journal(&store).last().unwrap().at;
        // The second heartbeat after the last tick.
        let enough = Duration::from_millis(250).as_micros() as u64;
        while store.last_heartbeat(&owner).unwrap().is_none_or(|beat| beat.since(last).0 <= enough) {
            std::thread::yield_now();
        }
        process.kill();
        let last = journal(&store).last().unwrap().at;
        expected.push(store.last_heartbeat(&owner).unwrap().unwrap().since(last));
    }
    let mut process = Process::start(&directory, "hangs", "");
    process.read_until("hanging");
    process.kill();
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    let lived: Vec<windlass_value::Duration> = journal(&store)
        .into_iter()
        .filter_map(|tick| match tick.kind {
            TickKind::Restart { lived } => Some(lived),
            _ => None,
        })
        .collect();
    assert_eq!(lived, expected, "each process was up until its last heartbeat; the time in between does not count");
}
