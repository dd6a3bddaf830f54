//! A workflow that was read and checked. Every part has its location in its file. Values that the author left out are
//! still missing here; the planner decides on their defaults.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_core::plan::Trigger;
use windlass_syntax::{SourceText, Span, SpannedText};
use windlass_value::{Duration, Map, Value};

use crate::options::ZenflowOptions;

/// A value and the bytes of the file it was written in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

impl<T> Spanned<T> {
    pub(crate) fn new(value: T, span: Span) -> Spanned<T> {
        Spanned { value, span }
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// One file. All spans refer to its own `source`, also if another file includes it.
#[derive(Clone, Debug)]
pub struct WorkflowDocument {
    pub source: SourceText,
    /// The folder of the file, absolute, links resolved; context files are searched in it. `None` if it is unknown.
    pub folder: Option<PathBuf>,
    pub span: Span,
    pub name: Spanned<String>,
    pub description: Option<Spanned<String>>,
    /// In the order of the file.
    pub agents: Vec<AgentDefinition>,
    /// In the order of the file, at least one.
    pub steps: Vec<ZenflowStep>,
    pub options: FlowOptions,
    pub extensions: Extensions,
}

impl WorkflowDocument {
    pub(crate) fn agent(&self, name: &str) -> Option<&AgentDefinition> {
        self.agents.iter().find(|agent| *agent.name == name)
    }

    pub(crate) fn step(&self, id: &str) -> Option<&ZenflowStep> {
        self.steps.iter().find(|step| *step.id == id)
    }

    /// Returns the model of a step without loop and include. `None` if nothing selects one.
    pub(crate) fn model_of(&self, step: &ZenflowStep, options: &ZenflowOptions) -> Option<String> {
        let agent = step.agent.as_ref().and_then(|agent| self.agent(agent));
        let own = step.model.as_ref().or_else(|| agent.and_then(|agent| agent.model.as_ref()));
        options.model.clone().or_else(|| own.map(|own| own.value.clone())).or_else(|| options.default_model.clone())
    }

    /// Returns the model of an agent that judges a loop.
    pub(crate) fn judge_model(&self, agent: &str, options: &ZenflowOptions) -> Option<String> {
        let own = self.agent(agent).and_then(|agent| agent.model.as_ref()).map(|model| model.value.clone());
        options.model.clone().or(own).or_else(|| options.default_model.clone())
    }

    /// Returns whether a coordinator passes messages on. The options decide, else the file; if both are `auto`, there
    /// is one if the document mentions the tool `send_message`.
    pub(crate) fn has_coordinator(&self, options: &ZenflowOptions) -> bool {
        let own = self.extensions.coordinator.mode.as_ref().map(|mode| mode.value);
        let mode = match options.coordinator {
            CoordinatorMode::Auto => own.unwrap_or_default(),
            other => other,
        };
        match mode {
            CoordinatorMode::On => true,
            CoordinatorMode::Off => false,
            CoordinatorMode::Auto => self.mentions(SEND_MESSAGE),
        }
    }

    /// Returns whether a text for a model or a list of tools mentions a tool, also in included files.
    fn mentions(&self, tool: &str) -> bool {
        let text = |text: Option<&Spanned<String>>| text.is_some_and(|text| text.contains(tool));
        let of_agent = |agent: &AgentDefinition| {
            text(Some(&agent.description))
                || text(agent.prompt.as_ref())
                || agent.tools.iter().flatten().any(|name| name.value == tool)
        };
        let of_step = |step: &ZenflowStep| {
            let included = step.include.as_ref().and_then(|include| include.document.as_ref());
            text(step.instructions.as_ref()) || included.is_some_and(|document| document.mentions(tool))
        };
        self.agents.iter().any(of_agent) || self.all_steps().any(of_step)
    }

    /// Returns all steps of this file, those inside a loop after its step; does not look into included files.
    pub(crate) fn all_steps(&self) -> impl Iterator<Item = &ZenflowStep> {
        self.steps.iter().flat_map(|step| std::iter::once(step).chain(step.inner()))
    }
}

const SEND_MESSAGE: &str = "send_message";

#[derive(Clone, Debug)]
pub struct AgentDefinition {
    pub span: Span,
    pub name: Spanned<String>,
    pub description: Spanned<String>,
    /// The system prompt. `@path` is resolved to the file's text.
    pub prompt: Option<Spanned<String>>,
    pub model: Option<Spanned<String>>,
    /// The only permitted tools. `None` or empty: all.
    pub tools: Option<Vec<Spanned<String>>>,
    pub disallowed_tools: Vec<Spanned<String>>,
    /// The maximum number of model calls. `None` or 0: the default.
    pub max_turns: Option<Spanned<u64>>,
    pub temperature: Option<Spanned<f64>>,
    pub top_p: Option<Spanned<f64>>,
    /// An object that is a valid JSON Schema (2020-12).
    pub result_schema: Option<Spanned<Value>>,
    /// `x-windlass`: the number of replies with an invalid result.
    pub max_result_attempts: Option<Spanned<u64>>,
    /// `x-windlass`: the number of turns in a row with the same calls and results. 0: any number.
    pub max_repeated_calls: Option<Spanned<u64>>,
}

#[derive(Clone, Debug)]
pub struct ZenflowStep {
    pub span: Span,
    pub id: Spanned<String>,
    /// The name of an agent in the same file. `None`: the default agent.
    pub agent: Option<Spanned<String>>,
    /// `@path` is resolved to the file's text.
    pub instructions: Option<Spanned<String>>,
    /// Ids of siblings, each once.
    pub depends_on: Vec<Spanned<String>>,
    /// As written: relative to the folder of the document, never out of it.
    pub context_files: Vec<Spanned<String>>,
    pub model: Option<Spanned<String>>,
    pub timeout: Option<Spanned<Duration>>,
    /// Retries of the whole step.
    pub retries: Option<Spanned<u64>>,
    /// Retries of one model call.
    pub max_retries: Option<Spanned<u64>>,
    pub condition: Option<CelSource>,
    pub include: Option<Include>,
    pub repeat: Option<ZenflowLoop>,
    /// `x-windlass`
    pub budget: Option<ZenflowBudget>,
    /// `x-windlass`: the step is a run of another definition.
    pub call: Option<DefinitionCall>,
    /// `x-windlass`: replies that are no answer and nevertheless complete the step.
    pub accept: Vec<ReplyStop>,
}

/// The end of an agent's work without a complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyStop {
    /// Cut off at its maximum length.
    Length,
    /// Refused by the model.
    Refusal,
    /// Withheld by the service.
    Filtered,
    Empty,
    /// The agent makes the same calls with the same results again and again.
    Stalled,
}

impl ReplyStop {
    pub(crate) const ALL: [(&'static str, ReplyStop); 5] = [
        ("length", ReplyStop::Length),
        ("refusal", ReplyStop::Refusal),
        ("filtered", ReplyStop::Filtered),
        ("empty", ReplyStop::Empty),
        ("stalled", ReplyStop::Stalled),
    ];

    pub(crate) fn name(self) -> &'static str {
        ReplyStop::ALL.iter().find(|(_, stop)| *stop == self).map_or("", |(name, _)| name)
    }
}

/// A child run of a definition in any dialect.
#[derive(Clone, Debug)]
pub struct DefinitionCall {
    pub span: Span,
    /// The name of the definition in the engine, or its file next to this one without the extension.
    pub definition: Spanned<String>,
    pub input: CallInput,
}

/// A value that is computed before a run exists: the input of a child run, or a label.
#[derive(Clone, Debug)]
pub enum CallInput {
    /// A literal value.
    Literal(Spanned<Value>),
    /// An expression that evaluates to the value.
    Cel(CelSource),
}

impl CallInput {
    /// Returns the expression, if it is one.
    pub(crate) fn as_cel_mut(&mut self) -> Option<&mut CelSource> {
        match self {
            CallInput::Cel(cel) => Some(cel),
            CallInput::Literal(_) => None,
        }
    }
}

impl ZenflowStep {
    /// Returns whether an agent does the step itself.
    pub(crate) fn is_agent(&self) -> bool {
        self.inner().is_empty() && self.include.is_none() && self.call.is_none()
    }

