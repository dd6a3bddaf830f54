//! A plan prepared for execution: expressions parsed, names indexed, structure checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_value::{Expression, Language, Map, Value};

use crate::addresses::Addresses;
use crate::net_regions::{NetRegions, meeting_places};
use crate::plan::{
    Action, Directive, ENCODING_VERSION, ExprId, FAILED_KIND, Graph, GraphChild, Join, Net, Node, NodeId, NodeKind,
    Pipeline, Plan, SEMANTICS_VERSION, Task, TaskRule, VariableKind,
};
use crate::{Limits, Status};

/// Names, folded to lower case, in the scope they belong to.
type ByScope<T> = BTreeMap<Option<NodeId>, BTreeMap<String, T>>;

/// A plan with its expressions parsed and its names resolved, ready to run.
pub struct Program {
    /// The plan that it was made from.
    pub plan: Plan,
    /// The limits of the plan, or those given to [`Program::load`] for a plan without any.
    pub limits: Limits,
    expressions: Vec<Box<dyn Expression>>,
    facts: Vec<NodeFacts>,
    /// Names by the scope they belong to.
    names: BTreeMap<Option<NodeId>, BTreeMap<Arc<str>, NodeId>>,
    /// The same names folded to lower case, for case-insensitive languages.
    folded: ByScope<NodeId>,
    /// Nodes whose results loops record, by name in lower case and by the scope that the loop belongs to. None marks a
    /// name that two loops use.
    recorded_nodes: ByScope<Option<RecordedNode>>,
    addresses: Addresses,
    has_redactions: bool,
}

/// A node inside a loop with the index of its entry in the loop's records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedNode {
    pub node: NodeId,
    pub looping: NodeId,
    pub at: usize,
}

/// Facts about a node that the reducer would otherwise compute repeatedly.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// The loop, net place or node with a scope in which the node's outcome is stored; None is the run.
    pub home: Option<NodeId>,
    /// Nothing inside leaves the reducer: no job, no wait, no child run.
    pub computes_only: bool,
    /// On a graph: the dependents of each child.
    pub dependents: Vec<Vec<u32>>,
    /// On a graph: the children that do not delay its end.
    pub lingering: Vec<u32>,
    /// On a net in which tokens meet: its regions.
    pub(crate) net_regions: Option<Arc<NetRegions>>,
    /// The node's output is redacted: by its own setting or by that of a node inside it.
    pub redacted: bool,
}

/// The reason why a plan cannot be run. Errors of a definition are found by the compiler instead.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the plan cannot be loaded: {0}")]
pub struct PlanError(pub String);

impl Program {
    /// Loads a plan. `limits` apply unless the plan has its own limits.
    pub fn load(plan: Plan, languages: &[&dyn Language], limits: Limits) -> Result<Program, PlanError> {
        let limits = plan.limits.clone().unwrap_or(limits).at_least_one();
        check_versions(&plan)?;
        check_ids(&plan)?;
        check_triggers(&plan)?;
        let expressions = parse_expressions(&plan, languages)?;
        let facts = gather_facts(&plan);
        let mut names: BTreeMap<Option<NodeId>, BTreeMap<Arc<str>, NodeId>> = BTreeMap::new();
        let mut folded: ByScope<NodeId> = BTreeMap::new();
        for (index, node) in plan.nodes.iter().enumerate().filter(|(_, node)| !node.hidden) {
            let (id, home) = (NodeId(index as u32), facts[index].home);
            names.entry(home).or_default().insert(node.name.clone(), id);
            folded.entry(home).or_default().entry(node.name.to_lowercase()).or_insert(id);
        }
        let recorded_nodes = find_recorded_nodes(&plan, &facts)?;
        let addresses = Addresses::from_plan(&plan)?;
        let has_redactions = !plan.redaction.is_none() || plan.nodes.iter().any(|node| !node.redaction.is_none());
        Ok(Program { plan, limits, expressions, facts, names, folded, recorded_nodes, addresses, has_redactions })
    }

