//! The tables, in ordinary SQL, so that any SQLite tool can read a store.

/// "Wind" in the file's header: distinguishes a Windlass store from any other SQLite file.
pub(crate) const APPLICATION_ID: i64 = 0x5769_6E64;

/// Version of the tables.
///
/// It is raised when a program that does not know the new tables would misread or break them: that covers new run
/// statuses and new meanings of columns. Programs refuse stores of a higher version, so a store must be upgraded
/// only while no other process has it open.
///
/// Versions 1 to 3 were never released, so nothing reads them.
pub(crate) const FORMAT_VERSION: i64 = 4;

/// SQL condition for a run that has not ended. SQLite uses a partial index only where a query repeats its condition
/// word for word, so both sides take it from here.
macro_rules! unfinished {
    () => {
        "status NOT IN ('succeeded', 'failed', 'skipped', 'cancelled', 'timed_out')"
    };
}
pub(crate) use unfinished;

/// The schema. The journal is stored in order of arrival: rows clustered by run were measured to be three to five
/// times slower. An ordinary commit touches only the journal and its index.
pub(crate) const TABLES: &str = concat!(
    "
-- One row, which every commit changes: the number of the commit and the hash of the commit before it. It is the first
-- table, so that its only page is known without reading the schema.
CREATE TABLE chain (
    id INTEGER PRIMARY KEY,
    link BLOB NOT NULL
) STRICT;

-- The checksum of a row is over all other columns, of a long body only over its own checksum. The column `written` is
-- the number of the commit that has written the row.
CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Times are microseconds since 1970, in UTC.
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    execution_id INTEGER NOT NULL UNIQUE,
    plan BLOB NOT NULL,
    definition TEXT NOT NULL,
    dialect TEXT NOT NULL,
    -- Version of the encoding of the run's stored data: options, journal, snapshots, iterations, result.
    format INTEGER NOT NULL,
    status TEXT NOT NULL,
    owner TEXT,
    owner_epoch INTEGER NOT NULL,
    -- The owner that wrote the newest tick before the last claim or release, and the number of ticks at the last claim.
    previous_owner TEXT,
    claimed_ticks INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    timer INTEGER,
    parent TEXT,
    labels_checksum INTEGER NOT NULL,
    options_checksum INTEGER NOT NULL,
    result_checksum INTEGER,
    written INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    options BLOB NOT NULL,
    result BLOB
) STRICT;
CREATE INDEX runs_timer ON runs (timer) WHERE timer IS NOT NULL;
CREATE INDEX runs_status ON runs (status);
CREATE INDEX runs_unfinished ON runs (number) WHERE ",
    unfinished!(),
    ";

-- The labels of runs. Listings by label read the rows of one label, newest run first.
CREATE TABLE run_labels (
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_labels_value ON run_labels (name, value, run);

CREATE TABLE journal (
    position INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    first_tick INTEGER NOT NULL,
    ticks INTEGER NOT NULL,
    first_event INTEGER NOT NULL,
    events INTEGER NOT NULL,
    body_checksum INTEGER NOT NULL,
    written INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX journal_run ON journal (run, first_tick);

CREATE TABLE snapshots (
    run INTEGER NOT NULL,
    tick INTEGER NOT NULL,
    event INTEGER NOT NULL,
    state_hash BLOB NOT NULL,
    body_checksum INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, tick)
) STRICT;

CREATE TABLE plans (
    hash BLOB PRIMARY KEY NOT NULL,
    dialect TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE blobs (
    hash BLOB PRIMARY KEY NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE iterations (
    run INTEGER NOT NULL,
    loop_path TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    -- 0: succeeded, 1: failed, 2: cancelled with their loop.
    outcome INTEGER NOT NULL,
    body_checksum INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, loop_path, first)
) STRICT;

-- A run is named by its id, because a child's start waits here before the child exists.
CREATE TABLE inbox (
    position INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    request_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    consumed INTEGER NOT NULL,
    written INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (run, request_id)
) STRICT;
CREATE INDEX inbox_unconsumed ON inbox (run, position) WHERE consumed = 0;

CREATE INDEX runs_parent ON runs (parent) WHERE parent IS NOT NULL;

-- The runs that have written a blob.
CREATE TABLE blob_runs (
    hash BLOB NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (hash, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_runs_run ON blob_runs (run);

-- Places of runs in their run trees: children, roots with children, and cancelled runs.
CREATE TABLE run_trees (
    run INTEGER PRIMARY KEY,
    -- The number of the root, for every other run.
    root INTEGER,
    -- For a root: the open runs below it.
    open INTEGER NOT NULL,
    -- 1: cancelled from outside the tree, 2: cancelled by the parent run, 4: has replied to the parent run.
    marks INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- Numbers of removed runs that have rows left. Such a number is not reused.
CREATE TABLE removed_runs (
    number INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL
) STRICT;

-- Listings stay fast with a million runs: a condition without its own index scans `runs_scan`, which is a small
-- fraction of the size of the rows.
CREATE INDEX runs_definition ON runs (definition);
CREATE INDEX runs_top ON runs (number) WHERE parent IS NULL;
CREATE INDEX runs_scan ON runs (number, id, definition, dialect, created_at, parent);

-- Log lines of tasks, in order of arrival. They are no part of the journal, and their commits are not synced.
CREATE TABLE logs (
    position INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    path TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    -- 0: standard output, 1: standard error, 2: a worker's log, 3: the number of lost lines.
    stream INTEGER NOT NULL,
    at INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX logs_run ON logs (run, position);

-- The bytes of a run's log lines, and the number of its oldest lines that were removed.
CREATE TABLE log_totals (
    run INTEGER PRIMARY KEY,
    bytes INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- Open waits of runs for an external answer.
CREATE TABLE waits (
    position INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    since INTEGER NOT NULL,
    deadline INTEGER,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (run, path)
) STRICT;

-- Records that belong to no run. A change inserts the row anew, with the next revision of the chain: none repeats.
CREATE TABLE records (
    revision INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (kind, key)
) STRICT;
"
);
