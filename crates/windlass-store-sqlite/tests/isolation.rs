//! Damage in one row, of every kind, leaves all other rows usable.

mod common;

use common::{Scratch, open};
use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{
    BatchVerdict, DamagedRowId, DamagedTable, RecordChange, RunBatch, RunFilter, RunStatus, StatusChange, StoreClean,
    StoreDamage, StoreErrorKind, StoreRead, StoreRecords, StoreScan, StoreWrite, WaitRow,
};
use windlass_store_sqlite::SqliteStore;
use windlass_value::Timestamp;

/// The kinds of damage to the row of a run.
const DAMAGE: &[(&str, &str)] = &[
    ("an unknown status", "UPDATE runs SET status = 'runnimg' WHERE id = 'ill'"),
    ("options that do not match their checksum", "UPDATE runs SET options = x'07' WHERE id = 'ill'"),
    ("a checksum that does not match", "UPDATE runs SET options_checksum = 1 WHERE id = 'ill'"),
    ("a checksum out of range", "UPDATE runs SET options_checksum = -1 WHERE id = 'ill'"),
    ("a short plan hash", "UPDATE runs SET plan = x'00' WHERE id = 'ill'"),
    ("a negative epoch", "UPDATE runs SET owner_epoch = -5 WHERE id = 'ill'"),
    ("a negative format", "UPDATE runs SET format = -1 WHERE id = 'ill'"),
    ("a definition that is no text", "UPDATE runs SET definition = CAST(x'ff' AS TEXT) WHERE id = 'ill'"),
    ("an id that is no text", "UPDATE runs SET id = CAST(x'ff' AS TEXT) WHERE id = 'ill'"),
    ("a result without its checksum", "UPDATE runs SET result = x'01' WHERE id = 'ill'"),
    ("another owner", "UPDATE runs SET owner = 'another' WHERE id = 'ill'"),
    ("a timer that is not due", "UPDATE runs SET timer = 8 WHERE id = 'ill'"),
    ("another parent", "UPDATE runs SET parent = 'new' WHERE id = 'ill'"),
];

fn run_sql(store: &SqliteStore, sql: &str) {
    let shell = rusqlite::Connection::open(store.file()).expect("any tool opens it");
    assert_eq!(shell.execute(sql, []).expect("the row can be changed"), 1, "{sql}");
}

fn wait(path: &str) -> WaitRow {
    let (name, body) = ("approve".into(), b"form".to_vec());
    WaitRow { name, path: path.into(), body, since: Timestamp(1), deadline: None }
}

fn running(run: &str, timer: i64) -> Vec<RunBatch> {
    let status = StatusChange { status: RunStatus::Running, at: Timestamp(2), result: None };
    let (timer, waits) = (Some(Some(Timestamp(timer))), Some(vec![wait("a")]));
    vec![RunBatch { timer, waits, status: Some(status), ..creation(run) }, tick(run, 0, vec![1])]
}