    /// Returns the node with this id, which must belong to the plan.
    pub fn node(&self, id: NodeId) -> &Node {
        self.plan.node(id)
    }

    /// Returns the name of the innermost node around this one that the author wrote, or its own.
    pub(crate) fn visible_name(&self, id: NodeId) -> &Arc<str> {
        let mut node = self.node(id);
        while let (true, Some(parent)) = (node.hidden, node.parent) {
            node = self.node(parent);
        }
        &node.name
    }

    /// Returns true if the run's output is redacted. A definition that declares no outputs returns the root's output,
    /// so it is redacted if anything inside is.
    pub fn redacts_output(&self) -> bool {
        self.plan.redaction.outputs || (self.plan.outputs.is_none() && self.facts(self.plan.root).redacted)
    }

    /// Returns true if anything is redacted.
    pub fn has_redactions(&self) -> bool {
        self.has_redactions
    }

    /// Returns the facts about a node that the program has derived from the plan.
    pub fn facts(&self, id: NodeId) -> &NodeFacts {
        &self.facts[id.0 as usize]
    }

    /// Returns the parsed expression with this id, which must belong to the plan.
    pub fn expression(&self, id: ExprId) -> &dyn Expression {
        &*self.expressions[id.0 as usize]
    }

    /// Returns the addresses that can receive mail.
    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Finds a node by name in one scope: by the exact name first, then ignoring case.
    pub fn named(&self, home: Option<NodeId>, name: &str) -> Option<NodeId> {
        let exact = self.names.get(&home).and_then(|names| names.get(name));
        exact.or_else(|| self.folded.get(&home)?.get(&name.to_lowercase())).copied()
    }

    /// Finds a node that a loop of this scope records, by its name in lower case.
    pub(crate) fn recorded_node(&self, home: Option<NodeId>, lower: &str) -> Option<RecordedNode> {
        *self.recorded_nodes.get(&home)?.get(lower)?
    }

    /// Returns the run's parameters from its input, or all problems of the input.
    pub fn parameters(&self, input: &Value) -> Result<Value, Vec<String>> {
        self.parameters_with_defaults(input, &Value::Null)
    }

    /// Returns the same with `defaults` replacing the plan's defaults of those names.
    pub(crate) fn parameters_with_defaults(&self, input: &Value, defaults: &Value) -> Result<Value, Vec<String>> {
        let mut problems = Vec::new();
        let mut parameters = Map::new();
        for parameter in &self.plan.parameters {
            let default = defaults.get(&parameter.name).or(parameter.default.as_ref());
            let given = match (input.get(&parameter.name), default) {
                (Some(given), Some(default)) if parameter.merge => Some(merge_deep(default, given)),
                (given, default) => given.or(default).cloned(),
            };
            let Some(value) = given else {
                if parameter.computed.is_some() {
                    continue;
                }
                problems.push(format!("the parameter `{0}` has no value: give one with --set {0}=…", parameter.name));
                continue;
            };
            if !accepts_value(parameter.kind, &value) {
                let (name, kind) = (&parameter.name, kind_name(parameter.kind));
                problems.push(format!("the parameter `{name}` must be of kind {kind}; {} was given", value.kind()));
            }
            if parameter.allowed.as_ref().is_some_and(|allowed| !allowed.contains(&value)) {
                problems.push(format!("the parameter `{}` does not allow the value {value:?}", parameter.name));
            }
            parameters.insert(parameter.name.clone(), value);
        }
        if problems.is_empty() { Ok(Value::map(parameters)) } else { Err(problems) }
    }
}

/// Merges objects recursively; any other value replaces the default.
pub(crate) fn merge_deep(default: &Value, given: &Value) -> Value {
    let (Value::Map(below), Value::Map(above)) = (default, given) else { return given.clone() };
    let mut merged = Map::clone(below);
    for (key, value) in above.iter() {
        let value = below.get(key).map_or_else(|| value.clone(), |default| merge_deep(default, value));
        merged.insert(key.clone(), value);
    }
    Value::map(merged)
}

