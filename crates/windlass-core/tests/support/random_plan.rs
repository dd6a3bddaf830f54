//! Random plans, generated from one seed.

use windlass_core::plan::*;
use windlass_core::{Limits, Program, Status, StatusSet};
use windlass_value::{Duration, Level, Value};

use super::build::*;
use super::rng::Rng;

/// The features that a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Results do not depend on timing.
    Steady,
    /// All features: timeouts, races, randomness, nets, end actions.
    Wild,
}

/// The context of the node that is being generated.
#[derive(Clone)]
struct NodeContext {
    parent: Option<NodeId>,
    depth: u32,
    in_loop: bool,
    /// The result of the previous iteration is deterministic.
    previous: bool,
    /// Nothing else runs concurrently, in the run and in the iteration.
    alone: bool,
    alone_in_iteration: bool,
    /// Nodes that have ended, whose results may be read.
    ended: Vec<String>,
    /// An enclosing node has a mailbox.
    mailbox: bool,
}

pub(crate) struct PlanGenerator {
    b: Builder,
    rng: Rng,
    profile: Profile,
    names: u32,
    nodes_left: u32,
}

pub(crate) fn random_program(seed: u64, profile: Profile, depth: u32, limits: Limits) -> Program {
    random_plan(seed, profile, depth).load_with(limits)
}

