//! Included workflows: finds, reads and checks them, and attaches them to their steps. A file that is included
//! several times is read once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostics, SourceText, Span, SyntaxNode, did_you_mean};

use crate::document::{Spanned, WorkflowDocument, ZenflowStep};
use crate::options::ZenflowOptions;
use crate::paths::{self, PathError, WorkflowFolder};
use crate::read::{DocumentReader, Includes, ReadDocument};
use crate::recognise::is_foreign;
use crate::{check, codes};
use windlass_dialect::FileReadProblem;

/// Suggestions search at most this many names.
const MAX_NAMES: usize = 500;

pub(crate) struct Loader<'a> {
    options: &'a ZenflowOptions,
    loaded: HashMap<PathBuf, LoadResult>,
    /// The files that are being read, outermost first.
    open: Vec<PathBuf>,
    pub others: Vec<(SourceText, Diagnostics)>,
}

#[derive(Clone)]
enum LoadResult {
    /// The file itself has problems.
    Invalid,
    Valid(LoadedWorkflow),
}

#[derive(Clone)]
struct LoadedWorkflow {
    document: Arc<WorkflowDocument>,
    size: IncludedSize,
}

/// The context of an including file that its include steps need.
struct IncludingFile<'a> {
    source: &'a SourceText,
    agents: HashSet<String>,
    includes: BTreeMap<String, Option<Spanned<String>>>,
}