/// Returns true if a variable of this kind may hold the value. Null is allowed where the kind has no better empty
/// value.
pub(crate) fn accepts_value(kind: VariableKind, value: &Value) -> bool {
    match kind {
        VariableKind::Any => true,
        VariableKind::Boolean => matches!(value, Value::Bool(_)),
        VariableKind::Integer => match value {
            // A number kept as text is an integer if it is written without a fraction.
            Value::Big(text) => text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'),
            other => matches!(other, Value::Int(_)),
        },
        VariableKind::Float => matches!(value, Value::Int(_) | Value::Float(_) | Value::Big(_)),
        // A stored value without items is not a list.
        VariableKind::String => match value {
            Value::Stored(stored) => stored.items == 0,
            other => matches!(other, Value::Str(_) | Value::Null),
        },
        VariableKind::Array => matches!(value, Value::List(_) | Value::Null | Value::Stored(_)),
        VariableKind::Object => matches!(value, Value::Map(_) | Value::Null | Value::Stored(_)),
    }
}

pub(crate) fn kind_name(kind: VariableKind) -> &'static str {
    match kind {
        VariableKind::Any => "any",
        VariableKind::Boolean => "boolean",
        VariableKind::Integer => "integer",
        VariableKind::Float => "float",
        VariableKind::String => "string",
        VariableKind::Array => "array",
        VariableKind::Object => "object",
    }
}

fn check_versions(plan: &Plan) -> Result<(), PlanError> {
    let known = plan.encoding <= ENCODING_VERSION && plan.semantics <= SEMANTICS_VERSION;
    known.then_some(()).ok_or_else(|| {
        PlanError(format!(
            "it was made by a newer version (encoding {}, semantics {}); this program supports up to {ENCODING_VERSION} and {SEMANTICS_VERSION}",
            plan.encoding, plan.semantics
        ))
    })
}

/// Checks that children refer back to their parent and come after it, so that a walk along them ends.
fn check_ids(plan: &Plan) -> Result<(), PlanError> {
    if plan.root.0 as usize >= plan.nodes.len() {
        return Err(PlanError("it has no root".to_owned()));
    }
    for (index, node) in plan.nodes.iter().enumerate() {
        for child in node.kind.children() {
            let parent = plan.nodes.get(child.0 as usize).and_then(|node| node.parent);
            if child.0 as usize <= index || parent != Some(NodeId(index as u32)) {
                return Err(PlanError(format!("`{}` does not come after its parent `{}`", child.0, node.name)));
            }
        }
        if let NodeKind::Pipeline(pipeline) = &node.kind
            && (pipeline.tasks.is_empty() || jumps_out_of_range(pipeline))
        {
            return Err(PlanError(format!(
                "the pipeline `{}` has no task, or jumps to a task that does not exist",
                node.name
            )));
        }
        if let NodeKind::Pipeline(pipeline) = &node.kind
            && pipeline.tasks.iter().flat_map(|task| &task.rules).any(fails_with_success_status)
        {
            return Err(PlanError(format!("a rule of the pipeline `{}` fails it with a success status", node.name)));
        }
        if let NodeKind::Pipeline(pipeline) = &node.kind
            && pipeline.tasks.iter().any(|task| task.action.node().is_some() && task.timeout.is_some())
        {
            return Err(PlanError(format!("a task of `{}` that enters a node has its own timeout", node.name)));
        }
        if let NodeKind::Graph(graph) = &node.kind
            && graph
                .children
                .iter()
                .flat_map(|child| &child.after)
                .any(|after| after.child as usize >= graph.children.len())
        {
            return Err(PlanError(format!("the graph `{}` has a dependency that does not exist", node.name)));
        }
        if let NodeKind::Graph(graph) = &node.kind
            && graph.unmet == Status::Succeeded
        {
            let what = "would succeed without having run";
            return Err(PlanError(format!(
                "a child of the graph `{}` whose dependencies are not met {what}",
                node.name
            )));
        }
        if let NodeKind::Net(net) = &node.kind {
            check_net(net)?;
        }
        if let NodeKind::Graph(graph) = &node.kind
            && has_cycle(graph)
        {
            return Err(PlanError(format!(
                "in the graph `{}` the dependencies of the children form a cycle",
                node.name
            )));
        }
    }
    Ok(())
}

