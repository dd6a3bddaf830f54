//! `windlass logs RUN [PATH]`

use std::sync::Arc;
use std::time::Duration;

use windlass_store::{LogFilter, LogPage, LogRow, LogStream, RunStatus};
use windlass_value::{Value, to_json};

use crate::args::{self, GlobalArgs};
use crate::failure::{CliExit, CliFailure};
use crate::follow::{ChangePoller, POLL_INTERVAL};
use crate::out::{self, Paint};
use crate::runs::{Runs, decode};
use crate::{stores, text};

/// Lines read from the store per query.
const PAGE_ROWS: u32 = 1_000;

/// Time between two requests for new lines to a server.
const SERVER_POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn logs(global: &GlobalArgs, args: &args::LogsArgs) -> Result<CliExit, CliFailure> {
    let runs = Runs::open(global)?;
    let run = match &runs {
        Runs::Store(store) => stores::find(&**store, &args.run)?.run,
        Runs::Server(server) => decode::listed_run(&server.find(&args.run)?)?.1.run,
    };
    let mut reader = LogReader { run, path: args.path.clone(), after: args.after };
    let mut printer = LogPrinter {
        json: global.json,
        paint: Paint::stdout(global.no_color),
        date: String::new(),
        left: args.limit.unwrap_or(usize::MAX),
        printed: false,
        noted_removed: 0,
    };
    if args.follow {
        return follow(&runs, &mut reader, &mut printer);
    }
    while printer.left > 0 && printer.print(reader.read(&runs)?)? {}
    if !printer.printed && !global.json {
        out::note(&nothing_logged(&reader));
    }
    Ok(CliExit::Success)
}

fn nothing_logged(reader: &LogReader) -> String {
    let in_brackets =
        |path: &str| windlass_runtime::bracketed_path(path).map(|other| format!(" (did you mean `{other}`?)"));
    let place = |path: &String| format!(" at `{path}`{}", in_brackets(path).unwrap_or_default());
    let place = reader.path.as_ref().map(place).unwrap_or_default();
    format!(
        "no log lines of run {}{place}: tools that run programs and code write them, and a worker's log()",
        reader.run
    )
}

/// Prints lines until the run has ended and all of its lines are printed.
fn follow(runs: &Runs, reader: &mut LogReader, printer: &mut LogPrinter) -> Result<CliExit, CliFailure> {
    let mut changes = ChangePoller::default();
    loop {
        let (changed, interval) = match runs {
            Runs::Store(store) => (changes.has_changed(&**store)?, POLL_INTERVAL),
            Runs::Server(_) => (true, SERVER_POLL_INTERVAL),
        };
        if changed {
            // Read before the lines: the process that ran an ended run has written all of them.
            let status = reader.run_status(runs)?;
            while printer.left > 0 && printer.print(reader.read(runs)?)? {}
            if status.is_final() || printer.left == 0 {
                return Ok(CliExit::Success);
            }
        }
        std::thread::sleep(interval);
    }
}

/// Reads the log lines of a run in order, each once.
struct LogReader {
    run: Arc<str>,
    path: Option<String>,
    after: i64,
}

impl LogReader {
    fn run_status(&self, runs: &Runs) -> Result<RunStatus, CliFailure> {
        match runs {
            Runs::Store(store) => Ok(stores::find(&**store, &self.run)?.status),
            Runs::Server(server) => Ok(decode::listed_run(&server.detail(&self.run)?)?.1.status),
        }
    }

    fn read(&mut self, runs: &Runs) -> Result<LogPage, CliFailure> {
        let page = match runs {
            Runs::Store(store) => {
                let filter = LogFilter { path: self.path.as_deref() };
                store.logs(&self.run, filter, self.after, PAGE_ROWS)?
            }
            Runs::Server(server) => server.logs(&self.run, self.path.as_deref(), self.after, PAGE_ROWS)?,
        };
        self.after = page.lines.last().map_or(self.after, |last| last.position);
        Ok(page)
    }
}

/// Prints log lines, at most `left` of them.
struct LogPrinter {
    json: bool,
    paint: Paint,
    /// The date of the last printed line.
    date: String,
    left: usize,
    printed: bool,
    /// The number of removed lines that a note has reported.
    noted_removed: u64,
}

impl LogPrinter {
    /// Prints a page. Returns false if it was empty.
    fn print(&mut self, page: LogPage) -> Result<bool, CliFailure> {
        if page.removed > self.noted_removed {
            self.noted_removed = page.removed;
            let lines = text::pluralize(page.removed, "older line");
            out::note(&format!("{lines} no longer stored: the run has written more than `max_log_run_bytes`"));
        }
        let shown = &page.lines[..page.lines.len().min(self.left)];
        self.left -= shown.len();
        let lines: Vec<String> = shown.iter().flat_map(|line| self.lines(line)).collect();
        if !lines.is_empty() {
            self.printed = true;
            out::print(&lines.join("\n"))?;
        }
        Ok(!page.lines.is_empty())
    }

    /// Returns the text of a line, and before it the date if that has changed.
    fn lines(&mut self, line: &LogRow) -> Vec<String> {
        if self.json {
            return vec![to_json(&to_value(line))];
        }
        let time = line.at.to_string();
        let (date, clock) = time.split_at_checked(10).unwrap_or((&time, ""));
        let clock = clock.get(1..13).unwrap_or(&time);
        let heading = (self.date != date).then(|| format!("{date} (UTC)"));
        self.date = date.to_owned();
        heading.into_iter().chain([self.format(line, clock)]).collect()
    }

    fn format(&self, line: &LogRow, clock: &str) -> String {
        let attempt = if line.attempt > 1 { format!(" (attempt {})", line.attempt) } else { String::new() };
        let stream = line.stream.as_str();
        let body = match line.stream {
            LogStream::Lost => format!("{} lines of this attempt were not stored", line.text),
            LogStream::Stdout | LogStream::Stderr | LogStream::Log => text::one_line(&line.text),
        };
        let stream = match line.stream {
            LogStream::Stderr | LogStream::Lost => self.paint.status("paused", &format!("{stream:<6}")),
            LogStream::Stdout | LogStream::Log => format!("{stream:<6}"),
        };
        format!("{clock}  {:<24}  {stream}  {body}", format!("{}{attempt}", line.path)).trim_end().to_owned()
    }
}

fn to_value(line: &LogRow) -> Value {
    Value::object([
        ("position", Value::from(line.position)),
        ("at", Value::from(line.at.to_string())),
        ("path", Value::from(line.path.clone())),
        ("attempt", Value::from(line.attempt)),
        ("stream", Value::from(line.stream.as_str())),
        ("text", Value::from(line.text.as_str())),
    ])
}
