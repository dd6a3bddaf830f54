//! Permissions of tool calls. Every call needs a decision first, unless its tool is trusted.

mod pattern;
mod prompt;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_value::{Value, to_json};

use crate::redact;
use crate::text::{elide_middle, escape_invisible};
pub use pattern::CallPattern;
pub use prompt::{PermissionPrompt, TerminalPrompt};

/// Commands up to this length are shown whole.
const MAX_COMMAND_CHARS: usize = 4000;
const MAX_TEXT_CHARS: usize = 600;
/// The maximum length of all displayed arguments together, including their names and markers.
const MAX_ARGUMENTS_CHARS: usize = 6000;

/// Decides about calls. It is asked once per call, and again after a crash in the middle of one.
pub trait Permission: Send + Sync {
    fn decide<'a>(
        &'a self,
        request: &'a PermissionRequest<'a>,
    ) -> Pin<Box<dyn Future<Output = PermissionVerdict> + Send + 'a>>;
}

/// A call that a model wants to make.
#[derive(Clone, Copy)]
pub struct PermissionRequest<'a> {
    pub tool: &'a str,
    /// The path of the step in its run.
    pub step: &'a str,
    /// As the model wrote them; they may contain secrets.
    pub arguments: &'a Value,
    /// The resolved path argument of file tools: relative to the work folder, and absolute.
    pub resolved_paths: &'a [String],
}

impl PermissionRequest<'_> {
    /// Returns the arguments on one line, without likely secrets and deceptive characters. Long arguments show their
    /// beginning and end, and how much is left out.
    pub fn display_arguments(&self) -> String {
        let max_chars = |name: &str| if name == "command" { MAX_COMMAND_CHARS } else { MAX_TEXT_CHARS };
        let shown = redact::redact_for_prompt(self.arguments, max_chars);
        let shown = match shown.get("command").and_then(Value::as_str) {
            Some(command) if shown.as_map().is_some_and(|map| map.len() == 1) => command.to_owned(),
            _ => to_json(&shown),
        };
        escape_invisible(&elide_middle(&shown, MAX_ARGUMENTS_CHARS))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum PermissionVerdict {
    /// Allowed by a rule.
    Allowed,
    /// Granted by the user at a prompt.
    Granted { always: bool },
    /// Denied, with a sentence for the model.
    Denied(String),
}

/// The rule for tools that no list names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DefaultRule {
    /// `--yolo`
    Allow,
    /// `--sandbox`: permits `read`, `write`, `glob` and `grep` without asking, nothing else.
    Sandbox,
    /// Asks the user at a terminal.
    Ask,
    #[default]
    Deny,
}

/// Tools that touch nothing but the work folder.
pub(crate) const SANDBOX_TOOLS: [&str; 4] = ["read", "write", "glob", "grep"];

/// Allow and deny lists, and a default rule for tools they do not name. A denial overrides everything else.
pub struct PermissionPolicy {
    allow: Vec<CallPattern>,
    deny: Vec<CallPattern>,
    default_rule: DefaultRule,
    prompt: Arc<dyn PermissionPrompt>,
    /// Tools that a user has allowed permanently at a prompt.
    always_allowed: Mutex<BTreeSet<String>>,
    /// Serializes prompts.
    prompt_lock: Arc<tokio::sync::Mutex<()>>,
}

impl PermissionPolicy {
    /// Creates a policy that asks at the terminal of this process if the rule is [`DefaultRule::Ask`].
    pub fn new(default_rule: DefaultRule) -> PermissionPolicy {
        PermissionPolicy {
            allow: Vec::new(),
            deny: Vec::new(),
            default_rule,
            prompt: Arc::new(TerminalPrompt),
            always_allowed: Mutex::default(),
            prompt_lock: Arc::default(),
        }
    }

    #[must_use]
    pub fn allow(mut self, patterns: impl IntoIterator<Item = CallPattern>) -> PermissionPolicy {
        self.allow.extend(patterns);
        self
    }

    #[must_use]
    pub fn deny(mut self, patterns: impl IntoIterator<Item = CallPattern>) -> PermissionPolicy {
        self.deny.extend(patterns);
        self
    }

    /// Replaces the terminal by another prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: Arc<dyn PermissionPrompt>) -> PermissionPolicy {
        self.prompt = prompt;
        self
    }

    /// Decides by lists and rules, without a prompt.
    fn decide_by_rule(&self, request: &PermissionRequest<'_>) -> Option<PermissionVerdict> {
        let tool = request.tool;
        if self.deny.iter().any(|pattern| pattern.denies(request)) {
            return Some(denied(tool, "is denied by --deny"));
        }
        if self.allow.iter().any(|pattern| pattern.allows(request)) {
            return Some(PermissionVerdict::Allowed);
        }
        match self.default_rule {
            DefaultRule::Allow => Some(PermissionVerdict::Allowed),
            DefaultRule::Sandbox if SANDBOX_TOOLS.contains(&tool) => Some(PermissionVerdict::Allowed),
            DefaultRule::Sandbox => Some(denied(
                tool,
                &format!("is outside the sandbox, which has {}; pass --allow {tool}", SANDBOX_TOOLS.join(", ")),
            )),
            DefaultRule::Ask => None,
            DefaultRule::Deny => {
                let ways = if SANDBOX_TOOLS.contains(&tool) { ", --sandbox or --yolo" } else { " or --yolo" };
                let why = format!("needs approval, and this run has no terminal; pass --allow {tool}{ways}");
                Some(denied(tool, &why))
            }
        }
    }

    fn is_always_allowed(&self, tool: &str) -> bool {
        self.always_allowed.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    async fn ask_user(&self, request: &PermissionRequest<'_>) -> PermissionVerdict {
        let lock = self.prompt_lock.clone().lock_owned().await;
        // The answer to an earlier prompt may cover this call too.
        if self.is_always_allowed(request.tool) {
            return PermissionVerdict::Allowed;
        }
        let question = format!(
            "{} wants to call {}: {}\nAllow it? [y/N/a = always for this tool] ",
            escape_invisible(request.step),
            escape_invisible(request.tool),
            request.display_arguments()
        );
        let answer = prompt::ask_on_thread(self.prompt.clone(), question, lock).await;
        match answer.as_deref().map(|answer| answer.trim().to_ascii_lowercase()).as_deref() {
            Some("y" | "yes") => PermissionVerdict::Granted { always: false },
            Some("a" | "always") => {
                self.always_allowed.lock().unwrap_or_else(PoisonError::into_inner).insert(request.tool.to_owned());
                PermissionVerdict::Granted { always: true }
            }
            Some(_) => denied(request.tool, "was denied at the prompt"),
            None => {
                let why =
                    format!("needs approval, and the prompt was not answered; pass --allow {} or --yolo", request.tool);
                denied(request.tool, &why)
            }
        }
    }
}

impl Permission for PermissionPolicy {
    fn decide<'a>(
        &'a self,
        request: &'a PermissionRequest<'a>,
    ) -> Pin<Box<dyn Future<Output = PermissionVerdict> + Send + 'a>> {
        Box::pin(async move {
            match self.decide_by_rule(request) {
                Some(decision) => decision,
                None if self.is_always_allowed(request.tool) => PermissionVerdict::Allowed,
                None => self.ask_user(request).await,
            }
        })
    }
}

fn denied(tool: &str, why: &str) -> PermissionVerdict {
    PermissionVerdict::Denied(format!("permission denied: tool `{}` {why}", escape_invisible(tool)))
}