pub(crate) fn random_plan(seed: u64, profile: Profile, depth: u32) -> Builder {
    let mut maker = PlanGenerator { b: Builder::new(), rng: Rng::new(seed), profile, names: 0, nodes_left: 18 };
    let around = NodeContext {
        parent: None,
        depth,
        in_loop: false,
        previous: false,
        alone: true,
        alone_in_iteration: true,
        ended: Vec::new(),
        mailbox: false,
    };
    maker.any(&around);
    if maker.rng.chance(30) {
        let (one, two) = (maker.value(&around), maker.b.expr(r#"{"$var": "x"}"#));
        maker.b.plan.outputs = Some(vec![("one".into(), one), ("two".into(), two)]);
    }
    if maker.wild() && maker.rng.chance(15) {
        maker.b.plan.timeout = Some(secs(2 + maker.rng.below(30)));
    }
    maker.b
}

/// Returns limits so small that every way of storing values outside the state is used.
pub(crate) fn tight_limits(seed: u64) -> Limits {
    let mut rng = Rng::new(seed ^ 0x11_4175);
    Limits {
        max_loop_results: 1 + rng.below(4),
        loop_chunk_items: 1 + rng.below(4),
        loop_quiet_from_iteration: rng.below(5),
        slice_iterations: 1 + rng.below(4),
        slice_items: 3 + rng.below(30),
        max_inline_bytes: 22 + rng.below(60) as usize,
        lease_hold: Duration::from_ms(rng.below(2_000)),
        ..Limits::default()
    }
}

impl PlanGenerator {
    fn wild(&self) -> bool {
        self.profile == Profile::Wild
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    /// Generates a node of any kind, with random settings.
    fn any(&mut self, around: &NodeContext) -> (NodeId, String) {
        self.nodes_left = self.nodes_left.saturating_sub(1);
        let name = self.name();
        let leaf = around.depth == 0 || self.nodes_left == 0;
        let chosen = match (leaf, around.parent) {
            (true, _) => self.rng.below(8),
            (false, None) => 8 + self.rng.below(8),
            (false, Some(_)) => 5 + self.rng.below(11),
        };
        let placeholder = NodeKind::Wait(Wait::Delay(Amount::Fixed(Duration::ZERO)));
        let id = self.b.plan.add_node(Node::new(name.as_str(), "test", around.parent, placeholder));
        let around = &NodeContext { mailbox: self.mailbox(id) || around.mailbox, ..around.clone() };
        let inner = NodeContext { parent: Some(id), depth: around.depth.saturating_sub(1), ..around.clone() };
        let kind = match chosen {
            0..8 if around.mailbox && self.rng.chance(25) => self.mail_wait(),
            0 => NodeKind::evaluate(self.value(around)),
            1 | 2 => NodeKind::single_task(self.effect(around)),
            3 => self.wait(around),
            4 => NodeKind::Call(ChildRunCall { definition: self.b.expr("\"child\""), input: self.value(around) }),
            5 | 6 => self.pipeline(&name, around, if leaf { None } else { Some(&inner) }),
            7 => self.single_task(around),
            8 | 9 => self.graph(&inner),
            10 => self.branch(&inner),
            11 | 12 if self.wild() => self.net(&inner),
            _ => NodeKind::Loop(Box::new(self.looping(&inner))),
        };
        let hangs = matches!(&kind, NodeKind::Pipeline(pipeline) if pipeline.tasks.iter().any(hangs));
        self.b.node_mut(id).kind = kind;
        self.add_settings(id, around, &name, hangs);
        (id, name)
    }

    /// Adds settings without effect unless they are queried, and budgets, which end nodes early.
    fn accounts(&mut self, id: NodeId) {
        let node = self.b.node_mut(id);
        node.scope = self.rng.chance(15);
        node.meters_usage = self.rng.chance(20);
        if self.rng.chance(8) {
            let what = *self.rng.pick(&[CALLS, TIME, "tokens"]);
            let max = Amount::Fixed(1 + self.rng.below(if what == TIME { 9_000 } else { 12 }));
            self.b.node_mut(id).budget.push(Budget { what: what.into(), max });
        }
        if matches!(self.b.node_mut(id).kind, NodeKind::Loop(_)) {
            // Decides nothing: the seeds of the regression tests give the same plans as when they were found.
            self.rng.chance(50);
        }
    }

    /// Adds a mailbox to some nodes, and often to the root, which others report to.
    fn mailbox(&mut self, id: NodeId) -> bool {
        if !self.wild() || !self.rng.chance(if id == NodeId(0) { 60 } else { 25 }) {
            return false;
        }
        let closed = (*self.rng.pick(&["target-terminal", "closed"])).into();
        self.b.node_mut(id).mailbox = Some(Mailbox { wakes: self.rng.below(6), closed });
        true
    }

    fn address(&mut self) -> Value {
        match self.rng.below(7) {
            0..4 => Value::from("n1"),
            4 => Value::from(format!("n1.n{}", 2 + self.rng.below(3))),
            5 => Value::from(format!("n1[{}].n2", self.rng.below(2))),
            _ => Value::from(format!("n{}", 1 + self.rng.below(12))),
        }
    }

    fn mail_wait(&mut self) -> NodeKind {
        let other = self.address();
        let time = Duration::from_ms(self.rng.below(3_000));
        let settles = self.rng.chance(50).then(|| (other.as_str().unwrap_or_default().into(), time));
        NodeKind::Wait(Wait::Mail { blocks: self.rng.chance(50), after_idle: settles })
    }

    fn post(&mut self, around: &NodeContext) -> Action {
        let to = if self.rng.chance(95) { self.address() } else { self.source(around, 1) };
        let mail = Value::object([("text", self.source(around, 1))]);
        Action::Post(SendMail { to: self.b.value(to), mail: self.b.value(mail) })
    }

    fn add_settings(&mut self, id: NodeId, around: &NodeContext, name: &str, hangs: bool) {
        if self.wild() {
            self.accounts(id);
        }
        if self.rng.chance(15) {
            self.b.node_mut(id).retry = Some(self.retry());
        }
        if self.rng.chance(10) {
            let own = self.b.value(Value::object([("own", Value::object([("$node", name)]))]));
            self.b.node_mut(id).output = Some(if self.rng.chance(50) { own } else { self.value(around) });
        }
        if self.wild() && self.rng.chance(15) {
            self.b.node_mut(id).reports_to = Some("n1".into());
        }
        if hangs || (self.wild() && self.rng.chance(12)) {
            let after = Amount::Fixed(Duration::from_ms(500 + self.rng.below(4_000)));
            let status = *self.rng.pick(&[Status::TimedOut, Status::Failed]);
            self.b.node_mut(id).timeout = Some(NodeTimeout { after, status });
        }
    }

    fn retry(&mut self) -> Retry {
        let kinds =
            ["http", "tool", "limit", "rule", "call", "expression", "hang", "step", "timeout", "cancelled", "node"];
        let mut retry = retry(1 + self.rng.below(3), Duration::from_ms(self.rng.below(3) * 700));
        retry.backoff.growth = *self.rng.pick(&[Growth::Fixed, Growth::Linear, Growth::Exponential(2.0)]);
        if self.wild() {
            retry.backoff.jitter = *self.rng.pick(&[Jitter::None, Jitter::Add(0.5), Jitter::Spread]);
        }
        if !self.wild() || self.rng.chance(50) {
            retry.on = kinds.iter().map(|kind| (*kind).into()).collect();
        }
        if self.wild() && self.rng.chance(30) {
            retry.window = Some(RetryWindow { time: secs(self.rng.below(4)), includes_next_wait: self.rng.chance(50) });
        }
        retry
    }

    // Expressions.

    fn value(&mut self, around: &NodeContext) -> ExprId {
        let source = self.source(around, 2);
        self.b.value(source)
    }

    fn source(&mut self, around: &NodeContext, depth: u32) -> Value {
        let wild = self.wild();
        let op = |op: &str, operand: Value| Value::object([(op, operand)]);
        match self.rng.below(12) {
            0 if around.in_loop => op("$iteration", "index".into()),
            1 if around.in_loop => op("$iteration", "item".into()),
            2 if around.previous || (wild && around.in_loop) => op("$iteration", "previous".into()),
            3 if around.alone || wild => op("$var", self.variable()),
            4 | 5 if !around.ended.is_empty() => op("$node", Value::from(self.rng.pick(&around.ended).as_str())),
            6 if depth > 0 => op("$add", self.operand_pair(around, depth)),
            7 if depth > 0 => Value::object([("a", self.source(around, depth - 1)), ("b", self.source(around, 0))]),
            8 if wild => op("$random", Value::Int(5)),
            9 => match self.rng.below(8) {
                0 => op("$fail", "by chance".into()),
                1 if wild => op("$now", true.into()),
                2 => op("$text", Value::from(self.rng.below(90))),
                3 => op("$input", "n".into()),
                4 => op("$range", Value::from(self.rng.below(6))),
                _ => op("$len", self.source(around, 0)),
            },
            _ => Value::from(self.rng.below(6)),
        }
    }

    fn operand_pair(&mut self, around: &NodeContext, depth: u32) -> Value {
        Value::list(vec![self.source(around, depth - 1), self.source(around, depth - 1)])
    }

    fn variable(&mut self) -> Value {
        Value::from(*self.rng.pick(&["x", "y", "list"]))
    }

    fn truth(&mut self, around: &NodeContext) -> ExprId {
        let op = |op: &str, operand: Value| Value::object([(op, operand)]);
        let source = match self.rng.below(10) {
            0 => Value::from(true),
            1 => Value::from(false),
            2 => op("$not", op("$lt", self.operand_pair(around, 2))),
            3 if self.rng.chance(30) => Value::Int(1),
            5 => {
                let name = if self.rng.chance(50) { None } else { around.ended.first() };
                let node = op("$node", Value::from(name.map_or("missing", String::as_str)));
                return self.b.guard(op("$eq", Value::list(vec![node, Value::Int(1)])));
            }
            4 if self.wild() => op("$eq", Value::list(vec![op("$random", Value::Int(2)), Value::Int(0)])),
            _ => op("$lt", self.operand_pair(around, 2)),
        };
        self.b.condition(source)
    }

    // Leaves.

    fn effect(&mut self, around: &NodeContext) -> Action {
        let hangs = self.wild() && self.rng.chance(8);
        let tools = ["0", "0", "20", "60", "100", "slow0", "slow40", "waits0", "waits40", "sends0", "sends20"];
        let known = if self.wild() { tools.len() } else { 7 };
        let tool = if hangs { "hang" } else { *self.rng.pick(&tools[..known]) };
        let tool = match !hangs && self.rng.chance(15) {
            true => self.computed(tool, around),
            false => tool.into(),
        };
        let reserves = (self.wild() && self.rng.chance(30)).then(|| {
            let tokens = 1 + self.rng.below(6);
            self.b.value(Value::object([("tokens", Value::from(tokens))]))
        });
        Action::Effect(Effect { reservation: reserves, ..Effect::new(tool, self.value(around)) })
    }

    /// Generates a name that is often the right one, sometimes not among those allowed, sometimes not a name.
    fn computed(&mut self, tool: &str, around: &NodeContext) -> ToolName {
        let computed = match self.rng.chance(20) {
            true => self.value(around),
            false => self.b.value(tool.into()),
        };
        let allowed = if self.rng.chance(80) { tool } else { "another" };
        ToolName::Computed { computed, among: vec!["20".into(), allowed.into()] }
    }

    fn wait(&mut self, around: &NodeContext) -> NodeKind {
        let requires = Value::object([("k", self.rng.below(2))]);
        // The size of a form is a limit, and steady plans end the same with every limit.
        let form =
            self.rng.chance(30).then(|| if self.wild() { self.value(around) } else { self.b.value("on?".into()) });
        NodeKind::Wait(match self.rng.below(3) {
            0 => Wait::Delay(Amount::Fixed(Duration::from_ms(self.rng.below(3_000)))),
            1 if self.wild() => Wait::Until(self.value(around)),
            _ => Wait::Signal {
                name: (*self.rng.pick(&["ping", "pong"])).into(),
                requirements: self.rng.chance(40).then(|| self.b.value(requires)),
                deadline: (self.wild() && self.rng.chance(40)).then(|| Amount::Fixed(secs(self.rng.below(3)))),
                form,
            },
        })
    }

    fn single_task(&mut self, around: &NodeContext) -> NodeKind {
        if self.wild() && self.rng.chance(15) {
            return NodeKind::single_task(self.post(around));
        }
        if self.wild() && self.rng.chance(6) {
            let status = *self.rng.pick(&Status::ALL);
            return NodeKind::single_task(Action::End { status, error: None });
        }
        if self.wild() && self.rng.chance(6) {
            let (value, success) = (self.value(around), self.rng.chance(50).then(|| self.truth(around)));
            return NodeKind::single_task(Action::Reply { value, success });
        }
        match self.write(around) {
            Some(write) => NodeKind::single_task(Action::Write(write)),
            None => NodeKind::evaluate(self.value(around)),
        }
    }

    /// Generates a write to a variable that no concurrent node changes.
    fn write(&mut self, around: &NodeContext) -> Option<VariableUpdate> {
        let run = around.alone || self.wild();
        let in_iteration = around.in_loop && (around.alone_in_iteration || self.wild());
        let level = match (run, in_iteration) {
            (true, true) => *self.rng.pick(&[Level::Run, Level::Iteration]),
            (true, false) => Level::Run,
            (false, true) => Level::Iteration,
            (false, false) => return None,
        };
        let (name, op) = match self.rng.below(7) {
            0 => ("list", WriteOp::Set),
            1 | 2 => ("list", WriteOp::AppendItem),
            3 => ("x", WriteOp::Add),
            4 => ("list", WriteOp::Extend),
            _ => (*self.rng.pick(&["x", "y"]), WriteOp::Set),
        };
        Some(VariableUpdate::new(level, name, op, Some(self.value(around))))
    }

    /// `inner` is the context for nodes that tasks enter, if such nodes are allowed.
    fn pipeline(&mut self, name: &str, around: &NodeContext, inner: Option<&NodeContext>) -> NodeKind {
        let count = 1 + self.rng.below(3) as u32;
        let hops = format!("hops_{name}");
        let tasks = (0..count).map(|at| {
            let action = match (self.rng.below(4), inner) {
                (0, _) => self.write(around).map(Action::Write),
                (1, _) => Some(Action::Evaluate(self.value(around))),
                (2, Some(inner)) => Some(Action::Node(self.inner(inner))),
                (2, None) if self.wild() => Some(self.post(around)),
                _ => None,
            };
            let action = action.unwrap_or_else(|| self.effect(around));
            let mut made = Task { hidden: self.rng.chance(10), ..task(&format!("t{at}"), action) };
            if self.rng.chance(40) {
                made.retry = Some(self.retry());
            }
            made.rules = (0..self.rng.below(3)).map(|_| self.rule(&hops, count, around)).collect();
            made
        });
        let tasks = tasks.collect();
        NodeKind::Pipeline(Pipeline { tasks })
    }

    fn inner(&mut self, around: &NodeContext) -> NodeId {
        let (node, _) = self.any(around);
        if self.wild() && self.rng.chance(30) {
            self.b.node_mut(node).hidden = true;
        }
        node
    }

    fn failing(&mut self, around: &NodeContext) -> Directive {
        let statuses = [Status::Failed, Status::TimedOut, Status::Cancelled];
        match self.wild() {
            true => Directive::Fail { status: *self.rng.pick(&statuses), error: Some(self.value(around)) },
            false => Directive::Fail { status: Status::Failed, error: None },
        }
    }

    fn rule(&mut self, hops: &str, tasks: u32, around: &NodeContext) -> TaskRule {
        let op = |op: &str, operand: Value| Value::object([(op, operand)]);
        let failed = op("$eq", Value::list(vec![op("$get", json_pair("outcome", "status")), "error".into()]));
        let few = op("$lt", Value::list(vec![op("$var", hops.into()), Value::Int(2)]));
        let when = match self.rng.below(3) {
            0 => Some(self.b.condition(failed)),
            1 => Some(self.truth(around)),
            _ => None,
        };
        let times = self.rng.chance(25).then(|| Amount::Fixed(self.rng.below(3)));
        let rule = |when, directive| TaskRule { max_matches: times.clone(), ..rule(when, directive) };
        match self.rng.below(5) {
            0 => rule(when, Directive::Continue),
            1 => rule(when, Directive::Retry(self.retry())),
            2 => rule(when, if self.rng.chance(50) { Directive::Break } else { self.failing(around) }),
            3 => {
                // A jump may go backwards, so it counts its hops.
                let more = self.b.value(op("$add", Value::list(vec![op("$var", hops.into()), Value::Int(1)])));
                let write = VariableUpdate::new(Level::Iteration, hops, WriteOp::Set, Some(more));
                let when = Some(self.b.condition(few));
                let to = self.rng.below(u64::from(tasks)) as u32;
                TaskRule { writes: vec![write], ..rule(when, Directive::Jump(to)) }
            }
            _ => {
                let writes: Vec<VariableUpdate> = (0..self.rng.below(3)).filter_map(|_| self.write(around)).collect();
                let previous = self.rng.chance(40).then(|| self.b.expr(r#"{"was": {"$var": "_prev"}}"#));
                TaskRule { writes, previous, ..rule(when, Directive::Continue) }
            }
        }
    }

    // Nodes that contain nodes.

    fn graph(&mut self, around: &NodeContext) -> NodeKind {
        let count = if self.rng.chance(10) { 0 } else { 1 + self.rng.below(3) };
        let chain = self.rng.chance(50);
        let mut children: Vec<GraphChild> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for at in 0..count as u32 {
            let after: Vec<GraphDependency> =
                (0..at).filter_map(|before| self.edge(before, chain && before + 1 == at)).collect();
            let mut inner = around.clone();
            if !chain && count > 1 {
                (inner.alone, inner.alone_in_iteration) = (false, false);
            }
            inner.ended.extend(after.iter().map(|after| names[after.child as usize].clone()));
            let condition = self.rng.chance(25).then(|| self.truth(&inner));
            let (node, name) = self.any(&inner);
            names.push(name);
            let group = self.wild().then(|| (*self.rng.pick(&["a", "b"])).into());
            children.push(GraphChild { node, after, condition, group });
        }
        let cancels = self.wild() && self.rng.chance(40);
        NodeKind::Graph(Graph {
            max_concurrency: self.rng.chance(30).then(|| 1 + self.rng.below(2) as u32),
            ending: *self.rng.pick(&[GraphStatusRule::Leaves, GraphStatusRule::Any]),
            on_failure: if cancels { GraphFailurePolicy::CancelRest } else { GraphFailurePolicy::Continue },
            skips_transitively: self.wild() && self.rng.chance(30),
            pick: match self.wild() {
                true => *self.rng.pick(&[PickPolicy::Ready, PickPolicy::RoundRobin, PickPolicy::LeastBusy]),
                false => PickPolicy::Ready,
            },
            ..graph(children)
        })
    }

    fn edge(&mut self, child: u32, certain: bool) -> Option<GraphDependency> {
        if !certain && !self.rng.chance(30) {
            return None;
        }
        let some = Status::ALL.into_iter().filter(|_| self.rng.chance(40));
        let accepts = StatusSet::from_statuses(some.collect::<Vec<_>>()).with(Status::Succeeded);
        Some(GraphDependency { child, accepts })
    }

    fn branch(&mut self, around: &NodeContext) -> NodeKind {
        let on = self.rng.chance(40).then(|| self.value(around));
        let cases = (0..self.rng.below(3)).map(|_| {
            let test = match on {
                Some(_) => BranchTest::Equals(self.value(around)),
                None => BranchTest::When(self.truth(around)),
            };
            BranchCase { test, node: self.any(around).0 }
        });
        let cases = cases.collect();
        let otherwise = self.rng.chance(50).then(|| self.any(around).0);
        NodeKind::Branch(Branch { on, cases, otherwise })
    }

    fn looping(&mut self, around: &NodeContext) -> Loop {
        let each = self.rng.chance(50);
        let parallel = each && self.rng.chance(50);
        let strict = parallel && !self.wild();
        let mut inner = NodeContext { in_loop: true, previous: !parallel, alone_in_iteration: true, ..around.clone() };
        inner.alone &= !parallel;
        inner.ended.clear();
        inner.ended.extend(around.ended.iter().filter(|_| self.rng.chance(50)).cloned());
        let source = if each { LoopSource::Each(self.items(around)) } else { LoopSource::Repeat };
        let (body, body_name) = self.any(&inner);
        let mut after = inner.clone();
        after.ended.push(body_name);
        let condition = self.truth(&after);
        let stop_when = self.rng.chance(50);
        let check = match self.rng.below(3) {
            0 if !strict => LoopCheck::Before { condition, stop_when },
            1 if !strict => LoopCheck::After { condition, stop_when },
            _ => LoopCheck::Never,
        };
        let judge = (!parallel && self.rng.chance(25)).then(|| self.judge(&inner));
        let iterations = if each { None } else { Some(Amount::Fixed(1 + self.rng.below(4))) };
        Loop {
            check,
            judge,
            limits: LoopLimits { iterations, budget: self.budget(), ..self.time_limits() },
            on_exhausted: *self.rng.pick(&[ExhaustedPolicy::Fail, ExhaustedPolicy::Succeed]),
            delay: (!strict && self.rng.chance(25)).then(|| self.delay()),
            max_concurrency: Amount::Fixed(if parallel { 2 + self.rng.below(2) } else { 1 }),
            on_iteration_failure: self.iteration_failure(strict),
            collect: self.collect(strict),
            break_when: (!strict && self.rng.chance(15)).then(|| self.truth(&after)),
            stall: (!strict && self.rng.chance(15)).then(|| self.stall(&after)),
            records: self.rng.chance(30).then(|| self.records(&after, strict)),
            entry: self.rng.chance(25).then(|| self.entry(&after, strict)),
            source,
            ..repeat(1, body)
        }
    }

    fn items(&mut self, around: &NodeContext) -> ExprId {
        let range = Value::object([("$range", self.rng.below(6))]);
        match self.rng.below(8) {
            0 => self.value(around),
            _ => self.b.value(range),
        }
    }

    /// Generates a judge that occasionally ends the loop.
    fn judge(&mut self, around: &NodeContext) -> NodeId {
        let name = self.name();
        let done = Value::object([("$lt", self.operand_pair(around, 1))]);
        if self.rng.chance(40) {
            let input = self.value(around);
            let effect = Action::Effect(Effect::new("30", input));
            return self.b.node(around.parent, &name, |_, _| NodeKind::single_task(effect));
        }
        let verdict = self.b.value(Value::object([("done", done)]));
        self.b.node(around.parent, &name, |_, _| NodeKind::evaluate(verdict))
    }

    fn time_limits(&mut self) -> LoopLimits {
        let time = (self.wild() && self.rng.chance(25)).then(|| Amount::Fixed(secs(1 + self.rng.below(6))));
        LoopLimits { time, cancels_iterations_on_timeout: self.rng.chance(50), ..no_limits() }
    }

    /// Generates budgets, in wild plans only: timing decides which of several concurrent nodes gets the last call.
    fn budget(&mut self) -> Vec<Budget> {
        let mut budget = Vec::new();
        if self.wild() && self.rng.chance(25) {
            budget.push(Budget { what: CALLS.into(), max: Amount::Fixed(self.rng.below(6)) });
        }
        if self.wild() && self.rng.chance(15) {
            budget.push(Budget { what: "tokens".into(), max: Amount::Fixed(1 + self.rng.below(60)) });
        }
        budget
    }

    /// Generates records; among concurrent iterations, which record fails first depends on timing.
    fn records(&mut self, around: &NodeContext, strict: bool) -> RecordingSpec {
        let value = if strict { self.b.expr(r#"{"of": {"$iteration": "item"}}"#) } else { self.value(around) };
        RecordingSpec::new(value, *self.rng.pick(&[RecordRetention::Last, RecordRetention::All]))
    }

    /// Generates the entry that is collected for an iteration, for every status.
    fn entry(&mut self, around: &NodeContext, strict: bool) -> ExprId {
        match strict || self.rng.chance(70) {
            true => {
                self.b.expr(r#"{"of": {"$iteration": "index"}, "was": {"$var": "status"}, "gave": {"$var": "output"}}"#)
            }
            false => self.value(around),
        }
    }

    fn delay(&mut self) -> Amount<Duration> {
        match self.rng.below(6) {
            0 => Amount::Computed(self.b.expr(r#"{"$fail": "no delay"}"#)),
            1 => Amount::Computed(self.b.expr("2")),
            _ => Amount::Fixed(Duration::from_ms(self.rng.below(3_000))),
        }
    }

    fn iteration_failure(&mut self, strict: bool) -> IterationFailure {
        let gentle = [IterationFailure::FailAtEnd, IterationFailure::Count, IterationFailure::LastDecides];
        let running_finish = self.rng.chance(50);
        let sharp = [IterationFailure::Stop { running_finish }, IterationFailure::Tolerate(self.rng.below(3))];
        if strict || self.rng.chance(50) { *self.rng.pick(&gentle) } else { *self.rng.pick(&sharp) }
    }

    fn collect(&mut self, strict: bool) -> CollectMode {
        let ordered = [CollectMode::List, CollectMode::Stats, CollectMode::Last];
        if strict || self.rng.chance(60) { *self.rng.pick(&ordered) } else { CollectMode::Report }
    }

    fn stall(&mut self, around: &NodeContext) -> StallCheck {
        StallCheck { watch: self.value(around), iterations: 2 + self.rng.below(2) }
    }

    /// Generates a net: one place begins, two work on its tokens, a last one joins them. A fifth may handle failures.
    fn net(&mut self, around: &NodeContext) -> NodeKind {
        let inner = NodeContext { alone: false, alone_in_iteration: false, ..around.clone() };
        let handles = self.rng.chance(40);
        let bodies: Vec<NodeId> = (0..4 + usize::from(handles)).map(|_| self.any(&inner).0).collect();
        let stops = self.rng.chance(50);
        let payload = |maker: &mut PlanGenerator| maker.rng.chance(50).then(|| maker.value(&inner));
        let mut first = place("first", &["start"], bodies[0]);
        first.inclusive = self.rng.chance(50);
        first.arcs =
            vec![NetArc { payload: payload(self), ..arc("left") }, NetArc { payload: payload(self), ..arc("right") }];
        let mut left = place("left", &["left"], bodies[1]);
        left.guard = self.rng.chance(30).then(|| self.truth(&inner));
        left.arcs = vec![NetArc { on: ArcTrigger::Either, ..arc("done-left") }];
        let mut right = place("right", &["right", "left"], bodies[2]);
        right.max_concurrency = 1 + self.rng.below(2) as u32;
        right.arcs = vec![NetArc { on: ArcTrigger::Either, when: Some(self.truth(&inner)), ..arc("done-right") }];
        let mut last = place("last", &["done-left", "done-right"], bodies[3]);
        last.join = if self.rng.chance(50) { Join::All } else { Join::None };
        last.arcs = if stops { vec![arc("stop")] } else { Vec::new() };
        if self.rng.chance(60) {
            let tokens = self.rng.below(6);
            let tokens = (0..tokens).map(|_| {
                let payload = Value::object([("k", Value::from(self.rng.below(2))), ("n", self.source(&inner, 1))]);
                Value::object([("kind", Value::from(*self.rng.pick(&["left", "right"]))), ("payload", payload)])
            });
            let tokens = Value::list(tokens.collect());
            let tokens = self.b.value(tokens);
            self.b.node_mut(bodies[0]).kind = NodeKind::evaluate(tokens);
            first.produces = vec!["left".into(), "right".into()];
            first.arcs.clear();
            last.join = if self.rng.chance(50) { Join::FanOut } else { Join::None };
            first.fan_out_joins = (last.join == Join::FanOut && self.rng.chance(50)).then(|| vec![3]);
        }
        if self.rng.chance(30) {
            last.join = self.each();
            first.fan_out_joins = None;
            for arcs in [&mut left.arcs, &mut right.arcs] {
                arcs[0].payload = Some(self.b.expr(r#"{"$var": "args"}"#));
            }
        }
        if self.rng.chance(25) {
            last.join = Join::Meeting { needs_all: self.rng.chance(50) };
            first.fan_out_joins = None;
        }
        let mut places = vec![first, left, right, last];
        places.iter_mut().for_each(|place| place.yields_slot = self.rng.chance(50));
        if handles {
            let mut rescue = place("rescue", &[FAILED_KIND], bodies[4]);
            let leads_to = *self.rng.pick(&["left", "done-right", "done-left"]);
            rescue.arcs = vec![arc(leads_to)];
            places.push(rescue);
            for place in &mut places[..3] {
                place.handler = Some(FailureHandler { place: 4, max_uses: self.rng.below(3) as u32 });
                place.arcs.iter_mut().for_each(|arc| arc.on = ArcTrigger::Succeeded);
            }
        }
        let end = if stops { NetEnd::Stop("stop".into()) } else { NetEnd::Quiet };
        let tells_slots = self.rng.chance(60);
        let asks =
            if tells_slots { vec![(*self.rng.pick(&["right", "done-left", "nothing"])).into()] } else { Vec::new() };
        NodeKind::Net(Net { publishes_slots: tells_slots, input_requests: asks, ..Net::new(places, "start", end) })
    }

    fn each(&mut self) -> Join {
        let needs = if self.rng.chance(50) { vec!["done-left"] } else { vec!["done-left", "done-left"] };
        Join::Each {
            needs: needs.into_iter().chain(["done-right"]).map(Into::into).collect(),
            key: self.rng.chance(50).then(|| "k".into()),
            surplus: *self.rng.pick(&[SurplusPolicy::Keep, SurplusPolicy::Drop, SurplusPolicy::Fail]),
        }
    }
}

fn hangs(task: &Task) -> bool {
    matches!(&task.action, Action::Effect(effect) if effect.tool == ToolName::from("hang"))
}

/// `[{"$var": name}, key]`
fn json_pair(name: &str, key: &str) -> Value {
    Value::list(vec![Value::object([("$var", name)]), Value::from(key)])
}
