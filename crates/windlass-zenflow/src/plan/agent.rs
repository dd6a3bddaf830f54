//! The pipeline of an agent: calls its model, runs the tools that the model calls, and calls the model again.

use std::sync::Arc;

use windlass_core::Status;
use windlass_core::plan::{
    Action, Amount, Backoff, Directive, Effect, ExprId, Growth, Jitter, Mailbox, NodeId, NodeKind, Retry, Task,
    TaskRule, VariableUpdate, Wait, WriteOp,
};
use windlass_syntax::Span;
use windlass_value::{Duration, ExpressionMode, Map, Value};

use super::coordinator::{BETWEEN_DIVISOR, COORDINATOR};
use super::planner::{
    DependencyRef, Planner, StepContext, hidden_task, path_value, rule, set_variable, step_timeout, text_list,
};
use super::tools::{SUBMIT_RESULT, send_message, submit_result};
use crate::document::{AgentDefinition, ReplyStop, Spanned, ZenflowStep};
use crate::options::ContextFiles;

/// The default number of retries of a model call.
const DEFAULT_CALL_RETRIES: u64 = 2;

/// The errors of a model call that are retried: the service is overloaded, or could not be reached.
const RETRY_ON: [&str; 4] = ["429", "5xx", "connection", "timeout"];

/// The parts of an agent's pipeline.
pub(super) struct AgentStep<'d> {
    pub name: &'d str,
    pub label: &'static str,
    pub hidden: bool,
    pub span: Span,
    pub agent: Option<&'d AgentDefinition>,
    pub role: &'static str,
    pub model: Option<&'d Spanned<String>>,
    pub instructions: &'d str,
    pub files: &'d [Spanned<String>],
    pub time: Option<Duration>,
    pub call_retries: u64,
    /// The agent reads mail, and may write to the coordinator if there is one.
    pub mail: bool,
    /// Replies that are no answer and nevertheless complete the step.
    pub accept: &'d [ReplyStop],
}

/// The positions of the tasks in an agent's pipeline.
struct TaskPositions {
    ask: u32,
    /// The start of the next turn: with a mail check, if mail is possible.
    next: u32,
    /// The last mail check.
    last: Option<u32>,
}

/// The points at which an agent checks for mail.
#[derive(Clone, Copy, PartialEq)]
enum MailCheck {
    /// Before the first call; mail sent before then must be included.
    First,
    /// After the calls of a turn.
    Between,
    /// After the last turn; does not wait.
    Last,
}

impl<'d> AgentStep<'d> {
    /// Creates the pipeline parts of a step.
    pub(crate) fn from_step(step: &'d ZenflowStep, here: &StepContext<'d>) -> AgentStep<'d> {
        let agent = step.agent.as_ref().and_then(|agent| here.document.agent(agent));
        AgentStep {
            name: &step.id,
            label: "agent",
            hidden: false,
            span: step.span,
            agent,
            role: "step",
            model: step.model.as_ref(),
            instructions: step.instructions.as_ref().map_or("", |text| text.as_str()),
            files: &step.context_files,
            time: Planner::step_time(step, here),
            call_retries: call_retries(Some(step), here),
            mail: true,
            accept: &step.accept,
        }
    }

    pub(crate) fn schema(&self) -> Option<&'d Value> {
        self.agent.and_then(|agent| agent.result_schema.as_ref()).map(|schema| &schema.value)
    }

    fn turns(&self, default: u64) -> u64 {
        let turns = self.agent.and_then(|agent| agent.max_turns).map(|turns| turns.value);
        turns.filter(|turns| *turns > 0).unwrap_or(default)
    }

    fn result_attempts(&self, default: u64) -> u64 {
        self.agent.and_then(|agent| agent.max_result_attempts).map_or(default, |attempts| attempts.value)
    }

    fn repeated_calls(&self, default: u64) -> u64 {
        self.agent.and_then(|agent| agent.max_repeated_calls).map_or(default, |turns| turns.value)
    }

    fn system(&self) -> Value {
        let prompt = self.agent.and_then(|agent| agent.prompt.as_ref());
        prompt.map_or(Value::Null, |prompt| Value::from(prompt.as_str()))
    }

    /// Returns the permitted tools, null for all, and the denied ones.
    pub(crate) fn allowed(&self) -> (Value, Value) {
        let named = |names: &[Spanned<String>]| text_list(names.iter().map(|name| &name.value));
        let allow = self.agent.and_then(|agent| agent.tools.as_ref()).filter(|tools| !tools.is_empty());
        let deny = self.agent.map_or_else(|| named(&[]), |agent| named(&agent.disallowed_tools));
        (allow.map_or(Value::Null, |tools| named(tools)), deny)
    }
}

