//! `windlass graph FILE`, `windlass graph --run RUN`

use std::path::Path;

use windlass_draw::{Drawing, DrawingFormat, RunDrawing};
use windlass_runtime::inspect::{
    InheritedEvents, ListedStatus, StoredEvent, StoredEvents, listed_status, run_time_now,
};
use windlass_runtime::{RuntimeError, codec};
use windlass_store::Store;

use crate::args::{self, GlobalArgs, GraphFormat};
use crate::config::CliSettings;
use crate::definition;
use crate::failure::{CliExit, CliFailure};
use crate::out::{self, Paint};
use crate::project::Project;
use crate::stores;

pub(crate) fn graph(global: &GlobalArgs, args: &args::GraphArgs) -> Result<CliExit, CliFailure> {
    let drawing = match (&args.run, &args.file) {
        (Some(run), _) => {
            crate::runs::require_store(global, "graph --run")?;
            draw_run(&*stores::open(global)?, run)?
        }
        (None, Some(file)) => {
            let settings = CliSettings::load(global)?;
            let source = definition::read(file, &settings.limits).map_err(|failure| unreadable(failure, file))?;
            let paint = Paint::stderr(global.no_color);
            windlass_draw::plan(Project::read(source, args.dialect.as_deref(), &settings).or_fail(paint)?.plan()?)
        }
        (None, None) => {
            let hint = "`windlass graph FILE` draws a definition, `windlass graph --run RUN` a run (`--run last`)";
            return Err(CliFailure::usage("there is nothing to draw").hint(hint));
        }
    };
    let format = match args.format {
        _ if global.json => DrawingFormat::Json,
        GraphFormat::Mermaid => DrawingFormat::Mermaid,
        GraphFormat::Dot => DrawingFormat::Dot,
        GraphFormat::Json => DrawingFormat::Json,
        GraphFormat::Svg => DrawingFormat::Svg,
    };
    out::print(drawing.write(format).trim_end())?;
    Ok(CliExit::Success)
}

/// A name that is no file may have been meant as a run: adds a hint.
fn unreadable(failure: CliFailure, file: &Path) -> CliFailure {
    match definition::is_stdin(file) || file.exists() {
        true => failure,
        false => failure.hint(format!("a run is drawn with `windlass graph --run {}`", file.display())),
    }
}

/// Draws a run from the store alone: its owner may have tools and languages that this program does not know.
fn draw_run(store: &dyn Store, run_ref: &str) -> Result<Drawing, CliFailure> {
    let row = stores::find(store, run_ref)?;
    let plan = store.plan(&row.plan)?.ok_or_else(|| RuntimeError::MissingBlob(row.plan.to_string()))?;
    let plan = codec::decode_plan(&plan.body)?;
    let is_interrupted = listed_status(store, &row)? == ListedStatus::Interrupted;
    let mut drawing = RunDrawing::new(&plan).with_run_name(&*row.run).interrupted(is_interrupted);
    let mut inherited = InheritedEvents::new(store, &row)?;
    let mut events = StoredEvents::new(row.run.clone(), 0);
    let mut newest = row.created_at;
    loop {
        let pieces = match inherited.read(store)? {
            inherited if inherited.is_empty() => events.read(store)?,
            inherited => inherited,
        };
        if pieces.is_empty() {
            break;
        }
        for piece in pieces {
            match piece {
                StoredEvent::Event(event) => {
                    newest = newest.max(event.at);
                    drawing.event(&event);
                }
                StoredEvent::Trimmed { from, to } => drawing.missing(from, to),
            }
        }
    }
    Ok(drawing.as_of(run_time_now(&row, newest)).finish())
}
