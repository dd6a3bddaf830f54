//! Tool calls: the tools that the workflow itself offers to an agent, and the handling of its calls.

use windlass_core::plan::{
    Action, Amount, Branch, BranchCase, BranchTest, CollectMode, Effect, ExprId, IterationFailure, Loop, LoopLimits,
    LoopSource, NodeId, NodeKind, SendMail, Task,
};
use windlass_syntax::Span;
use windlass_value::{ExpressionMode, Value};

use super::agent::AgentStep;
use super::coordinator::COORDINATOR;
use super::planner::{Planner, hidden_task, path_value};

pub(super) const SUBMIT_RESULT: &str = "submit_result";
pub(super) const SEND_MESSAGE: &str = "send_message";

fn tool_spec(name: &str, description: &str, parameters: Value) -> Value {
    Value::object([("name", Value::from(name)), ("description", Value::from(description)), ("parameters", parameters)])
}

/// Returns the parameters of a tool: texts, and which of them are required.
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
    tool_spec(name, description, parameters(properties, required))
}

pub(super) fn submit_result(schema: &Value) -> Value {
    tool_spec(SUBMIT_RESULT, "Submits the result of your work. Call it once, when the work is done.", schema.clone())
}

pub(super) fn send_message() -> Value {
    let text_schema = text("the message");
    tool(SEND_MESSAGE, "Sends a message to the coordinator of the workflow.", &[("text", text_schema)], &["text"])
}

/// The handler of a kind of call.
pub(super) struct CallHandler {
    pub when: ExprId,
    pub tasks: Vec<Task>,
}

impl Planner<'_> {
    /// Builds the loop over the calls of a step's model.
    pub(crate) fn calls_of_step(&mut self, id: NodeId, step: &AgentStep<'_>, mail: bool) -> NodeId {
        let span = step.span;
        let mut handlers = Vec::new();
        if step.schema().is_some() {
            let when = self.calls_one_of(&[SUBMIT_RESULT], span);
            let verdict =
                self.agent_expression("verdict", [("tool", Value::from(SUBMIT_RESULT))], ExpressionMode::Value, span);
            handlers.push(CallHandler { when, tasks: vec![hidden_task("", Action::Evaluate(verdict))] });
        }
        handlers.push(self.malformed_handler(span));
        if mail {
            let when = self.calls_one_of(&[SEND_MESSAGE], span);
            let to = self.value(Value::from(COORDINATOR), span);
            handlers.push(CallHandler { when, tasks: self.post_tasks(to, span) });
        }
        let (allow, deny) = step.allowed();
        let work = path_value(self.options.work_folder.as_deref());
        let input = self.agent_expression(
            "tool_input",
            [("allow", allow), ("deny", deny), ("folder", work)],
            ExpressionMode::Value,
            span,
        );
        let otherwise = vec![Task::new(Action::Effect(Effect::new("agent_tool", input)))];
        let max_concurrency = self.options.limits.max_agent_tool_concurrency.max(1);
        self.call_loop(id, step.name, span, max_concurrency, handlers, otherwise)
    }

    pub(crate) fn calls_one_of(&mut self, tools: &[&str], span: Span) -> ExprId {
        let tools = Value::list(tools.iter().map(|tool| Value::from(*tool)).collect());
        self.condition("is_call_of", [("tools", tools)], span)
    }

    /// Returns the calls of a reply. Checks those of the workflow's own tools.
    pub(crate) fn keep_calls(&mut self, own: Value, span: Span) -> ExprId {
        self.agent_expression("calls", [("tools", own)], ExpressionMode::Value, span)
    }

    /// Handles calls with malformed or invalid arguments: they are not executed.
    pub(crate) fn malformed_handler(&mut self, span: Span) -> CallHandler {
        let when = self.condition::<&str>("is_malformed", [], span);
        let answer = self.agent_function("malformed_answer", span);
        CallHandler { when, tasks: vec![hidden_task("", Action::Evaluate(answer))] }
    }

    /// Builds the tasks that send the message of the current call.
    pub(crate) fn post_tasks(&mut self, to: ExprId, span: Span) -> Vec<Task> {
        let mail = self.agent_function("outgoing_message", span);
        let posted = self.agent_function("delivery_answer", span);
        vec![hidden_task("post", Action::Post(SendMail { to, mail })), hidden_task("posted", Action::Evaluate(posted))]
    }

    /// Builds a hidden loop over the kept calls. Failures are answered to the model, which may try another way.
    pub(crate) fn call_loop(
        &mut self,
        parent: NodeId,
        name: &str,
        span: Span,
        max_concurrency: u64,
        handlers: Vec<CallHandler>,
        otherwise: Vec<Task>,
    ) -> NodeId {
        let id = self.add_hidden_node(&format!("{name}#act"), "calls", Some(parent), span);
        let body = self.add_hidden_node(&format!("{name}#call"), "call", Some(id), span);
        let mut cases = Vec::new();
        for (at, handler) in handlers.into_iter().enumerate() {
            let node = self.add_hidden_node(&format!("{name}#call-{at}"), "call", Some(body), span);
            self.pipeline(node, handler.tasks);
            cases.push(BranchCase { test: BranchTest::When(handler.when), node });
        }
        let last = self.add_hidden_node(&format!("{name}#tool"), "call", Some(body), span);
        self.pipeline(last, otherwise);
        self.get(body).kind = NodeKind::Branch(Branch { on: None, cases, otherwise: Some(last) });
        let source = LoopSource::Each(self.agent_function("pending_calls", span));
        let entry = self.agent_function("answer_record", span);
        let looping = Loop {
            on_iteration_failure: IterationFailure::Count,
            max_concurrency: Amount::Fixed(max_concurrency),
            collect: CollectMode::List,
            entry: Some(entry),
            internal: true,
            ..self.bare_loop("calls", source, body)
        };
        self.get(id).kind = NodeKind::Loop(Box::new(looping));
        id
    }

    /// Creates a loop without conditions. Its iterations and its time are limited only by its definition and the step.
    pub(crate) fn bare_loop(&self, kind: &str, source: LoopSource, body: NodeId) -> Loop {
        let limits = &self.options.limits;
        let looping = match source {
            LoopSource::Each(items) => Loop::each(items, body, limits),
            LoopSource::Repeat => Loop::repeat(body, limits),
        };
        // The definition sets the number of iterations, and the step's timeout covers the whole loop.
        let limits =
            LoopLimits { iterations: None, time: None, cancels_iterations_on_timeout: false, ..looping.limits };
        Loop { kind: kind.into(), limits, collect: CollectMode::Last, ..looping }
    }
}