/// Returns the number of retries of a model call.
pub(super) fn call_retries(step: Option<&ZenflowStep>, here: &StepContext<'_>) -> u64 {
    let own = step.and_then(|step| step.max_retries).or(here.document.options.max_retries);
    own.map_or(DEFAULT_CALL_RETRIES, |retries| retries.value)
}

impl Planner<'_> {
    pub(crate) fn agent_step(&mut self, step: &AgentStep<'_>, parent: NodeId, here: &StepContext<'_>) -> NodeId {
        let first = self.first_message_settings(step, here);
        self.agent_pipeline(step, first, parent, here)
    }

    /// Returns the settings of the first message.
    fn first_message_settings(&self, step: &AgentStep<'_>, here: &StepContext<'_>) -> (&'static str, Map) {
        let mut first = Map::new();
        first.insert("instructions", step.instructions);
        if let Some(schema) = step.schema() {
            first.insert("result", required_result(schema));
        }
        let context = &here.context;
        let dependency_value = |dependency: &DependencyRef| {
            Value::object([
                ("id", Value::from(dependency.id.as_str())),
                // The number of scopes to leave: the agent's own, and those between it and the dependency.
                ("beyond", Value::from(1 + here.depth.saturating_sub(dependency.depth))),
                ("whole", Value::Bool(dependency.whole)),
            ])
        };
        if !context.dependencies.is_empty() {
            first.insert("dependencies", Value::list(context.dependencies.iter().map(dependency_value).collect()));
        }
        if let Some(heading) = context.heading {
            first.insert("heading", heading);
        }
        if let Some(around) = &here.enclosing_loop {
            let around = [
                ("name", Value::from(around.name.as_str())),
                ("items", Value::Bool(around.items)),
                ("steps", text_list(&around.steps)),
                ("previous", Value::Bool(context.previous && !around.items)),
            ];
            first.insert("enclosing_loop", Value::object(around));
        }
        let inputs = &here.document.extensions.inputs;
        if !inputs.is_empty() {
            first.insert("inputs", text_list(inputs.iter().map(|(name, _)| &name.value)));
        }
        first.insert("files", !step.files.is_empty());
        first.insert("context", !self.coordinated);
        first.insert("caps", self.caps());
        ("first_message", first)
    }

    /// Builds the pipeline. Its conversation begins with the result of the language function `first`.
    pub(crate) fn agent_pipeline(
        &mut self,
        step: &AgentStep<'_>,
        first: (&'static str, Map),
        parent: NodeId,
        here: &StepContext<'_>,
    ) -> NodeId {
        let span = step.span;
        let id = self.add_node(step.name, step.label, Some(parent), span);
        let (reads, writes) = (step.mail, step.mail && self.coordinated);
        let mut tasks = Vec::new();
        if !step.files.is_empty() {
            tasks.push(self.files_task(step, here));
        }
        let first = self.agent_expression(
            first.0,
            first.1.iter().map(|(k, v)| (k.clone(), v.clone())),
            ExpressionMode::Value,
            span,
        );
        tasks.push(hidden_task("begin", Action::Write(set_variable("conversation", WriteOp::Set, first))));
        if reads {
            let task = self.mail_task(id, step, MailCheck::First, 0);
            tasks.push(task);
        }
        let ask = tasks.len() as u32;
        let positions = TaskPositions { ask, next: if reads { ask + 2 } else { ask }, last: reads.then_some(ask + 3) };
        let asks = self.ask_task(step, &positions, writes, here);
        tasks.push(asks);
        let acts = self.act_task(id, step, &positions, writes);
        tasks.push(acts);
        if reads {
            let looks = [MailCheck::Between, MailCheck::Last].map(|check| self.mail_task(id, step, check, ask));
            tasks.extend(looks);
        }
        self.pipeline(id, tasks);
        let output = self.agent_function("agent_output", span);
        let wakes = self.options.limits.max_agent_wakes;
        let node = self.get(id);
        node.hidden = step.hidden;
        node.scope = true;
        node.meters_usage = true;
        node.timeout = step.time.and_then(step_timeout);
        node.output = Some(output);
        node.mailbox = reads.then(|| Mailbox { wakes, closed: "target-terminal".into() });
        id
    }

    fn files_task(&mut self, step: &AgentStep<'_>, here: &StepContext<'_>) -> Task {
        let context_folder = match &self.options.context_files {
            ContextFiles::In(folder) => Some(folder.as_path()),
            _ => here.document.folder.as_deref(),
        };
        let input = Value::object([
            ("folder", path_value(context_folder)),
            ("paths", text_list(step.files.iter().map(|path| &path.value))),
            ("lenient", Value::Bool(here.document.extensions.lenient_files)),
        ]);
        let input = self.value(input, step.span);
        let (ok, given) = (self.ok(step.span), self.agent_function("task_result", step.span));
        let rules = vec![rule(Some(ok), Directive::Continue, vec![set_variable("files", WriteOp::Set, given)])];
        Task { label: "files".into(), rules, ..Task::new(Action::Effect(Effect::new("agent_files", input))) }
    }

    pub(crate) fn ok(&mut self, span: Span) -> windlass_core::plan::ExprId {
        self.condition::<&str>("task_succeeded", [], span)
    }

    /// Builds a mail check. Afterwards the model is called, unless there was no mail and the agent is done.
    fn mail_task(&mut self, id: NodeId, step: &AgentStep<'_>, check: MailCheck, ask: u32) -> Task {
        let span = step.span;
        let name = match check {
            MailCheck::First => "first-mail",
            MailCheck::Between => "mail",
            MailCheck::Last => "last-mail",
        };
        let wait = self.add_hidden_node(&format!("{}#{name}", step.name), "mail", Some(id), span);
        // Between turns the wait is short, so that a hanging coordinator does not delay a step again and again: replies
        // to recent messages mostly arrive immediately. The last check does not wait at all.
        let hold = match check {
            MailCheck::First => Some(self.options.limits.max_coordinator_hold),
            MailCheck::Between => Some(Duration(self.options.limits.max_coordinator_hold.0 / BETWEEN_DIVISOR)),
            MailCheck::Last => None,
        };
        let settles = hold.filter(|_| self.coordinated).map(|hold| (Arc::from(COORDINATOR), hold));
        self.get(wait).kind = NodeKind::Wait(Wait::Mail { blocks: false, after_idle: settles });
        let truth = self.value(Value::Bool(true), span);
        let letters = self.agent_function("incoming_messages", span);
        let cancel = self.condition("mail_is", [("is", Value::from("cancel"))], span);
        let mut some = vec![("is", Value::from("some"))];
        some.extend(
            (check == MailCheck::Last)
                .then(|| ("turns", Value::from(step.turns(self.options.limits.default_agent_turns)))),
        );
        let some = self.condition("mail_is", some, span);
        let mut append_mail = vec![set_variable("conversation", WriteOp::Extend, letters)];
        if check == MailCheck::Last && !step.accept.is_empty() {
            // The accepted reply is not the last one: the next decides how the step ends.
            append_mail.push(set_variable("stop", WriteOp::Set, self.value(Value::Null, span)));
        }
        let on = if check == MailCheck::First { Directive::Continue } else { Directive::Jump(ask) };
        let rules = vec![
            rule(Some(cancel), Directive::Break, vec![set_variable("cancelled", WriteOp::Set, truth)]),
            rule(Some(some), on.clone(), append_mail),
            TaskRule::new(if check == MailCheck::Last { Directive::Break } else { on }),
        ];
        Task { rules, ..hidden_task("mail", Action::Node(wait)) }
    }

    fn ask_task(
        &mut self,
        step: &AgentStep<'_>,
        positions: &TaskPositions,
        mail: bool,
        here: &StepContext<'_>,
    ) -> Task {
        let span = step.span;
        let schema = step.schema();
        let tool = schema.map(|_| Value::from(SUBMIT_RESULT));
        let mut offered: Vec<Value> = schema.map(submit_result).into_iter().collect();
        offered.extend(mail.then(send_message));
        let checked = Value::list(mail.then(send_message).into_iter().collect());
        let fixed = self.fixed_request(step, offered);
        let (request, reserves) = self.model_request(fixed, tool.clone(), here, span);
        let is = |planner: &mut Self, is: &str| {
            let settings = [
                ("is", Value::from(is)),
                ("turns", Value::from(step.turns(self.options.limits.default_agent_turns))),
                ("tool", tool.clone().unwrap_or_default()),
                ("accept", Value::list(step.accept.iter().map(|stop| Value::from(stop.name())).collect())),
                ("result_attempts", Value::from(step.result_attempts(self.options.limits.default_result_attempts))),
            ];
            Some(planner.condition("next_action_is", settings, span))
        };
        let append_reply = set_variable("conversation", WriteOp::AppendItem, self.agent_function("assistant", span));
        let mut kept = vec![append_reply.clone(), set_variable("calls", WriteOp::Set, self.keep_calls(checked, span))];
        if schema.is_some() {
            let submitted = self.agent_expression(
                "submitted_result",
                [("tool", Value::from(SUBMIT_RESULT))],
                ExpressionMode::Value,
                span,
            );
            kept.push(set_variable("result", WriteOp::Set, submitted));
            kept.push(self.count_rejections(span));
        }
        let mut rules = Vec::new();
        if schema.is_some() {
            rules.push(rule(is(self, "submitted"), Directive::Break, kept.clone()));
        }
        rules.push(rule(is(self, "act"), Directive::Continue, kept.clone()));
        if schema.is_some() {
            let forced = self.agent_expression(
                "demand_result",
                [("tool", Value::from(SUBMIT_RESULT))],
                ExpressionMode::Value,
                span,
            );
            let demands = self.agent_function("next_demand_count", span);
            let writes = vec![
                set_variable("conversation", WriteOp::Extend, forced),
                set_variable("demands", WriteOp::Set, demands),
                self.count_rejections(span),
            ];
            rules.push(rule(is(self, "force"), Directive::Jump(positions.ask), writes));
            let error = [("code", Value::from("NoResult")), ("tool", Value::from(SUBMIT_RESULT))];
            let error = Some(self.agent_expression("missing_result_error", error, ExpressionMode::Value, span));
            let fails = Directive::Fail { status: Status::Failed, error };
            rules.push(rule(is(self, "no_result"), fails, vec![append_reply.clone()]));
        }
        let message = format!(
            "the agent still calls tools after {} turns; raise its maxTurns if it needs more",
            step.turns(self.options.limits.default_agent_turns)
        );
        let fails = self.failure("TurnLimit", message, span);
        rules.push(rule(is(self, "turn_limit"), fails, vec![append_reply]));
        let over = positions.last.map_or(Directive::Break, Directive::Jump);
        rules.extend(self.no_answer_rules(step, positions, &kept, is));
        rules.push(rule(is(self, "over"), over, kept));
        let effect = Effect { reservation: reserves, ..Effect::new("agent_model", request) };
        let retry = call_retry(step.call_retries);
        Task { label: "ask".into(), rules, retry, ..Task::new(Action::Effect(effect)) }
    }

    /// Counts the replies with an invalid result.
    fn count_rejections(&mut self, span: Span) -> VariableUpdate {
        let tool = [("tool", Value::from(SUBMIT_RESULT))];
        let count = self.agent_expression("rejection_count", tool, ExpressionMode::Value, span);
        set_variable("rejections", WriteOp::Set, count)
    }

    /// Returns the rules for replies that are no answer: the model is asked to continue, or the step ends, as failed
    /// unless it accepts the stop.
    fn no_answer_rules(
        &mut self,
        step: &AgentStep<'_>,
        positions: &TaskPositions,
        kept: &[VariableUpdate],
        is: impl Fn(&mut Self, &str) -> Option<ExprId>,
    ) -> Vec<TaskRule> {
        let span = step.span;
        let continues = self.continue_writes(span);
        let stop = set_variable("stop", WriteOp::Set, self.agent_function("stop_name", span));
        let ends: Vec<VariableUpdate> = kept.iter().cloned().chain([stop]).collect();
        let error = Some(self.agent_function("no_answer_error", span));
        let accepted = positions.last.map_or(Directive::Break, Directive::Jump);
        let mut rules = vec![rule(is(self, "continue"), Directive::Jump(positions.ask), continues)];
        if !step.accept.is_empty() {
            rules.push(rule(is(self, "accept"), accepted, ends.clone()));
        }
        rules.push(rule(is(self, "no_answer"), Directive::Fail { status: Status::Failed, error }, ends));
        rules
    }

    /// Asks the model to continue its reply.
    pub(super) fn continue_writes(&mut self, span: Span) -> Vec<VariableUpdate> {
        vec![
            set_variable("conversation", WriteOp::Extend, self.agent_function("continue_reply", span)),
            set_variable("continued", WriteOp::Set, self.agent_function("next_continuation", span)),
        ]
    }

    /// Builds the request to a model, and what it reserves under a budget.
    pub(crate) fn model_request(
        &mut self,
        fixed: Value,
        tool: Option<Value>,
        here: &StepContext<'_>,
        span: Span,
    ) -> (ExprId, Option<ExprId>) {
        let reply = self.reply_room(&fixed, here);
        let mut request = vec![("fixed", fixed), ("tool", tool.unwrap_or_default())];
        request.extend(reply.clone().map(|reply| ("reply", Value::object(reply))));
        let request = self.agent_expression("request", request, ExpressionMode::Value, span);
        let reserves = reply.map(|reply| self.agent_expression("reserve", reply, ExpressionMode::Value, span));
        (request, reserves)
    }

    /// Returns the constant part of a request.
    fn fixed_request(&self, step: &AgentStep<'_>, offered: Vec<Value>) -> Value {
        let (allow, deny) = step.allowed();
        let model = step.model.or(step.agent.and_then(|agent| agent.model.as_ref()));
        let model = self.model(model.map(|model| model.as_str()));
        let price = self.price(model.as_deref());
        let number = |number: Option<Spanned<f64>>| number.and_then(|number| Value::float(number.value));
        let tools = Value::object([("allow", allow), ("deny", deny), ("own", Value::list(offered))]);
        let fixed = [
            ("model", Value::from(model)),
            ("system", step.system()),
            ("tools", tools),
            ("result", step.schema().map_or(Value::Null, required_result)),
            ("temperature", Value::from(number(step.agent.and_then(|agent| agent.temperature)))),
            ("top_p", Value::from(number(step.agent.and_then(|agent| agent.top_p)))),
            ("price", price),
            ("role", Value::from(step.role)),
        ];
        Value::object(fixed)
    }

    /// Executes the calls of a reply concurrently and passes their answers to the model.
    fn act_task(&mut self, id: NodeId, step: &AgentStep<'_>, positions: &TaskPositions, mail: bool) -> Task {
        let span = step.span;
        let calls = self.calls_of_step(id, step, mail);
        let append_answers =
            vec![set_variable("conversation", WriteOp::AppendItem, self.agent_function("answers_message", span))];
        let mut rules = Vec::new();
        if step.schema().is_some() {
            let finished = self.condition("has_valid_call", [("tool", Value::from(SUBMIT_RESULT))], span);
            rules.push(rule(Some(finished), Directive::Break, append_answers.clone()));
        }
        let mut continues = append_answers.clone();
        let turns = step.repeated_calls(self.options.limits.default_repeated_calls);
        if turns > 0 {
            rules.push(self.stalled_rule(step, positions, turns, append_answers));
            let repeats = self.agent_function("repeat_count", span);
            continues.push(set_variable("repeats", WriteOp::Set, repeats));
        }
        let ok = self.ok(span);
        rules.push(rule(Some(ok), Directive::Jump(positions.next), continues));
        Task { label: "act".into(), rules, ..Task::new(Action::Node(calls)) }
    }

    /// Ends a step whose agent makes the same calls with the same results again and again.
    fn stalled_rule(
        &mut self,
        step: &AgentStep<'_>,
        positions: &TaskPositions,
        turns: u64,
        mut writes: Vec<VariableUpdate>,
    ) -> TaskRule {
        let (span, settings) = (step.span, [("turns", Value::from(turns))]);
        let except = step.schema().map_or(Value::Null, |_| Value::from(SUBMIT_RESULT));
        let stalled = self.condition("is_stalled", settings.iter().cloned().chain([("except", except)]), span);
        let stop = self.value(Value::from(ReplyStop::Stalled.name()), span);
        writes.push(set_variable("stop", WriteOp::Set, stop));
        let ends = match step.accept.contains(&ReplyStop::Stalled) {
            true => positions.last.map_or(Directive::Break, Directive::Jump),
            false => {
                let error = Some(self.agent_expression("stalled_error", settings, ExpressionMode::Value, span));
                Directive::Fail { status: Status::Failed, error }
            }
        };
        rule(Some(stalled), ends, writes)
    }
}

/// The setting for the result that an agent must submit.
pub(super) fn required_result(schema: &Value) -> Value {
    Value::object([("tool", Value::from(SUBMIT_RESULT)), ("schema", schema.clone())])
}

/// Returns the retry policy of a model call.
pub(super) fn call_retry(retries: u64) -> Option<Retry> {
    let backoff = Backoff {
        interval: Amount::Fixed(Duration::from_secs(2)),
        growth: Growth::Exponential(2.0),
        min: None,
        max: Some(Duration::from_secs(60)),
        jitter: Jitter::Add(0.1),
    };
    let on = RETRY_ON.map(Arc::from).to_vec();
    (retries > 0).then_some(Retry { attempts: Amount::Fixed(retries.saturating_add(1)), backoff, on, window: None })
}
