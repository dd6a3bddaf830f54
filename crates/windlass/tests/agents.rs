//! Functions that agents may call.

#![cfg(feature = "agents")]

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, StepError, described};
use windlass_agents::{DefaultRule, PermissionPolicy, ToolCatalogue, ToolRegistry};
use windlass_core::TaskOutcome;
use windlass_runtime::{Tool, ToolCall, ToolFuture};

#[derive(Serialize, Deserialize)]
struct Order {
    pieces: u64,
}

async fn price(_: Context, order: Order) -> Result<u64, StepError> {
    if order.pieces == 0 { Err(StepError::new("NoPieces", "an order has pieces")) } else { Ok(order.pieces * 10) }
}

/// Stands in for a model: returns the names of the available tools.
struct ListingModel(Arc<ToolRegistry>);

impl Tool for ListingModel {
    fn call(&self, _: ToolCall) -> ToolFuture {
        let registry = self.0.clone();
        Box::pin(async move {
            let names: Vec<String> = registry.specs().await.unwrap().into_iter().map(|spec| spec.name).collect();
            TaskOutcome::success(names.join(" "))
        })
    }
}

#[tokio::test]
async fn described_functions_are_tools_of_agents() {
    let schema = r#"{"type": "object", "properties": {"pieces": {"type": "integer"}}, "required": ["pieces"]}"#;
    let (seen, look) = std::sync::mpsc::channel();
    let engine = Engine::in_memory()
        .agents(
            ToolRegistry::builder().file_tools(),
            Arc::new(PermissionPolicy::new(DefaultRule::Allow)),
            move |registry| {
                seen.send(registry.clone()).unwrap();
                ListingModel(registry)
            },
        )
        .function("price", described(price, "What an order costs.", schema).unwrap())
        .function("hidden", |number: u64| async move { Ok(number) })
        .build()
        .unwrap();
    let registry = look.recv().unwrap();
    let specs = registry.specs().await.unwrap();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["glob", "grep", "price", "read", "write"]);
    let caller = windlass_agents::AgentToolCaller::new(registry, Arc::new(PermissionPolicy::new(DefaultRule::Allow)));
    for (pieces, expected) in
        [("3", r#"{"content":"30","error":false}"#), ("0", r#"{"content":"an order has pieces","error":true}"#)]
    {
        let input = format!(r#"{{"tool": "price", "arguments": {{"pieces": {pieces}}}, "folder": "/"}}"#);
        let input = windlass_value::parse_json(&input).unwrap();
        let outcome = caller.call(ToolCall::for_test(input)).await;
        assert_eq!(windlass_value::to_json(&outcome.output), expected);
    }
    engine.close().await;
}

#[tokio::test]
async fn tool_names_are_unique() {
    let read = described(|order: Order| async move { Ok(order.pieces) }, "d", "{}").unwrap();
    let engine = Engine::in_memory()
        .agents(ToolRegistry::builder().file_tools(), Arc::new(PermissionPolicy::new(DefaultRule::Allow)), ListingModel)
        .function("read", read)
        .build();
    assert!(engine.err().unwrap().to_string().contains("two tools `read`"));
    assert!(described(|order: Order| async move { Ok(order.pieces) }, "d", "{").is_err());
}
