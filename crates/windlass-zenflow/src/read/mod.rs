//! Reads the tree into the document: reports values of the wrong type or out of range, missing values and unknown keys.
//! References are checked afterwards.
//!
//! `agents`, `steps`, `loops`, `settings`, `extensions`: one part of the document each · `scalars`: numbers,
//! durations, texts · `refs`: texts in files · `unicode`: deceptive characters

mod agents;
mod extensions;
mod loops;
mod refs;
mod scalars;
mod settings;
mod steps;
mod unicode;

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostics, ObjectReader, SourceText, Span, SpannedKey, SyntaxNode, SyntaxNodeKind};

use crate::codes;
use crate::document::{Extensions, FlowOptions, Spanned, WorkflowDocument};
use crate::options::ZenflowOptions;
use crate::paths::WorkflowFolder;

pub(crate) struct DocumentReader<'a> {
    pub options: &'a ZenflowOptions,
    pub folder: Option<&'a WorkflowFolder>,
    pub found: Diagnostics,
    /// A list was too long and was truncated, so references to missing steps are not reported.
    pub is_truncated: bool,
}

/// The document, and the paths of its includes.
pub(crate) struct ReadDocument {
    pub document: WorkflowDocument,
    pub includes: Includes,
}

/// Names and paths of includes; the path is `None` if it is invalid.
pub(crate) type Includes = Vec<(Spanned<String>, Option<Spanned<String>>)>;

impl DiagnosticSink for DocumentReader<'_> {
    fn diagnostics(&mut self) -> &mut Diagnostics {
        &mut self.found
    }
}

impl<'a> DocumentReader<'a> {
    /// Reads a document. Returns `None` if the tree is not an object.
    pub(crate) fn document(&mut self, source: &SourceText, tree: &SyntaxNode) -> Option<ReadDocument> {
        let mut object = self.object(tree, "a workflow")?;
        let name = self.name(&mut object);
        let description = object.take("description").and_then(|node| self.short_text(node, "description"));
        if let Some(node) = object.take("version") {
            self.version(node);
        }
        let agents = object.take("agents").map(|node| self.agents(node)).unwrap_or_default();
        let includes = object.take("includes").map(|node| self.includes(node)).unwrap_or_default();
        let steps = match object.take_entry("steps") {
            Some((key, node)) => self.top_steps(key, node),
            None => {
                let hint = "add `steps:` with at least one step: `- id: first`";
                self.error(codes::MISSING_STEPS, start(tree), "this workflow has no `steps`", hint);
                Vec::new()
            }
        };
        let options = object.take("options").map_or_else(FlowOptions::default, |node| self.settings(node));
        let extensions = object.take("x-windlass").map_or_else(Extensions::default, |node| self.extensions(node));
        object.finish(codes::UNKNOWN_KEY, "a workflow", &mut self.found);
        let document = WorkflowDocument {
            source: source.clone(),
            folder: self.folder.map(|folder| folder.path().to_owned()),
            span: tree.span,
            name,
            description,
            agents,
            steps,
            options,
            extensions,
        };
        Some(ReadDocument { document, includes })
    }

    /// Reads an object whose keys are case-sensitive.
    fn object<'n>(&mut self, node: &'n SyntaxNode, what: &str) -> Option<ObjectReader<'n>> {
        if matches!(node.kind, SyntaxNodeKind::Null) {
            let message = format!("{what} must be an object, found null");
            self.error(codes::VALIDATION, node.span, message, "omit the key if it has no value");
            return None;
        }
        ObjectReader::read_exact(node, what, &mut self.found)
    }

    fn name(&mut self, object: &mut ObjectReader) -> Spanned<String> {
        let hint = "add `name: my-workflow`";
        match object.take("name") {
            None => {
                let span = Span::at(object.span().start);
                self.error(codes::MISSING_NAME, span, "this workflow has no `name`", hint);
                Spanned::new(String::new(), span)
            }
            Some(node) if is_blank(node) => {
                self.error(codes::MISSING_NAME, node.span, "the `name` of this workflow is empty", hint);
                Spanned::new(String::new(), node.span)
            }
            Some(node) => {
                let name = self.label(node, "name");
                if let Some(name) = &name {
                    self.warn_mixed_scripts(&name.value, name.span);
                }
                name.unwrap_or_else(|| Spanned::new(String::new(), node.span))
            }
        }
    }

    /// Checks the version. Only 1 is known; smaller numbers never were a version.
    fn version(&mut self, node: &SyntaxNode) {
        let hint = "write `version: 1`, or omit it";
        match &node.kind {
            SyntaxNodeKind::Number(number) if number.as_f64() == Some(1.0) => {}
            SyntaxNodeKind::Number(number)
                if number.as_f64().is_some_and(|number| number > 1.0 && number.fract() == 0.0) =>
            {
                let message = format!("version {number:?} of the format is not known");
                self.error(codes::UNKNOWN_VERSION, node.span, message, hint);
            }
            _ => self.wrong_type(node, "version", "1", hint),
        }
    }

    /// Reads the names of other workflows, and their paths.
    fn includes(&mut self, node: &SyntaxNode) -> Includes {
        let Some(object) = self.object(node, "`includes`") else { return Vec::new() };
        let mut includes = Vec::new();
        for (key, node) in object.unread_entries() {
            let path = self.path(node, &format!("includes.{}", key.text));
            includes.push((Spanned::new(key.text.clone(), key.span), path));
        }
        includes
    }

    fn check_step_count(&mut self, key: &SpannedKey, count: usize) {
        let max_steps = self.options.limits.max_steps_zenflow;
        if count > max_steps {
            self.is_truncated = true;
            let message = format!("there are {count} steps, more than the {max_steps} that one list may have");
            let hint = "move some of them into a separate workflow and `include` it";
            self.error(codes::VALIDATION, key.span, message, hint);
        }
    }
}

/// Returns whether a node is null or a text without visible characters.
fn is_blank(node: &SyntaxNode) -> bool {
    matches!(node.kind, SyntaxNodeKind::Null)
        || node.as_str().is_some_and(|text| unicode::strip_invisible(text, false).trim().is_empty())
}

/// Returns the start of a node, as the location of a missing part.
fn start(node: &SyntaxNode) -> Span {
    Span::at(node.span.start)
}
