//! What a Logic Apps Standard project keeps beside its workflows: values of parameters, and app settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass_core::Limits;
use windlass_dialect::parse_limits;
use windlass_syntax::{Diagnostic, Diagnostics, Key, Node, Object, Source, parse_json, to_value};
use windlass_value::Value;

use crate::definition;

/// A value of the wrong kind, as in definitions.
const WRONG_KIND: &str = "WND-1021";
/// Something that must be there.
const MISSING: &str = "WND-1022";

#[derive(Default)]
pub(crate) struct Surroundings {
    pub settings: BTreeMap<String, String>,
    pub parameters: BTreeMap<String, Value>,
    /// The files that have problems of their own.
    pub found: Vec<(Source, Diagnostics)>,
}

impl Surroundings {
    pub(crate) fn of(path: &Path, limits: &Limits) -> Surroundings {
        let mut around = Surroundings::default();
        if !is_standard(path) {
            return around;
        }
        let folder = folder_of(path);
        // From inside the workflow's folder, the project is the one above.
        let project = folder.canonicalize().map_or_else(|_| folder.join(".."), |folder| folder_of(&folder));
        around.read(&project.join("parameters.json"), limits, Surroundings::take_parameter);
        around.read(&project.join("local.settings.json"), limits, |around, key, node, found| {
            if key.text == "Values"
                && let Some(values) = Object::read(node, "`Values`", found)
            {
                values.rest().for_each(|(key, node)| around.take_setting(key, node, found));
            }
        });
        around
    }

    /// A project need not have the file; one that is there must be right.
    fn read(
        &mut self,
        path: &Path,
        limits: &Limits,
        mut take: impl FnMut(&mut Surroundings, &Key, &Node, &mut Diagnostics),
    ) {
        if !path.is_file() {
            return;
        }
        let mut found = Diagnostics::new();
        let source = match definition::read(path, limits) {
            Ok(source) => source,
            Err(failure) => {
                let source = Source::new(path.display().to_string(), "");
                found.push(Diagnostic::error(WRONG_KIND, windlass_syntax::Span::at(0), failure.message()));
                self.found.push((source, found));
                return;
            }
        };
        if let Some(tree) = parse_json(&source, parse_limits(limits), &mut found)
            && let Some(object) = Object::read(&tree, "this file", &mut found)
        {
            object.rest().for_each(|(key, node)| take(self, key, node, &mut found));
        }
        if !found.is_empty() {
            self.found.push((source, found.sorted()));
        }
    }

    fn take_parameter(&mut self, key: &Key, node: &Node, found: &mut Diagnostics) {
        if Object::read(node, "a parameter", found).is_none() {
            return;
        }
        match node.get("value") {
            Some(value) => {
                self.parameters.insert(key.text.clone(), to_value(value));
            }
            None => {
                let message = format!("the parameter `{}` has no `value`", key.text);
                found.push(Diagnostic::error(MISSING, key.span, message).hint("add \"value\": …"));
            }
        }
    }

    fn take_setting(&mut self, key: &Key, node: &Node, found: &mut Diagnostics) {
        match node.as_str() {
            Some(text) => {
                self.settings.insert(key.text.clone(), text.to_owned());
            }
            None => {
                let message = format!("the app setting `{}` is {}, not a text", key.text, node.describe());
                found.push(Diagnostic::error(WRONG_KIND, node.span, message).hint("put it in quotes"));
            }
        }
    }
}

/// A Standard project has a folder per workflow, with the definition in `workflow.json`.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "workflow.json")
}

/// The folder a file is in; the current one has no name.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) => PathBuf::from("."),
        None => path.join(".."),
    }
}
