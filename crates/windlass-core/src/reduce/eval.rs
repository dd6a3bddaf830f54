//! Evaluation of expressions against the part of the state that they may see.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_value::{
    Duration, EvalError, EvalErrorKind, EvalScope as ScopeTrait, ExpressionMode, IterationRecords, IterationView,
    Level, LoopInnerNode, Map, Meter, MeterCaps, NodeView, RunView, StoredValue, Timestamp, Value,
};

use super::nodes::TaskNames;
use super::{ItemStop, Reducer};
use crate::plan::{Amount, ExprId, LoopSource, NodeId, NodeKind};
use crate::state::{Iteration, Scope, ScopeId, State};
use crate::{ErrorInfo, Outcome, Program, Status, Values};

/// Names visible only to this evaluation, and the iteration that a loop's condition counts.
#[derive(Default, Clone, Copy)]
pub(crate) struct Locals<'a> {
    pub names: Option<&'a Map>,
    /// The names of the current task.
    pub task: Option<&'a TaskNames<'a>>,
    /// In a condition, the innermost iteration's index is the number of completed iterations.
    pub iteration_index: Option<u64>,
    /// In a condition, the previous result of the innermost iteration.
    pub previous: Option<&'a Value>,
    /// An iteration without its own scope: a condition before the first iteration.
    pub iteration: Option<&'a Iteration>,
    /// A node that is about to end, with its outcome so far.
    pub own: Option<(NodeId, &'a Arc<Outcome>)>,
    /// The innermost iteration has ended: a node without an outcome in it did not run.
    pub iteration_ended: bool,
}

/// The result of a condition.
#[derive(Debug, PartialEq)]
pub(crate) enum ConditionResult {
    Yes,
    No,
    /// False because of a missing value.
    Missing(String),
}