    /// Returns the steps inside its loop.
    pub(crate) fn inner(&self) -> &[ZenflowStep] {
        self.repeat.as_ref().map_or(&[], |repeat| &repeat.steps)
    }
}

#[derive(Clone, Debug)]
pub struct Include {
    /// A key of `includes`, or a path.
    pub target: Spanned<String>,
    /// The file, absolute. `None` if the folder is unknown.
    pub path: Option<PathBuf>,
    /// The checked content. `None` only if the file is missing and
    /// [`ZenflowOptions::strict_files`](crate::ZenflowOptions) is off; such a workflow is not run.
    pub document: Option<Arc<WorkflowDocument>>,
}

#[derive(Clone, Debug)]
pub struct ZenflowLoop {
    pub span: Span,
    pub mode: LoopMode,
    pub output_mode: Option<Spanned<OutputMode>>,
    /// Empty: the step itself is repeated.
    pub steps: Vec<ZenflowStep>,
    /// `x-windlass`
    pub budget: Option<ZenflowBudget>,
    /// `x-windlass`: the number of iterations without a verdict that the loop tolerates.
    pub max_unjudged: Option<Spanned<u64>>,
}

#[derive(Clone, Debug)]
pub enum LoopMode {
    ForEach {
        items: ForEachItems,
        /// `None` or 0: no limit of the workflow's own; the engine's limit applies.
        max_concurrency: Option<Spanned<u64>>,
    },
    Repeat {
        /// At least 1.
        max_iterations: Spanned<u64>,
        until: Option<CelSource>,
        /// An agent of the same file whose result has a required boolean `done`.
        until_agent: Option<Spanned<String>>,
        delay: Option<Spanned<Duration>>,
    },
}

#[derive(Clone, Debug)]
pub enum ForEachItems {
    /// A list with at least one item.
    Literal(Spanned<Value>),
    Cel(CelSource),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    /// Also written as the empty text.
    Last,
    Cumulative,
}

/// A CEL expression that compiles, and the names it can use.
#[derive(Clone, Debug)]
pub struct CelSource {
    pub text: String,
    pub span: Span,
    /// The source positions of its characters, for diagnostics.
    pub(crate) written: SpannedText,
    /// Ids that `steps.<id>` may mean, inner ones first: steps that have certainly ended, and those it names itself.
    pub steps: Vec<String>,
    /// The enclosing loop step, if there is one; in `until` the step of the loop itself.
    pub enclosing_loop: Option<String>,
    /// The bare names in scope: `iteration`, `item`, `index`, `content`, `result`, `status`, `stop`, `inputs`.
    pub binds: Vec<&'static str>,
}

impl CelSource {
    pub(crate) fn new(written: &SpannedText, span: Span) -> CelSource {
        let (text, written) = (written.text.clone(), written.clone());
        CelSource { text, span, written, steps: Vec::new(), enclosing_loop: None, binds: Vec::new() }
    }

