//! A naive reference interpreter, too simple to be wrong: runs the same plans sequentially, by recursion, without any
//! suspended work.
//!
//! It supports only the steady plans of [`random_plan`](super::random_plan): no time, no races, no randomness.
//! The result of a node then does not depend on the order in which independent parts run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use windlass_core::plan::*;
use windlass_core::{Program, Status, TaskOutcome};
use windlass_value::{
    EvalError, EvalErrorKind, EvalScope, ExpressionMode, IterationRecords, IterationView, Level, Map, Meter, NodeView,
    RunView, StoredValue, Timestamp, Value,
};

use super::language::TOO_LARGE;
use super::world::{EffectCounter, call_outcome, outcome_of};

/// The end of a node. A failure always has a cause; which one does not matter here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NaiveEnd {
    pub status: Status,
    pub output: Value,
}

/// One scope: that of the run, or of an iteration.
#[derive(Default)]
struct Env {
    variables: BTreeMap<String, Value>,
    outcomes: BTreeMap<String, NaiveEnd>,
    iteration: Option<IterationView>,
}

pub(crate) struct Naive<'p> {
    program: &'p Program,
    seed: u64,
    run: RunView,
    envs: Vec<Env>,
    counter: EffectCounter,
    generations: u32,
    numbers: u64,
    /// The last end of every node, by path.
    pub ends: BTreeMap<String, NaiveEnd>,
    /// Iterations and reason of every loop, by path.
    pub loops: BTreeMap<String, (u64, String)>,
    /// Records of the loops in the run scope, by loop name.
    pub records: BTreeMap<String, IterationRecords>,
    /// The loop whose iteration is being recorded: a node without an end in it was skipped.
    recorded_loop: Option<NodeId>,
    /// Some value has become too large to compare: each of its parts contains the previous one twice.
    pub heavy: bool,
}

/// Returns whether a steady plan builds values that cannot be compared in a reasonable time.
pub(crate) fn grows_without_bound(program: &Program, seed: u64, input: Value) -> bool {
    let mut naive = Naive::new(program, seed, input);
    naive.run();
    naive.heavy
}

/// An expression could not be evaluated.
struct EvalFailed;

type EvalResult<T> = Result<T, EvalFailed>;

fn failed() -> NaiveEnd {
    NaiveEnd { status: Status::Failed, output: Value::Null }
}

fn succeeded(output: Value) -> NaiveEnd {
    NaiveEnd { status: Status::Succeeded, output }
}

