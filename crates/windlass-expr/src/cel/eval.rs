//! Evaluation: one walk over the nodes, with cost accounting.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use regex::Regex;
use windlass_value::{BlobHash, EvalError, EvalErrorKind, EvalScope, ExpressionMode, Meter, Value};

use super::lower::comparison_hint;
use super::node::{CelFold, CelFunction, CelNode, CelOperator, CelPattern, FoldKind};
use super::source::CelEnvironment;
use super::value::{CelMap, CelResult, CelType, CelValue, describe, keys, type_error};
use crate::wdl::values::{WdlContext, is_stored_list};

pub(super) struct CelEvaluator<'a> {
    pub scope: &'a dyn EvalScope,
    pub meter: &'a mut Meter,
    pub text: &'a str,
    pub env: &'a CelEnvironment,
    pub mode: ExpressionMode,
    cost: u64,
    /// Approximate number of bytes converted to output values so far.
    output_bytes: usize,
    /// Values of the macro variables, outermost first.
    locals: Vec<CelValue>,
    /// Patterns compiled at run time, keyed by their text.
    pub patterns: HashMap<Arc<str>, Regex>,
}

impl<'a> CelEvaluator<'a> {
    pub(crate) fn new(
        scope: &'a dyn EvalScope,
        meter: &'a mut Meter,
        text: &'a str,
        env: &'a CelEnvironment,
        mode: ExpressionMode,
    ) -> CelEvaluator<'a> {
        CelEvaluator {
            scope,
            meter,
            text,
            env,
            mode,
            cost: 0,
            output_bytes: 0,
            locals: Vec::new(),
            patterns: HashMap::new(),
        }
    }

    /// Evaluates the whole expression and returns it as a [`Value`].
    pub(crate) fn result(&mut self, root: &CelNode) -> Result<Value, EvalError> {
        let value = self.node(root)?;
        if self.mode == ExpressionMode::Value {
            let value = self.convert(&value)?;
            self.meter.check_size(value.size_up_to(self.meter.max_output_bytes))?;
            return Ok(value);
        }
        match self.content(value)? {
            CelValue::Bool(flag) => Ok(Value::Bool(flag)),
            other => {
                let error = type_error(format!("the condition gives {}, not true or false", describe(&other)));
                Err(error.with_hint(other.kind().map_or_else(String::new, comparison_hint)))
            }
        }
    }

    /// Charges the cost of operations.
    pub(crate) fn spend(&mut self, amount: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(amount);
        let max_cost = self.meter.caps.max_cel_cost;
        if self.cost > max_cost {
            let message = format!("the expression exceeds the maximum cost of {max_cost} for one evaluation");
            let hint = "process fewer items, let a step return what is needed as its result, or raise `limits.max_cel_cost` \
                        in windlass.toml";
            return Err(EvalError::new(EvalErrorKind::Limit, message).with_hint(hint));
        }
        self.meter.spend(amount)
    }

    /// Charges the cost of visiting items.
    pub(crate) fn charge_items(&mut self, count: usize) -> Result<(), EvalError> {
        self.meter.spend(count as u64)?;
        self.spend(count as u64 / 10)
    }

    /// Charges the cost of reading the given number of bytes.
    pub(crate) fn charge_read(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.meter.spend(bytes as u64 / 32)?;
        self.spend(bytes as u64 / 1_000)
    }

    /// Charges the cost of creating a string of the given length, and rejects one that is too large before it is
    /// created.
    pub(crate) fn charge_created(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.meter.check_size(bytes)?;
        self.meter.spend(bytes as u64 / 32)?;
        self.spend(bytes as u64 / 10)
    }

    /// Counts bytes that are converted to output values; their sum is the size of one result.
    pub(crate) fn charge_output(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        self.meter.check_size(self.output_bytes)?;
        self.meter.spend(1)
    }

    /// Returns the content of a stored value; any other value is returned unchanged.
    pub(crate) fn content(&mut self, value: CelValue) -> CelResult {
        match value {
            CelValue::Stored(stored) => WdlContext::new(self.scope, self.meter).load(&stored).map(CelValue::from),
            value => Ok(value),
        }
    }

    /// Returns the content of a value for a single lookup; the cost does not depend on the size of the content.
    pub(crate) fn load_for_lookup(&mut self, value: Value) -> Result<Value, EvalError> {
        match &value {
            Value::Stored(stored) => WdlContext::new(self.scope, self.meter).load_for_lookup(stored),
            _ => Ok(value),
        }
    }

    /// Returns the source text in the given range.
    pub(crate) fn source_text(&self, at: &Range<usize>) -> String {
        super::value::truncate(self.text.get(at.clone()).unwrap_or_default())
    }

    /// Evaluates a node. Each arm is a call, so that the stack frames of this recursive function stay small.
    pub(crate) fn node(&mut self, node: &CelNode) -> CelResult {
        match node {
            CelNode::Constant(value) => Ok(value.clone()),
            CelNode::Local(slot) => self.local(*slot),
            CelNode::Variable(bound) => self.variable(*bound),
            CelNode::Steps => self.all_steps(),
            CelNode::Step(id) => self.step(id),
            CelNode::StepPart { id, part } => self.step_part(id, *part),
            CelNode::StepByName { name, of } => self.step_named(name, of),
            CelNode::HasStep(id) => self.has_step(id),
            CelNode::Select { operand, field, of } => self.select(operand, field, of),
            CelNode::Has { operand, field, of } => self.has(operand, field, of),
            CelNode::Index { operand, index, of } => self.index(operand, index, of),
            CelNode::Call { function, arguments } => self.function(*function, arguments),
            CelNode::Matches { text, pattern } => self.matches_pattern(text, pattern),
            CelNode::Not(operand, at) => self.not(operand, at),
            CelNode::Negative(operand) => self.minus(operand),
            CelNode::Binary { operator, left, right } => self.operation(*operator, left, right),
            CelNode::Logic { all, parts } => self.logic(*all, parts),
            CelNode::Choice { test, at, yes, no } => self.choice(test, at, yes, no),
            CelNode::List(items) => self.list(items),
            CelNode::Map(entries) => self.map(entries),
            CelNode::Fold(fold) => self.fold(fold),
        }
    }

    fn local(&mut self, slot: usize) -> CelResult {
        self.spend(1)?;
        Ok(self.locals.get(slot).cloned().unwrap_or(CelValue::Null))
    }

    fn function(&mut self, function: CelFunction, arguments: &[CelNode]) -> CelResult {
        self.spend(1)?;
        let arguments = self.eval_all(arguments)?;
        self.call(function, &arguments)
    }

    fn matches_pattern(&mut self, text: &CelNode, pattern: &CelPattern) -> CelResult {
        self.spend(1)?;
        let text = self.node_content(text)?;
        self.matches(&text, &pattern.regex, pattern.length)
    }

    fn not(&mut self, operand: &CelNode, at: &Range<usize>) -> CelResult {
        self.spend(1)?;
        self.truth(operand, at).map(|flag| CelValue::Bool(!flag))
    }

    fn minus(&mut self, operand: &CelNode) -> CelResult {
        self.spend(1)?;
        let value = self.node_content(operand)?;
        self.negative(&value)
    }

    fn operation(&mut self, operator: CelOperator, left: &CelNode, right: &CelNode) -> CelResult {
        self.spend(1)?;
        let (left, right) = self.both(left, right)?;
        self.binary(operator, left, right)
    }

    fn choice(&mut self, test: &CelNode, at: &Range<usize>, yes: &CelNode, no: &CelNode) -> CelResult {
        self.spend(1)?;
        let chosen = if self.truth(test, at)? { yes } else { no };
        self.node(chosen)
    }

    fn list(&mut self, items: &[CelNode]) -> CelResult {
        self.spend(1)?;
        self.charge_items(items.len())?;
        Ok(CelValue::List(Arc::new(self.eval_all(items)?)))
    }

    /// Evaluates a node and loads its content.
    fn node_content(&mut self, node: &CelNode) -> CelResult {
        let value = self.node(node)?;
        self.content(value)
    }

    /// Evaluates all nodes. It continues past blobs that are not loaded, so that all of them are requested together.
    fn eval_all(&mut self, nodes: &[CelNode]) -> Result<Vec<CelValue>, EvalError> {
        let (mut values, mut blobs) = (Vec::with_capacity(nodes.len()), Vec::new());
        for node in nodes {
            values.extend(defer_missing_blobs(self.node(node), &mut blobs)?);
        }
        require_blobs(blobs)?;
        Ok(values)
    }

    fn both(&mut self, left: &CelNode, right: &CelNode) -> Result<(CelValue, CelValue), EvalError> {
        let mut blobs = Vec::new();
        let left = defer_missing_blobs(self.node(left), &mut blobs)?;
        let right = defer_missing_blobs(self.node(right), &mut blobs)?;
        require_blobs(blobs)?;
        Ok((left.unwrap_or(CelValue::Null), right.unwrap_or(CelValue::Null)))
    }

    fn map(&mut self, nodes: &[(CelNode, CelNode)]) -> CelResult {
        self.spend(1)?;
        self.charge_items(nodes.len())?;
        let mut entries = CelMap::default();
        for (key, value) in nodes {
            let (key, value) = self.both(key, value)?;
            let key = self.content(key)?;
            entries.insert(key, value)?;
        }
        Ok(CelValue::Map(Arc::new(entries)))
    }

    fn truth(&mut self, node: &CelNode, at: &Range<usize>) -> Result<bool, EvalError> {
        match self.node_content(node)? {
            CelValue::Bool(flag) => Ok(flag),
            other => Err(self.not_a_bool(&other, at)),
        }
    }

    fn not_a_bool(&self, value: &CelValue, at: &Range<usize>) -> EvalError {
        let error = type_error(format!("`{}` gives {}, not true or false", self.source_text(at), describe(value)));
        error.with_hint(value.kind().map_or_else(String::new, comparison_hint))
    }

    /// Evaluates a chain of `&&` or `||`. A part that decides the result discards the errors of the other parts.
    /// Limit errors remain, and so do blobs that must be loaded: whether a blob is loaded must not change the outcome.
    fn logic(&mut self, all: bool, parts: &[(CelNode, Range<usize>)]) -> CelResult {
        let mut deferred = DeferredErrors::default();
        for (part, at) in parts {
            self.spend(1)?;
            let found = self.truth(part, at);
            if deferred.record(found)?.is_some_and(|flag| flag != all) {
                return deferred.decided(!all);
            }
        }
        deferred.undecided(all)
    }

    fn fold(&mut self, fold: &CelFold) -> CelResult {
        self.spend(1)?;
        let over = self.node_content(&fold.over)?;
        let over = match over.kind() {
            Some(CelType::List) => over,
            Some(CelType::Map) => {
                self.charge_items(over.map_len().unwrap_or(0))?;
                CelValue::List(Arc::new(keys(&over)))
            }
            _ => return Err(self.not_iterable(&over, &fold.of)),
        };
        let outcome = match fold.kind {
            FoldKind::All | FoldKind::Exists => self.fold_logic(fold, &over),
            FoldKind::ExistsOne | FoldKind::Map | FoldKind::Filter => self.fold_list(fold, &over),
        };
        self.locals.truncate(fold.slot);
        outcome
    }

    fn not_iterable(&self, value: &CelValue, of: &Range<usize>) -> EvalError {
        type_error(format!("`{}` is {}: there is nothing to iterate over", self.source_text(of), describe(value)))
    }

    /// Binds the next item to the macro's variable.
    fn bind_item(&mut self, fold: &CelFold, over: &CelValue, at: usize) -> Result<(), EvalError> {
        self.spend(1)?;
        // Values that a failed evaluation left on the stack are no longer needed.
        self.locals.truncate(fold.slot);
        self.locals.push(over.item(at).unwrap_or(CelValue::Null));
        Ok(())
    }

    fn holds(&mut self, fold: &CelFold) -> Result<bool, EvalError> {
        match &fold.test {
            Some((test, at)) => self.truth(test, at),
            None => Ok(true),
        }
    }

    fn fold_logic(&mut self, fold: &CelFold, over: &CelValue) -> CelResult {
        let all = fold.kind == FoldKind::All;
        let mut deferred = DeferredErrors::default();
        for at in 0..over.list_len().unwrap_or(0) {
            self.bind_item(fold, over, at)?;
            let holds = self.holds(fold);
            if deferred.record(holds)?.is_some_and(|flag| flag != all) {
                return deferred.decided(!all);
            }
        }
        deferred.undecided(all)
    }

    fn fold_list(&mut self, fold: &CelFold, over: &CelValue) -> CelResult {
        let (mut found, mut given) = (0u64, Vec::new());
        for at in 0..over.list_len().unwrap_or(0) {
            self.bind_item(fold, over, at)?;
            if !self.holds(fold)? {
                continue;
            }
            match (&fold.give, fold.kind) {
                (_, FoldKind::ExistsOne) => found += 1,
                (Some(give), _) => given.push(self.node(give)?),
                (None, _) => given.extend(over.item(at)),
            }
        }
        if fold.kind == FoldKind::ExistsOne {
            return Ok(CelValue::Bool(found == 1));
        }
        self.meter.check_size(given.len().saturating_mul(2))?;
        Ok(CelValue::List(Arc::new(given)))
    }

    /// Returns the number of characters, bytes, items or entries.
    pub(crate) fn size(&mut self, value: &CelValue) -> CelResult {
        if let CelValue::Stored(stored) = value
            && is_stored_list(stored)
        {
            return Ok(CelValue::Int(i64::try_from(stored.items).unwrap_or(i64::MAX)));
        }
        let value = self.content(value.clone())?;
        let size = match &value {
            CelValue::Str(text) => {
                self.charge_read(text.len())?;
                Some(text.chars().count())
            }
            CelValue::Bytes(bytes) => Some(bytes.len()),
            other => other.list_len().or_else(|| other.map_len()),
        };
        match size {
            Some(size) => Ok(CelValue::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            None => {
                let error = type_error(format!("{} has no size", describe(&value)));
                Err(error.with_hint("texts, bytes, lists and maps have one"))
            }
        }
    }
}

