//! Watches a run of a server: its events as the server sends them, until it ends.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;
use windlass_core::plan::Plan;
use windlass_runtime::inspect::StoredEvent;
use windlass_store::RunRow;
use windlass_value::{Value, parse_json};

use super::api::{ApiError, with_query};
use super::decode;
use super::server::{EndedReport, ServerRuns, run_path};
use crate::args::GlobalArgs;
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure};
use crate::host::Interrupts;
use crate::out;
use crate::progress::{BEAT, ProgressDisplay};
use crate::report::EndedRun;
use crate::{hints, stores, text, warnings};

/// Time within which a server that went away may return.
const RECONNECT_FOR: Duration = Duration::from_secs(3);
/// Time without any message after which a stream counts as broken: a quiet one has a heartbeat every 15 seconds.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Time between two attempts to reach it again.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);

/// One reader of the events of a run.
pub(crate) struct EventFollower<'a> {
    runs: &'a ServerRuns,
    run: Arc<str>,
    /// The number of the newest event that was returned.
    last_seq: u64,
    stream: Option<LineStream>,
}

/// The next message of a stream.
pub(crate) enum FollowMessage {
    Event(StoredEvent),
    /// The run has ended, and all of its events were returned.
    Ended,
}

impl<'a> EventFollower<'a> {
    pub(crate) fn new(runs: &'a ServerRuns, run: &str, last_seq: u64) -> EventFollower<'a> {
        EventFollower { runs, run: run.into(), last_seq, stream: None }
    }

    /// Returns the number of the newest event that was returned.
    pub(crate) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Waits for the next message. A stream that breaks is continued where it broke, if the server returns soon.
    pub(crate) async fn next(&mut self) -> Result<FollowMessage, ApiError> {
        let mut broken_since: Option<Instant> = None;
        loop {
            let error = match self.read().await {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => ApiError::Unreachable("it ended the stream of events".to_owned()),
                Err(error @ ApiError::Unreachable(_)) => error,
                Err(error) if error.is_status(503) => error,
                Err(error) => return Err(error),
            };
            self.stream = None;
            let since = *broken_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= RECONNECT_FOR {
                return Err(error);
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    /// Returns the failure for an error of `next`.
    pub(crate) fn failure(&self, error: ApiError) -> CliFailure {
        self.runs.api.failure(error)
    }

    /// Returns the next message of the open stream, or `None` at its end.
    async fn read(&mut self) -> Result<Option<FollowMessage>, ApiError> {
        if self.stream.is_none() {
            let path = with_query(&run_path(&self.run, "events"), &[("after", self.last_seq.to_string())]);
            self.stream = Some(LineStream::new(self.runs.api.lines(&path).await?));
        }
        let Some(stream) = &mut self.stream else { return Ok(None) };
        while let Some(line) = stream.next().await? {
            let message = std::str::from_utf8(&line).ok().and_then(|line| parse_json(line).ok()).unwrap_or_default();
            match (message.get("seq"), message.get("type").and_then(Value::as_str)) {
                (Some(_), _) => {
                    let event = decode::event(message)
                        .map_err(|failure| ApiError::Unreachable(failure.message().to_owned()))?;
                    self.last_seq = self.last_seq.max(event.seq());
                    return Ok(Some(FollowMessage::Event(event)));
                }
                (None, Some("end")) => return Ok(Some(FollowMessage::Ended)),
                // Heartbeats, and the notice before the server closes the stream.
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Names the command that continues, if the server went away while a run was followed. It is unknown whether the server
/// was stopped.
pub(crate) fn explain_server_away(global: &GlobalArgs, failure: CliFailure, command: &str) -> CliFailure {
    if !failure.is_server_away() {
        return failure;
    }
    let again = stores::command(global, command);
    failure.hint(match crate::runs::named_server(global) {
        Ok(None) => {
            let serve = hints::server_command(global);
            format!("if the server was stopped, the run continues with `{serve}`; to follow it then: {again}")
        }
        _ => format!("if the server was stopped, the run continues when it is back; to follow it then: {again}"),
    })
}

/// A body as lines.
struct LineStream {
    body: Incoming,
    buffer: BytesMut,
    /// The number of bytes of the buffer that contain no line break.
    searched: usize,
}

impl LineStream {
    fn new(body: Incoming) -> LineStream {
        LineStream { body, buffer: BytesMut::new(), searched: 0 }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + end + 1);
                self.searched = 0;
                return Ok(Some(line.freeze()));
            }
            self.searched = self.buffer.len();
            let silent = || ApiError::Unreachable(format!("it sent nothing for {} s", MAX_SILENCE.as_secs()));
            match tokio::time::timeout(MAX_SILENCE, self.body.frame()).await {
                Err(_) => return Err(silent()),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(ApiError::Unreachable(error.to_string())),
                Ok(Some(Ok(frame))) => self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            }
        }
    }
}

/// How a command follows a run of a server.
pub(crate) struct FollowOptions<'a> {
    pub settings: &'a CliSettings,
    /// Listened for since before the run was started, so that none is missed.
    pub interrupts: Interrupts,
    pub quiet: bool,
    /// Whether the summary says how long the run took.
    pub with_duration: bool,
    /// Shows only the progress from now on, for a run that began earlier.
    pub from_now: bool,
}

/// Follows a run to its end and prints its outcome. An interrupt ends the command and not the run.
pub(crate) fn follow_to_end(
    global: &GlobalArgs,
    runs: &ServerRuns,
    run: &str,
    options: FollowOptions<'_>,
) -> Result<CliExit, CliFailure> {
    // The server may go away before any of the requests, also between the start of the run and the first of them.
    let followed = follow_and_print(global, runs, run, options);
    followed.map_err(|failure| explain_server_away(global, failure, &format!("events {run} --follow")))
}

fn follow_and_print(
    global: &GlobalArgs,
    runs: &ServerRuns,
    run: &str,
    options: FollowOptions<'_>,
) -> Result<CliExit, CliFailure> {
    let detail = runs.detail(run)?;
    let (_, row) = decode::listed_run(&detail)?;
    let past_events = decode::optional_number(&detail, "events").filter(|_| options.from_now);
    let program = runs.program(&row, options.settings)?;
    let mut progress = match &program {
        Some(program) => ProgressDisplay::new(options.quiet, program),
        None => ProgressDisplay::Quiet,
    };
    progress.set_run(global, run);
    if let (Some(program), Some(events)) = (&program, past_events) {
        let frames = detail.get("current").map(decode::frames).transpose()?.unwrap_or_default();
        // A run that was paused is being resumed.
        progress.seed_frames(&program.plan, &frames, (events, row.created_at, false), decode::waits(&detail)?.1);
    }
    let mut follower = EventFollower::new(runs, run, past_events.unwrap_or_default());
    let mut interrupts = options.interrupts;
    let followed = runs.block_on(async {
        let followed = follow_events(&mut follower, &mut interrupts, &mut progress).await;
        progress.finish();
        followed.map_err(|error| follower.failure(error))
    })?;
    if !followed {
        let status = stores::command(global, &format!("status {run}"));
        out::note(&format!("no longer following; the run continues on the server: {status}"));
        return Ok(CliExit::Interrupted);
    }
    print_ended(global, runs, run, options.with_duration)
}

/// Shows the progress until the run has ended. Returns false on an interrupt.
async fn follow_events(
    follower: &mut EventFollower<'_>,
    interrupts: &mut Interrupts,
    progress: &mut ProgressDisplay,
) -> Result<bool, ApiError> {
    let mut beat = tokio::time::interval(BEAT);
    loop {
        let mut next = pin!(follower.next());
        let message = loop {
            tokio::select! {
                message = &mut next => break message?,
                _ = beat.tick() => progress.beat(),
                () = interrupts.next() => return Ok(false),
            }
        };
        match message {
            FollowMessage::Event(StoredEvent::Event(event)) => progress.event(&event),
            FollowMessage::Event(StoredEvent::Trimmed { .. }) => {}
            FollowMessage::Ended => return Ok(true),
        }
    }
}

/// Prints the outcome of an ended run of a server.
pub(crate) fn print_ended(
    global: &GlobalArgs,
    runs: &ServerRuns,
    run: &str,
    with_duration: bool,
) -> Result<CliExit, CliFailure> {
    let detail = runs.detail(run)?;
    let (_, row) = decode::listed_run(&detail)?;
    let plan = runs.plan(&row)?;
    let took = with_duration.then(|| text::format_duration(row.changed_at.since(row.created_at)));
    ended_run(runs, &row, &plan, &detail)?.print(global, took)
}

/// Builds the report of an ended run of a server.
pub(crate) fn ended_run<'a>(
    runs: &ServerRuns,
    row: &'a RunRow,
    plan: &'a Plan,
    detail: &Value,
) -> Result<EndedRun<'a>, CliFailure> {
    let EndedReport { report, details } = runs.ended(detail)?;
    let mut last_seq = 0;
    let warnings = warnings::collect(plan, &report, || {
        let events = runs.events(&row.run, last_seq)?;
        last_seq = events.last().map_or(last_seq, StoredEvent::seq);
        Ok::<_, CliFailure>(events)
    })?;
    Ok(EndedRun::from_parts(&row.run, plan, report, details, warnings).with_execution_id(row.execution_id))
}
