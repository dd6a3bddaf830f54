//! The tool `agent_tool`: executes one tool call that a model has requested.
//!
//! Every result becomes a text for the model, including refusals and failures, so that the step continues. Only a
//! cancelled call ends as an error.

use std::path::PathBuf;
use std::sync::Arc;

use windlass_core::{ErrorInfo, EventKind, PermissionDecision, TaskOutcome};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_syntax::nearest;
use windlass_tools::{ToolInfo, field, required};
use windlass_value::{Map, Value, to_json};

use crate::files::WorkFolder;
use crate::permission::{Permission, PermissionRequest, PermissionVerdict, SANDBOX_TOOLS};
use crate::redact;
use crate::registry::{ToolImplementation, ToolRegistry};
use crate::secrets;
use crate::text::{escape_invisible, head_and_tail, truncate_chars};
use crate::tool::{AgentCall, ToolAnswer};

/// Longer arguments are published as a shortened JSON text.
const MAX_EVENT_BYTES: usize = 4 << 10;
const MAX_REASON_CHARS: usize = 300;

pub const AGENT_TOOL: ToolInfo = ToolInfo {
    name: "agent_tool",
    description: "Executes a tool call of a model; denials and failures are returned to the model as text.",
    inputs: &[
        required("tool", "text", "the name of the tool"),
        field("arguments", "object", "the arguments of the call"),
        field("allow", "array of text", "the tools that the agent may call; all if not given or empty"),
        field("deny", "array of text", "the tools that it must not call"),
        field(
            "folder",
            "text",
            "the folder that the agent works in, an absolute path; tools for files and programs need it",
        ),
    ],
    outputs: &[
        field("content", "text", "the answer to the model"),
        field("error", "boolean", "the call was denied or has failed"),
    ],
    errors: &[("input", "the task itself is wrong"), ("cancelled", "the call was cancelled")],
};

/// Calls the tools of a registry, subject to a [`Permission`].
#[derive(Clone)]
pub struct AgentToolCaller(Arc<ToolCallerInner>);

struct ToolCallerInner {
    registry: Arc<ToolRegistry>,
    permission: Arc<dyn Permission>,
}

impl AgentToolCaller {
    pub fn new(registry: Arc<ToolRegistry>, permission: Arc<dyn Permission>) -> AgentToolCaller {
        AgentToolCaller(Arc::new(ToolCallerInner { registry, permission }))
    }
}

impl Tool for AgentToolCaller {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let inner = self.0.clone();
        Box::pin(async move {
            let mut cancelled = call.cancelled.clone();
            tokio::select! {
                biased;
                () = cancelled.wait() => TaskOutcome::failure(ErrorInfo::new("Cancelled", "cancelled", "the tool's call was cancelled")),
                outcome = inner.run(call) => outcome,
            }
        })
    }
}

/// The parsed input of one `agent_tool` task.
struct ToolRequest {
    tool: String,
    arguments: Value,
    allow: Vec<String>,
    deny: Vec<String>,
    folder: PathBuf,
}

impl ToolCallerInner {
    async fn run(&self, call: ToolCall) -> TaskOutcome {
        let tool_request = match ToolRequest::parse(&call.input) {
            Ok(tool_request) => tool_request,
            Err(error) => return TaskOutcome::failure(error),
        };
        match self.execute(tool_request, call).await {
            Ok(answer) => {
                let content = self.registry.secrets().redact_text(&answer.content);
                self.to_outcome(ToolAnswer { content, ..answer })
            }
            Err(unfinished) => {
                let output = secrets::redact_known(self.registry.secrets(), &unfinished.output);
                TaskOutcome { output, ..*unfinished }
            }
        }
    }