impl<'p> Naive<'p> {
    pub(crate) fn new(program: &'p Program, seed: u64, input: Value) -> Naive<'p> {
        Naive {
            program,
            seed,
            run: RunView { input, ..RunView::new("run", "test", Timestamp(0)) },
            envs: vec![Env::default()],
            counter: EffectCounter::default(),
            generations: 0,
            numbers: 0,
            ends: BTreeMap::new(),
            loops: BTreeMap::new(),
            records: BTreeMap::new(),
            recorded_loop: None,
            heavy: false,
        }
    }

    pub(crate) fn run(&mut self) -> NaiveEnd {
        let end = self.node(self.program.plan.root, "", 0);
        let Some(outputs) = &self.program.plan.outputs else { return end };
        if end.status != Status::Succeeded {
            return NaiveEnd { output: Value::Null, ..end };
        }
        let mut given = Map::new();
        for (name, expression) in outputs {
            match self.eval(*expression) {
                Ok(value) => given.insert(name.clone(), value),
                Err(EvalFailed) => return failed(),
            };
        }
        succeeded(Value::map(given))
    }

    /// Runs a node with its retries and its output expression.
    fn node(&mut self, id: NodeId, above: &str, generation: u32) -> NaiveEnd {
        let node = self.program.node(id);
        let path = if above.is_empty() { node.name.to_string() } else { format!("{above}.{}", node.name) };
        let mut generation = generation;
        let mut tries = 1;
        let mut end = loop {
            let end = self.kind(id, &path, generation);
            let again = node.retry.as_ref().is_some_and(|retry| tries < attempts(retry));
            if end.status != Status::Failed || !again {
                break end;
            }
            tries += 1;
            self.generations += 1;
            generation = self.generations;
        };
        if let (Some(expression), Status::Succeeded | Status::Failed) = (node.output, end.status) {
            self.record(&node.name, &end);
            end = match self.eval(expression) {
                Ok(output) => NaiveEnd { output, ..end },
                Err(EvalFailed) => NaiveEnd { status: Status::Failed, ..end },
            };
        }
        self.record(&node.name, &end);
        self.ends.insert(path, end.clone());
        end
    }

    fn record(&mut self, name: &str, end: &NaiveEnd) {
        self.env().outcomes.insert(name.to_owned(), end.clone());
    }

    /// Removes the records of an earlier attempt of an enclosing node, together with its end.
    fn forget_records(&mut self, name: &str) {
        if self.envs.len() == 1 {
            self.records.remove(name);
        }
    }

    fn env(&mut self) -> &mut Env {
        self.envs.last_mut().expect("there is always the run's scope")
    }

    fn kind(&mut self, id: NodeId, path: &str, generation: u32) -> NaiveEnd {
        let name = self.program.node(id).name.clone();
        self.forget_records(&name);
        let program = self.program;
        match &program.node(id).kind {
            NodeKind::Pipeline(pipeline) => self.pipeline(pipeline, path, generation),
            NodeKind::Graph(graph) => self.graph(graph, path, generation),
            NodeKind::Branch(branch) => self.branch(branch, path, generation).unwrap_or_else(|EvalFailed| failed()),
            NodeKind::Loop(looping) => self.looping(id, looping, path, generation),
            NodeKind::Wait(wait) => self.wait(wait).unwrap_or_else(|EvalFailed| failed()),
            NodeKind::Call(call) => self.call(call, path, generation).unwrap_or_else(|EvalFailed| failed()),
            NodeKind::Net(_) => unimplemented_here("nets"),
        }
    }

    fn wait(&mut self, wait: &Wait) -> EvalResult<NaiveEnd> {
        match wait {
            Wait::Delay(_) => Ok(succeeded(Value::Null)),
            // The answer is what the wait requires, or 7.
            Wait::Signal { requirements: Some(required), .. } => Ok(succeeded(self.eval(*required)?)),
            Wait::Signal { .. } => Ok(succeeded(Value::Int(7))),
            Wait::Until(_) => unimplemented_here("points in time"),
            Wait::Mail { .. } => unimplemented_here("mail"),
        }
    }

    fn call(&mut self, call: &ChildRunCall, path: &str, generation: u32) -> EvalResult<NaiveEnd> {
        self.eval(call.input)?;
        self.numbers += 1;
        let which = self.counter.effect_id(path, generation, self.numbers);
        let (status, outcome) = call_outcome(self.seed, &which);
        Ok(NaiveEnd { status, output: outcome.output })
    }

    // Pipelines.

    fn pipeline(&mut self, pipeline: &Pipeline, path: &str, generation: u32) -> NaiveEnd {
        let (mut pc, mut tries, mut previous) = (0, 0, Value::Null);
        let mut rounds = Rounds::default();
        let mut resent: Option<(String, Value)> = None;
        loop {
            let task = &pipeline.tasks[pc];
            tries += 1;
            let mut names = locals(task, tries, &previous);
            let plain = Map::new();
            let seen = if pipeline.tasks.len() > 1 || !task.label.is_empty() { &names } else { &plain };
            let (output, error) = match &task.action {
                Action::Evaluate(expression) => task_result(self.eval_with(*expression, seen)),
                Action::Write(write) => {
                    let value = write.value.map(|value| self.eval_with(value, seen)).transpose();
                    let written = value.and_then(|value| self.write(write, value.unwrap_or_default()));
                    let name = ("name", Value::Str(write.name.clone()));
                    task_result(written.map(|value| Value::object([name, ("value", value)])))
                }
                Action::Effect(effect) => {
                    let call = match resent.take() {
                        Some(call) => Ok(call),
                        None => self
                            .tool(&effect.tool, seen)
                            .and_then(|tool| self.eval_with(effect.input, seen).map(|input| (tool, input))),
                    };
                    match call {
                        Err(EvalFailed) => (Value::Null, true),
                        Ok((tool, input)) => {
                            let outcome = self.send(task, &tool, path, generation, &input);
                            let lost = outcome.error.as_ref().is_some_and(|error| !error.replied);
                            resent = lost.then_some((tool, input));
                            (outcome.output, outcome.error.is_some())
                        }
                    }
                }
                Action::End { .. } => unimplemented_here("ends from within"),
                Action::Reply { .. } => unimplemented_here("replies"),
                Action::Post(_) => unimplemented_here("mail"),
                Action::PublishEvent { data, .. } => task_result(self.eval_with(*data, seen)),
                Action::Node(node) => {
                    self.generations += 1;
                    let end = self.node(*node, path, self.generations);
                    (end.output, end.status != Status::Succeeded)
                }
            };
            insert_outcome(&mut names, &output, error);
            let Ok((next, rule)) = self.decide(task, pc, tries, &mut rounds, error, &names) else { return failed() };
            let mut result = output.clone();
            if let Some(rule) = rule {
                match self.apply_rule(rule, &names, output) {
                    Ok(previous) => result = previous,
                    Err(EvalFailed) => return failed(),
                }
            }
            match next {
                NextTask::Fail => return NaiveEnd { status: Status::Failed, output: result },
                NextTask::Break => return succeeded(result),
                NextTask::Again if rule.is_some_and(|rule| !rule.writes.is_empty()) => resent = None,
                NextTask::Again => {}
                NextTask::To(to) => {
                    rounds.reset_attempts(pc, task);
                    (pc, tries, previous, resent) = (to, 0, result, None);
                }
                NextTask::On => {
                    if pc + 1 == pipeline.tasks.len() {
                        return succeeded(result);
                    }
                    rounds.reset_attempts(pc, task);
                    (pc, tries, previous, resent) = (pc + 1, 0, result, None);
                }
            }
        }
    }

    fn tool(&mut self, tool: &ToolName, seen: &Map) -> EvalResult<String> {
        match tool {
            ToolName::Fixed(tool) => Ok(tool.to_string()),
            ToolName::Computed { computed, among } => {
                let name = self.eval_with(*computed, seen)?;
                let found = among.iter().find(|one| name.as_str() == Some(&***one));
                found.map(|name| name.to_string()).ok_or(EvalFailed)
            }
        }
    }

    /// Calls the tool until it reports that it is finished.
    fn send(&mut self, task: &Task, tool: &str, path: &str, generation: u32, input: &Value) -> TaskOutcome {
        let path = if task.label.is_empty() { path.to_owned() } else { format!("{path}.{}", task.label) };
        let mut input = input.clone();
        loop {
            self.numbers += 1;
            let which = self.counter.effect_id(&path, generation, self.numbers);
            let outcome = outcome_of(self.seed, tool, &which, &input);
            match (outcome.next_call, &outcome.error) {
                (Some(again), None) => input = again.input,
                (again, _) => return TaskOutcome { next_call: again, ..outcome },
            }
        }
    }

    fn decide<'r>(
        &mut self,
        task: &'r Task,
        pc: usize,
        tries: u64,
        rounds: &mut Rounds,
        error: bool,
        names: &Map,
    ) -> EvalResult<(NextTask, Option<&'r TaskRule>)> {
        if error && task.retry.as_ref().is_some_and(|retry| tries - rounds.before < attempts(retry)) {
            return Ok((NextTask::Again, None));
        }
        for (at, rule) in task.rules.iter().enumerate() {
            if let Some(when) = rule.when
                && !self.truth_with(when, names)?
            {
                continue;
            }
            let matched = rounds.matched.entry((pc, at)).or_default();
            if rule.max_matches.as_ref().is_some_and(|times| *matched >= fixed(times)) {
                continue;
            }
            let tried = 1 + if rule.max_matches.is_some() { *matched } else { rounds.made };
            let next = match &rule.directive {
                Directive::Continue => NextTask::On,
                Directive::Jump(to) => NextTask::To(*to as usize),
                Directive::Break => NextTask::Break,
                Directive::Fail { .. } => NextTask::Fail,
                Directive::Retry(retry) if tried < attempts(retry) => NextTask::Again,
                Directive::Retry(_) => continue,
            };
            *matched += 1;
            if let NextTask::Again = next {
                (rounds.made, rounds.before) = (rounds.made + 1, tries);
            }
            return Ok((next, Some(rule)));
        }
        Ok((if error { NextTask::Fail } else { NextTask::On }, None))
    }

