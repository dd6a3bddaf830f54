//! Drawings and timelines of runs, updated incrementally: a repeated request reads only the new events.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use windlass_core::plan::Plan;
use windlass_core::{
    Event, EventKind, FrameView, IdleReason, LoopEventLimits, LoopStats, Program, RunResult, State, frame_tree,
};
use windlass_draw::{Drawing, RunDrawing};
use windlass_runtime::inspect::{InheritedEvents, StoredEvent, StoredEvents, frame_path, run_time_now};
use windlass_runtime::{RuntimeError, completed_steps};
use windlass_store::{RunRow, Store};
use windlass_value::{Timestamp, Value};

use crate::App;
use crate::timeline::Timeline;

/// Maximum number of runs whose drawings are cached.
const MAX_CACHED_RUNS: usize = 64;

/// Maximum time a request waits for events to be read; short enough to be unnoticeable in the web UI.
const READ_TIMEOUT: Duration = Duration::from_millis(150);

/// Maximum time of one background read of a run.
const BACKGROUND_READ_TIME: Duration = Duration::from_secs(60);

/// Maximum number of concurrent background reads. Requests for further runs get a drawing of the state, and may
/// retry.
const MAX_BACKGROUND_READS: usize = 2;

/// The key of a cached run: its id, and its creation time, as after a removal another run may get the same id.
type RunKey = (Arc<str>, Timestamp);

type CachedRun = (RunKey, Arc<Mutex<RunProjection>>);

/// Drawings of the most recently requested runs.
pub struct RunDrawingCache {
    cached: Mutex<VecDeque<CachedRun>>,
    /// Number of threads reading in the background.
    background_reads: Arc<AtomicUsize>,
    /// Time a caller waits for events to be read; the rest is read in the background.
    pub read_timeout: Duration,
}

impl Default for RunDrawingCache {
    fn default() -> RunDrawingCache {
        RunDrawingCache { cached: Mutex::default(), background_reads: Arc::default(), read_timeout: READ_TIMEOUT }
    }
}

/// The drawing and timeline of one run, as far as its events were read.
pub(crate) struct RunProjection {
    drawing: RunDrawing,
    pub timeline: Timeline,
    inherited: InheritedEvents,
    events: StoredEvents,
    newest: Timestamp,
    /// A background thread is reading this run.
    is_reading: bool,
}