/// Checks that references between places are valid.
fn check_net(net: &Net) -> Result<(), PlanError> {
    let other = |join: &Join| !matches!(join, Join::None | Join::Meeting { .. });
    if meeting_places(net).next().is_some()
        && let Some(place) = net.places.iter().find(|place| other(&place.join))
    {
        return Err(PlanError(format!("`{}` has a join that cannot be used where tokens meet", place.name)));
    }
    for place in &net.places {
        let at = |at: &u32| net.places.get(*at as usize);
        let handler = place.handler.map(|handler| at(&handler.place));
        if handler.is_some_and(|by| by.is_none_or(|by| !by.accepts.iter().any(|kind| &**kind == FAILED_KIND))) {
            return Err(PlanError(format!(
                "the handler of `{}` is not a place that accepts `{FAILED_KIND}`",
                place.name
            )));
        }
        let joins = place.fan_out_joins.iter().flatten();
        if joins.map(at).any(|join| join.is_none_or(|join| join.join != Join::FanOut)) {
            return Err(PlanError(format!("`{}` fans out into a place that does not join fan-outs", place.name)));
        }
        if let Join::Each { needs, .. } = &place.join
            && (needs.is_empty()
                || needs.iter().any(|need| !place.accepts.contains(need))
                || place.accepts.iter().any(|kind| !needs.contains(kind)))
        {
            return Err(PlanError(format!("`{}` must accept exactly the events that its join needs", place.name)));
        }
    }
    Ok(())
}

/// Checks that triggers have unique names and existing expressions.
fn check_triggers(plan: &Plan) -> Result<(), PlanError> {
    for (at, trigger) in plan.triggers.iter().enumerate() {
        if plan.triggers[..at].iter().any(|other| other.name == trigger.name) {
            return Err(PlanError(format!("two triggers are called `{}`", trigger.name)));
        }
        if trigger
            .conditions
            .iter()
            .chain(&trigger.split)
            .chain(&trigger.validation)
            .any(|id| id.0 as usize >= plan.expressions.len())
        {
            return Err(PlanError(format!(
                "the trigger `{}` refers to an expression that does not exist",
                trigger.name
            )));
        }
    }
    Ok(())
}

fn jumps_out_of_range(pipeline: &Pipeline) -> bool {
    let out = |rule: &TaskRule| matches!(rule.directive, Directive::Jump(to) if to as usize >= pipeline.tasks.len());
    pipeline.tasks.iter().flat_map(|task| &task.rules).any(out)
}

fn fails_with_success_status(rule: &TaskRule) -> bool {
    matches!(rule.directive, Directive::Fail { status, .. } if !status.is_bad())
}

/// Returns true if the dependencies contain a cycle: removes children without remaining dependencies until none can
/// be removed.
fn has_cycle(graph: &Graph) -> bool {
    let mut left = vec![true; graph.children.len()];
    loop {
        let waits = |child: &GraphChild| child.after.iter().any(|after| left[after.child as usize]);
        let free = |at: &usize| left[*at] && !waits(&graph.children[*at]);
        let removable: Vec<usize> = (0..left.len()).filter(free).collect();
        if removable.is_empty() {
            return left.contains(&true);
        }
        removable.into_iter().for_each(|at| left[at] = false);
    }
}

fn parse_expressions(plan: &Plan, languages: &[&dyn Language]) -> Result<Vec<Box<dyn Expression>>, PlanError> {
    let parse = |source: &crate::plan::ExpressionSource| {
        let language = languages.iter().find(|language| language.name() == &*source.language);
        let language =
            language.ok_or_else(|| PlanError(format!("unknown expression language `{}`", source.language)))?;
        language.compile(&source.source, source.mode).map_err(|errors| {
            let first = errors.into_iter().next().map(|error| error.message).unwrap_or_default();
            PlanError(format!("the expression {:?} is not valid: {first}", source.source))
        })
    };
    plan.expressions.iter().map(parse).collect()
}