    /// Applies the rule's writes, all evaluated before the first is applied; returns the `_prev` of the next task.
    fn apply_rule(&mut self, rule: &TaskRule, names: &Map, output: Value) -> EvalResult<Value> {
        let mut values = Vec::new();
        for write in &rule.writes {
            values.push(write.value.map(|value| self.eval_with(value, names)).transpose()?.unwrap_or_default());
        }
        let previous = rule.previous.map(|value| self.eval_with(value, names)).transpose()?;
        for (write, value) in rule.writes.iter().zip(values) {
            self.write(write, value)?;
        }
        Ok(previous.unwrap_or(output))
    }

    fn write(&mut self, write: &VariableUpdate, operand: Value) -> EvalResult<Value> {
        let at = match write.level {
            Level::Iteration => self.envs.iter().rposition(|env| env.iteration.is_some()).unwrap_or(0),
            _ => 0,
        };
        let variables = &mut self.envs[at].variables;
        let before = variables.get(&*write.name).cloned();
        let after = match (write.op, before) {
            (WriteOp::Set, _) => operand.clone(),
            (WriteOp::Add, None | Some(Value::Null)) => Value::Int(step(&operand)?),
            (WriteOp::Add, Some(Value::Int(before))) => Value::Int(before + step(&operand)?),
            (WriteOp::AppendItem | WriteOp::Extend, Some(Value::List(items))) => {
                let more = match (write.op, &operand) {
                    (WriteOp::Extend, Value::List(more)) => more.to_vec(),
                    _ => vec![operand.clone()],
                };
                let longer = items.iter().cloned().chain(more).collect();
                variables.insert(write.name.to_string(), Value::list(longer));
                return Ok(operand);
            }
            (WriteOp::Extend, None | Some(Value::Null)) if operand.as_list().is_some() => operand,
            (WriteOp::AppendItem | WriteOp::Extend, None | Some(Value::Null)) => Value::list(vec![operand]),
            _ => return Err(EvalFailed),
        };
        variables.insert(write.name.to_string(), after.clone());
        Ok(after)
    }

