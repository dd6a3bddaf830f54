//! The coordinator: an agent next to the steps that receives their messages and may send messages to them.

use windlass_core::EventKind;
use windlass_core::plan::{
    Action, Amount, Directive, Effect, ExprId, Mailbox, NodeId, NodeKind, Task, TaskRule, VariableUpdate, Wait, WriteOp,
};
use windlass_syntax::Span;
use windlass_value::{Duration, ExpressionMode, Level, Value};

use super::agent::{call_retries, call_retry};
use super::planner::{Planner, StepContext, hidden_task, rule, set_variable};
use super::tools::{CallHandler, text, tool};
use crate::document::WorkflowDocument;

pub(super) const COORDINATOR: &str = "coordinator";

/// A step's waits for the coordinator to become idle are limited to a fraction of the shortest timeout of the step and
/// the nodes around it: the timeout divided by this.
const TIMEOUT_DIVISOR: u64 = 4;

/// Between two of its calls a step waits for the coordinator for the maximum of the first wait, divided by this.
pub(super) const BETWEEN_DIVISOR: u64 = 6;

const FORWARD: &str = "forward_to_agent";
const NARRATE: &str = "narrate";
const FINALIZE: &str = "finalize";

const SYSTEM: &str = "You coordinate the agents of a workflow. You are notified when steps start and end, and you get \
the messages that agents send to you. Agents cannot write to each other: if one should know something, forward it with \
`forward_to_agent`. A step that has not started yet gets its mail when it starts. Use `narrate` to tell the user what \
happens. When you are notified that the workflow has ended, call `finalize` with a summary of its outcome. If there is \
nothing to do, answer with a short text and call no tool.";

/// Positions of the tasks in the coordinator's pipeline.
const WAIT: u32 = 1;
const ASK: u32 = 2;
const PUBLISH: u32 = 4;

