//! Definitions of other dialects, for an engine in Rust.

use std::sync::Arc;

use windlass_core::Limits;
use windlass_core::plan::Plan;
use windlass_expr::{jinja::Jinja, wdl};
use windlass_syntax::{Colour, Diagnostics, Node, ParseLimits, Registered, Scalars, Source, parse_json, parse_yaml};
use windlass_value::Language;

use crate::Error;

/// The languages that their expressions are written in.
pub(crate) fn languages() -> Vec<Arc<dyn Language>> {
    let mut languages = wdl::languages();
    languages.push(Arc::new(Jinja));
    languages
}

/// What a definition may name.
pub(crate) struct Known {
    pub tools: Vec<String>,
    pub registered: Registered,
    pub limits: Limits,
}

/// Compiles a text in the dialect that it looks like.
pub(crate) fn compile(name: &str, text: &str, known: &Known) -> Result<Plan, Error> {
    let source = Source::new(name, text);
    let refused = |found: Diagnostics| {
        let told = found.render(&source, Colour::Never);
        Error::refused("Definition", format!("the definition `{name}` cannot be used:\n{told}"))
    };
    let mut found = Diagnostics::new();
    let limits = ParseLimits { bytes: known.limits.definition_bytes_max, depth: known.limits.definition_depth_max };
    let tree = match text.trim_start().starts_with('{') {
        true => parse_json(&source, limits, &mut found),
        false => parse_yaml(&source, limits, Scalars::Yaml11, &mut found),
    };
    let Some(tree) = tree else { return Err(refused(found.sorted())) };
    let (mut plan, calls) = in_its_dialect(&source, &tree, found, known).map_err(|wrong| match wrong {
        Wrong::Problems(found) => refused(found),
        Wrong::Dialect => {
            let message = format!("the definition `{name}` is in no dialect that is known here");
            Error::refused("Definition", format!("{message}: look at the features `loom` and `noetl` of the crate"))
        }
    })?;
    if let Some(missing) = calls.first() {
        let message = format!("the definition `{name}` calls `{missing}`, which this engine does not have");
        return Err(Error::refused("Definition", format!("{message}: add it with `.definition(\"{missing}\", …)`")));
    }
    plan.name = name.into();
    Ok(plan)
}

enum Wrong {
    Problems(Diagnostics),
    Dialect,
}

/// The plan, and definitions that it calls and nobody has registered.
fn in_its_dialect(
    source: &Source,
    tree: &Node,
    found: Diagnostics,
    known: &Known,
) -> Result<(Plan, Vec<String>), Wrong> {
    let name = Some(source.name.to_string());
    #[cfg(feature = "noetl")]
    if windlass_noetl::recognise(tree) {
        let options = windlass_noetl::Options {
            limits: known.limits.clone(),
            name,
            tools: known.tools.clone(),
            aliases: None,
            registered: known.registered.clone(),
        };
        let compiled = windlass_noetl::compile_tree(source, tree, found, &options).map_err(Wrong::Problems)?;
        return Ok((compiled.plan, compiled.calls.into_iter().map(|(call, _)| call).collect()));
    }
    #[cfg(feature = "loom")]
    if windlass_loom::recognise(tree) {
        let options = windlass_loom::Options {
            limits: known.limits.clone(),
            name,
            tools: known.tools.clone(),
            registered: known.registered.clone(),
            ..windlass_loom::Options::default()
        };
        let compiled = windlass_loom::compile_tree(source, tree, found, &options).map_err(Wrong::Problems)?;
        return Ok((compiled.plan, compiled.calls.into_iter().map(|(call, _)| call).collect()));
    }
    let _ = (name, tree, found, known);
    Err(Wrong::Dialect)
}