    // Graphs and branches.

    fn graph(&mut self, graph: &Graph, path: &str, generation: u32) -> NaiveEnd {
        // Status of each child, and whether it ran.
        let mut statuses: Vec<(Status, bool)> = Vec::new();
        for child in &graph.children {
            let met = child.after.iter().all(|after| after.accepts.contains(statuses[after.child as usize].0));
            statuses.push(match met {
                true => self.child(child, path, generation),
                false => (self.end_without_run(child.node, path, graph.unmet), false),
            });
        }
        let ran = statuses.iter().map(|(_, ran)| *ran);
        let output = graph.children.iter().zip(ran).filter(|(_, ran)| *ran).filter_map(|(child, _)| {
            let name = self.program.node(child.node).name.clone();
            let end = self.envs.last()?.outcomes.get(&*name)?;
            Some((name, end.output.clone()))
        });
        let statuses: Vec<Status> = statuses.iter().map(|(status, _)| *status).collect();
        let deciding: Vec<Status> = match graph.ending {
            GraphStatusRule::Any => statuses.clone(),
            GraphStatusRule::Leaves => deciding_leaves(graph, &statuses),
        };
        NaiveEnd { output: Value::map(output.collect()), status: worst(&deciding) }
    }

    fn child(&mut self, child: &GraphChild, path: &str, generation: u32) -> (Status, bool) {
        match child.condition.map(|condition| self.truth(condition)) {
            None | Some(Ok(true)) => (self.node(child.node, path, generation).status, true),
            Some(Ok(false)) => (self.end_without_run(child.node, path, Status::Skipped), false),
            Some(Err(EvalFailed)) => (self.end_without_run(child.node, path, Status::Failed), false),
        }
    }

    /// Records the end of a node that never ran; it has an end by path unless it was only skipped.
    fn end_without_run(&mut self, node: NodeId, path: &str, status: Status) -> Status {
        let end = NaiveEnd { status, output: Value::Null };
        let name = self.program.node(node).name.clone();
        self.forget_records(&name);
        self.record(&name, &end);
        if status != Status::Skipped {
            let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            self.ends.insert(path, end);
        }
        status
    }

    fn skip_inside(&mut self, node: NodeId) {
        self.end_without_run(node, "", Status::Skipped);
        let kind = &self.program.node(node).kind;
        if !matches!(kind, NodeKind::Loop(_) | NodeKind::Net(_)) {
            kind.children().into_iter().for_each(|child| self.skip_inside(child));
        }
    }

