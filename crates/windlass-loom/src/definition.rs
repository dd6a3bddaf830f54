//! The file: its layouts, the workflow around the actions, and its outputs.

use std::sync::Arc;

use windlass_core::plan::{ExprId, Node as PlanNode, NodeId, NodeKind};
use windlass_dialect::{DiagnosticSink, LabelProblemCodes, label_entries, source_span};
use windlass_syntax::{ObjectReader, Span, SyntaxNode, expect_text, to_value};
use windlass_value::{Map, Value};

use crate::codes;
use crate::compiler::{LoomCompiler, new_graph};
use crate::graph::StartOrder;
use crate::scopes::{ActionPosition, RUN, TRIGGER};
use crate::types;

const LABELS: LabelProblemCodes = LabelProblemCodes { bad_value: codes::BAD_VALUE, over_limit: codes::OVER_LIMIT };

/// The layout of a file.
enum Layout<'a> {
    /// A definition, possibly inside the wrapper of a Logic Apps Standard file or a gallery template.
    Whole { definition: &'a SyntaxNode, wrapper: Option<&'a SyntaxNode> },
    /// One action.
    Action(&'a SyntaxNode),
    /// Actions by name.
    Actions(&'a SyntaxNode),
}

pub(crate) fn recognise(tree: &SyntaxNode) -> bool {
    layout(tree).is_some() || has_schema(tree, "")
}

fn layout(tree: &SyntaxNode) -> Option<Layout<'_>> {
    let inner = tree.get("definition").or_else(|| tree.get("properties").and_then(|inner| inner.get("definition")));
    if let Some(definition) = inner.filter(|node| node.as_map().is_some()) {
        return Some(Layout::Whole { definition, wrapper: Some(tree) });
    }
    let known = |name: &str| types::find(name).is_some() || types::alternative_for(name).is_some();
    match tree.get("type").and_then(SyntaxNode::as_str) {
        Some(name) if known(name) => return Some(Layout::Action(tree)),
        Some(_) if tree.get("inputs").is_some() || tree.get("condition").is_some() => {
            return Some(Layout::Action(tree));
        }
        _ => {}
    }
    if ["actions", "triggers"].iter().any(|key| tree.get(key).is_some()) {
        return Some(Layout::Whole { definition: tree, wrapper: None });
    }
    let entries = tree.as_map().filter(|entries| !entries.is_empty())?;
    let is_action = |node: &SyntaxNode| node.get("type").and_then(SyntaxNode::as_str).is_some_and(known);
    entries.iter().all(|(_, node)| is_action(node)).then_some(Layout::Actions(tree))
}

fn has_schema(node: &SyntaxNode, part: &str) -> bool {
    node.get("$schema").and_then(SyntaxNode::as_str).is_some_and(|text| text.to_lowercase().contains(part))
}

