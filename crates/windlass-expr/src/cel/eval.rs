//! Evaluation: one walk over the nodes, with what it costs.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use regex::Regex;
use windlass_value::{BlobHash, EvalError, EvalErrorKind, Meter, Mode, Scope, Value};

use super::lower::compare_it;
use super::node::{Fold, Function, How, Node, Operator, Pattern};
use super::source::Place;
use super::value::{Entries, Kind, Outcome, Val, keys, tell, type_error};
use crate::wdl::values::{Context, is_stored_list};

pub(super) struct Eval<'a> {
    pub scope: &'a dyn Scope,
    pub meter: &'a mut Meter,
    pub text: &'a str,
    pub place: &'a Place,
    pub mode: Mode,
    cost: u64,
    /// Bytes that were handed over so far, roughly.
    given: usize,
    /// Values of the variables of macros, outermost first.
    locals: Vec<Val>,
    /// Patterns that were computed, by their text.
    pub patterns: HashMap<Arc<str>, Regex>,
}

impl<'a> Eval<'a> {
    pub(crate) fn new(
        scope: &'a dyn Scope,
        meter: &'a mut Meter,
        text: &'a str,
        place: &'a Place,
        mode: Mode,
    ) -> Eval<'a> {
        Eval { scope, meter, text, place, mode, cost: 0, given: 0, locals: Vec::new(), patterns: HashMap::new() }
    }

    /// The value of the whole, as those outside have it.
    pub(crate) fn result(&mut self, root: &Node) -> Result<Value, EvalError> {
        let value = self.node(root)?;
        if self.mode == Mode::Value {
            let value = self.outside(&value)?;
            self.meter.check_size(value.size_up_to(self.meter.max_output_bytes))?;
            return Ok(value);
        }
        match self.content(value)? {
            Val::Bool(flag) => Ok(Value::Bool(flag)),
            other => {
                let error = type_error(format!("the condition gives {}, not true or false", tell(&other)));
                Err(error.hint(other.kind().map_or_else(String::new, compare_it)))
            }
        }
    }

    /// Pays for operations.
    pub(crate) fn spend(&mut self, amount: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(amount);
        let max_cost = self.meter.caps.max_cel_cost;
        if self.cost > max_cost {
            let message = format!("the expression costs more than {max_cost}, which one evaluation may cost");
            let hint = "look at fewer items, let a step give what is needed as its result, or raise `limits.max_cel_cost` \
                        in windlass.toml";
            return Err(EvalError::new(EvalErrorKind::Limit, message).hint(hint));
        }
        self.meter.spend(amount)
    }

    /// Pays for looking at items.
    pub(crate) fn items(&mut self, count: usize) -> Result<(), EvalError> {
        self.meter.spend(count as u64)?;
        self.spend(count as u64 / 10)
    }

    /// Pays for looking at so many bytes.
    pub(crate) fn reads(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.meter.spend(bytes as u64 / 32)?;
        self.spend(bytes as u64 / 1_000)
    }

    /// Pays for a text of that length, and refuses one that is too large before it is made.
    pub(crate) fn makes(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.meter.check_size(bytes)?;
        self.meter.spend(bytes as u64 / 32)?;
        self.spend(bytes as u64 / 10)
    }

    /// Counts what is handed over; the whole of it is one result.
    pub(crate) fn gives(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.given = self.given.saturating_add(bytes);
        self.meter.check_size(self.given)?;
        self.meter.spend(1)
    }

    /// The content of a stored value; any other is itself.
    pub(crate) fn content(&mut self, value: Val) -> Outcome {
        match value {
            Val::Stored(stored) => Context::new(self.scope, self.meter).load(&stored).map(Val::from),
            value => Ok(value),
        }
    }

    /// The content of a value in which one thing is looked for: that costs the same however large it is.
    pub(crate) fn look(&mut self, value: Value) -> Result<Value, EvalError> {
        match &value {
            Value::Stored(stored) => Context::new(self.scope, self.meter).look(stored),
            _ => Ok(value),
        }
    }

    /// What stands in the text there.
    pub(crate) fn told(&self, at: &Range<usize>) -> String {
        super::value::short(self.text.get(at.clone()).unwrap_or_default())
    }

    /// Each arm is a call: the frames of what calls itself stay small.
    pub(crate) fn node(&mut self, node: &Node) -> Outcome {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Local(slot) => self.local(*slot),
            Node::Bound(bound) => self.bound(*bound),
            Node::Steps => self.all_steps(),
            Node::Step(id) => self.step(id),
            Node::StepPart { id, part } => self.step_part(id, *part),
            Node::StepNamed { name, of } => self.step_named(name, of),
            Node::HasStep(id) => self.has_step(id),
            Node::Select { operand, field, of } => self.select(operand, field, of),
            Node::Has { operand, field, of } => self.has(operand, field, of),
            Node::Index { operand, index, of } => self.index(operand, index, of),
            Node::Call { function, arguments } => self.function(*function, arguments),
            Node::Matches { text, pattern } => self.matches_pattern(text, pattern),
            Node::Not(operand, at) => self.not(operand, at),
            Node::Negative(operand) => self.minus(operand),
            Node::Binary { operator, left, right } => self.operation(*operator, left, right),
            Node::Logic { all, parts } => self.logic(*all, parts),
            Node::Choice { test, at, yes, no } => self.choice(test, at, yes, no),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn local(&mut self, slot: usize) -> Outcome {
        self.spend(1)?;
        Ok(self.locals.get(slot).cloned().unwrap_or(Val::Null))
    }

    fn function(&mut self, function: Function, arguments: &[Node]) -> Outcome {
        self.spend(1)?;
        let arguments = self.each(arguments)?;
        self.call(function, &arguments)
    }

    fn matches_pattern(&mut self, text: &Node, pattern: &Pattern) -> Outcome {
        self.spend(1)?;
        let text = self.full(text)?;
        self.matches(&text, &pattern.regex, pattern.length)
    }

    fn not(&mut self, operand: &Node, at: &Range<usize>) -> Outcome {
        self.spend(1)?;
        self.truth(operand, at).map(|flag| Val::Bool(!flag))
    }

    fn minus(&mut self, operand: &Node) -> Outcome {
        self.spend(1)?;
        let value = self.full(operand)?;
        self.negative(&value)
    }

    fn operation(&mut self, operator: Operator, left: &Node, right: &Node) -> Outcome {
        self.spend(1)?;
        let (left, right) = self.both(left, right)?;
        self.binary(operator, left, right)
    }

    fn choice(&mut self, test: &Node, at: &Range<usize>, yes: &Node, no: &Node) -> Outcome {
        self.spend(1)?;
        let chosen = if self.truth(test, at)? { yes } else { no };
        self.node(chosen)
    }

    fn list(&mut self, items: &[Node]) -> Outcome {
        self.spend(1)?;
        self.items(items.len())?;
        Ok(Val::List(Arc::new(self.each(items)?)))
    }

    /// With its content at hand.
    fn full(&mut self, node: &Node) -> Outcome {
        let value = self.node(node)?;
        self.content(value)
    }

    /// Goes on past blobs that are not at hand, so that all of them are asked for at once.
    fn each(&mut self, nodes: &[Node]) -> Result<Vec<Val>, EvalError> {
        let (mut values, mut blobs) = (Vec::with_capacity(nodes.len()), Vec::new());
        for node in nodes {
            values.extend(waiting(self.node(node), &mut blobs)?);
        }
        needs(blobs)?;
        Ok(values)
    }

    fn both(&mut self, left: &Node, right: &Node) -> Result<(Val, Val), EvalError> {
        let mut blobs = Vec::new();
        let left = waiting(self.node(left), &mut blobs)?;
        let right = waiting(self.node(right), &mut blobs)?;
        needs(blobs)?;
        Ok((left.unwrap_or(Val::Null), right.unwrap_or(Val::Null)))
    }

    fn map(&mut self, nodes: &[(Node, Node)]) -> Outcome {
        self.spend(1)?;
        self.items(nodes.len())?;
        let mut entries = Entries::default();
        for (key, value) in nodes {
            let (key, value) = self.both(key, value)?;
            let key = self.content(key)?;
            entries.insert(key, value)?;
        }
        Ok(Val::Map(Arc::new(entries)))
    }

    fn truth(&mut self, node: &Node, at: &Range<usize>) -> Result<bool, EvalError> {
        match self.full(node)? {
            Val::Bool(flag) => Ok(flag),
            other => Err(self.no_truth(&other, at)),
        }
    }

    fn no_truth(&self, value: &Val, at: &Range<usize>) -> EvalError {
        let error = type_error(format!("`{}` gives {}, not true or false", self.told(at), tell(value)));
        error.hint(value.kind().map_or_else(String::new, compare_it))
    }

    /// A part that decides takes the errors of the others away. Limits stay, and so do blobs that must be loaded: whether
    /// they are at hand must not change what is done.
    fn logic(&mut self, all: bool, parts: &[(Node, Range<usize>)]) -> Outcome {
        let mut kept = Kept::default();
        for (part, at) in parts {
            self.spend(1)?;
            let found = self.truth(part, at);
            if kept.take(found)?.is_some_and(|flag| flag != all) {
                return kept.decided(!all);
            }
        }
        kept.undecided(all)
    }

    fn fold(&mut self, fold: &Fold) -> Outcome {
        self.spend(1)?;
        let over = self.full(&fold.over)?;
        let over = match over.kind() {
            Some(Kind::List) => over,
            Some(Kind::Map) => {
                self.items(over.entries().unwrap_or(0))?;
                Val::List(Arc::new(keys(&over)))
            }
            _ => return Err(self.nothing_to_go_over(&over, &fold.of)),
        };
        let outcome = match fold.how {
            How::All | How::Exists => self.fold_logic(fold, &over),
            How::ExistsOne | How::Map | How::Filter => self.fold_list(fold, &over),
        };
        self.locals.truncate(fold.slot);
        outcome
    }

    fn nothing_to_go_over(&self, value: &Val, of: &Range<usize>) -> EvalError {
        type_error(format!("`{}` is {}: there is nothing to go over", self.told(of), tell(value)))
    }

    /// The next item is the macro's variable now.
    fn bind_item(&mut self, fold: &Fold, over: &Val, at: usize) -> Result<(), EvalError> {
        self.spend(1)?;
        // What a failed evaluation left there is not needed any more.
        self.locals.truncate(fold.slot);
        self.locals.push(over.item(at).unwrap_or(Val::Null));
        Ok(())
    }

    fn holds(&mut self, fold: &Fold) -> Result<bool, EvalError> {
        match &fold.test {
            Some((test, at)) => self.truth(test, at),
            None => Ok(true),
        }
    }

    fn fold_logic(&mut self, fold: &Fold, over: &Val) -> Outcome {
        let all = fold.how == How::All;
        let mut kept = Kept::default();
        for at in 0..over.items().unwrap_or(0) {
            self.bind_item(fold, over, at)?;
            let holds = self.holds(fold);
            if kept.take(holds)?.is_some_and(|flag| flag != all) {
                return kept.decided(!all);
            }
        }
        kept.undecided(all)
    }

    fn fold_list(&mut self, fold: &Fold, over: &Val) -> Outcome {
        let (mut found, mut given) = (0u64, Vec::new());
        for at in 0..over.items().unwrap_or(0) {
            self.bind_item(fold, over, at)?;
            if !self.holds(fold)? {
                continue;
            }
            match (&fold.give, fold.how) {
                (_, How::ExistsOne) => found += 1,
                (Some(give), _) => given.push(self.node(give)?),
                (None, _) => given.extend(over.item(at)),
            }
        }
        if fold.how == How::ExistsOne {
            return Ok(Val::Bool(found == 1));
        }
        self.meter.check_size(given.len().saturating_mul(2))?;
        Ok(Val::List(Arc::new(given)))
    }

    /// How many characters, bytes, items or entries.
    pub(crate) fn size(&mut self, value: &Val) -> Outcome {
        if let Val::Stored(stored) = value
            && is_stored_list(stored)
        {
            return Ok(Val::Int(i64::try_from(stored.items).unwrap_or(i64::MAX)));
        }
        let value = self.content(value.clone())?;
        let size = match &value {
            Val::Str(text) => {
                self.reads(text.len())?;
                Some(text.chars().count())
            }
            Val::Bytes(bytes) => Some(bytes.len()),
            other => other.items().or_else(|| other.entries()),
        };
        match size {
            Some(size) => Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            None => {
                let error = type_error(format!("{} has no size", tell(&value)));
                Err(error.hint("texts, bytes, lists and maps have one"))
            }
        }
    }
}

/// What a chain of `&&` or `||` has seen beside what decides it.
#[derive(Default)]
struct Kept {
    error: Option<EvalError>,
    blobs: Vec<BlobHash>,
}

impl Kept {
    fn take(&mut self, found: Result<bool, EvalError>) -> Result<Option<bool>, EvalError> {
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

    fn decided(self, flag: bool) -> Outcome {
        needs(self.blobs)?;
        Ok(Val::Bool(flag))
    }

    fn undecided(self, flag: bool) -> Outcome {
        needs(self.blobs)?;
        self.error.map_or(Ok(Val::Bool(flag)), Err)
    }
}

fn waiting(outcome: Outcome, blobs: &mut Vec<BlobHash>) -> Result<Option<Val>, EvalError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == EvalErrorKind::NeedBlobs => {
            blobs.extend(error.blobs);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn needs(blobs: Vec<BlobHash>) -> Result<(), EvalError> {
    if blobs.is_empty() { Ok(()) } else { Err(EvalError::need_blobs(blobs)) }
}