    fn branch(&mut self, branch: &Branch, path: &str, generation: u32) -> EvalResult<NaiveEnd> {
        let subject = branch.on.map(|on| self.eval(on)).transpose()?;
        let mut chosen = None;
        for case in &branch.cases {
            let holds = match case.test {
                BranchTest::When(condition) => self.truth(condition)?,
                BranchTest::Equals(value) => Some(self.eval(value)?) == subject,
            };
            if holds {
                chosen = Some(case.node);
                break;
            }
        }
        let chosen = chosen.or(branch.otherwise);
        for node in branch.cases.iter().map(|case| case.node).chain(branch.otherwise) {
            if Some(node) != chosen {
                self.skip_inside(node);
            }
        }
        Ok(chosen.map_or_else(|| succeeded(Value::Null), |node| self.node(node, path, generation)))
    }

    // Loops.

    fn looping(&mut self, id: NodeId, looping: &Loop, path: &str, generation: u32) -> NaiveEnd {
        let items = match looping.source {
            LoopSource::Repeat => None,
            LoopSource::Each(expression) => match self.eval(expression) {
                Ok(Value::List(items)) => Some(items),
                _ => return failed(),
            },
        };
        let max_iterations = items.as_ref().map(|items| items.len() as u64).or(max_iterations(looping));
        let mut progress = LoopProgress { max_iterations, ..LoopProgress::default() };
        if let LoopCheck::Before { condition, stop_when } = looping.check {
            self.envs.push(Env {
                iteration: Some(self.iteration_view(id, 0, self.enclosing_item(), Value::Null)),
                ..Env::default()
            });
            let result = self.truth(condition);
            self.envs.pop();
            match result {
                Ok(result) if result == stop_when => {
                    progress.met = true;
                    return self.end_loop(id, looping, progress, "condition", path);
                }
                Ok(_) => {}
                Err(EvalFailed) => return failed(),
            }
        }
        let reason = loop {
            let index = progress.statuses.len();
            if !progress.may_continue() {
                break if items.is_some() { "items" } else { "count" };
            }
            let item = items.as_ref().map_or_else(|| self.enclosing_item(), |items| items[index].clone());
            if let Some(reason) = self.run_iteration(id, looping, &mut progress, item, path, generation) {
                break reason;
            }
        };
        self.end_loop(id, looping, progress, reason, path)
    }

    /// Returns the item of the enclosing loop, which a loop without items inherits.
    fn enclosing_item(&self) -> Value {
        self.envs
            .iter()
            .rev()
            .find_map(|env| env.iteration.as_ref())
            .map_or(Value::Null, |iteration| iteration.item.clone())
    }

    fn iteration_view(&self, id: NodeId, index: u64, item: Value, previous: Value) -> IterationView {
        let loop_name = self.program.node(id).name.clone();
        IterationView {
            loop_name,
            iteration_index: index,
            item,
            previous,
            loop_started_at: Timestamp(0),
            item_name: None,
            count: None,
            concurrent: false,
        }
    }

