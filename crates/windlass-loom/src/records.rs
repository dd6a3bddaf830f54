//! What a loop writes down of its turns, because some expression asks for `result('loop')`.

use windlass_core::plan::{Keep, NodeId, NodeKind, Records, Source};
use windlass_syntax::Span;
use windlass_value::{Mode, Value};

use crate::compiler::{Compiler, Use};
use crate::expr::{self, Tongue};

impl Compiler<'_> {
    /// The records of the actions directly in the body: of every turn for items, of the last one for a condition.
    pub fn keep_records(&mut self, found: &Use) {
        let Some(id) = self.seen(found).flatten() else { return };
        let node = self.plan.node(id);
        let NodeKind::Loop(looping) = &node.kind else { return };
        if looping.records.is_some() {
            return;
        }
        let keep = match looping.source {
            Source::Each(_) => Keep::All,
            Source::Repeat => Keep::Last,
        };
        let span = Span::new(node.span.start as usize, node.span.end as usize);
        let children: Vec<NodeId> = self.plan.node(looping.body).kind.children();
        let one = |child: NodeId| Value::from(format!("@actions({})", expr::quoted(&self.plan.node(child).name)));
        let source = Value::list(children.into_iter().map(one).collect());
        let value = self.add_expression(Tongue::Wdl, source, Mode::Value, span);
        if let NodeKind::Loop(looping) = &mut self.node(id).kind {
            looping.records = Some(Records { value, keep });
        }
    }
}
