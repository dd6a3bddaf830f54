//! Dialects by name, in order of registration.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_syntax::{Diagnostic, Diagnostics, SourceText, Span, did_you_mean, format_names};
use windlass_value::Language;

use crate::{CompileContext, CompileProblems, CompiledDefinition, Detection, Dialect, ParsedSource, RustDialect};

/// Diagnostic code: the dialect of a source is unknown, or a named dialect does not exist.
pub const UNKNOWN_DIALECT: &str = "WND-0001";

/// The registered dialects.
#[derive(Clone, Default)]
pub struct DialectRegistry {
    dialects: Vec<Arc<dyn Dialect>>,
}

impl DialectRegistry {
    /// Creates a registry without dialects.
    pub const fn new() -> DialectRegistry {
        DialectRegistry { dialects: Vec::new() }
    }

    /// Adds a dialect; replaces an earlier one of the same name.
    #[must_use]
    pub fn with(mut self, dialect: impl Dialect + 'static) -> DialectRegistry {
        self.dialects.retain(|known| known.name() != dialect.name());
        self.dialects.push(Arc::new(dialect));
        self
    }

    /// Returns every dialect, in order.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Dialect> {
        self.dialects.iter().map(|dialect| &**dialect)
    }

    /// Returns the names of dialects that have sources, in alphabetical order.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.iter().filter(|one| one.has_sources()).map(|one| one.name()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the dialect of this name.
    pub fn get(&self, name: &str) -> Option<&dyn Dialect> {
        self.iter().find(|dialect| dialect.name() == name)
    }

    /// Returns the dialect of a plan.
    ///
    /// A plan of an unregistered dialect was made by another program, as plans of workflows in Rust are, and is treated
    /// as such.
    pub fn for_plan(&self, plan: &Plan) -> &dyn Dialect {
        self.get_or_rust(&plan.dialect)
    }

    /// Returns the dialect that a plan or a row of the store names; see [`DialectRegistry::for_plan`].
    pub fn get_or_rust(&self, name: &str) -> &dyn Dialect {
        self.get(name).unwrap_or(&RustDialect)
    }

    /// Returns the expression languages of all dialects, each once.
    pub fn languages(&self) -> Vec<Arc<dyn Language>> {
        let mut languages: Vec<Arc<dyn Language>> = Vec::new();
        for language in self.iter().flat_map(|dialect| dialect.languages()) {
            if languages.iter().all(|known| known.name() != language.name()) {
                languages.push(language);
            }
        }
        languages
    }

    /// Returns the dialect of a source: the named one, otherwise the detected one.
    pub fn choose(&self, reading: &ParsedSource<'_>, named: Option<&str>) -> Result<&dyn Dialect, Diagnostics> {
        match named {
            None => self.detect(reading),
            Some(name) => match self.get(name).filter(|dialect| dialect.has_sources()) {
                Some(dialect) => Ok(dialect),
                None => {
                    let names = self.names();
                    let hint = did_you_mean(name, names.iter().copied()).unwrap_or_else(|| {
                        format!("{}; without one, the dialect is detected from the text", format_names(names))
                    });
                    Err(refusal(format!("there is no dialect `{name}`"), hint))
                }
            },
        }
    }

    /// Detects the dialect of a source. A source that several dialects detect as theirs is refused.
    pub fn detect(&self, reading: &ParsedSource<'_>) -> Result<&dyn Dialect, Diagnostics> {
        let verdicts: Vec<_> = self.iter().map(|dialect| (dialect.detect(reading), dialect)).collect();
        let certain: Vec<_> = verdicts.iter().filter(|(verdict, _)| *verdict == Detection::Yes).collect();
        match certain[..] {
            [(_, dialect)] => Ok(*dialect),
            // The first dialect that a broken file may belong to reports its problems.
            [] => match verdicts.iter().find(|(verdict, _)| *verdict == Detection::Broken) {
                Some((_, dialect)) => Ok(*dialect),
                None => Err(self.unknown_dialect()),
            },
            _ => {
                let names: Vec<_> = certain.iter().map(|(_, dialect)| dialect.name()).collect();
                let message =
                    format!("this could be a definition in several dialects: {}", format_names(names.clone()));
                Err(refusal(message, format!("name the intended one, such as `--dialect {}`", names[0])))
            }
        }
    }

    /// Compiles a source in the named dialect, otherwise in the detected one.
    pub fn compile(
        &self,
        source: &SourceText,
        named: Option<&str>,
        context: &CompileContext,
    ) -> Result<CompiledDefinition, CompileProblems> {
        let reading = ParsedSource::new(source, &context.limits);
        self.choose(&reading, named)?.compile(&reading, context)
    }

    /// Returns the definitions that an invalid source calls, as far as it can be parsed.
    pub fn calls(&self, source: &SourceText, named: Option<&str>, context: &CompileContext) -> Vec<(String, Span)> {
        let reading = ParsedSource::new(source, &context.limits);
        self.choose(&reading, named).map(|dialect| dialect.calls(&reading, context)).unwrap_or_default()
    }

    fn unknown_dialect(&self) -> Diagnostics {
        let mut known: Vec<_> = self.iter().filter(|dialect| dialect.has_sources()).collect();
        known.sort_by_key(|dialect| dialect.name());
        let known: Vec<_> = known.iter().map(|one| format!("{}: {}", one.name(), one.describe())).collect();
        let hint = format!("{}; `--dialect` selects one", known.join("; "));
        refusal("this is not a definition in any known dialect".to_owned(), hint)
    }
}

fn refusal(message: String, hint: String) -> Diagnostics {
    let mut found = Diagnostics::new();
    found.push(Diagnostic::error(UNKNOWN_DIALECT, Span::at(0), message).with_hint(hint));
    found
}