impl LoomCompiler<'_> {
    pub(crate) fn workflow(&mut self, tree: &SyntaxNode) {
        match layout(tree) {
            Some(Layout::Whole { definition, wrapper }) => self.definition(definition, wrapper),
            Some(Layout::Action(action)) => self.bare_action(action),
            Some(Layout::Actions(actions)) => {
                self.is_whole_workflow = false;
                self.set_name(None);
                self.root(actions);
            }
            None => self.not_a_definition(tree),
        }
    }

    fn not_a_definition(&mut self, tree: &SyntaxNode) {
        if has_schema(tree, "deploymenttemplate") {
            let hint = "take the workflow's `definition` out of the template's `resources`";
            self.error(codes::NOT_SUPPORTED, tree.span, "deployment templates are not supported", hint);
            return;
        }
        let hint = "a definition has `actions`; a single action has a `type`";
        let at = Span::new(tree.span.start, tree.span.start + 1);
        let message = format!("this is not a workflow definition: found {}", tree.describe());
        self.error(codes::NOT_LOOM, at, message, hint);
    }

    /// Sets the plan's name. The definition's own name takes precedence over the file's.
    fn set_name(&mut self, name: Option<&str>) {
        let name = name.filter(|name| !name.is_empty()).or(self.options.name.as_deref()).unwrap_or("workflow");
        self.plan.name = name.into();
    }

    /// Compiles a single action as the whole file. Everything it reads must come from the run's input.
    fn bare_action(&mut self, action: &SyntaxNode) {
        self.is_whole_workflow = false;
        self.set_name(None);
        let kind = action.get("type").and_then(SyntaxNode::as_str).unwrap_or_default();
        let of_variable = kind.to_lowercase().contains("variable");
        let own = action.get("name").and_then(SyntaxNode::as_str).filter(|name| !of_variable && !name.is_empty());
        let label = types::find(kind).map_or(kind, |(label, _)| label);
        let name: Arc<str> = own.unwrap_or(label).into();
        let root = self.open_root(action.span);
        self.register(RUN, &name, action.span);
        let span = action.get("type").map_or(action.span, |node| node.span);
        let child = self.action(&name, span, action, &ActionPosition { parent: root, scope: RUN, top: true });
        let child = self.child(child, Vec::new());
        self.node(root).kind = NodeKind::Graph(new_graph(vec![child]));
        self.name_root(root);
    }

    fn definition(&mut self, node: &SyntaxNode, wrapper: Option<&SyntaxNode>) {
        let Some(mut object) = ObjectReader::read(node, "a definition", &mut self.diagnostics) else { return };
        self.azure = has_schema(node, "microsoft.logic");
        self.outside_parameters = wrapper.is_some();
        object.ignore(&["$schema", "contentVersion"]);
        let name = object.take("name").and_then(|name| expect_text(name, "`name`", &mut self.diagnostics));
        let in_metadata =
            || node.get("metadata").and_then(|metadata| metadata.get("name")).and_then(SyntaxNode::as_str);
        self.set_name(name.map(|name| name.text.as_str()).or_else(in_metadata));
        self.parameters(object.take("parameters"), wrapper);
        if let Some(results) = object.take("staticResults") {
            self.static_results(results);
        }
        if let Some(triggers) = object.take("triggers") {
            self.triggers(triggers);
        }
        let mut metadata = Map::new();
        for key in ["description", "metadata", "version", "id"] {
            if let Some(node) = object.take(key) {
                metadata.insert(key, to_value(node));
            }
        }
        if let Some(kind) = wrapper.and_then(|wrapper| wrapper.get("kind")) {
            metadata.insert("kind", to_value(kind));
        }
        self.plan.metadata = Value::map(metadata);
        if let Some(node) = object.take("x-windlass") {
            self.extensions(node);
        }
        match object.take("actions") {
            Some(actions) => self.root(actions),
            None => {
                let at = Span::new(node.span.start, node.span.start + 1);
                self.error(codes::MISSING_KEY, at, "the definition has no `actions`", "add `actions`");
            }
        }
        if let Some(outputs) = object.take("outputs") {
            self.plan.outputs = self.outputs(outputs);
        }
        object.finish(codes::UNKNOWN_KEY, "a definition", &mut self.diagnostics);
    }

    /// Reads `x-windlass`, this engine's extensions of the format. Labels see the delivery and parameters; there is no
    /// run yet.
    fn extensions(&mut self, node: &SyntaxNode) {
        let Some(mut object) = ObjectReader::read_exact(node, "`x-windlass`", &mut self.diagnostics) else { return };
        let labels = object.take("labels");
        object.finish(codes::UNKNOWN_KEY, "`x-windlass`", &mut self.diagnostics);
        let Some(labels) = labels else { return };
        for (name, value) in label_entries(labels, self.limits(), LABELS, &mut self.diagnostics) {
            let computed = self.value(value, TRIGGER);
            self.plan.labels.push((name, computed));
        }
    }

    fn root(&mut self, actions: &SyntaxNode) {
        let root = self.open_root(actions.span);
        let graph =
            self.children(actions, &ActionPosition { parent: root, scope: RUN, top: true }, StartOrder::Together);
        self.node(root).kind = NodeKind::Graph(graph);
        self.name_root(root);
    }

    fn open_root(&mut self, span: Span) -> NodeId {
        let name = self.plan.name.clone();
        let mut node = PlanNode::new(name, "workflow", None, NodeKind::Graph(new_graph(Vec::new())));
        (node.hidden, node.span) = (true, source_span(span));
        self.plan.root = self.plan.add_node(node);
        self.plan.root
    }

    /// Renames the root if an action has the workflow's name.
    fn name_root(&mut self, root: NodeId) {
        let name_clashes = self.scopes.get_mut(RUN).names.contains_key(&self.plan.name.to_lowercase());
        if name_clashes {
            let name = format!("{}#workflow", self.plan.name);
            self.node(root).name = name.into();
        }
    }

    /// Compiles the outputs. Designers write an empty object into every file, which counts as no outputs.
    fn outputs(&mut self, node: &SyntaxNode) -> Option<Vec<(Arc<str>, ExprId)>> {
        let object = ObjectReader::read(node, "`outputs`", &mut self.diagnostics)?;
        let mut outputs = Vec::new();
        for (key, node) in object.unread_entries() {
            let value = match node.as_map() {
                Some(_) if node.get("value").is_some() => self.output_value(node),
                _ => Some(node),
            };
            if let Some(value) = value {
                outputs.push((Arc::from(key.text.as_str()), self.value(value, RUN)));
            }
        }
        (node.as_map().is_some_and(|entries| !entries.is_empty())).then_some(outputs)
    }

    fn output_value<'n>(&mut self, node: &'n SyntaxNode) -> Option<&'n SyntaxNode> {
        let mut object = ObjectReader::read(node, "an output", &mut self.diagnostics)?;
        let value = object.take("value");
        if let Some(kind) = object.take("type") {
            expect_text(kind, "`type`", &mut self.diagnostics);
        }
        object.ignore(&["description", "metadata"]);
        object.finish(codes::UNKNOWN_KEY, "an output", &mut self.diagnostics);
        value
    }
}