#[test]
fn every_kind_of_damage_stays_in_its_row() {
    for (name, sql) in DAMAGE {
        let scratch = Scratch::new();
        let store = open(scratch.path());
        for (run, timer) in [("old", 1), ("ill", 2), ("new", 3)] {
            store.append(running(run, timer)).expect("append");
        }
        let number = store.run("ill").expect("read").expect("a run").number;
        run_sql(&store, sql);
        // As the next process finds it.
        drop(store);
        let store = open(scratch.path());
        let filters = [RunFilter::default(), RunFilter { unfinished: true, ..RunFilter::default() }];
        for filter in filters {
            let listed = store.runs(&filter, None, 9).expect("the listing works");
            assert_eq!(listed.iter().map(|row| &*row.run).collect::<Vec<_>>(), ["new", "old"], "{name}");
        }
        let due = store.due(Timestamp(9), 2).expect("timers");
        assert_eq!(due.iter().map(|row| &*row.run).collect::<Vec<_>>(), ["old", "new"], "{name}");
        let owner = store.open_owner_name();
        let claims = store.claim_all(&["old".into(), "ill".into(), "new".into()], &owner).expect("claims");
        assert_eq!(claims.len(), 3, "{name}: {claims:?}");
        let batches =
            vec![epoch(tick("old", 1, vec![2])), epoch(tick("ill", 1, vec![2])), epoch(tick("new", 1, vec![2]))];
        let verdicts = store.append(batches).expect("append");
        assert_eq!((verdicts[0], verdicts[2]), (BatchVerdict::Committed, BatchVerdict::Committed), "{name}");
        assert!(store.waits(None, 0, 9).expect("waits").len() >= 2, "{name}");

        // Waits are listed with the id and the definition of their run, and share its damage.
        let mut damage = store.damage().expect("read");
        damage.retain(|row| row.id.table != DamagedTable::Waits);
        assert_eq!(damage.iter().map(|row| row.id).collect::<Vec<_>>(), [run_id(number)], "{name}: {damage:?}");
        assert!(
            damage[0].reason.starts_with("Table runs, row 2 ") && damage[0].reason.contains("damaged"),
            "{name}: {damage:?}"
        );
        assert!(!store.verify().expect("verify").is_empty(), "{name}");
        assert!(store.remove_damaged(run_id(number)).expect("removed"), "{name}");
        while store.sweep().expect("sweep").more {}
        assert_eq!(store.verify().expect("verify"), Vec::<String>::new(), "{name}");
        assert!(store.damage().expect("read").is_empty(), "{name}");
    }
}

fn run_id(number: i64) -> DamagedRowId {
    DamagedRowId::new(DamagedTable::Runs, number)
}

/// The batch of an owner that has claimed its run once.
fn epoch(batch: RunBatch) -> RunBatch {
    RunBatch { owner_epoch: 2, ..batch }
}

trait OwnerName {
    fn open_owner_name(&self) -> String;
}

impl OwnerName for SqliteStore {
    fn open_owner_name(&self) -> String {
        windlass_store::StoreOwners::open_owner(self).expect("an owner").name
    }
}

#[test]
fn a_damaged_wait_hides_no_other_and_can_be_removed() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    for run in ["one", "two", "three"] {
        store.append(running(run, 1)).expect("append");
    }
    run_sql(&store, "UPDATE waits SET body = x'00' WHERE run = (SELECT number FROM runs WHERE id = 'two')");
    let listed = store.waits(None, 0, 2).expect("waits");
    assert_eq!(listed.iter().map(|wait| &*wait.run).collect::<Vec<_>>(), ["one", "three"]);
    let damage = store.damage().expect("read");
    assert_eq!((damage.len(), damage[0].name.as_deref()), (1, Some("two")), "{damage:?}");
    assert_eq!(damage[0].id.table, DamagedTable::Waits);
    assert!(store.remove_damaged(damage[0].id).expect("removed"));
    assert!(store.damage().expect("read").is_empty());
    assert!(store.run("two").expect("read").is_some(), "its run stays");
}

#[test]
fn a_row_that_is_repaired_is_no_longer_listed() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    store.append(running("r", 1)).expect("append");
    let put = RecordChange::put("token", "t", b"secret".to_vec(), Timestamp(1));
    assert!(store.change_records(vec![put]).expect("changed"));
    run_sql(&store, "UPDATE runs SET status = 'waiting' WHERE id = 'r'");
    run_sql(&store, "UPDATE records SET body = x'00'");
    assert_eq!(store.run("r").expect_err("damaged").kind, StoreErrorKind::Damaged);
    assert!(store.records("token", "", 9).expect("a page").is_empty());
    assert_eq!(store.damage().expect("read").len(), 2);
    run_sql(&store, "UPDATE runs SET status = 'running' WHERE id = 'r'");
    let put = RecordChange::put("token", "t", b"new secret".to_vec(), Timestamp(2));
    assert!(store.change_records(vec![put]).expect("a damaged record can be replaced"));
    assert!(store.damage().expect("read").is_empty());
}