impl Planner<'_> {
    pub(crate) fn coordinator(&mut self, parent: NodeId, here: &StepContext<'_>) -> NodeId {
        let document = here.document;
        let span = document.extensions.coordinator.mode.map_or(document.span, |mode| mode.span);
        if let Some(step) = document.step(COORDINATOR) {
            let message = "the step id `coordinator` is reserved while the workflow has a coordinator";
            let hint = "call it something else, or switch the coordinator off: x-windlass: {coordinator: {mode: off}}";
            self.problem("reserved_step_id", step.id.span, message, hint);
        }
        let id = self.add_node(COORDINATOR, "coordinator", Some(parent), span);
        let welcome = self.agent_expression(
            "coordinator_welcome",
            [("text", Value::from(welcome(document)))],
            ExpressionMode::Value,
            span,
        );
        let begin = hidden_task("begin", Action::Write(set_variable("conversation", WriteOp::Set, welcome)));
        let wait = self.wait_task(id, span);
        let ask = self.coordinator_ask(here, span);
        let act = self.coordinator_act(id, span);
        let failure = self.agent_function("coordinator_failure", span);
        let publish =
            hidden_task("failed", Action::PublishEvent { kind: EventKind::COORDINATOR_FAILED.into(), data: failure });
        self.pipeline(id, vec![begin, wait, ask, act, publish]);
        let output = self.agent_function("agent_output", span);
        let (lingers, wakes) =
            (self.options.limits.max_coordinator_end_time, self.options.limits.max_coordinator_wakes);
        let node = self.get(id);
        node.scope = true;
        node.meters_usage = true;
        node.output = Some(output);
        node.linger_time = Some(lingers);
        node.mailbox = Some(Mailbox { wakes, closed: "mailbox-closed-by-finalize".into() });
        id
    }

    fn wait_task(&mut self, id: NodeId, span: Span) -> Task {
        let wait = self.add_hidden_node("coordinator#mail", "mail", Some(id), span);
        self.get(wait).kind = NodeKind::Wait(Wait::Mail { blocks: true, after_idle: None });
        let some = self.condition("mail_is", [("is", Value::from("any"))], span);
        let writes = vec![
            set_variable("conversation", WriteOp::Extend, self.agent_function("incoming_messages", span)),
            set_variable("ending", WriteOp::Set, self.agent_function("steps_have_ended", span)),
        ];
        // No sender is left, or the coordinator has used up its wake-ups.
        let rules = vec![rule(Some(some), Directive::Continue, writes), rule(None, Directive::Break, Vec::new())];
        Task { rules, ..hidden_task("mail", Action::Node(wait)) }
    }

    fn coordinator_ask(&mut self, here: &StepContext<'_>, span: Span) -> Task {
        let settings = &here.document.extensions.coordinator;
        let model = self.model(settings.model.as_ref().map(|model| model.as_str()));
        let price = self.price(model.as_deref());
        let system = match &settings.prompt {
            Some(prompt) => format!("{SYSTEM}\n\n{}", prompt.as_str()),
            None => SYSTEM.to_owned(),
        };
        let tools = Value::object([
            // None of the steps' tools.
            ("allow", Value::list(Vec::new())),
            ("deny", Value::list(Vec::new())),
            ("own", Value::list(coordinator_tools())),
        ]);
        let fixed = Value::object([
            ("model", Value::from(model)),
            ("system", Value::from(system)),
            ("tools", tools),
            ("price", price),
            ("role", Value::from("coordinator")),
        ]);
        let (input, reserves) = self.model_request(fixed, None, here, span);
        let is = |planner: &mut Self, is: &str| {
            Some(planner.condition("coordinator_next_is", [("is", Value::from(is))], span))
        };
        let append_reply = set_variable("conversation", WriteOp::AppendItem, self.agent_function("assistant", span));
        let kept = vec![
            append_reply,
            set_variable("calls", WriteOp::Set, self.keep_calls(Value::list(coordinator_tools()), span)),
        ];
        let continues = self.continue_writes(span);
        let no_answer = [
            set_variable("stop", WriteOp::Set, self.agent_function("stop_name", span)),
            set_variable("failure", WriteOp::Set, self.agent_function("no_answer_error", span)),
        ];
        let no_answer = kept.iter().cloned().chain(no_answer).collect();
        let rules = vec![
            rule(is(self, "act"), Directive::Continue, kept.clone()),
            rule(is(self, "continue"), Directive::Jump(ASK), continues),
            rule(is(self, "no_answer"), Directive::Jump(PUBLISH), no_answer),
            rule(is(self, "over"), Directive::Break, kept.clone()),
            rule(is(self, "wait"), Directive::Jump(WAIT), kept),
            self.give_up_rule(span),
        ];
        let effect = Effect { reservation: reserves, ..Effect::new("agent_model", input) };
        Task {
            label: "ask".into(),
            rules,
            retry: call_retry(call_retries(None, here)),
            timeout: Some(Amount::Fixed(self.options.limits.max_coordinator_time)),
            ..Task::new(Action::Effect(effect))
        }
    }

    fn coordinator_act(&mut self, id: NodeId, span: Span) -> Task {
        let forwards = self.calls_one_of(&[FORWARD], span);
        let to = self.call_argument("target_step_id", None, span);
        let posts = self.forward_tasks(to, span);
        let narrates = self.calls_one_of(&[NARRATE], span);
        let narrated = self.publish_tasks(EventKind::COORDINATOR_NARRATION, NARRATE, span);
        let finalizes = self.calls_one_of(&[FINALIZE], span);
        let finalized = self.publish_tasks(EventKind::COORDINATOR_SYNTHESIS, FINALIZE, span);
        let after = self.condition("comes_after", [("tool", Value::from(FINALIZE))], span);
        let late = [("text", Value::from("the call was not made: it comes after `finalize`")), ("error", true.into())];
        let late = self.agent_expression("fixed_answer", late, ExpressionMode::Value, span);
        let leads = vec![
            CallHandler { when: after, tasks: vec![hidden_task("", Action::Evaluate(late))] },
            self.malformed_handler(span),
            CallHandler { when: forwards, tasks: posts },
            CallHandler { when: narrates, tasks: narrated },
            CallHandler { when: finalizes, tasks: finalized },
        ];
        let unknown = [("text", Value::from("there is no such tool")), ("error", Value::Bool(true))];
        let unknown = self.agent_expression("fixed_answer", unknown, ExpressionMode::Value, span);
        let calls = self.call_loop(id, COORDINATOR, span, 1, leads, vec![hidden_task("", Action::Evaluate(unknown))]);
        let append_answers =
            vec![set_variable("conversation", WriteOp::AppendItem, self.agent_function("answers_message", span))];
        let finished = self.condition("has_valid_call", [("tool", Value::from(FINALIZE))], span);
        let summary = self.call_argument("summary", Some(FINALIZE), span);
        let summary = VariableUpdate {
            ignores_input: true,
            hidden: true,
            ..VariableUpdate::new(Level::Run, "summary", WriteOp::Set, Some(summary))
        };
        let turns = self.options.limits.max_coordinator_turns;
        let turns_used_up = |planner: &mut Self, ending: bool| {
            let settings = [("turns", Value::from(turns)), ("ending", Value::Bool(ending))];
            Some(planner.condition("turns_used_up", settings, span))
        };
        let (stops, pauses, ok) = (turns_used_up(self, true), turns_used_up(self, false), self.ok(span));
        let rules = vec![
            rule(Some(finished), Directive::Break, append_answers.iter().cloned().chain([summary]).collect()),
            rule(stops, Directive::Break, append_answers.clone()),
            rule(pauses, Directive::Jump(WAIT), append_answers.clone()),
            rule(Some(ok), Directive::Jump(ASK), append_answers),
            self.give_up_rule(span),
        ];
        Task { label: "act".into(), rules, ..Task::new(Action::Node(calls)) }
    }

    /// The rule for a failed coordinator: the steps continue, and an event reports the failure.
    fn give_up_rule(&mut self, span: Span) -> TaskRule {
        let failure = set_variable("failure", WriteOp::Set, self.agent_function("task_error", span));
        rule(None, Directive::Jump(PUBLISH), vec![failure])
    }

    /// Limits the waits for the coordinator, so that a step does not use up its own or an enclosing timeout on them.
    pub(crate) fn bound_holds(&mut self) {
        let shortest = |planner: &Self, node: NodeId| {
            let around = std::iter::successors(Some(node), |node| planner.plan.node(*node).parent);
            let times = around.filter_map(|node| match planner.plan.node(node).timeout.as_ref()?.after {
                Amount::Fixed(after) => Some(after),
                Amount::Computed(_) => None,
            });
            times.min()
        };
        for index in 0..self.plan.nodes.len() {
            let node = NodeId(index as u32);
            let Some(time) = shortest(self, node) else { continue };
            if let NodeKind::Wait(Wait::Mail { after_idle: Some((_, hold)), .. }) = &mut self.get(node).kind {
                *hold = (*hold).min(Duration(time.0 / TIMEOUT_DIVISOR));
            }
        }
    }

    fn call_argument(&mut self, name: &str, of: Option<&str>, span: Span) -> ExprId {
        let settings = [("name", Value::from(name)), ("of", of.map_or(Value::Null, Value::from))];
        self.agent_expression("argument", settings, ExpressionMode::Value, span)
    }

    /// Forwards a message. One addressed to a loop or an include, which has no reader, is narrated to the user instead.
    fn forward_tasks(&mut self, to: ExprId, span: Span) -> Vec<Task> {
        let mut tasks = self.post_tasks(to, span);
        let wraps = self.condition::<&str>("addresses_a_wrapper", [], span);
        let kept = vec![set_variable("posted", WriteOp::Set, self.agent_function("task_result", span))];
        let narration = self.agent_function("arguments", span);
        let posted = self.agent_expression(
            "delivery_answer",
            [("variable", Value::from("posted"))],
            ExpressionMode::Value,
            span,
        );
        tasks[0].rules = vec![rule(Some(wraps), Directive::Jump(2), kept)];
        tasks[1].rules = vec![rule(None, Directive::Break, Vec::new())];
        tasks.push(hidden_task(
            NARRATE,
            Action::PublishEvent { kind: EventKind::COORDINATOR_NARRATION.into(), data: narration },
        ));
        tasks.push(hidden_task("posted", Action::Evaluate(posted)));
        tasks
    }

    fn publish_tasks(&mut self, kind: &str, label: &str, span: Span) -> Vec<Task> {
        let data = self.agent_function("arguments", span);
        let done = self.agent_expression("fixed_answer", [("text", Value::from("ok"))], ExpressionMode::Value, span);
        vec![
            hidden_task(label, Action::PublishEvent { kind: kind.into(), data }),
            hidden_task("done", Action::Evaluate(done)),
        ]
    }
}

