//! `windlass list`

use windlass_core::ErrorInfo;
use windlass_runtime::inspect::{ListedStatus, OwnerProbe, filter_by_status, live_owner, run_duration, run_time_now};
use windlass_runtime::real_now;
use windlass_store::{ParentFilter, RunFilter, RunRow, RunStatus, Store};
use windlass_syntax::nearest;
use windlass_value::{Timestamp, Value};

use super::tree;
use crate::args::{self, GlobalArgs};
use crate::failure::{CliExit, CliFailure};
use crate::out::{self, Paint};
use crate::runs::{Runs, ServerRuns};
use crate::{durations, stores, text};

/// Maximum number of characters of a run's labels.
const MAX_LABEL_CHARS: usize = 60;

/// Maximum number of characters of a definition's name.
const MAX_NAME_CHARS: usize = 32;

/// Maximum number of waiting runs without a process that get a note of their own.
const MAX_ORPHAN_NOTES: usize = 3;

pub(crate) fn list(global: &GlobalArgs, args: &args::ListArgs) -> Result<CliExit, CliFailure> {
    let statuses = parse_statuses(&args.status)?;
    let since = args.since.as_deref().map(|since| parse_since(since, real_now())).transpose()?;
    let filter = RunFilter {
        definition: args.definition.clone(),
        search: args.search.clone().filter(|search| !search.is_empty()),
        parent: (!args.children).then_some(ParentFilter::TopLevel),
        since,
        labels: args.labels.iter().cloned().collect(),
        ..RunFilter::default()
    };
    let runs = Runs::open(global)?;
    let page = match &runs {
        Runs::Store(store) => {
            let filter = with_resolved_search(&**store, filter)?;
            let page = RunPage::read(&**store, &filter_by_status(&**store, filter, &statuses)?, args)?;
            page.with_damaged(&**store, args, &statuses)?
        }
        Runs::Server(server) => RunPage::request(server, &filter, &statuses, args)?,
    };
    if global.json {
        out::print_json(&Value::list(page.runs.iter().map(to_value).collect()))?;
        return Ok(CliExit::Success);
    }
    out::print(&show(&page.runs, Paint::stdout(global.no_color)))?;
    print_notes(global, &runs, &page.runs)?;
    if let Some(next) = page.next {
        out::note(&format!("more: {}", stores::command(global, &next_page(args, next))));
    }
    Ok(CliExit::Success)
}

/// Searches for the run of an execution id by its id, as a server does.
fn with_resolved_search(store: &dyn Store, filter: RunFilter) -> Result<RunFilter, CliFailure> {
    let found = filter.search.as_deref().map(|search| windlass_runtime::find_run(store, search)).transpose()?.flatten();
    let search = found.map(|row| row.run.to_string()).or(filter.search);
    Ok(RunFilter { search, ..filter })
}

/// One page of a list.
struct RunPage {
    runs: Vec<ListedRun>,
    /// The cursor of the next page.
    next: Option<i64>,
}

/// A run with the status under which it is listed.
type ListedRun = (ListedStatus, RunRow);

impl RunPage {
    fn read(store: &dyn Store, filter: &RunFilter, args: &args::ListArgs) -> Result<RunPage, CliFailure> {
        let max_rows = if args.all { usize::MAX } else { args.limit as usize };
        let mut rows: Vec<RunRow> = Vec::new();
        let mut more = false;
        stores::each_run_before(store, filter, args.before, |row| {
            // Reads one row more than shown, to know whether there are more.
            more = rows.len() == max_rows;
            if !more {
                rows.push(row);
            }
            !more
        })?;
        let next = rows.last().filter(|_| more).map(|last| last.number);
        let mut probe = OwnerProbe::new(store);
        let runs = rows.into_iter().map(|row| Ok((probe.status(&row)?, row)));
        Ok(RunPage { runs: runs.collect::<Result<_, CliFailure>>()?, next })
    }

