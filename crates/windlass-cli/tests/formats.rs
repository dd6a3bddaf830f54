//! Programs of two versions on one store: the older one rejects, with a reason, what the newer one has written, and
//! leaves it unchanged, also when it is killed meanwhile. The newer one is simulated by stamping what this one has
//! written.

use crate::support;

use rusqlite::Connection;
use rustix::process::Signal;
use support::server::{TestServer, wait_until};
use support::{TestDir, counting};
use windlass_store::{PlanRow, StoreRead, StoreWrite};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_value::BlobHash;

const REFUSAL: &str =
    "needs a newer version of windlass: run `r` was written with journal format 2, this program reads up to 1";
const HINT: &str = "use the newer version of windlass; this one has changed nothing";

fn open_database(place: &TestDir) -> Connection {
    Connection::open(place.path(".windlass/windlass.db")).expect("any tool can open it")
}

/// Creates a run that was killed in the middle of its loop.
fn killed_run(place: &TestDir) {
    place.write("flow.json", counting(3, "PT2S"));
    let running = place.start(&["run", "flow.json", "--id", "r"]);
    wait_until("an iteration is over", || {
        place.windlass(&["events", "r", "--json"]).out.contains("loop.iteration.done")
    });
    running.signal(Signal::KILL);
    running.finish();
}

/// Returns all stored rows of the run.
fn stored_rows(place: &TestDir) -> Vec<String> {
    let shell = open_database(place);
    let tables = [
        "SELECT quote(id) || quote(plan) || quote(status) || quote(owner) || owner_epoch || quote(timer) || quote(options) ||
                quote(result) || format || changed_at FROM runs",
        "SELECT quote(first_tick) || quote(body) FROM journal ORDER BY position",
        "SELECT quote(tick) || quote(body) FROM snapshots ORDER BY tick",
        "SELECT quote(loop_path) || quote(first) || quote(body) FROM iterations ORDER BY loop_path, first",
        "SELECT quote(request_id) || consumed || quote(body) FROM inbox ORDER BY position",
        "SELECT quote(name) || quote(body) FROM waits ORDER BY position",
    ];
    let rows = |sql: &str| {
        let mut select = shell.prepare(sql).expect("SQL");
        select.query_map([], |row| row.get(0)).expect("rows").collect::<Result<Vec<String>, _>>().expect("texts")
    };
    tables.iter().flat_map(|sql| rows(sql)).collect()
}

fn stamp(place: &TestDir, format: u32) {
    let database = open_database(place);
    database.execute("UPDATE runs SET format = ?1", [format]).expect("stamped");
    windlass_store_sqlite::reseal_runs(&database).expect("resealed");
}

/// Starts a server that finds the run, logs the reason once, and is killed.
fn served_and_killed(place: &TestDir, why: &str) {
    for _ in 0..2 {
        let server = TestServer::start(place, &[], &[]);
        wait_until("it has looked at the run", || server.process.err().contains(why));
        assert!(server.process.err().contains("\"postponed\""), "{}", server.process.err());
        let (status, answer) = server.json("POST", "/api/v1/runs/r/resume", None);
        assert_eq!(status, 409, "{answer}");
        assert!(answer.to_string().contains("needs a newer version of windlass"), "{answer}");
        let listed = server.get("/api/v1/runs");
        assert!(listed.to_string().contains("\"r\""), "{listed}");
        server.process.signal(Signal::KILL);
    }
}

#[test]
fn a_run_of_a_newer_program_is_rejected_by_every_command_and_unchanged() {
    let place = TestDir::new();
    killed_run(&place);
    stamp(&place, 2);
    let before = stored_rows(&place);
    for words in [
        &["resume", "r"][..],
        &["status", "r"],
        &["status", "r", "--json"],
        &["replay", "r"],
        &["events", "r"],
        &["iterations", "r"],
        &["cancel", "r"],
        &["pause", "r"],
        &["retry", "r"],
        &["restart", "r", "--from", "count"],
        &["run", "flow.json", "--id", "r"],
    ] {
        let done = place.windlass(words);
        assert_ne!(done.code, Some(0), "{words:?}: {}{}", done.out, done.err);
        done.has(REFUSAL).has(HINT);
        assert_eq!(stored_rows(&place), before, "{words:?}");
    }
    place.windlass(&["list"]).exits(0).has("r ").has(REFUSAL);
    place.windlass(&["clean", "--older-than", "0s"]).exits(0).has("0 runs");
    let doctor = place.windlass(&["doctor"]);
    assert_ne!(doctor.code, Some(0));
    doctor.has(REFUSAL).has(HINT);
    served_and_killed(&place, REFUSAL);
    assert_eq!(stored_rows(&place), before);

    // The newer program is back.
    stamp(&place, 1);
    let done = place.json(&["resume", "r", "--json"]);
    assert_eq!((&done["status"], &done["output"]["n"]), (&"succeeded".into(), &3.into()), "{done}");
}

