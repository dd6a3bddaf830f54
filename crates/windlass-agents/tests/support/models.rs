//! Helpers for turns of models and their outcomes.

#![allow(clippy::unwrap_used, dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_agents::chat::{
    AgentModelTool, ChatOptions, ModelProtocol, ModelService, NoTools, ToolCatalogue, Variables,
};
use windlass_core::TaskOutcome;
use windlass_runtime::{Tool, ToolCall};
use windlass_value::parse_json;

use super::tool;

pub(crate) const KEY: &str = "sk-Canary/0123+456789";

/// Returns a variable lookup, as from an environment.
pub(crate) fn variables(pairs: &[(&str, &str)]) -> Variables {
    let map: BTreeMap<String, String> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Arc::new(move |name| map.get(name).cloned())
}

/// Returns options with one service, `test`, with a key.
pub(crate) fn options(url: &str, protocol: ModelProtocol, stream: bool) -> ChatOptions {
    let service = ModelService {
        name: "test".to_owned(),
        base_url: Some(url.to_owned()),
        protocol: Some(protocol),
        key_env: Some("TEST_KEY".to_owned()),
        stream: Some(stream),
        ..ModelService::default()
    };
    ChatOptions {
        services: vec![service],
        default_model: Some("test/m".to_owned()),
        variables: variables(&[("TEST_KEY", KEY)]),
        ..ChatOptions::default()
    }
}

pub(crate) fn turn_call(input: &str) -> ToolCall {
    ToolCall {
        key: "wl-1".into(),
        attempt: 1,
        run: "run-1".into(),
        path: "loop[0].inner.ask".into(),
        ..ToolCall::for_test(parse_json(input).unwrap())
    }
}

pub(crate) async fn turn(options: ChatOptions, input: &str) -> TaskOutcome {
    turn_with(options, Arc::new(NoTools), turn_call(input)).await
}

pub(crate) async fn turn_with(options: ChatOptions, catalogue: Arc<dyn ToolCatalogue>, call: ToolCall) -> TaskOutcome {
    AgentModelTool::new(options, tool(), catalogue).call(call).await
}

pub(crate) const ASK: &str = r#"{"messages": [{"role": "user", "content": "hello"}], "role": "step", "turn": 1}"#;

pub(crate) const BOTH: [ModelProtocol; 2] = [ModelProtocol::OpenAi, ModelProtocol::Anthropic];