impl Reducer<'_> {
    pub(crate) fn eval(&mut self, expression: ExprId, scope: ScopeId) -> Result<Value, ItemStop> {
        self.eval_with(expression, scope, Locals::default())
    }

    pub(crate) fn eval_with(
        &mut self,
        expression: ExprId,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<Value, ItemStop> {
        self.try_eval(expression, scope, locals).map_err(|error| self.stop(error))
    }

    fn try_eval(&mut self, expression: ExprId, scope: ScopeId, locals: Locals<'_>) -> Result<Value, EvalError> {
        let limits = &self.program.limits;
        let caps = MeterCaps {
            max_cel_cost: limits.max_cel_cost,
            max_range_items: limits.max_range_items,
            max_xml_nodes: limits.max_xml_nodes,
        };
        let mut meter = Meter::new(limits.expression_fuel, limits.max_expression_output_bytes).with_caps(caps);
        let view = ScopeView {
            program: self.program,
            state: self.state,
            values: self.values,
            scope,
            locals,
            draws: Cell::new(self.state.draws),
        };
        let result = self.program.expression(expression).eval(&view, &mut meter);
        let draws = view.draws.get();
        self.state.draws = draws;
        let max_depth = limits.max_value_depth;
        match result {
            Ok(value) if value.is_deeper_than(max_depth) => {
                let message = format!("the expression returns a value with more than {max_depth} levels of nesting");
                let hint = "use a flat list instead of nested values; the limit is `max_value_depth`";
                Err(EvalError::new(EvalErrorKind::Limit, message).with_hint(hint))
            }
            other => other,
        }
    }

    fn stop(&mut self, error: EvalError) -> ItemStop {
        let code = match error.kind {
            EvalErrorKind::NeedBlobs => return ItemStop::Need(error.blobs),
            EvalErrorKind::Limit => "ExpressionLimit",
            EvalErrorKind::Invalid => "ValidationFailed",
            EvalErrorKind::Missing | EvalErrorKind::Type => "InvalidTemplate",
        };
        let message = match &error.expression {
            Some(expression) => format!("{} (in `{expression}`)", error.message),
            None => error.message.clone(),
        };
        let mut info = ErrorInfo::new(code, "expression", message);
        info.hint = error.hint.map(Into::into);
        ItemStop::Failed(Box::new(self.program.plan.apply_wording(info, &[])))
    }

    pub(crate) fn condition(
        &mut self,
        expression: ExprId,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<bool, ItemStop> {
        Ok(self.holds(expression, scope, locals)? == ConditionResult::Yes)
    }

    pub(crate) fn holds(
        &mut self,
        expression: ExprId,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<ConditionResult, ItemStop> {
        let guards = self.program.plan.expressions[expression.0 as usize].mode == ExpressionMode::Guard;
        let value = match self.try_eval(expression, scope, locals) {
            Err(error) if guards && error.kind == EvalErrorKind::Missing => {
                return Ok(ConditionResult::Missing(error.message));
            }
            evaluated => evaluated.map_err(|error| self.stop(error))?,
        };
        let holds = value.as_bool().map(|holds| if holds { ConditionResult::Yes } else { ConditionResult::No });
        holds.ok_or_else(|| {
            ErrorInfo::new(
                "NotBoolean",
                "expression",
                format!("the condition returned {} {value:?}; expected true or false", value.kind()),
            )
            .hint("compare it with something: equals(…), greater(…)")
            .into()
        })
    }

    /// Evaluates a duration: ISO 8601 text or a number of seconds.
    pub(crate) fn duration(&mut self, amount: &Amount<Duration>, scope: ScopeId) -> Result<Duration, ItemStop> {
        self.duration_with(amount, scope, Locals::default())
    }

    pub(crate) fn duration_with(
        &mut self,
        amount: &Amount<Duration>,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<Duration, ItemStop> {
        let expression = match amount {
            Amount::Fixed(duration) => return Ok(*duration),
            Amount::Computed(expression) => *expression,
        };
        let value = self.eval_with(expression, scope, locals)?;
        let duration = match &value {
            Value::Str(text) => Duration::parse_iso(text),
            other => other.as_f64().filter(|seconds| (0.0..1e12).contains(seconds)).map(|s| Duration((s * 1e6) as u64)),
        };
        duration.ok_or_else(|| {
            ErrorInfo::new("BadDuration", "expression", format!("{value:?} is not a duration"))
                .hint("write an ISO 8601 duration such as PT30S, or a number of seconds")
                .into()
        })
    }

    /// Evaluates a whole number that is not negative.
    pub(crate) fn count(&mut self, amount: &Amount<u64>, scope: ScopeId) -> Result<u64, ItemStop> {
        self.count_with(amount, scope, Locals::default())
    }

    pub(crate) fn count_with(
        &mut self,
        amount: &Amount<u64>,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<u64, ItemStop> {
        let expression = match amount {
            Amount::Fixed(count) => return Ok(*count),
            Amount::Computed(expression) => *expression,
        };
        let value = self.eval_with(expression, scope, locals)?;
        let text = || value.as_str().and_then(|text| text.trim().parse().ok());
        value.as_int().or_else(text).and_then(|count| u64::try_from(count).ok()).ok_or_else(|| {
            ErrorInfo::new("BadCount", "expression", format!("{value:?} is not a non-negative integer")).into()
        })
    }

    /// Loads the content of a value that may be stored elsewhere.
    pub(crate) fn resolve(&self, value: &Value) -> Result<Value, ItemStop> {
        match value {
            Value::Stored(stored) => load(self.values, stored).map_err(|error| ItemStop::Need(error.blobs)),
            other => Ok(other.clone()),
        }
    }
}

struct ScopeView<'a> {
    program: &'a Program,
    state: &'a State,
    values: &'a dyn Values,
    scope: ScopeId,
    locals: Locals<'a>,
    draws: Cell<u64>,
}

impl<'a> ScopeView<'a> {
    /// Iterates from the innermost scope outwards.
    fn chain(&self) -> impl Iterator<Item = &'a Scope> {
        let state = self.state;
        std::iter::successors(state.scopes.get(self.scope), move |scope| {
            scope.parent.and_then(|id| state.scopes.get(id))
        })
    }

    /// Looks up a name that is visible only to this evaluation.
    fn own_name(&self, name: &str) -> Option<Value> {
        let named = self.locals.names.and_then(|names| names.get(name).cloned());
        named.or_else(|| self.locals.task.and_then(|task| task.get(name)))
    }

    fn find_node(&self, name: &str) -> Option<(NodeId, &'a Arc<Outcome>)> {
        let own =
            self.locals.own.filter(|(node, _)| self.program.named(self.program.facts(*node).home, name) == Some(*node));
        if own.is_some() {
            return own;
        }
        self.find_node_in(self.chain(), name)
    }

    fn find_node_in(&self, chain: impl Iterator<Item = &'a Scope>, name: &str) -> Option<(NodeId, &'a Arc<Outcome>)> {
        for scope in chain {
            let Some(node) = self.program.named(scope.owner, name) else { continue };
            if let Some(outcome) = scope.outcome(node) {
                return Some((node, outcome));
            }
            // A node that opens a scope hides outer names with its own, whether those nodes have ended or not.
            if scope.owner.is_some_and(|owner| self.program.node(owner).scope) {
                return None;
            }
        }
        None
    }

    /// Iterates over the scopes outside of the innermost owners. The iteration of a loop and the loop's own scope have
    /// the same owner.
    fn chain_outside(&self, owners: usize) -> impl Iterator<Item = &'a Scope> {
        let (mut passed, mut last) = (0, None);
        self.chain().skip_while(move |scope| {
            if scope.owner.is_none() || scope.owner != last {
                passed += 1;
                last = scope.owner;
            }
            passed <= owners && scope.owner.is_some()
        })
    }

    fn node_view(&self, node: NodeId, outcome: &Outcome) -> NodeView {
        NodeView {
            name: self.program.node(node).name.clone(),
            status: outcome.status.as_str(),
            inputs: outcome.inputs.clone(),
            output: outcome.output.clone(),
            error: outcome.error.as_ref().map_or(Value::Null, ErrorInfo::to_value),
            attempts: outcome.attempts,
            started_at: outcome.started_at,
            ended_at: outcome.ended_at,
            iteration_records: outcome.loop_summary.as_ref().map(|summary| summary.records.clone()).unwrap_or_default(),
            body_nodes: self.records_listed(node),
            usage: outcome.usage.clone(),
        }
    }

    /// Returns a node without an outcome in an iteration that has ended: a node around it was skipped.
    fn skipped_node(&self, name: &str) -> Option<NodeView> {
        let scope = self.state.scopes.get(self.scope).filter(|_| self.locals.iteration_ended)?;
        let node = self.program.named(scope.owner, name).filter(|node| scope.outcome(*node).is_none())?;
        let (status, now) = (Status::Skipped.as_str(), self.state.now);
        Some(NodeView {
            name: self.program.node(node).name.clone(),
            status,
            inputs: Value::Null,
            output: Value::Null,
            error: Value::Null,
            attempts: 0,
            started_at: now,
            ended_at: now,
            iteration_records: IterationRecords::None,
            body_nodes: None,
            usage: Value::Null,
        })
    }

    /// Returns how many entries of a loop's records are shown when all are requested.
    fn records_listed(&self, node: NodeId) -> Option<usize> {
        let NodeKind::Loop(looping) = &self.program.node(node).kind else { return None };
        looping.records.as_ref()?.listed.map(|listed| listed as usize)
    }

    fn is_concurrent(&self, iteration: &Iteration) -> bool {
        match &self.program.node(iteration.loop_node).kind {
            NodeKind::Loop(looping) => !matches!(looping.max_concurrency, Amount::Fixed(1)),
            _ => false,
        }
    }

    /// Returns the name of the item. A loop without items shows those of the loop around it, under their name.
    fn item_name(&self, iteration: &Iteration) -> Option<Arc<str>> {
        let mut node = Some(iteration.loop_node);
        while let Some(id) = node {
            let around = self.program.node(id);
            if let NodeKind::Loop(looping) = &around.kind
                && let LoopSource::Each(_) = looping.source
            {
                return looping.item.clone();
            }
            node = around.parent;
        }
        None
    }

    /// Collects the named nodes directly inside one, looking through hidden nodes.
    fn visible_children(&self, node: NodeId, found: &mut Vec<NodeId>) {
        for child in self.program.node(node).kind.children() {
            match self.program.node(child).hidden {
                true => self.visible_children(child, found),
                false => found.push(child),
            }
        }
    }
}

impl ScopeTrait for ScopeView<'_> {
    fn variable(&self, level: Level, name: &str) -> Option<Value> {
        if level == Level::Any
            && let Some(local) = self.own_name(name)
        {
            return Some(local);
        }
        let found = match level {
            Level::Run => self.state.scopes.get(self.state.root_scope)?.variables.get(name),
            Level::Iteration => self.chain().find(|scope| scope.iteration.is_some())?.variables.get(name),
            Level::Step => self.chain().find(|scope| scope.iteration.is_none())?.variables.get(name),
            Level::Any => {
                let carried = |scope: &Scope| scope.token.as_ref().and_then(|carried| carried.get(name));
                let own = |scope: &Scope| scope.variables.get(name).map(|variable| variable.value.clone());
                return self.chain().find_map(|scope| own(scope).or_else(|| carried(scope)));
            }
        };
        found.map(|variable| variable.value.clone())
    }

    fn variable_ignoring_case(&self, lower: &str) -> Option<Value> {
        let matches = |name: &str| match name.is_ascii() {
            true => name.eq_ignore_ascii_case(lower),
            false => name.to_lowercase() == lower,
        };
        let own = |scope: &Scope| {
            let found = scope.variables.iter().find(|(name, _)| matches(name));
            found.map(|(_, variable)| variable.value.clone())
        };
        self.chain().find_map(own)
    }

    fn local(&self, name: &str) -> Option<Value> {
        let carried = || self.chain().find_map(|scope| scope.token.as_ref()).and_then(|carried| carried.get(name));
        self.own_name(name).or_else(carried)
    }

    fn node(&self, name: &str) -> Option<NodeView> {
        let found = || self.find_node(name).map(|(node, outcome)| self.node_view(node, outcome));
        self.skipped_node(name).or_else(found)
    }

    fn node_outside(&self, owners: usize, name: &str) -> Option<NodeView> {
        if owners == 0 {
            return self.node(name);
        }
        let found = self.find_node_in(self.chain_outside(owners), name);
        found.map(|(node, outcome)| self.node_view(node, outcome))
    }

    fn node_in_loop(&self, name: &str) -> Option<LoopInnerNode> {
        let lower = name.to_lowercase();
        for scope in self.chain() {
            if self.program.named(scope.owner, name).is_some() {
                return None;
            }
            let Some(recorded) = self.program.recorded_node(scope.owner, &lower) else { continue };
            // A loop that is about to begin shows nothing of its earlier entries.
            if self.locals.iteration.is_some_and(|iteration| iteration.loop_node == recorded.looping) {
                return None;
            }
            let own = self.locals.own.filter(|(node, _)| *node == recorded.looping).map(|(_, outcome)| outcome);
            if let Some(outcome) = own.or_else(|| scope.outcome(recorded.looping)) {
                let around = self.node_view(recorded.looping, outcome);
                return Some(LoopInnerNode {
                    name: self.program.node(recorded.node).name.clone(),
                    loop_node: around,
                    record_index: recorded.at,
                });
            }
        }
        None
    }

    fn children(&self, name: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        let node = self.chain().find_map(|scope| self.program.named(scope.owner, name))?;
        let mut inner = Vec::new();
        self.visible_children(node, &mut inner);
        let view = |child: NodeId| {
            let outcome = self.chain().find_map(|scope| scope.outcome(child))?;
            Some((self.program.node(child).name.clone(), self.node_view(child, outcome)))
        };
        Some(inner.into_iter().filter_map(view).collect())
    }

    fn iteration(&self, loop_name: Option<&str>) -> Option<IterationView> {
        let scoped = self.chain().filter_map(|scope| scope.iteration.as_ref());
        let mut iterations = self.locals.iteration.into_iter().chain(scoped).enumerate();
        let (depth, iteration) = match loop_name {
            None => iterations.next(),
            Some(name) => {
                iterations.find(|(_, iteration)| self.program.node(iteration.loop_node).name.eq_ignore_ascii_case(name))
            }
        }?;
        let innermost = depth == 0;
        Some(IterationView {
            loop_name: self.program.node(iteration.loop_node).name.clone(),
            iteration_index: self.locals.iteration_index.filter(|_| innermost).unwrap_or(iteration.index),
            item: iteration.item.clone(),
            previous: self.locals.previous.filter(|_| innermost).unwrap_or(&iteration.previous).clone(),
            loop_started_at: iteration.loop_started_at,
            item_name: self.item_name(iteration),
            count: iteration.count,
            concurrent: self.is_concurrent(iteration),
        })
    }

    fn run(&self) -> &RunView {
        &self.state.run
    }

    fn trigger(&self) -> Option<Arc<str>> {
        match self.program.plan.triggers.as_slice() {
            [only] => Some(only.name.clone()),
            _ => None,
        }
    }

    fn now(&self) -> Timestamp {
        self.state.now
    }

    fn random(&self) -> u64 {
        let draw = self.draws.get();
        self.draws.set(draw + 1);
        random_at(self.state.seed, draw)
    }

    fn variables(&self, level: Level) -> Vec<(Arc<str>, Value)> {
        let mut found: Vec<(Arc<str>, Value)> = Vec::new();
        let locals = self.locals.names.filter(|_| level == Level::Any);
        found.extend(locals.into_iter().flat_map(Map::iter).map(|(name, value)| (name.clone(), value.clone())));
        let mut add = |scope: &Scope| {
            for (name, variable) in &scope.variables {
                if !found.iter().any(|(known, _)| known == name) {
                    found.push((name.clone(), variable.value.clone()));
                }
            }
        };
        match level {
            Level::Run => self.state.scopes.get(self.state.root_scope).into_iter().for_each(&mut add),
            Level::Iteration => self.chain().find(|scope| scope.iteration.is_some()).into_iter().for_each(&mut add),
            Level::Step => self.chain().find(|scope| scope.iteration.is_none()).into_iter().for_each(&mut add),
            Level::Any => self.chain().for_each(&mut add),
        }
        found
    }

    fn blob(&self, stored: &StoredValue) -> Result<Value, EvalError> {
        self.values.get(&stored.hash).ok_or_else(|| EvalError::need_blobs(vec![stored.hash]))
    }
}