    /// Returns the source for the language `cel`.
    pub fn source(&self) -> Value {
        let texts = |texts: &mut dyn Iterator<Item = &str>| Value::list(texts.map(Value::from).collect());
        let entries = [
            ("cel", Value::from(self.text.as_str())),
            ("steps", texts(&mut self.steps.iter().map(String::as_str))),
            ("loop", self.enclosing_loop.as_deref().map_or(Value::Null, Value::from)),
            ("binds", texts(&mut self.binds.iter().copied())),
        ];
        Value::map(entries.into_iter().collect::<Map>())
    }
}

#[derive(Clone, Debug, Default)]
pub struct FlowOptions {
    /// `None` or 0: the default.
    pub max_concurrency: Option<Spanned<u64>>,
    pub on_step_failure: Option<Spanned<FailureStrategy>>,
    /// The timeout of the whole run. 0: none.
    pub timeout: Option<Spanned<Duration>>,
    /// The timeout of each step that sets none. 0: none.
    pub step_timeout: Option<Spanned<Duration>>,
    pub isolation: Option<Spanned<String>>,
    pub scheduler: Option<Spanned<StepScheduler>>,
    /// The retries of each step that sets none.
    pub max_retries: Option<Spanned<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureStrategy {
    Cascade,
    SkipDependents,
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepScheduler {
    DependencyFirst,
    RoundRobin,
    LeastBusy,
}

/// The `x-windlass` section of a file.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    pub budget: Option<ZenflowBudget>,
    /// The inputs of the run and their defaults.
    pub inputs: Vec<(Spanned<String>, Value)>,
    pub coordinator: CoordinatorSettings,
    /// Missing context files are reported to the model instead of failing the step.
    pub lenient_files: bool,
    /// The triggers of the workflow. Triggers of included files start nothing.
    pub triggers: Vec<Trigger>,
    /// Labels of the runs, by name. Labels of included files have no effect.
    pub labels: Vec<(Arc<str>, CallInput)>,
}

#[derive(Clone, Debug, Default)]
pub struct CoordinatorSettings {
    pub mode: Option<Spanned<CoordinatorMode>>,
    pub model: Option<Spanned<String>>,
    /// `@path` is resolved to the file's text.
    pub prompt: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoordinatorMode {
    /// On if the document mentions the tool `send_message`.
    #[default]
    Auto,
    On,
    Off,
}

/// Optional budget limits.
#[derive(Clone, Debug)]
pub struct ZenflowBudget {
    pub span: Span,
    pub tokens: Option<Spanned<u64>>,
    /// In millionths of the currency unit.
    pub money: Option<Spanned<u64>>,
    pub calls: Option<Spanned<u64>>,
    pub time: Option<Spanned<Duration>>,
    /// The maximum tokens of one reply, applied only under a budget of tokens or money.
    pub reply: Option<Spanned<u64>>,
}
