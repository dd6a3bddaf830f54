//! Drawings of plans and runs.
//!
//! [`plan`] draws the possible steps, [`run`] the executed ones, for every dialect alike: nested boxes with arrows
//! between them ([`Drawing`]). A drawing is written as Mermaid, DOT, SVG or JSON ([`DrawingFormat`]).
//!
//! This crate knows plans and events. It does not know stores, terminals or dialects.
//!
//! ```
//! use windlass_core::plan::{ExpressionSource, Node, NodeKind, Plan};
//! use windlass_draw::DrawingFormat;
//! use windlass_value::ExpressionMode;
//!
//! let mut plan = Plan::new("hello", "loom", "{}");
//! let (language, source) = ("wdl".into(), "hello".into());
//! let mode = ExpressionMode::Value;
//! let greeting = plan.add_expression(ExpressionSource { language, source, mode, span: Default::default() });
//! plan.root = plan.add_node(Node::new("greet", "compose", None, NodeKind::evaluate(greeting)));
//!
//! let drawing = windlass_draw::plan(&plan);
//! assert!(drawing.write(DrawingFormat::Mermaid).contains("n0[\"greet<br/>compose\"]"));
//! ```

mod model;
mod plan;
mod run;
pub mod text;
mod write;

pub use model::{
    ActivityState, Arrow, ArrowReason, Drawing, DrawingItem, EventRole, ItemShape, IterationCounts, NodeActivity,
};
pub use run::{MAX_NODES, RunDrawing};
pub use write::DrawingFormat;

use windlass_core::Event;
use windlass_core::plan::Plan;

/// Draws the steps of a plan and the transitions between them.
///
/// A step that produces events is drawn with them: boxes for steps, rounded boxes for events.
///
/// ```
/// use windlass_core::plan::{Net, NetEnd, Node, NodeKind, Pipeline, Place, Plan};
///
/// let mut plan = Plan::new("orders", "rust", "");
/// let pipeline = NodeKind::Pipeline(Pipeline { tasks: Vec::new() });
/// plan.root = plan.add_node(Node { hidden: true, ..Node::new("orders", "workflow", None, pipeline.clone()) });
/// let body = plan.add_node(Node::new("charge", "step", Some(plan.root), pipeline));
/// let mut charge = Place::new("charge", vec!["order.placed".into()], body);
/// charge.produces = vec!["order.done".into()];
/// charge.max_concurrency = 4;
/// let net = Net::new(vec![charge], "order.placed", NetEnd::Stop("order.done".into()));
/// plan.nodes[0].kind = NodeKind::Net(net);
///
/// let text = windlass_draw::plan(&plan).to_mermaid();
/// assert!(text.contains("n1[\"charge<br/>step, 4 workers\"]"));
/// assert!(text.contains("n0_e0([\"order.placed<br/>start event\"])"));
/// assert!(text.contains("n0_e0 --> n1"));
/// ```
///
/// The plan must be one that [`Program::load`](windlass_core::Program::load) accepts.
pub fn plan(plan: &Plan) -> Drawing {
    plan::draw_plan(plan).drawing
}

/// Draws the steps of one run from its events.
///
/// The events may be all of them or a prefix; an unfinished run is drawn in its current state. Use [`RunDrawing`]
/// to add events one by one.
///
/// ```
/// use windlass_core::{Event, EventKind};
/// use windlass_core::plan::{ExpressionSource, Node, NodeKind, Plan};
/// use windlass_value::{ExpressionMode, Timestamp, parse_json};
///
/// let mut plan = Plan::new("hello", "loom", "{}");
/// let (language, source) = ("wdl".into(), "hello".into());
/// let mode = ExpressionMode::Value;
/// let greeting = plan.add_expression(ExpressionSource { language, source, mode, span: Default::default() });
/// plan.root = plan.add_node(Node::new("greet", "compose", None, NodeKind::evaluate(greeting)));
///
/// let event = |seq: u64, kind: &str, data: &str| Event {
///     seq,
///     at: Timestamp(seq as i64 * 1_000_000),
///     path: "greet".into(),
///     kind: EventKind::with_defaults(kind, parse_json(data).unwrap().as_map().unwrap().clone()),
/// };
/// let events = [event(1, "step.started", "{}"), event(2, "step.done", r#"{"status": "succeeded"}"#)];
/// let text = windlass_draw::run(&plan, &events).to_mermaid();
/// assert!(text.contains("greet<br/>compose<br/>succeeded, 1.0s"));
/// assert!(text.contains("class n0 succeeded"));
/// ```
pub fn run<'a>(plan: &Plan, events: impl IntoIterator<Item = &'a Event>) -> Drawing {
    let mut drawing = RunDrawing::new(plan);
    events.into_iter().for_each(|event| drawing.event(event));
    drawing.finish()
}
