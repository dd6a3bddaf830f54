//! The companion files of a Logic Apps Standard project: parameter values and app settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass_core::Limits;
use windlass_dialect::parse_limits;
use windlass_syntax::{
    Diagnostic, Diagnostics, ObjectReader, SourceText, SpannedKey, SyntaxNode, parse_json, to_value,
};
use windlass_value::Value;

use crate::definition;

/// The problem code of a value of the wrong kind, as in definitions.
const WRONG_KIND: &str = "WND-1021";
/// The problem code of a missing required key.
const MISSING: &str = "WND-1022";

#[derive(Default)]
pub(crate) struct StandardProjectFiles {
    pub settings: BTreeMap<String, String>,
    pub parameters: BTreeMap<String, Value>,
    /// The files with problems.
    pub diagnostics: Vec<(SourceText, Diagnostics)>,
}

impl StandardProjectFiles {
    pub(crate) fn read_for(path: &Path, limits: &Limits) -> StandardProjectFiles {
        let mut files = StandardProjectFiles::default();
        if !is_standard(path) {
            return files;
        }
        let folder = folder_of(path);
        // The project is the parent of the workflow's folder.
        let project = folder.canonicalize().map_or_else(|_| folder.join(".."), |folder| folder_of(&folder));
        files.read_file(&project.join("parameters.json"), limits, StandardProjectFiles::add_parameter);
        files.read_file(&project.join("local.settings.json"), limits, |files, key, node, found| {
            if key.text == "Values"
                && let Some(values) = ObjectReader::read(node, "`Values`", found)
            {
                values.unread_entries().for_each(|(key, node)| files.add_setting(key, node, found));
            }
        });
        files
    }

    /// Reads one file. A project need not have it; an existing file must be valid.
    fn read_file(
        &mut self,
        path: &Path,
        limits: &Limits,
        mut take: impl FnMut(&mut StandardProjectFiles, &SpannedKey, &SyntaxNode, &mut Diagnostics),
    ) {
        if !path.is_file() {
            return;
        }
        let mut found = Diagnostics::new();
        let source = match definition::read(path, limits) {
            Ok(source) => source,
            Err(failure) => {
                let source = SourceText::new(path.display().to_string(), "");
                found.push(Diagnostic::error(WRONG_KIND, windlass_syntax::Span::at(0), failure.message()));
                self.diagnostics.push((source, found));
                return;
            }
        };
        if let Some(tree) = parse_json(&source, parse_limits(limits), &mut found)
            && let Some(object) = ObjectReader::read(&tree, "this file", &mut found)
        {
            object.unread_entries().for_each(|(key, node)| take(self, key, node, &mut found));
        }
        if !found.is_empty() {
            self.diagnostics.push((source, found.sorted()));
        }
    }

    fn add_parameter(&mut self, key: &SpannedKey, node: &SyntaxNode, found: &mut Diagnostics) {
        if ObjectReader::read(node, "a parameter", found).is_none() {
            return;
        }
        match node.get("value") {
            Some(value) => {
                self.parameters.insert(key.text.clone(), to_value(value));
            }
            None => {
                let message = format!("the parameter `{}` has no `value`", key.text);
                found.push(Diagnostic::error(MISSING, key.span, message).with_hint("add \"value\": …"));
            }
        }
    }

    fn add_setting(&mut self, key: &SpannedKey, node: &SyntaxNode, found: &mut Diagnostics) {
        match node.as_str() {
            Some(text) => {
                self.settings.insert(key.text.clone(), text.to_owned());
            }
            None => {
                let message = format!("the app setting `{}` is {}, not a text", key.text, node.describe());
                found.push(Diagnostic::error(WRONG_KIND, node.span, message).with_hint("put it in quotes"));
            }
        }
    }
}

/// A Standard project has a folder per workflow, with the definition in `workflow.json`.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "workflow.json")
}

/// Returns the folder of a file; the current folder has no name.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) => PathBuf::from("."),
        None => path.join(".."),
    }
}