    /// Adds the runs whose rows are damaged to the first page, whatever the other filters: what they are compared with may
    /// be part of the damage.
    fn with_damaged(
        mut self,
        store: &dyn Store,
        args: &args::ListArgs,
        statuses: &[ListedStatus],
    ) -> Result<RunPage, CliFailure> {
        let is_listed = statuses.is_empty() || statuses.contains(&ListedStatus::Damaged);
        if args.before.is_some() || !is_listed {
            return Ok(self);
        }
        let listed = store.damage()?.into_iter().filter_map(|damaged| {
            let row = *damaged.run?;
            let run = if row.run.is_empty() { damaged.id.to_string().into() } else { row.run.clone() };
            Some((ListedStatus::Damaged, RunRow { run, ..row }))
        });
        self.runs.splice(0..0, listed.collect::<Vec<_>>());
        Ok(self)
    }

    fn request(
        server: &ServerRuns,
        filter: &RunFilter,
        statuses: &[ListedStatus],
        args: &args::ListArgs,
    ) -> Result<RunPage, CliFailure> {
        let max_rows = if args.all { usize::MAX } else { args.limit as usize };
        let words: Vec<&str> = statuses.iter().map(|status| status.as_str()).collect();
        let labels: Vec<String> = filter.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut query = vec![("children", args.children.to_string())];
        let mut add = |name, text: Option<String>| query.extend(text.map(|text| (name, text)));
        add("status", (!words.is_empty()).then(|| words.join(",")));
        add("definition", filter.definition.clone());
        add("search", filter.search.clone());
        add("since", filter.since.map(|since| since.to_string()));
        add("label", (!labels.is_empty()).then(|| labels.join(",")));
        add("before", args.before.map(|before| before.to_string()));
        let mut runs = server.list(&query, max_rows.saturating_add(1))?;
        let more = runs.len() > max_rows;
        runs.truncate(max_rows);
        let next = runs.last().filter(|_| more).map(|(_, last)| last.number);
        Ok(RunPage { runs, next })
    }
}

/// Explains runs that do not continue by themselves, with the next command.
fn print_notes(global: &GlobalArgs, runs: &Runs, listed: &[ListedRun]) -> Result<(), CliFailure> {
    let is_interrupted =
        |(status, row): &&ListedRun| *status == ListedStatus::Interrupted && row.check_format().is_ok();
    if let Some((_, row)) = listed.iter().find(is_interrupted) {
        let resume = match runs {
            Runs::Store(store) => stores::resume_hint(global, &**store, row)?,
            Runs::Server(_) => stores::command(global, &format!("resume {}", row.run)),
        };
        out::note(&format!("no process runs an interrupted run; to resume {}: {resume}", row.run));
    }
    let is_damaged = |(status, _): &&ListedRun| *status == ListedStatus::Damaged;
    if let Some((_, row)) = listed.iter().find(is_damaged) {
        let look = stores::command(global, "doctor");
        out::note(&format!("the row of {} is damaged; all other runs work\n  hint: {look}", row.run));
    }
    print_orphan_notes(global, runs, listed)?;
    for (_, row) in listed.iter().filter(|run| !is_damaged(run)) {
        if let Some(why) = windlass_runtime::quarantine_reason(row) {
            let look = stores::command(global, &format!("replay {}", row.run));
            out::note(&format!("{} is quarantined: {}\n  hint: {look}", row.run, why.message));
        }
        if let Err(error) = row.check_format() {
            out::note(&format!("{}\n  hint: {}", error.message, error.hint.unwrap_or_default()));
        }
    }
    Ok(())
}

/// Explains waiting runs whose timer no process and no server will notice.
fn print_orphan_notes(global: &GlobalArgs, runs: &Runs, listed: &[ListedRun]) -> Result<(), CliFailure> {
    let Runs::Store(store) = runs else { return Ok(()) };
    let is_waiting = |(status, row): &&ListedRun| {
        *status == ListedStatus::Stored(RunStatus::Waiting) && row.timer.is_some() && row.check_format().is_ok()
    };
    let mut orphans = Vec::new();
    for (_, row) in listed.iter().filter(is_waiting) {
        if live_owner(&**store, row)?.is_none() && stores::server_address(global, row).is_none() {
            orphans.push(row);
        }
    }
    for row in orphans.iter().take(MAX_ORPHAN_NOTES) {
        let overdue = row.timer.and_then(|due| tree::format_overdue(due, run_time_now(row, row.changed_at)));
        let overdue = overdue.map(|overdue| format!(" and is {overdue}")).unwrap_or_default();
        let resume = stores::resume_hint(global, &**store, row)?;
        out::note(&format!("no process runs {}, which waits for a time{overdue}; to resume it: {resume}", row.run));
    }
    match orphans.len().saturating_sub(MAX_ORPHAN_NOTES) {
        0 => {}
        more => out::note(&format!("no process runs {} either", text::pluralize(more as u64, "more waiting run"))),
    }
    Ok(())
}