fn coordinator_tools() -> Vec<Value> {
    let kind = Value::object([
        ("type", Value::from("string")),
        ("enum", Value::list(["info", "context_update", "cancel"].map(Value::from).to_vec())),
        ("description", Value::from("`cancel` ends the step; other kinds are passed to its agent")),
    ]);
    vec![
        tool(
            FORWARD,
            "Sends a message to the agent of a step.",
            &[("target_step_id", text("the id of the step")), ("text", text("what it is to know")), ("kind", kind)],
            &["target_step_id", "text"],
        ),
        tool(NARRATE, "Reports progress to the user.", &[("text", text("one or two sentences"))], &["text"]),
        tool(
            FINALIZE,
            "Ends your work, when the workflow has ended.",
            &[("summary", text("a summary of the outcome, for the user"))],
            &[],
        ),
    ]
}

/// Returns the text that introduces the workflow to the coordinator.
fn welcome(document: &WorkflowDocument) -> String {
    let mut text = format!("Workflow: {}", document.name.as_str());
    if let Some(description) = &document.description {
        text.push_str(&format!("\n{}", description.as_str().trim_end()));
    }
    text.push_str("\n\nSteps:");
    for step in &document.steps {
        text.push_str(&format!("\n- {}", step.id.value));
        if !step.depends_on.is_empty() {
            let after: Vec<&str> = step.depends_on.iter().map(|id| id.as_str()).collect();
            text.push_str(&format!(" (after {})", after.join(", ")));
        }
        let inner: Vec<&str> = step.inner().iter().map(|step| step.id.as_str()).collect();
        if !inner.is_empty() {
            text.push_str(&format!(", a loop of {}", inner.join(", ")));
        }
    }
    text
}