impl RunDrawingCache {
    /// Returns the projection of a run. `create` reads the store, so it is called without the lock of the cache.
    fn get_or_insert(
        &self,
        key: RunKey,
        create: impl FnOnce() -> Result<RunProjection, RuntimeError>,
    ) -> Result<Arc<Mutex<RunProjection>>, RuntimeError> {
        if let Some(found) = find_cached(&mut self.lock(), &key) {
            return Ok(found);
        }
        let created = Arc::new(Mutex::new(create()?));
        let mut cached = self.lock();
        // Another request may have been faster.
        if let Some(found) = find_cached(&mut cached, &key) {
            return Ok(found);
        }
        cached.push_back((key, created.clone()));
        if cached.len() > MAX_CACHED_RUNS {
            cached.pop_front();
        }
        Ok(created)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<CachedRun>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds a cached run, which becomes the most recently requested one.
fn find_cached(cached: &mut VecDeque<CachedRun>, key: &RunKey) -> Option<Arc<Mutex<RunProjection>>> {
    let at = cached.iter().position(|(run, _)| run == key)?;
    let found = cached.remove(at)?;
    let painter = found.1.clone();
    cached.push_back(found);
    Some(painter)
}

impl RunProjection {
    fn new(store: &dyn Store, row: &RunRow, plan: &Plan) -> Result<RunProjection, RuntimeError> {
        Ok(RunProjection {
            drawing: RunDrawing::new(plan).with_run_name(&*row.run),
            timeline: Timeline::new(plan),
            inherited: InheritedEvents::new(store, row)?,
            events: StoredEvents::new(row.run.clone(), 0),
            newest: row.created_at,
            is_reading: false,
        })
    }

    /// Reads further events; returns whether all were read.
    fn read(&mut self, app: &App, time_limit: Duration) -> Result<bool, RuntimeError> {
        let begun = Instant::now();
        loop {
            let pieces = self.inherited.read(app.store.as_ref())?;
            if pieces.is_empty() {
                break;
            }
            pieces.into_iter().for_each(|piece| self.draw(piece));
            if begun.elapsed() > time_limit {
                return Ok(false);
            }
        }
        loop {
            let pieces = self.events.read(app.store.as_ref())?;
            if pieces.is_empty() {
                return Ok(true);
            }
            for piece in pieces {
                if let StoredEvent::Event(event) = &piece {
                    self.newest = self.newest.max(event.at);
                    self.timeline.add_event(event);
                }
                self.draw(piece);
            }
            if begun.elapsed() > time_limit {
                return Ok(false);
            }
        }
    }

    fn draw(&mut self, piece: StoredEvent) {
        match piece {
            StoredEvent::Event(event) => self.drawing.event(&event),
            StoredEvent::Trimmed { from, to } => self.drawing.missing(from, to),
        }
    }
}

/// Counts one background read.
struct BackgroundRead(Arc<AtomicUsize>);

impl BackgroundRead {
    /// Reserves a background read. None: the limit is reached.
    fn begin(count: &Arc<AtomicUsize>) -> Option<BackgroundRead> {
        let more = |count: usize| (count < MAX_BACKGROUND_READS).then_some(count + 1);
        count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|_| BackgroundRead(count.clone()))
    }
}

impl Drop for BackgroundRead {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Applies `project` to a run, with true if all its events were read. If reading takes longer than the timeout, the rest
/// is read in the background for the next request. Returns None while another request reads, or if `project` does.
fn with_projection<T>(
    app: &App,
    row: &RunRow,
    plan: &Plan,
    project: impl FnOnce(&mut RunProjection, bool) -> Option<T>,
) -> Result<Option<T>, RuntimeError> {
    let shared = app
        .views
        .painters
        .get_or_insert((row.run.clone(), row.created_at), || RunProjection::new(app.store.as_ref(), row, plan))?;
    let mut painter = match shared.try_lock() {
        Ok(painter) => painter,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // The holder of the lock is reading.
        Err(TryLockError::WouldBlock) => return Ok(None),
    };
    if painter.is_reading {
        return Ok(project(&mut painter, false));
    }
    if painter.read(app, app.views.painters.read_timeout)? {
        return Ok(project(&mut painter, true));
    }
    let found = project(&mut painter, false);
    let Some(slot) = BackgroundRead::begin(&app.views.painters.background_reads) else { return Ok(found) };
    painter.is_reading = true;
    drop(painter);
    let app = app.clone();
    std::thread::spawn(move || {
        let _slot = slot;
        let begun = Instant::now();
        loop {
            // Read in short intervals, so that concurrent requests do not wait for long.
            let mut painter = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let all = painter.read(&app, READ_TIMEOUT);
            if !matches!(all, Ok(false)) || begun.elapsed() > BACKGROUND_READ_TIME {
                painter.is_reading = false;
                return;
            }
        }
    });
    Ok(found)
}

/// Draws a run. For a run with more events than can be read now, the drawing shows only its state.
pub(crate) fn run_drawing(
    app: &App,
    row: &RunRow,
    program: &Program,
    state: impl FnOnce() -> Result<State, RuntimeError>,
) -> Result<Drawing, RuntimeError> {
    let drawn = with_projection(app, row, &program.plan, |painter, is_whole| {
        let now = run_time_now(row, painter.newest);
        is_whole.then(|| painter.drawing.snapshot(now))
    })?;
    match drawn {
        Some(drawn) => Ok(drawn),
        None => Ok(drawing_from_state(row, program, &state()?)),
    }
}

/// Evaluates the timeline of a run, as far as its events can be read in time; `project` gets true if all were read.
/// None while another request reads them.
pub(crate) fn run_timeline<T>(
    app: &App,
    row: &RunRow,
    plan: &Plan,
    project: impl FnOnce(&Timeline, Timestamp, bool) -> T,
) -> Result<Option<T>, RuntimeError> {
    with_projection(app, row, plan, |painter, is_whole| {
        Some(project(&painter.timeline, run_time_now(row, painter.newest), is_whole))
    })
}

/// Draws a run from its state, by replaying finished and current steps as synthetic events.
fn drawing_from_state(row: &RunRow, program: &Program, state: &State) -> Drawing {
    let mut drawing = RunDrawing::new(&program.plan).with_run_name(&*row.run);
    let mut add_event = |kind: EventKind, path: &str, at: Timestamp| {
        drawing.event(&Event { seq: 1, at, path: path.into(), kind });
    };
    add_event(EventKind::WorkflowStarted { definition: program.plan.name.clone() }, "", row.created_at);
    for (name, step) in completed_steps(program, state) {
        add_event(step_started(), &name, row.created_at);
        let status = step.status;
        if let Some(looping) = &step.looping {
            add_event(loop_started(looping.kind.clone(), None), &name, row.created_at);
            let done = EventKind::LoopDone {
                iterations: looping.iterations,
                reason: looping.reason,
                status,
                stats: LoopStats {
                    total: looping.iterations,
                    success: looping.iterations.saturating_sub(looping.failed),
                    failed: looping.failed,
                },
                usage: Value::Null,
                unjudged: looping.unjudged,
            };
            add_event(done, &name, state.now);
        }
        add_event(
            EventKind::StepDone { status, output: None, error: None, usage: Value::Null, firing: None },
            &name,
            state.now,
        );
    }
    add_frames(&frame_tree(program, state), "", &mut add_event);
    if state.paused && state.held_start.is_none() {
        add_event(EventKind::WorkflowPaused {}, "", state.now);
    }
    if let Some(RunResult { status, .. }) = state.result() {
        let (output, error, usage) = (Value::Null, None, Value::Null);
        add_event(EventKind::WorkflowFinished { status: *status, output, error, usage }, "", state.now);
    }
    let note =
        "this run has more events than have been read so far: boxes inside loops show only the current iteration"
            .to_owned();
    let mut drawn = drawing.snapshot(run_time_now(row, state.now));
    drawn.notes.push(note);
    drawn
}

fn step_started() -> EventKind {
    let (kind, token, visit, args) = (Arc::default(), None, None, Value::Null);
    EventKind::StepStarted { kind, token, visit, args, worker: None, firing: None, from: None }
}

fn loop_started(kind: Arc<str>, count: Option<u64>) -> EventKind {
    EventKind::LoopStarted { kind, limits: LoopEventLimits { count, ..LoopEventLimits::default() } }
}

fn add_frames(frames: &[FrameView], above: &str, add_event: &mut dyn FnMut(EventKind, &str, Timestamp)) {
    for frame in frames {
        let path = frame_path(above, frame);
        let at = frame.started_at;
        add_event(step_started(), &path, at);
        if frame.attempt > 1 {
            let (task, attempt) = (Arc::default(), frame.attempt);
            add_event(EventKind::TaskStarted { task, attempt, tool: None, call: 0 }, &path, at);
        }
        let idle = |because: IdleReason| EventKind::StepIdle { reason: because, worker: None, firing: None };
        match frame.activity {
            "waiting" => add_event(idle(IdleReason::Wait), &path, at),
            "retrying" => add_event(idle(IdleReason::Retry), &path, at),
            _ => {}
        }
        if let Some(looping) = &frame.looping {
            add_event(loop_started(Arc::default(), looping.max_iterations), &path, at);
            if looping.ended > 0 {
                let (to, failed) = (looping.ended - 1, looping.failed);
                add_event(EventKind::LoopProgress { from: 0, to, failed, steps: Vec::new() }, &path, at);
            }
        }
        add_frames(&frame.children, &path, add_event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow store must not stop the drawings of other runs.
    #[test]
    fn a_run_is_read_without_the_lock_of_the_cache() {
        let cache = RunDrawingCache::default();
        let mut is_free = false;
        let created = cache.get_or_insert(("r".into(), Timestamp(0)), || {
            is_free = cache.cached.try_lock().is_ok();
            Err(RuntimeError::Closing)
        });
        assert!(is_free && created.is_err());
    }
}
