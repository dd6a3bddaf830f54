//! Log lines are read in order, by path and page by page. They are bounded, and removed with their run.

use std::sync::Arc;

use windlass_value::Timestamp;

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, status};
use crate::{BatchVerdict, LogBatch, LogFilter, LogPage, LogStream, NewLogLine, RunBatch, RunStatus, Store};

const NO_LIMIT: u64 = u64::MAX;

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    commit(&store, vec![creation("r"), creation("other")]);
    let syncs = subject.syncs();
    let lines = [
        line("r", "pages[1].save", 1, LogStream::Stdout, "one"),
        line("r", "pages[1].save", 2, LogStream::Stderr, "two \u{fc}"),
        line("other", "pages[1].save", 1, LogStream::Log, "elsewhere"),
        line("missing", "a", 1, LogStream::Log, "of no run"),
        line("r", "pages[10].save", 1, LogStream::Lost, "7"),
        line("r", "pages_2", 1, LogStream::Log, ""),
    ];
    store.append_logs(&lines, NO_LIMIT).expect("written");
    assert_eq!(subject.syncs(), syncs, "log lines are not synced");
    let all = page(&store, None, 0, 99);
    assert_eq!(texts(&all), ["one", "two \u{fc}", "7", ""]);
    let second = &all.lines[1];
    assert_eq!((&*second.path, second.attempt, second.stream), ("pages[1].save", 2, LogStream::Stderr));
    assert_eq!((second.at, all.removed), (Timestamp(7), 0));
    assert_eq!(texts(&page(&store, None, second.position, 1)), ["7"], "the next page, without a gap");
    for (path, expected) in [
        ("pages", vec!["one", "two \u{fc}", "7"]),
        ("pages[1]", vec!["one", "two \u{fc}"]),
        ("pages[1].save", vec!["one", "two \u{fc}"]),
        ("pages_2", vec![""]),
        ("page", vec![]),
    ] {
        assert_eq!(texts(&page(&store, Some(path), 0, 99)), expected, "{path}");
    }
    check_committed_lines(&store);
    check_bounds(&store);
    subject.crash();
    assert_eq!(texts(&page(&subject.store(), Some("pages[10]"), 0, 9)), ["7"], "lines survive the process");
    check_removal(&subject.store());
}

/// Lines of a batch are committed with it, after those that were appended before; a refused batch stores none.
fn check_committed_lines(store: &Arc<dyn Store>) {
    commit(store, vec![creation("with")]);
    store.append_logs(&[line("with", "a", 1, LogStream::Log, "before")], NO_LIMIT).expect("written");
    let logs = |text: &str| {
        Some(LogBatch { lines: vec![line("with", "a", 1, LogStream::Log, text)], max_run_bytes: NO_LIMIT })
    };
    commit(store, vec![RunBatch { logs: logs("committed"), ..empty("with", 0) }]);
    let refused = RunBatch { logs: logs("refused"), owner_epoch: 99, ..empty("with", 0) };
    assert_eq!(store.append(vec![refused]).expect("an answer"), [BatchVerdict::Fenced]);
    let page = store.logs("with", LogFilter::default(), 0, 99).expect("read");
    assert_eq!(texts(&page), ["before", "committed"]);
}

/// A run that writes too much loses its oldest lines, which are counted.
fn check_bounds(store: &Arc<dyn Store>) {
    commit(store, vec![creation("long")]);
    for batch in 0..8 {
        let lines: Vec<NewLogLine> =
            (0..100).map(|at| line("long", "a", 1, LogStream::Log, &format!("{:>10}", batch * 100 + at))).collect();
        store.append_logs(&lines, 4_000).expect("written");
    }
    let page = store.logs("long", LogFilter::default(), 0, 9_999).expect("read");
    assert_eq!(page.removed + page.lines.len() as u64, 800, "every line is stored or counted");
    assert!(page.lines.len() <= 400, "{} lines of 10 bytes are more than 4,000 bytes", page.lines.len());
    assert_eq!(page.lines.last().map(|line| line.text.trim()), Some("799"), "the newest lines stay");
    let first: u64 = page.lines[0].text.trim().parse().expect("a number");
    assert_eq!(first, page.removed, "the oldest lines are removed");
}

fn check_removal(store: &Arc<dyn Store>) {
    commit(store, vec![RunBatch { status: Some(status(RunStatus::Succeeded, 5)), ..empty("r", 0) }]);
    store.remove("r", Timestamp(100)).expect("removed");
    assert_eq!(page(store, None, 0, 99), LogPage::default(), "the lines go with their run");
    while store.sweep().expect("swept").more {}
    commit(store, vec![creation("r")]);
    assert_eq!(page(store, None, 0, 99), LogPage::default(), "a new run of the same name has no lines");
    assert_eq!(store.logs("other", LogFilter::default(), 0, 99).expect("read").lines.len(), 1);
}

fn page(store: &Arc<dyn Store>, path: Option<&str>, after: i64, limit: u32) -> LogPage {
    store.logs("r", LogFilter { path }, after, limit).expect("read")
}

fn texts(page: &LogPage) -> Vec<&str> {
    page.lines.iter().map(|line| line.text.as_str()).collect()
}

fn line(run: &str, path: &str, attempt: u32, stream: LogStream, text: &str) -> NewLogLine {
    NewLogLine { run: run.into(), path: path.into(), attempt, stream, at: Timestamp(7), text: text.to_owned() }
}
