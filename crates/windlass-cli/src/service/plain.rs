//! Definitions as text: what they call is what is registered.

use std::sync::Arc;

use windlass_server::{Catalog, Compiled, Compiler, Draft};
use windlass_syntax::{Diagnostic, Report, Source};

use crate::args::Dialect;
use crate::config::Settings;
use crate::definition;

pub struct PlainCompiler(pub Arc<Settings>);

impl Compiler for PlainCompiler {
    fn compile(&self, draft: &Draft, catalog: &dyn Catalog) -> Result<Compiled, Vec<Report>> {
        let dialect = match draft.dialect.as_deref() {
            Some("loom") => Some(Dialect::Loom),
            Some("noetl") => Some(Dialect::Noetl),
            Some("zenflow") => Some(Dialect::Zenflow),
            _ => None,
        };
        let source = Source::new(draft.name.as_deref().unwrap_or("<definition>"), draft.text.as_str());
        let compiled = definition::compile(&source, dialect, &self.0, self.0.app.clone(), Default::default());
        let mut compiled = compiled.map_err(|problems| problems.own.reports(&source))?;
        for (name, span) in compiled.calls {
            match catalog.newest(&name) {
                Some(found) => compiled.plan.pins.push((name.into(), found.plan)),
                None => {
                    let message = format!("there is no registered definition `{name}`");
                    compiled.warnings.push(Diagnostic::error("WND-1116", span, message).hint("register it first"));
                }
            }
        }
        match compiled.warnings.has_errors() {
            true => Err(compiled.warnings.reports(&source)),
            false => Ok(Compiled { plan: compiled.plan, warnings: compiled.warnings.reports(&source) }),
        }
    }
}
