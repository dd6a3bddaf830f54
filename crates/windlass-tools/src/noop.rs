//! A tool without an effect.

use std::future::ready;
use std::sync::Arc;

use windlass_core::TaskOutcome;
use windlass_runtime::{Tool, ToolCall, ToolFuture};

use crate::info::{ToolInfo, field};
use crate::registry::ToolRegistration;

pub(crate) const INFO: ToolInfo = ToolInfo {
    name: "noop",
    description: "Does nothing.",
    inputs: &[field("(anything)", "any", "the value to return")],
    outputs: &[field("(the same)", "any", "its input")],
    errors: &[],
};

pub(crate) const REGISTRATION: ToolRegistration = ToolRegistration { info: &INFO, build: |_| Arc::new(NoopTool) };

/// Returns its input immediately. Benchmarks use it to measure the cost of the engine alone.
#[derive(Clone, Copy, Default)]
pub struct NoopTool;

impl Tool for NoopTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        Box::pin(ready(TaskOutcome::success(call.input)))
    }
}