    /// Executes the call. The error is an outcome for the engine: either of a tool that is not finished and must be
    /// called again, or of a finished tool with side outputs.
    async fn execute(&self, tool_request: ToolRequest, mut call: ToolCall) -> Result<ToolAnswer, Box<TaskOutcome>> {
        if !tool_request.may_call(&tool_request.tool) {
            return Ok(ToolAnswer::error(self.not_allowed_message(&tool_request)));
        }
        call.input = match &tool_request.arguments {
            Value::Null => Value::map(Map::new()),
            arguments @ Value::Map(_) => arguments.clone(),
            other => return Ok(ToolAnswer::error(format!("the arguments are {}, not an object", other.kind()))),
        };
        if let Some(entry) = self.registry.find_local(&tool_request.tool) {
            if let Err(problem) = entry.schema.check(&call.input).await {
                return Ok(ToolAnswer::error(schema_violation(&tool_request.tool, &problem)));
            }
            if !entry.trusted
                && let Err(refusal) = self.ask_permission(&tool_request, &call).await
            {
                return Ok(refusal);
            }
            self.publish_call(&tool_request.tool, &call);
            let protected = self.registry.protected().clone();
            return match entry.implementation.clone() {
                ToolImplementation::Agent(tool) => {
                    Ok(tool.call(AgentCall { folder: tool_request.folder, protected, call }).await)
                }
                ToolImplementation::Engine(tool) => self.engine_tool_answer(tool.call(call).await),
            };
        }
        match self.registry.servers().find(&tool_request.tool).await {
            Ok(Some(offered)) => {
                if let Err(problem) = offered.check(&call.input).await {
                    return Ok(ToolAnswer::error(schema_violation(&tool_request.tool, &problem)));
                }
                if let Err(refusal) = self.ask_permission(&tool_request, &call).await {
                    return Ok(refusal);
                }
                self.publish_call(&tool_request.tool, &call);
                Ok(offered.call(&call).await)
            }
            Ok(None) => Ok(ToolAnswer::error(self.unknown_tool_message(&tool_request))),
            Err(problem) => Ok(ToolAnswer::error(problem)),
        }
    }

    /// Asks for permission. Asks again after a crash, but not when a tool only continues after a suspension.
    async fn ask_permission(&self, tool_request: &ToolRequest, call: &ToolCall) -> Result<(), ToolAnswer> {
        let tool = tool_request.tool.as_str();
        if call.is_continuation || call.resumed.as_ref().is_some_and(|resumed| !resumed.answers.is_empty()) {
            return Ok(());
        }
        let resolved_paths = self.resolve_paths(tool_request, call).await;
        let request =
            PermissionRequest { tool, step: &call.path, arguments: &call.input, resolved_paths: &resolved_paths };
        let decision = self.permission.decide(&request).await;
        let publish = |decision: PermissionDecision, reason: Option<&str>| {
            let tool = truncate_chars(&escape_invisible(tool), 100).into();
            let reason = reason.map(|reason| truncate_chars(reason, MAX_REASON_CHARS).into());
            call.publish.event(&EventKind::AgentPermission { tool, decision, reason });
        };
        match decision {
            PermissionVerdict::Allowed => Ok(()),
            PermissionVerdict::Granted { always } => {
                publish(if always { PermissionDecision::Always } else { PermissionDecision::Allowed }, None);
                Ok(())
            }
            PermissionVerdict::Denied(sentence) => {
                publish(PermissionDecision::Denied, Some(&sentence));
                Err(ToolAnswer::error(sentence))
            }
        }
    }

    /// Publishes the call that is about to be made, without secrets.
    fn publish_call(&self, tool: &str, call: &ToolCall) {
        if call.resumed.is_some() || call.is_continuation {
            return;
        }
        let mut arguments = redact::redact_for_event(&secrets::redact_known(self.registry.secrets(), &call.input));
        if arguments.size_up_to(MAX_EVENT_BYTES) > MAX_EVENT_BYTES {
            arguments = Value::from(truncate_chars(&to_json(&arguments), MAX_EVENT_BYTES / 4));
        }
        call.publish.event(&EventKind::AgentTool { tool: tool.into(), arguments });
    }

    /// Resolves the path argument of a file tool, so that rules match the file however its path is spelled.
    async fn resolve_paths(&self, tool_request: &ToolRequest, call: &ToolCall) -> Vec<String> {
        let path = call
            .input
            .get("path")
            .and_then(Value::as_str)
            .filter(|_| SANDBOX_TOOLS.contains(&tool_request.tool.as_str()));
        let Some(path) = path.map(str::to_owned) else { return Vec::new() };
        let (given, protected) = (tool_request.folder.clone(), self.registry.protected().clone());
        let looking = tokio::task::spawn_blocking(move || {
            let folder = WorkFolder::open(&given, &protected).ok()?;
            let inside = folder.resolve(&path)?;
            let whole = [folder.path(), &given].map(|folder| folder.join(&inside).to_string_lossy().into_owned());
            Some([vec![inside.to_string_lossy().into_owned()], whole.to_vec()].concat())
        });
        looking.await.ok().flatten().unwrap_or_default()
    }