/// The size of a document with everything that it includes.
#[derive(Clone, Copy, Default)]
struct IncludedSize {
    depth: usize,
    steps: usize,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(options: &'a ZenflowOptions) -> Loader<'a> {
        Loader { options, loaded: HashMap::new(), open: Vec::new(), others: Vec::new() }
    }

    /// Loads the main file.
    pub(crate) fn root(
        &mut self,
        source: &SourceText,
        tree: &SyntaxNode,
        found: Diagnostics,
    ) -> (Option<WorkflowDocument>, Diagnostics) {
        let folder = self.options.folder.as_deref().map(|path| WorkflowFolder::open(path, self.options.files.clone()));
        // The file may include itself: with its own path among the open files, the cycle is detected.
        if let (Some(folder), Some(name)) = (&folder, Path::new(&*source.name).file_name())
            && let Ok(path) = self.options.files.canonical(&folder.path().join(name))
        {
            self.open.push(path);
        }
        let (document, found, _) = self.document(source, tree, found, folder.as_ref(), true);
        (document, found)
    }

    fn document(
        &mut self,
        source: &SourceText,
        tree: &SyntaxNode,
        found: Diagnostics,
        folder: Option<&WorkflowFolder>,
        is_root: bool,
    ) -> (Option<WorkflowDocument>, Diagnostics, IncludedSize) {
        let mut reader = DocumentReader { options: self.options, folder, found, is_truncated: false };
        let Some(ReadDocument { mut document, includes }) = reader.document(source, tree) else {
            return (None, reader.found, IncludedSize::default());
        };
        reader.check(&mut document);
        let including = IncludingFile {
            source,
            agents: document.agents.iter().map(|agent| agent.name.value.clone()).collect(),
            includes: includes.iter().cloned().map(|(name, path)| (name.value, path)).collect(),
        };
        let mut size = IncludedSize::default();
        for step in &mut document.steps {
            size.steps += 1;
            self.step(step, &including, &mut reader, &mut size);
            for inner in step.repeat.iter_mut().flat_map(|repeat| &mut repeat.steps) {
                size.steps += 1;
                self.step(inner, &including, &mut reader, &mut size);
            }
        }
        warn_unused_includes(&document, &includes, &mut reader);
        check::check_models(&document, is_root, self.options, &mut reader.found);
        check::check_prices(&document, self.options, &mut reader.found);
        (Some(document), reader.found, size)
    }

    fn step(
        &mut self,
        step: &mut ZenflowStep,
        including: &IncludingFile,
        reader: &mut DocumentReader,
        size: &mut IncludedSize,
    ) {
        let Some(include) = &mut step.include else { return };
        let named = including.includes.get(&include.target.value);
        // An invalid path was already reported at the `includes` table.
        let Some(path) = named.map_or(Some(&include.target), |path| path.as_ref()).cloned() else { return };
        let span = include.target.span;
        if named.is_none()
            && let Err(why) = paths::normalize(&path)
        {
            return reader.error(codes::INCLUDE, span, format!("`{}` {why}", path.value), paths::PATH_HINT);
        }
        let Some(folder) = reader.folder else {
            let message = format!("`{}` cannot be included: the folder of this workflow is not known", path.value);
            let hint = "run the workflow from a file, not from standard input";
            return reader.missing_file(&FileReadProblem::Missing, span, message, hint);
        };
        let file = match folder.find(&path) {
            Ok(file) => file,
            Err(error) => return not_found(reader, &error, &path, include.target.span, named.is_some(), including),
        };
        include.path = Some(file.clone());
        let Some(loaded) = self.file(&file, &path, span, reader, including.source) else { return };
        for agent in loaded.document.agents.iter().filter(|agent| including.agents.contains(&agent.name.value)) {
            let message = format!("`{}` has an agent `{}`, and so has this file", path.value, *agent.name);
            let hint = "each file has its own agents: give one of the two another name";
            reader.error(codes::INCLUDE, span, message, hint);
        }
        size.depth = size.depth.max(loaded.size.depth + 1);
        let (max_depth, max_steps) = (self.options.limits.max_include_depth, self.options.limits.max_included_steps);
        let fits = size.steps <= max_steps;
        size.steps = size.steps.saturating_add(loaded.size.steps);
        if self.open.len().max(1) - 1 + size.depth > max_depth {
            too_deep(reader, span);
        }
        if size.steps <= max_steps {
            include.document = Some(loaded.document);
        } else if fits {
            let message = format!("with its includes this workflow has more than {max_steps} steps");
            reader.error(codes::INCLUDE, span, message, "include less often, or split the workflow");
        }
    }

    /// Returns the workflow of a path, read once.
    fn file(
        &mut self,
        file: &Path,
        written: &str,
        span: Span,
        reader: &mut DocumentReader,
        from: &SourceText,
    ) -> Option<LoadedWorkflow> {
        if let Some(begin) = self.open.iter().position(|open| open == file) {
            let name = |path: &PathBuf| format!("`{}`", path.file_name().unwrap_or_default().to_string_lossy());
            let circle: Vec<String> = self.open[begin..].iter().chain([&file.to_owned()]).map(name).collect();
            let message = format!("these files include each other: {}", circle.join(" → "));
            reader.error(codes::INCLUDE, span, message, "a workflow cannot be a part of itself");
            return None;
        }
        if self.open.len() > self.options.limits.max_include_depth {
            too_deep(reader, span);
            return None;
        }
        if !self.loaded.contains_key(file) {
            let known = self.read(file, written, span, reader, from)?;
            self.loaded.insert(file.to_owned(), known);
        }
        match self.loaded.get(file).cloned()? {
            LoadResult::Valid(loaded) => Some(loaded),
            LoadResult::Invalid => {
                let message = format!("the workflow `{written}` has problems");
                reader.error(codes::INCLUDE, span, message, "they are reported with that file");
                None
            }
        }
    }

    fn read(
        &mut self,
        file: &Path,
        written: &str,
        span: Span,
        reader: &mut DocumentReader,
        from: &SourceText,
    ) -> Option<LoadResult> {
        let max_bytes = self.options.limits.max_definition_bytes as u64;
        let text = match self.options.files.read(file, max_bytes).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(_)) => {
                let message = format!("`{written}` is not UTF-8 text");
                reader.error(codes::INCLUDE, span, message, "an include is a workflow: YAML or JSON");
                return None;
            }
            Err(problem) => {
                let message = format!("`{written}` cannot be included: {problem}");
                reader.missing_file(&problem, span, message, "the path is relative to this workflow's folder");
                return None;
            }
        };
        let source = SourceText::new(display_path(from, file, written), text);
        let mut found = Diagnostics::new();
        let tree = crate::read(&source, &self.options.limits, &mut found);
        if tree.as_ref().is_some_and(is_foreign) {
            let message = format!("`{written}` is a definition in another dialect and cannot be included");
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let hint = format!("run it as the step: `x-windlass: {{call: {name}}}` instead of `include`");
            reader.error(codes::INCLUDE, span, message, hint);
            return None;
        }
        let folder = file.parent().map(|path| WorkflowFolder::open(path, self.options.files.clone()));
        // Added before its own includes are read, so that files are listed in the order in which they are first named.
        let position = self.others.len();
        self.others.push((source.clone(), Diagnostics::new()));
        self.open.push(file.to_owned());
        let (document, found, size) = match &tree {
            Some(tree) => self.document(&source, tree, found, folder.as_ref(), false),
            None => (None, found, IncludedSize::default()),
        };
        self.open.pop();
        let found = crate::with_conformance_names(found);
        let bad = found.has_errors();
        self.others[position].1 = found;
        let good = document.filter(|_| !bad);
        Some(good.map_or(LoadResult::Invalid, |document| {
            LoadResult::Valid(LoadedWorkflow { document: Arc::new(document), size })
        }))
    }
}

