//! `windlass graph FILE`

mod dot;
mod drawing;
mod json;
mod mermaid;
mod svg;

use crate::args::{self, Global, GraphFormat};
use crate::config::Settings;
use crate::definition;
use crate::failure::{Exit, Failure};
use crate::out::{self, Paint};
use crate::project::Project;
use drawing::Drawing;

pub fn graph(global: &Global, args: &args::Graph) -> Result<Exit, Failure> {
    let settings = Settings::load(global)?;
    let source = definition::read(&args.source.file, &settings.limits)?;
    let paint = Paint::stderr(global.no_color);
    let project = Project::read(source, args.source.dialect, &settings).or_fail(paint)?;
    let drawing = Drawing::of(project.plan()?);
    if global.json {
        out::print_json(&json::value(&drawing))?;
        return Ok(Exit::Good);
    }
    out::print(
        match args.format {
            GraphFormat::Mermaid => mermaid::write(&drawing),
            GraphFormat::Dot => dot::write(&drawing),
            GraphFormat::Svg => svg::write(&drawing),
        }
        .trim_end(),
    )?;
    Ok(Exit::Good)
}
