//! Reads `agents`.

use std::collections::HashSet;

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{SpannedKey, SyntaxNode, SyntaxNodeKind, to_value};

use super::{DocumentReader, is_blank};
use crate::codes;
use crate::document::{AgentDefinition, Spanned};
use crate::schemas;

impl DocumentReader<'_> {
    pub(crate) fn agents(&mut self, node: &SyntaxNode) -> Vec<AgentDefinition> {
        let Some(object) = self.object(node, "`agents`") else { return Vec::new() };
        let (mut agents, mut seen): (Vec<AgentDefinition>, HashSet<&str>) = Default::default();
        for (key, node) in object.unread_entries() {
            // Duplicate keys were already reported by the parser.
            if seen.insert(&key.text) {
                agents.push(self.agent(key, node));
            }
        }
        agents
    }

    /// Reads an agent. Returns one of this name even if it has problems.
    fn agent(&mut self, key: &SpannedKey, node: &SyntaxNode) -> AgentDefinition {
        if !is_id(&key.text) {
            let message = format!("`{}` cannot be the name of an agent", key.text);
            self.error(codes::VALIDATION, key.span, message, ID_HINT);
        }
        let mut agent = AgentDefinition {
            span: node.span,
            name: Spanned::new(key.text.clone(), key.span),
            description: Spanned::new(String::new(), key.span),
            prompt: None,
            model: None,
            tools: None,
            disallowed_tools: Vec::new(),
            max_turns: None,
            temperature: None,
            top_p: None,
            result_schema: None,
            max_result_attempts: None,
            max_repeated_calls: None,
        };
        let no_description = |reader: &mut Self| {
            let message = format!("the agent `{}` has no `description`", key.text);
            let hint = "describe in one sentence what this agent is for";
            reader.error(codes::AGENT_MISSING_DESCRIPTION, key.span, message, hint);
        };
        if matches!(node.kind, SyntaxNodeKind::Null) {
            no_description(self);
            return agent;
        }
        let Some(mut object) = self.object(node, "an agent") else { return agent };
        match object.take("description") {
            Some(node) if !is_blank(node) => {
                if let Some(description) = self.plain(node, "description") {
                    agent.description = description;
                }
            }
            _ => no_description(self),
        }
        agent.prompt = object.take("prompt").and_then(|node| self.model_text(node, "prompt", false));
        agent.model = object.take("model").and_then(|node| self.non_empty_text(node, "model"));
        agent.tools = object.take("tools").and_then(|node| self.text_list(node, "tools"));
        let denied = object.take("disallowedTools");
        agent.disallowed_tools = denied.and_then(|node| self.text_list(node, "disallowedTools")).unwrap_or_default();
        agent.max_turns = object.take("maxTurns").and_then(|node| self.count(node, "maxTurns", 0, codes::VALIDATION));
        agent.temperature = object.take("temperature").and_then(|node| self.number_up_to(node, "temperature", 2.0));
        agent.top_p = object.take("topP").and_then(|node| self.number_up_to(node, "topP", 1.0));
        agent.result_schema = object.take("resultSchema").and_then(|node| self.result_schema(node));
        if let Some(node) = object.take("x-windlass") {
            self.agent_extensions(node, &mut agent);
        }
        object.finish(codes::UNKNOWN_KEY, "an agent", &mut self.found);
        agent
    }

    fn result_schema(&mut self, node: &SyntaxNode) -> Option<Spanned<windlass_value::Value>> {
        if node.as_map().is_none() {
            self.wrong_type(
                node,
                "resultSchema",
                "a JSON Schema, which is an object",
                "such as {type: object, properties: {…}}",
            );
            return None;
        }
        schemas::check(node, &mut self.found);
        Some(Spanned::new(to_value(node), node.span))
    }
}

pub(super) const ID_HINT: &str =
    "a lowercase letter first, then lowercase letters, digits, `_` and `-`; at most 64 characters";

pub(super) fn is_id(text: &str) -> bool {
    let good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_' || letter == '-';
    text.starts_with(|letter: char| letter.is_ascii_lowercase()) && text.len() <= 64 && text.chars().all(good)
}