    /// Runs the body, then the checks; a returned reason ends the loop.
    fn run_iteration(
        &mut self,
        id: NodeId,
        looping: &Loop,
        progress: &mut LoopProgress,
        item: Value,
        path: &str,
        generation: u32,
    ) -> Option<&'static str> {
        let index = progress.statuses.len() as u64;
        let iteration = self.iteration_view(id, index, item, progress.previous.clone());
        self.envs.push(Env { iteration: Some(iteration), ..Env::default() });
        let inside = format!("{path}[{index}]");
        let end = self.node(looping.body, &inside, generation);
        progress.statuses.push(end.status);
        progress.previous = end.output.clone();
        let mut reason = self.check_iteration(looping, progress, &end).unwrap_or(Some("failed"));
        if let Some(records) = &looping.records {
            self.recorded_loop = Some(id);
            let record = self.eval(records.value);
            self.recorded_loop = None;
            if record.is_err() && reason.is_none() {
                reason = Some("failed");
            }
            progress.records.push(record.unwrap_or_default());
        }
        let mut kept = end.output.clone();
        if let (Some(entry), CollectMode::List | CollectMode::Stats) = (looping.entry, looping.collect) {
            let status = if end.status == Status::Succeeded { "success" } else { "error" };
            let names = Map::from_iter([("status", Value::from(status)), ("output", end.output.clone())]);
            match self.eval_with(entry, &names) {
                Ok(entry) => kept = entry,
                Err(EvalFailed) => reason = reason.or(Some("failed")),
            }
        }
        progress.outputs.push(kept);
        if reason.is_none() && !end.status.is_bad() {
            reason = self.judge(looping, id, index, &inside, generation);
        }
        if reason.is_none() && progress.may_continue() {
            reason = self.evaluate_delay(looping);
        }
        self.envs.pop();
        reason
    }

    /// Evaluates the delay; a delay that cannot be evaluated fails the loop.
    fn evaluate_delay(&mut self, looping: &Loop) -> Option<&'static str> {
        match &looping.delay {
            Some(Amount::Computed(expression)) => {
                let iteration = self.envs.pop();
                let delay = self.eval(*expression);
                self.envs.extend(iteration);
                delay.is_err().then_some("failed")
            }
            _ => None,
        }
    }

    fn check_iteration(
        &mut self,
        looping: &Loop,
        progress: &mut LoopProgress,
        end: &NaiveEnd,
    ) -> EvalResult<Option<&'static str>> {
        let bad = progress.statuses.iter().filter(|status| status.is_bad()).count() as u64;
        let stops = match looping.on_iteration_failure {
            IterationFailure::Stop { .. } => end.status.is_bad(),
            IterationFailure::Tolerate(allowed) => end.status.is_bad() && bad > allowed,
            IterationFailure::FailAtEnd | IterationFailure::Count | IterationFailure::LastDecides => false,
        };
        if stops {
            return Ok(Some("failed"));
        }
        // In a condition the index is the number of completed iterations, and the previous result is that of this one.
        let body_iteration = self.env().iteration.clone();
        if let Some(iteration) = &mut self.env().iteration {
            iteration.iteration_index += 1;
            iteration.previous = end.output.clone();
        }
        let found = self.evaluate_checks(looping, progress);
        self.env().iteration = body_iteration;
        found
    }

    fn evaluate_checks(&mut self, looping: &Loop, progress: &mut LoopProgress) -> EvalResult<Option<&'static str>> {
        if let Some(condition) = looping.break_when {
            progress.broke = self.truth(condition)?;
        }
        if let LoopCheck::Before { condition, stop_when } | LoopCheck::After { condition, stop_when } = looping.check {
            progress.met = self.truth(condition)? == stop_when;
        }
        let mut stalled = false;
        if let Some(stall) = &looping.stall {
            progress.watched.push(self.eval(stall.watch)?);
            let newest = progress.watched.iter().rev().take(stall.iterations as usize);
            let same = newest.filter(|value| Some(*value) == progress.watched.last()).count();
            stalled = same as u64 == stall.iterations;
        }
        Ok(if progress.broke || progress.met { Some("condition") } else { stalled.then_some("stalled") })
    }

    fn judge(&mut self, looping: &Loop, id: NodeId, index: u64, inside: &str, generation: u32) -> Option<&'static str> {
        let judge = looping.judge?;
        debug_assert!(self.program.node(judge).parent == Some(id) && index < u64::MAX);
        let verdict = self.node(judge, inside, generation).output;
        (verdict.get("done").and_then(Value::as_bool) == Some(true)).then_some("judge")
    }

    fn end_loop(
        &mut self,
        id: NodeId,
        looping: &Loop,
        mut progress: LoopProgress,
        reason: &'static str,
        path: &str,
    ) -> NaiveEnd {
        let iterations = progress.statuses.len() as u64;
        let bad = progress.statuses.iter().filter(|status| status.is_bad()).count() as u64;
        let exhausted = ["count", "stalled"].contains(&reason) && looping.on_exhausted == ExhaustedPolicy::Fail;
        let status = match (looping.on_iteration_failure, progress.statuses.last()) {
            _ if reason == "failed" || exhausted => Status::Failed,
            _ if progress.broke && reason == "condition" => Status::Succeeded,
            (IterationFailure::FailAtEnd, _) if bad > 0 => Status::Failed,
            (IterationFailure::LastDecides, Some(last)) if last.is_bad() => *last,
            _ => Status::Succeeded,
        };
        self.loops.insert(path.to_owned(), (iterations, reason.to_owned()));
        if let (Some(records), 1) = (&looping.records, self.envs.len()) {
            let kept = match records.keep {
                RecordRetention::Last => IterationRecords::Last(progress.records.pop().unwrap_or_default()),
                RecordRetention::All => IterationRecords::All(Value::list(std::mem::take(&mut progress.records))),
            };
            self.records.insert(self.program.node(id).name.to_string(), kept);
        }
        let numbers = [("total", iterations), ("success", iterations - bad), ("failed", bad)];
        let output = match looping.collect {
            CollectMode::Last => progress.previous,
            CollectMode::List => Value::list(progress.outputs),
            CollectMode::Stats => {
                Value::object([("results", Value::list(progress.outputs)), ("stats", Value::object(numbers))])
            }
            CollectMode::Report => self.report(progress, status, reason),
        };
        NaiveEnd { status, output }
    }

    fn report(&self, progress: LoopProgress, status: Status, reason: &str) -> Value {
        let status_text = match (reason, status) {
            ("count", _) => "max-iterations",
            ("stalled", _) => "stalled",
            ("condition", Status::Succeeded) if progress.broke && !progress.met => "break",
            (_, Status::Succeeded) => "completed",
            (_, other) => other.as_str(),
        };
        let iterations = progress.outputs.len();
        let mut kept: VecDeque<Value> = progress.outputs.into();
        while kept.len() as u64 > self.program.limits.max_loop_results {
            kept.pop_front();
        }
        let dropped = iterations - kept.len();
        let mut report = Map::new();
        report.insert("status", status_text);
        report.insert("reason", reason);
        report.insert("iterations", iterations);
        report.insert("conditionMet", progress.met);
        report.insert("lastResult", progress.previous);
        report.insert("results", Vec::from(kept));
        if dropped > 0 {
            report.insert("resultsDropped", dropped);
        }
        Value::map(report)
    }

    // Expressions.

    fn eval(&mut self, expression: ExprId) -> EvalResult<Value> {
        self.eval_with(expression, &Map::new())
    }

    fn eval_with(&mut self, expression: ExprId, names: &Map) -> EvalResult<Value> {
        self.try_eval(expression, names).map_err(|_| EvalFailed)
    }

    fn try_eval(&mut self, expression: ExprId, names: &Map) -> Result<Value, EvalError> {
        let view = NaiveScope { naive: self, names };
        let value = self.program.expression(expression).eval(&view, &mut Meter::new(1_000, 1 << 20));
        // The reducer may hold the same value in parts, each of them small enough.
        self.heavy |= value.as_ref().is_err_and(|error| error.message == TOO_LARGE);
        value
    }

    fn truth(&mut self, expression: ExprId) -> EvalResult<bool> {
        self.truth_with(expression, &Map::new())
    }

    fn truth_with(&mut self, expression: ExprId, names: &Map) -> EvalResult<bool> {
        let guards = self.program.plan.expressions[expression.0 as usize].mode == ExpressionMode::Guard;
        match self.try_eval(expression, names) {
            Err(error) if guards && error.kind == EvalErrorKind::Missing => Ok(false),
            evaluated => evaluated.ok().and_then(|value| value.as_bool()).ok_or(EvalFailed),
        }
    }
}