fn gather_facts(plan: &Plan) -> Vec<NodeFacts> {
    let mut facts = vec![NodeFacts::default(); plan.nodes.len()];
    for index in 0..plan.nodes.len() {
        let node = &plan.nodes[index];
        facts[index].home = node.parent.and_then(|parent| home_of_child(plan, &facts, parent));
        if let NodeKind::Net(net) = &node.kind {
            facts[index].net_regions = NetRegions::from_net(net).map(Arc::new);
        }
        if let NodeKind::Graph(graph) = &node.kind {
            let mut dependents = vec![Vec::new(); graph.children.len()];
            for (child, after) in
                graph.children.iter().enumerate().flat_map(|(i, c)| c.after.iter().map(move |a| (i, a)))
            {
                // Two edges between the same two children are one dependent.
                let waiting: &mut Vec<u32> = &mut dependents[after.child as usize];
                if waiting.last() != Some(&(child as u32)) {
                    waiting.push(child as u32);
                }
            }
            facts[index].dependents = dependents;
            let lingers = |child: &u32| plan.node(graph.children[*child as usize].node).linger_time.is_some();
            facts[index].lingering = (0..graph.children.len() as u32).filter(lingers).collect();
        }
    }
    for index in (0..plan.nodes.len()).rev() {
        let children = plan.nodes[index].kind.children();
        let inner = children.iter().all(|child| facts[child.0 as usize].computes_only);
        facts[index].computes_only = inner && node_only_computes(&plan.nodes[index]);
        let inside = children.iter().any(|child| facts[child.0 as usize].redacted);
        facts[index].redacted = inside || plan.nodes[index].redaction.outputs;
    }
    facts
}

fn find_recorded_nodes(plan: &Plan, facts: &[NodeFacts]) -> Result<ByScope<Option<RecordedNode>>, PlanError> {
    let mut found: ByScope<Option<RecordedNode>> = BTreeMap::new();
    for (index, node) in plan.nodes.iter().enumerate() {
        let NodeKind::Loop(looping) = &node.kind else { continue };
        let (id, home) = (NodeId(index as u32), facts[index].home);
        for (at, inner) in looping.records.iter().flat_map(|records| &records.nodes).enumerate() {
            if facts.get(inner.0 as usize).is_none_or(|facts| facts.home != Some(id)) {
                return Err(PlanError(format!("the loop `{}` records a node that is not in its body", node.name)));
            }
            let recorded = RecordedNode { node: *inner, looping: id, at };
            let names = found.entry(home).or_default();
            names
                .entry(plan.node(*inner).name.to_lowercase())
                .and_modify(|duplicate| *duplicate = None)
                .or_insert(Some(recorded));
        }
    }
    Ok(found)
}

fn home_of_child(plan: &Plan, facts: &[NodeFacts], parent: NodeId) -> Option<NodeId> {
    match &plan.node(parent).kind {
        NodeKind::Loop(_) => Some(parent),
        _ if plan.node(parent).scope => Some(parent),
        _ if plan.node(parent).parent.is_some_and(|above| matches!(plan.node(above).kind, NodeKind::Net(_))) => {
            Some(parent)
        }
        _ => facts[parent.0 as usize].home,
    }
}

/// Returns true if the task only computes. A task with a retry may wait, and publishes that.
fn task_only_computes(task: &Task) -> bool {
    let retries = |rule: &TaskRule| matches!(rule.directive, Directive::Retry(_));
    !matches!(task.action, Action::Effect(_)) && task.retry.is_none() && !task.rules.iter().any(retries)
}

fn node_only_computes(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Pipeline(pipeline) => node.retry.is_none() && pipeline.tasks.iter().all(task_only_computes),
        NodeKind::Graph(_) | NodeKind::Branch(_) => node.retry.is_none(),
        NodeKind::Loop(looping) => looping.delay.is_none() && node.retry.is_none(),
        NodeKind::Net(_) | NodeKind::Wait(_) | NodeKind::Call(_) => false,
    }
}