/// Returns the n-th random number of a tick (SplitMix64).
pub(crate) fn random_at(seed: u64, draw: u64) -> u64 {
    let mut z = seed.wrapping_add(draw.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Loads a complete stored value. A chunked list is assembled from its chunks; all missing chunks are named together.
fn load(values: &dyn Values, stored: &StoredValue) -> Result<Value, EvalError> {
    let content = values.get(&stored.hash).ok_or_else(|| EvalError::need_blobs(vec![stored.hash]))?;
    if !stored.chunked {
        return Ok(content);
    }
    let chunks: Vec<&StoredValue> = content
        .as_list()
        .unwrap_or_default()
        .iter()
        .filter_map(|chunk| if let Value::Stored(stored) = chunk { Some(&**stored) } else { None })
        .collect();
    // Equal chunks are one blob, so they are requested once.
    let missing: BTreeSet<_> =
        chunks.iter().map(|chunk| chunk.hash).filter(|hash| values.get(hash).is_none()).collect();
    if !missing.is_empty() {
        return Err(EvalError::need_blobs(missing.into_iter().collect()));
    }
    let mut items = Vec::with_capacity(stored.items as usize);
    for chunk in chunks {
        if let Some(Value::List(part)) = values.get(&chunk.hash) {
            items.extend(part.iter().cloned());
        }
    }
    Ok(Value::list(items))
}