/// Match counts of the rules, and attempts of the current task before a rule retried it.
#[derive(Default)]
struct Rounds {
    made: u64,
    before: u64,
    matched: BTreeMap<(usize, usize), u64>,
}

impl Rounds {
    /// Resets the attempts when a task is left.
    fn reset_attempts(&mut self, pc: usize, task: &Task) {
        let retries = |at: usize| matches!(task.rules[at].directive, Directive::Retry(_));
        self.matched.retain(|(of, at), _| *of != pc || !retries(*at));
        (self.made, self.before) = (0, 0);
    }
}

/// The progress of a loop.
#[derive(Default)]
struct LoopProgress {
    statuses: Vec<Status>,
    outputs: Vec<Value>,
    previous: Value,
    watched: Vec<Value>,
    records: Vec<Value>,
    broke: bool,
    met: bool,
    /// Maximum number of iterations.
    max_iterations: Option<u64>,
}

impl LoopProgress {
    fn may_continue(&self) -> bool {
        self.max_iterations.is_none_or(|max| (self.statuses.len() as u64) < max)
    }
}

enum NextTask {
    On,
    To(usize),
    Again,
    Break,
    Fail,
}

fn unimplemented_here(what: &str) -> ! {
    panic!("steady plans have no {what}")
}

/// Returns the value of a computed task, and whether it failed.
fn task_result(computed: EvalResult<Value>) -> (Value, bool) {
    match computed {
        Ok(value) => (value, false),
        Err(EvalFailed) => (Value::Null, true),
    }
}