fn too_deep(reader: &mut DocumentReader, span: Span) {
    let message = format!("includes are nested more than {} deep", reader.options.limits.max_include_depth);
    reader.error(codes::INCLUDE, span, message, "include the inner workflows further out");
}

/// Returns the path as the author would write it from the location of the main file.
fn display_path(from: &SourceText, file: &Path, written: &str) -> String {
    match Path::new(&*from.name).parent() {
        Some(folder) if !from.name.starts_with('<') => {
            folder.join(paths::normalize(written).unwrap_or_default()).display().to_string()
        }
        _ => file.display().to_string(),
    }
}

fn not_found(
    reader: &mut DocumentReader,
    error: &PathError,
    path: &str,
    span: Span,
    named: bool,
    including: &IncludingFile,
) {
    match error {
        // Already reported.
        PathError::Invalid(_) => {}
        PathError::Outside => {
            let message = format!("`{path}` is a link that leads out of the workflow's folder");
            reader.error(codes::INCLUDE, span, message, paths::PATH_HINT);
        }
        PathError::File(FileReadProblem::Unavailable) => {
            let message = format!("`{path}` cannot be included: no files can be read here");
            reader.missing_file(&FileReadProblem::Missing, span, message, "run the workflow from a file");
        }
        PathError::File(problem) => {
            let names = including.includes.keys().map(String::as_str).take(MAX_NAMES);
            let meant = did_you_mean(path, names).filter(|_| !named);
            let message = match named || path.contains(['/', '.']) {
                true => format!("`{path}` cannot be included: {problem}"),
                false => format!("`{path}` is neither a name under `includes` nor a file"),
            };
            // With a similar name under `includes` this is a typing mistake, whatever files exist.
            match meant {
                Some(hint) => reader.error(codes::INCLUDE, span, message, hint),
                None => reader.missing_file(problem, span, message, "the path is relative to this workflow's folder"),
            }
        }
    }
}

fn warn_unused_includes(document: &WorkflowDocument, includes: &Includes, reader: &mut DocumentReader) {
    let targets = document.all_steps().filter_map(|step| step.include.as_ref());
    let used: HashSet<&str> = targets.map(|include| include.target.as_str()).collect();
    for (name, _) in includes {
        if !used.contains(name.as_str()) {
            let message = format!("no step includes `{}`", name.value);
            reader.warning(codes::NO_EFFECT, name.span, message, "remove it, or write `include` in a step");
        }
    }
}