/// Errors and missing blobs that a chain of `&&` or `||` has met before its result was decided.
#[derive(Default)]
struct DeferredErrors {
    error: Option<EvalError>,
    blobs: Vec<BlobHash>,
}

impl DeferredErrors {
    fn record(&mut self, found: Result<bool, EvalError>) -> Result<Option<bool>, EvalError> {
        match found {
            Ok(flag) => Ok(Some(flag)),
            Err(error) if error.kind == EvalErrorKind::Limit => Err(error),
            Err(error) if error.kind == EvalErrorKind::NeedBlobs => {
                self.blobs.extend(error.blobs);
                Ok(None)
            }
            Err(error) => {
                self.error.get_or_insert(error);
                Ok(None)
            }
        }
    }

    fn decided(self, flag: bool) -> CelResult {
        require_blobs(self.blobs)?;
        Ok(CelValue::Bool(flag))
    }

    fn undecided(self, flag: bool) -> CelResult {
        require_blobs(self.blobs)?;
        self.error.map_or(Ok(CelValue::Bool(flag)), Err)
    }
}

fn defer_missing_blobs(outcome: CelResult, blobs: &mut Vec<BlobHash>) -> Result<Option<CelValue>, EvalError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == EvalErrorKind::NeedBlobs => {
            blobs.extend(error.blobs);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn require_blobs(blobs: Vec<BlobHash>) -> Result<(), EvalError> {
    if blobs.is_empty() { Ok(()) } else { Err(EvalError::need_blobs(blobs)) }
}