    fn not_allowed_message(&self, tool_request: &ToolRequest) -> String {
        let known = self.registry.known_names();
        if !known.contains(&tool_request.tool) {
            return self.unknown_tool_message(tool_request);
        }
        let usable: Vec<String> = known.into_iter().filter(|name| tool_request.may_call(name)).collect();
        format!("this agent may not call `{}`; {}", tool_request.display_name(), list_names(&usable))
    }

    fn unknown_tool_message(&self, tool_request: &ToolRequest) -> String {
        let usable: Vec<String> =
            self.registry.known_names().into_iter().filter(|name| tool_request.may_call(name)).collect();
        let near = nearest(&tool_request.tool, usable.iter().map(String::as_str));
        let hint = near.map_or_else(|| list_names(&usable), |near| format!("did you mean `{near}`?"));
        format!("there is no tool `{}`; {hint}", tool_request.display_name())
    }
}

fn list_names(names: &[String]) -> String {
    match names {
        [] => "it may call none".to_owned(),
        names => format!("available tools: {}", truncate_chars(&names.join(", "), 1000)),
    }
}

impl ToolRequest {
    fn parse(input: &Value) -> Result<ToolRequest, ErrorInfo> {
        let bad =
            |what: &str| ErrorInfo::new("BadInput", "input", format!("{what} of `agent_tool` is missing or wrong"));
        let text = |name: &str| input.get(name).and_then(Value::as_str).ok_or_else(|| bad(&format!("`{name}`")));
        let names = |name: &str| -> Result<Vec<String>, ErrorInfo> {
            match input.get(name) {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(Value::List(names)) => {
                    let names: Option<Vec<String>> =
                        names.iter().map(|name| name.as_str().map(str::to_owned)).collect();
                    names.ok_or_else(|| bad(&format!("`{name}`")))
                }
                Some(_) => Err(bad(&format!("`{name}`"))),
            }
        };
        Ok(ToolRequest {
            tool: text("tool")?.to_owned(),
            arguments: input.get("arguments").cloned().unwrap_or_default(),
            allow: names("allow")?,
            deny: names("deny")?,
            folder: match input.get("folder") {
                None | Some(Value::Null) => PathBuf::new(),
                Some(_) => PathBuf::from(text("folder")?),
            },
        })
    }

    fn may_call(&self, tool: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == tool);
        (self.allow.is_empty() || named(&self.allow)) && !named(&self.deny)
    }

    fn display_name(&self) -> String {
        truncate_chars(&escape_invisible(&self.tool), 100)
    }
}

fn schema_violation(tool: &str, problem: &str) -> String {
    format!("the arguments do not match the schema of `{tool}`: {problem}")
}

impl ToolCallerInner {
    /// Converts the outcome of an engine tool to an answer, unless the tool is not finished.
    fn engine_tool_answer(&self, outcome: TaskOutcome) -> Result<ToolAnswer, Box<TaskOutcome>> {
        match outcome {
            TaskOutcome { error: Some(error), .. } => {
                let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                Ok(ToolAnswer::error(format!("{}{hint}", error.message)))
            }
            unfinished if unfinished.next_call.is_some() || unfinished.suspension.is_some() => {
                Err(Box::new(unfinished))
            }
            // A finished tool: its side outputs must reach the engine together with its answer.
            done @ TaskOutcome { side_outputs: Some(_), .. } => {
                let answer = ToolAnswer::success(answer_text(&done.output));
                Err(Box::new(TaskOutcome { side_outputs: done.side_outputs, ..self.to_outcome(answer) }))
            }
            done => Ok(ToolAnswer::success(answer_text(&done.output))),
        }
    }

    /// Truncates at twice the limit of a built-in tool, so that an answer such a tool cut, with its marker, is not cut
    /// again.
    fn to_outcome(&self, answer: ToolAnswer) -> TaskOutcome {
        let content = head_and_tail(&answer.content, self.registry.limits().max_agent_answer_bytes.saturating_mul(2));
        TaskOutcome::success(Value::object([("content", Value::from(content)), ("error", Value::from(answer.error))]))
    }
}

/// Formats a value as a text for a model.
pub(crate) fn answer_text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        Value::Null => "(done)".to_owned(),
        other => to_json(other),
    }
}
