//! `windlass graph FILE`, `windlass graph --run RUN`

use std::path::Path;

use windlass_draw::{Drawing, Format, RunDrawing};
use windlass_runtime::show::{StoredEvent, StoredEvents, now_of};
use windlass_runtime::{RuntimeError, codec};
use windlass_store::Store;

use crate::args::{self, Global, GraphFormat};
use crate::config::Settings;
use crate::definition;
use crate::failure::{Exit, Failure};
use crate::out::{self, Paint};
use crate::project::Project;
use crate::stores;

pub(crate) fn graph(global: &Global, args: &args::Graph) -> Result<Exit, Failure> {
    let drawing = match (&args.run, &args.file) {
        (Some(run), _) => of_run(&*stores::open(global)?, run)?,
        (None, Some(file)) => {
            let settings = Settings::load(global)?;
            let source = definition::read(file, &settings.limits).map_err(|failure| unreadable(failure, file))?;
            let paint = Paint::stderr(global.no_color);
            windlass_draw::plan(Project::read(source, args.dialect.as_deref(), &settings).or_fail(paint)?.plan()?)
        }
        (None, None) => {
            let hint = "`windlass graph FILE` draws a definition, `windlass graph --run RUN` a run (`--run last`)";
            return Err(Failure::usage("there is nothing to draw").hint(hint));
        }
    };
    let format = match args.format {
        _ if global.json => Format::Json,
        GraphFormat::Mermaid => Format::Mermaid,
        GraphFormat::Dot => Format::Dot,
        GraphFormat::Json => Format::Json,
        GraphFormat::Svg => Format::Svg,
    };
    out::print(drawing.write(format).trim_end())?;
    Ok(Exit::Good)
}

/// Whoever names what is no file may have meant a run.
fn unreadable(failure: Failure, file: &Path) -> Failure {
    match definition::is_stdin(file) || file.exists() {
        true => failure,
        false => failure.hint(format!("a run is drawn with `windlass graph --run {}`", file.display())),
    }
}

/// From the store alone: whoever runs it may have tools and languages that nobody knows here.
fn of_run(store: &dyn Store, wanted: &str) -> Result<Drawing, Failure> {
    let row = stores::find(store, wanted)?;
    let plan = store.plan(&row.plan)?.ok_or_else(|| RuntimeError::MissingBlob(row.plan.to_string()))?;
    let plan = codec::decode_plan(&plan.body)?;
    let mut drawing = RunDrawing::new(&plan).named(&*row.run);
    let mut events = StoredEvents::new(row.run.clone(), 0);
    let mut newest = row.created_at;
    loop {
        let pieces = events.read(store)?;
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
    Ok(drawing.as_of(now_of(&row, newest)).finish())
}
