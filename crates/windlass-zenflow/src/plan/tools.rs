//! Calls of tools: which tools an agent is offered by the workflow itself, and what its calls lead to.

use windlass_core::plan::{
    Action, Amount, Branch, Case, Collect, Effect, ExprId, IterationFailure, Loop, LoopLimits, NodeId, NodeKind, Post,
    Source, Task, Test,
};
use windlass_syntax::Span;
use windlass_value::{Mode, Value};

use super::agent::AgentStep;
use super::coordinator::COORDINATOR;
use super::planner::{Planner, folder, silent};

pub(super) const SUBMIT_RESULT: &str = "submit_result";
pub(super) const SEND_MESSAGE: &str = "send_message";

fn offered(name: &str, description: &str, parameters: Value) -> Value {
    Value::object([("name", Value::from(name)), ("description", Value::from(description)), ("parameters", parameters)])
}

/// The parameters of a tool: texts, and which of them it needs.
pub(super) fn parameters(properties: &[(&str, Value)], required: &[&str]) -> Value {
    let properties = Value::object(properties.iter().map(|(name, schema)| (*name, schema.clone())));
    Value::object([
        ("type", Value::from("object")),
        ("properties", properties),
        ("required", Value::list(required.iter().map(|name| Value::from(*name)).collect())),
        ("additionalProperties", Value::Bool(false)),
    ])
}

pub(super) fn text(description: &str) -> Value {
    Value::object([("type", Value::from("string")), ("description", Value::from(description))])
}

pub(super) fn tool(name: &str, description: &str, properties: &[(&str, Value)], required: &[&str]) -> Value {
    offered(name, description, parameters(properties, required))
}

pub(super) fn submit_result(schema: &Value) -> Value {
    offered(SUBMIT_RESULT, "Submits the result of your work. Call it once, when the work is done.", schema.clone())
}

pub(super) fn send_message() -> Value {
    let said = text("what the coordinator is to know");
    tool(SEND_MESSAGE, "Sends a message to the coordinator of the workflow.", &[("text", said)], &["text"])
}

/// A call that leads somewhere.
pub(super) struct Leads {
    pub when: ExprId,
    pub tasks: Vec<Task>,
}

impl Planner<'_> {
    /// The loop over the calls of a step's model.
    pub(crate) fn calls_of_step(&mut self, id: NodeId, step: &AgentStep<'_>, mail: bool) -> NodeId {
        let span = step.span;
        let mut leads = Vec::new();
        if step.schema().is_some() {
            let when = self.calls_one_of(&[SUBMIT_RESULT], span);
            let verdict = self.agent("verdict", [("tool", Value::from(SUBMIT_RESULT))], Mode::Value, span);
            leads.push(Leads { when, tasks: vec![silent("", Action::Evaluate(verdict))] });
        }
        leads.push(self.troubled(span));
        if mail {
            let when = self.calls_one_of(&[SEND_MESSAGE], span);
            let to = self.value(Value::from(COORDINATOR), span);
            leads.push(Leads { when, tasks: self.posts(to, span) });
        }
        let (allow, deny) = step.allowed();
        let work = folder(self.options.work_folder.as_deref());
        let input = self.agent("tool", [("allow", allow), ("deny", deny), ("folder", work)], Mode::Value, span);
        let otherwise = vec![Task::new(Action::Effect(Effect::new("agent_tool", input)))];
        let max_concurrency = self.options.limits.max_agent_tool_concurrency.max(1);
        self.calls(id, step.name, span, max_concurrency, leads, otherwise)
    }

    pub(crate) fn calls_one_of(&mut self, tools: &[&str], span: Span) -> ExprId {
        let tools = Value::list(tools.iter().map(|tool| Value::from(*tool)).collect());
        self.condition("names", [("tools", tools)], span)
    }

    /// The calls of a reply. Those of the workflow's own tools are looked at.
    pub(crate) fn calls_kept(&mut self, own: Value, span: Span) -> ExprId {
        self.agent("calls", [("tools", own)], Mode::Value, span)
    }

    /// Calls whose arguments are none, or are wrong, are not made.
    pub(crate) fn troubled(&mut self, span: Span) -> Leads {
        let when = self.condition::<&str>("troubled", [], span);
        let trouble = self.plain("trouble", span);
        Leads { when, tasks: vec![silent("", Action::Evaluate(trouble))] }
    }

    /// Sends the letter of the call at hand.
    pub(crate) fn posts(&mut self, to: ExprId, span: Span) -> Vec<Task> {
        let mail = self.plain("letter", span);
        let posted = self.plain("posted", span);
        vec![silent("post", Action::Post(Post { to, mail })), silent("posted", Action::Evaluate(posted))]
    }

    /// A hidden loop over the calls that were kept. What fails is told to the model: it may try another way.
    pub(crate) fn calls(
        &mut self,
        parent: NodeId,
        name: &str,
        span: Span,
        max_concurrency: u64,
        leads: Vec<Leads>,
        otherwise: Vec<Task>,
    ) -> NodeId {
        let id = self.hidden(&format!("{name}#act"), "calls", Some(parent), span);
        let body = self.hidden(&format!("{name}#call"), "call", Some(id), span);
        let mut cases = Vec::new();
        for (at, lead) in leads.into_iter().enumerate() {
            let node = self.hidden(&format!("{name}#call-{at}"), "call", Some(body), span);
            self.pipeline(node, lead.tasks);
            cases.push(Case { test: Test::When(lead.when), node });
        }
        let last = self.hidden(&format!("{name}#tool"), "call", Some(body), span);
        self.pipeline(last, otherwise);
        self.get(body).kind = NodeKind::Branch(Branch { on: None, cases, otherwise: Some(last) });
        let source = Source::Each(self.plain("kept", span));
        let entry = self.plain("answer", span);
        let looping = Loop {
            on_iteration_failure: IterationFailure::Count,
            max_concurrency: Amount::Fixed(max_concurrency),
            collect: Collect::List,
            entry: Some(entry),
            machinery: true,
            ..self.bare_loop("calls", source, body)
        };
        self.get(id).kind = NodeKind::Loop(Box::new(looping));
        id
    }

    /// A loop that only goes round.
    pub(crate) fn bare_loop(&self, kind: &str, source: Source, body: NodeId) -> Loop {
        let limits = &self.options.limits;
        let looping = match source {
            Source::Each(items) => Loop::each(items, body, limits),
            Source::Repeat => Loop::repeat(body, limits),
        };
        // Its definition names the number of iterations; the step's timeout covers the whole loop.
        let limits =
            LoopLimits { iterations: None, time: None, cancels_iterations_on_timeout: false, ..looping.limits };
        Loop { kind: kind.into(), limits, collect: Collect::Last, ..looping }
    }
}