/// An ended run belongs to the newer program just the same.
#[test]
fn an_ended_run_of_a_newer_program_is_neither_misread_nor_removed() {
    let place = TestDir::new();
    place.write("flow.json", counting(1, "PT0.01S"));
    place.json(&["run", "flow.json", "--id", "r", "--json"]);
    stamp(&place, 2);
    let before = stored_rows(&place);
    for words in [&["status", "r"][..], &["resume", "r"], &["events", "r"], &["replay", "r"]] {
        place.windlass(words).has(REFUSAL);
    }
    place.windlass(&["clean", "--older-than", "0s"]).exits(0).has("0 runs");
    assert_eq!(stored_rows(&place), before);
    stamp(&place, 1);
    place.windlass(&["status", "r"]).exits(0).has("succeeded");
}

/// The run's own encoding is known, its plan's semantics are not.
#[test]
fn a_run_of_a_plan_with_newer_semantics_is_not_quarantined() {
    let place = TestDir::new();
    killed_run(&place);
    let store = SqliteStore::open(&place.path(".windlass"), SqliteOptions::default()).expect("the store opens");
    let ours = store.run("r").expect("read").expect("a run").plan;
    let mut plan = store.plan(&ours).expect("read").expect("a plan");
    let name = b"\xa9semantics";
    let at = plan.body.windows(name.len()).position(|part| part == name).expect("its version") + name.len();
    assert_eq!(std::mem::replace(&mut plan.body[at], 2), 1);
    let theirs = BlobHash(*b"a plan that a newer program made");
    store.put_plan(&PlanRow { hash: theirs, ..plan }).expect("kept");
    drop(store);
    let point_at = |plan: BlobHash| {
        let database = open_database(&place);
        database.execute("UPDATE runs SET plan = ?1", [plan.0]).expect("pointed at");
        windlass_store_sqlite::reseal_runs(&database).expect("resealed");
    };
    point_at(theirs);
    let before = stored_rows(&place);
    let refusal = "was written with plan semantics 2, this program reads up to 1";
    for words in [&["resume", "r"][..], &["status", "r"], &["replay", "r"], &["doctor"]] {
        place.windlass(words).has(refusal).has(HINT);
        assert_eq!(stored_rows(&place), before, "{words:?}");
    }
    served_and_killed(&place, refusal);
    assert_eq!(stored_rows(&place), before);
    point_at(ours);
    let done = place.json(&["resume", "r", "--json"]);
    assert_eq!(done["output"]["n"], 3, "{done}");
}

#[test]
fn a_store_of_a_newer_program_is_rejected_and_unchanged() {
    let place = TestDir::new();
    place.write("flow.json", counting(1, "PT0.01S"));
    place.json(&["run", "flow.json", "--id", "r", "--json"]);
    let version = |version: u32| {
        open_database(&place).pragma_update(None, "user_version", version).expect("stamped");
    };
    version(5);
    let before = stored_rows(&place);
    for words in
        [&["list"][..], &["status", "r"], &["run", "flow.json"], &["doctor"], &["serve", "--bind", "127.0.0.1:0"]]
    {
        let done = place.windlass(words);
        assert_ne!(done.code, Some(0), "{words:?}");
        done.has("needs a newer version of windlass: the store ").has("was written with store format 5").has(HINT);
    }
    assert_eq!(stored_rows(&place), before);
    version(4);
    place.windlass(&["status", "r"]).exits(0).has("succeeded");
}
