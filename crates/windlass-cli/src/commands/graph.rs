//! `windlass graph FILE`, `windlass graph --run RUN`

use windlass_core::plan::Plan;
use windlass_draw::{Drawing, Format, RunDrawing};
use windlass_runtime::{RuntimeError, codec};
use windlass_store::Store;

use crate::args::{self, Global, GraphFormat};
use crate::config::Settings;
use crate::definition;
use crate::failure::{Exit, Failure};
use crate::follow::{EventReader, Piece};
use crate::out::{self, Paint};
use crate::project::Project;
use crate::{image, stores};

pub fn graph(global: &Global, args: &args::Graph) -> Result<Exit, Failure> {
    let drawing = match (&args.run, &args.file) {
        (Some(run), _) => of_run(&*stores::open(global)?, run)?,
        (None, Some(file)) => {
            let settings = Settings::load(global)?;
            let source = definition::read(file, &settings.limits)?;
            let paint = Paint::stderr(global.no_color);
            windlass_draw::plan(Project::read(source, args.dialect, &settings).or_fail(paint)?.plan()?)
        }
        (None, None) => {
            return Err(Failure::usage("there is nothing to draw").hint("name a definition, or a run with --run"));
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

/// From the store alone: whoever runs it may have tools and languages that nobody knows here.
fn of_run(store: &dyn Store, wanted: &str) -> Result<Drawing, Failure> {
    let row = stores::find(store, wanted)?;
    let plan = store.plan(&row.plan)?.ok_or_else(|| RuntimeError::MissingBlob(row.plan.to_string()))?;
    let plan: Plan = codec::decode(&plan.body, "a plan")?;
    let mut drawing = RunDrawing::new(&plan).named(&*row.run);
    let mut events = EventReader::new(row.run.clone(), 0);
    let mut newest = row.created_at;
    loop {
        let pieces = events.read(store)?;
        if pieces.is_empty() {
            break;
        }
        for piece in pieces {
            match piece {
                Piece::Event(event) => {
                    newest = newest.max(event.at);
                    drawing.event(&event);
                }
                Piece::Trimmed { from, to } => drawing.missing(from, to),
            }
        }
    }
    Ok(drawing.as_of(image::now_of(&row, newest)).finish())
}