/// Returns the command that shows the next page: the same filters, after the last run of this page.
fn next_page(args: &args::ListArgs, next: i64) -> String {
    let mut words = vec!["list".to_owned()];
    let mut flag = |name: &str, value: &str| words.push(format!("--{name} {}", stores::shell_quote(value)));
    if !args.status.is_empty() {
        flag("status", &args.status.join(","));
    }
    let texts = [("definition", &args.definition), ("since", &args.since), ("search", &args.search)];
    texts.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))).for_each(|(name, text)| flag(name, text));
    args.labels.iter().for_each(|(name, value)| flag("label", &format!("{name}={value}")));
    if args.limit != args::DEFAULT_LIMIT {
        flag("limit", &args.limit.to_string());
    }
    flag("before", &next.to_string());
    if args.children {
        words.push("--children".to_owned());
    }
    words.join(" ")
}

fn parse_statuses(words: &[String]) -> Result<Vec<ListedStatus>, CliFailure> {
    words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).map(parse_status).collect()
}

fn parse_status(word: &str) -> Result<ListedStatus, CliFailure> {
    ListedStatus::parse(&word.to_lowercase()).ok_or_else(|| {
        let words: Vec<&str> = ListedStatus::all().map(ListedStatus::as_str).collect();
        let failure = CliFailure::usage(format!("`{word}` is not a run status"));
        match nearest(word, words.iter().copied()) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint(words.join(", ")),
        }
    })
}

/// Parses a time, or the duration from it to now.
fn parse_since(text: &str, now: Timestamp) -> Result<Timestamp, CliFailure> {
    if let Some(time) = Timestamp::parse_rfc3339(text) {
        return Ok(time);
    }
    let age = durations::parse(text).map_err(|_| {
        CliFailure::usage(format!("--since: `{text}` is neither a duration nor a time"))
            .hint("such as 2h, 30d or 2026-11-16T09:30:00Z")
    })?;
    Ok(Timestamp(now.0.saturating_sub(i64::try_from(age.0).unwrap_or(i64::MAX))))
}

fn show(runs: &[ListedRun], paint: Paint) -> String {
    if runs.is_empty() {
        return "no runs".to_owned();
    }
    let mut head = ["RUN", "DEFINITION", "STATUS", "STARTED", "DURATION"].map(str::to_owned).to_vec();
    head.extend(runs.iter().any(|(_, row)| !row.labels.is_empty()).then(|| "LABELS".to_owned()));
    let now = real_now();
    let line = |(status, row): &ListedRun| {
        let status = status.as_str();
        vec![
            row.run.to_string(),
            text::truncate(&text::one_line(&row.definition), MAX_NAME_CHARS),
            paint.status(status, status),
            format!("{} ago", text::format_duration(now.since(row.created_at))),
            text::format_duration(run_duration(row)),
            text::labels(&row.labels, MAX_LABEL_CHARS),
        ]
    };
    text::table(&std::iter::once(head).chain(runs.iter().map(line)).collect::<Vec<_>>())
}

fn to_value((status, row): &ListedRun) -> Value {
    let facts = [
        ("run", Value::from(row.run.clone())),
        ("execution_id", Value::from(row.execution_id.to_string())),
        ("number", Value::from(row.number)),
        ("definition", Value::from(row.definition.as_str())),
        ("dialect", Value::from(row.dialect.as_str())),
        ("status", Value::from(status.as_str())),
        ("created_at", Value::from(row.created_at.to_string())),
        ("changed_at", Value::from(row.changed_at.to_string())),
        ("duration_ms", Value::from(run_duration(row).as_ms())),
        ("parent", Value::from(row.parent.clone())),
        ("labels", text::labels_value(&row.labels)),
    ];
    let error = |why: ErrorInfo| ("error", windlass_runtime::error_value(&why));
    let reason = windlass_runtime::quarantine_reason(row).filter(|_| *status != ListedStatus::Damaged);
    Value::object(facts.into_iter().chain(reason.map(error)))
}