fn locals(task: &Task, tries: u64, previous: &Value) -> Map {
    let mut names = Map::new();
    names.insert("_task", task.label.clone());
    names.insert("_attempt", tries);
    names.insert("_prev", previous.clone());
    names
}

fn insert_outcome(names: &mut Map, output: &Value, error: bool) {
    let status = if error { "error" } else { "success" };
    names.insert("outcome", Value::object([("status", Value::from(status)), ("result", output.clone())]));
}

fn attempts(retry: &Retry) -> u64 {
    fixed(&retry.attempts)
}

fn fixed(amount: &Amount<u64>) -> u64 {
    match amount {
        Amount::Fixed(amount) => *amount,
        Amount::Computed(_) => unimplemented_here("computed amounts"),
    }
}

fn max_iterations(looping: &Loop) -> Option<u64> {
    match looping.limits.iterations {
        Some(Amount::Fixed(iterations)) => Some(iterations),
        None => None,
        Some(Amount::Computed(_)) => unimplemented_here("computed limits"),
    }
}

fn step(operand: &Value) -> EvalResult<i64> {
    match operand {
        Value::Int(by) => Ok(*by),
        _ => Err(EvalFailed),
    }
}

/// Returns the statuses of the leaf children; a skipped leaf is replaced by its dependencies.
fn deciding_leaves(graph: &Graph, statuses: &[Status]) -> Vec<Status> {
    let waited_for =
        |at: usize| graph.children.iter().any(|child| child.after.iter().any(|after| after.child as usize == at));
    let mut found = Vec::new();
    let leaves = (0..graph.children.len()).filter(|at| !waited_for(*at));
    leaves.for_each(|leaf| decide_for(graph, statuses, leaf, &mut found));
    found
}

fn decide_for(graph: &Graph, statuses: &[Status], at: usize, found: &mut Vec<Status>) {
    match statuses[at] {
        Status::Skipped => {
            graph.children[at].after.iter().for_each(|after| decide_for(graph, statuses, after.child as usize, found));
        }
        Status::Cancelled => {}
        status => found.push(status),
    }
}

fn worst(statuses: &[Status]) -> Status {
    let order = [Status::Failed, Status::TimedOut, Status::Cancelled];
    order.into_iter().find(|status| statuses.contains(status)).unwrap_or(Status::Succeeded)
}

struct NaiveScope<'a, 'p> {
    naive: &'a Naive<'p>,
    names: &'a Map,
}

impl EvalScope for NaiveScope<'_, '_> {
    fn variable(&self, _level: Level, name: &str) -> Option<Value> {
        let scoped = || self.naive.envs.iter().rev().find_map(|env| env.variables.get(name));
        self.names.get(name).or_else(scoped).cloned()
    }

    fn node(&self, name: &str) -> Option<NodeView> {
        let skipped = NaiveEnd { status: Status::Skipped, output: Value::Null };
        let inside = self.naive.recorded_loop.and_then(|id| self.naive.program.named(Some(id), name));
        let passed_over = inside.is_some() && self.naive.envs.last().is_none_or(|env| !env.outcomes.contains_key(name));
        let end = match passed_over {
            true => &skipped,
            false => self.naive.envs.iter().rev().find_map(|env| env.outcomes.get(name))?,
        };
        Some(NodeView {
            name: name.into(),
            status: end.status.as_str(),
            inputs: Value::Null,
            output: end.output.clone(),
            error: Value::Null,
            attempts: 1,
            started_at: Timestamp(0),
            ended_at: Timestamp(0),
            iteration_records: Default::default(),
            body_nodes: None,
            usage: Value::Null,
        })
    }

    fn children(&self, _name: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        None
    }

    fn iteration(&self, loop_name: Option<&str>) -> Option<IterationView> {
        let named = |iteration: &&IterationView| loop_name.is_none_or(|name| *iteration.loop_name == *name);
        self.naive.envs.iter().rev().filter_map(|env| env.iteration.as_ref()).find(named).cloned()
    }

    fn run(&self) -> &RunView {
        &self.naive.run
    }

    fn now(&self) -> Timestamp {
        unimplemented_here("clock")
    }

    fn random(&self) -> u64 {
        unimplemented_here("chance")
    }

    fn blob(&self, _stored: &StoredValue) -> Result<Value, EvalError> {
        unimplemented_here("stored values")
    }
}
