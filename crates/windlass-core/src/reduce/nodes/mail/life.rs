//! What nodes mean for mail when they begin and when they end: mailboxes open and close, and somebody is told.
//!
//! | mailbox | its node's frame is made | its node is entered anew | its node ends | its node will not run |
//! |---|---|---|---|---|
//! | none | open, with what has come before | – | – | what has come before is dropped |
//! | open | – | open: what this try was given is given again | closed; what nobody was given is dropped | – |
//!
//! – is impossible; the end of a node whose mailbox is not open is a fault.

use std::sync::Arc;

use windlass_value::{Map, Value};

use crate::addresses::{last_first, normalised};
use crate::plan::{NodeId, NodeKind};
use crate::reduce::Reducer;
use crate::reduce::impossible::{Checked, no_part, wrong_frame};
use crate::state::{Body, FrameId, Item, MailboxFrame, WaitFrame};
use crate::{ErrorInfo, Outcome, Status};

impl Reducer<'_> {
    /// A frame has been made.
    pub(in crate::reduce) fn mail_begins(&mut self, id: FrameId) -> Checked {
        if !self.program.addresses().in_use() {
            return Ok(());
        }
        let node = self.frame(id)?.node;
        if self.program.node(node).mailbox.is_some() {
            self.open_mailbox(id, node);
        }
        if self.program.node(node).reports_to.is_some() {
            let step = self.path(id);
            self.report(node, step, "started", [])?;
        }
        Ok(())
    }

    fn open_mailbox(&mut self, id: FrameId, node: NodeId) {
        let address = self.path(id);
        let waiting = self.state.mail.early.remove(&node).unwrap_or_default();
        let whole = normalised(&address);
        let end = last_first(&whole);
        self.state.mail.by_end.entry(end.into()).or_default().push(id);
        self.state.mail.by_address.entry(whole.into()).or_default().push(id);
        self.state.mail.boxes.insert(id, MailboxFrame { address, waiting, ..MailboxFrame::default() });
    }

    /// A frame is about to go, for good.
    pub(in crate::reduce) fn mail_ends(&mut self, id: FrameId, outcome: &Outcome) -> Checked {
        if !self.program.addresses().in_use() {
            return Ok(());
        }
        let frame = self.frame(id)?;
        let node = frame.node;
        // What others do because of this end must not reach a wait that is ending.
        if let Body::Wait(WaitFrame::Mail(wait)) = frame.body {
            self.forget_mail_wait(id, wait);
        }
        self.report_unbegun(id)?;
        self.drop_early(node);
        if self.program.node(node).mailbox.is_some() {
            self.close_mailbox(id, node)?;
        }
        if self.program.node(node).reports_to.is_some() {
            let step = self.path(id);
            self.report_end(node, step, outcome)?;
        }
        Ok(())
    }

    fn close_mailbox(&mut self, id: FrameId, node: NodeId) -> Checked {
        let open = self.state.mail.boxes.remove(&id).ok_or_else(|| no_part(id, "mailbox", 0))?;
        let whole = normalised(&open.address);
        let end = last_first(&whole);
        let mail = &mut self.state.mail;
        for (index, key) in [(&mut mail.by_end, end), (&mut mail.by_address, whole)] {
            if let Some(ids) = index.get_mut(&*key) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    index.remove(&*key);
                }
            }
        }
        self.state.mail.ready.retain(|other| *other != id);
        let reason = self.why_closed(node);
        for mail in open.fresh() {
            self.drop_mail(&open.address, &open.address, mail, &reason);
        }
        open.settlers.into_iter().try_for_each(|settler| self.settled(settler))
    }

    /// A node that will not begin.
    pub(in crate::reduce) fn mail_unrun(&mut self, near: FrameId, node: NodeId, outcome: &Outcome) -> Checked {
        if !self.program.addresses().in_use() {
            return Ok(());
        }
        self.drop_early(node);
        if self.program.node(node).reports_to.is_some() {
            let step = self.child_path(near, node);
            self.report_end(node, step, outcome)?;
        }
        Ok(())
    }

    /// What was kept for nodes in here that have not begun: now they will not.
    fn drop_early(&mut self, around: NodeId) {
        if self.state.mail.early.is_empty() {
            return;
        }
        let program = self.program;
        for node in program.addresses().inside(around) {
            let Some(mails) = self.state.mail.early.remove(node) else { continue };
            let address = program.addresses().shown(*node).cloned().unwrap_or_default();
            let reason = self.why_closed(*node);
            for mail in &mails {
                self.drop_mail(&address, &address, mail, &reason);
            }
        }
    }

    /// Children of a graph that is called off before they have begun. Only a graph has children that wait for others.
    fn report_unbegun(&mut self, id: FrameId) -> Checked {
        let program = self.program;
        let frame = self.frame(id)?;
        let NodeKind::Graph(graph) = &program.node(frame.node).kind else { return Ok(()) };
        let body = match &frame.body {
            Body::Graph(body) => body,
            // It ends before it was entered: it has no children yet.
            Body::New | Body::Backoff => return Ok(()),
            other @ (Body::Pipeline(_)
            | Body::Branch { .. }
            | Body::Loop(_)
            | Body::Net(_)
            | Body::Wait(_)
            | Body::Call { .. }) => return Err(wrong_frame(id, "a graph", other)),
        };
        let unbegun = graph.children.iter().zip(&body.children);
        let unbegun = unbegun.filter(|(_, state)| state.status.is_none() && state.frame.is_none());
        let nodes = unbegun.map(|(child, _)| child.node).filter(|node| program.node(*node).reports_to.is_some());
        for node in nodes.collect::<Vec<NodeId>>() {
            let step = self.child_path(id, node);
            let (status, none) = (Value::from(Status::Cancelled.as_str()), Value::Int(0));
            self.report(node, step, "ended", [("status", status), ("attempts", none.clone()), ("duration_ms", none)])?;
        }
        Ok(())
    }

    fn report_end(&mut self, node: NodeId, step: Arc<str>, outcome: &Outcome) -> Checked {
        let took = outcome.ended_at.since(outcome.started_at);
        let usage = Some(&outcome.usage).filter(|usage| !usage.is_null()).map(|usage| ("usage", usage.clone()));
        let error = outcome.error.as_ref().map(|error| ("error", ErrorInfo::to_value(error)));
        let fields = [
            ("status", Value::from(outcome.status.as_str())),
            ("attempts", Value::from(outcome.attempts)),
            ("duration_ms", Value::from(took.as_ms())),
        ];
        self.report(node, step, "ended", fields.into_iter().chain(usage).chain(error))
    }

    /// Mail of the engine's own, to whom a node reports. If nobody is there, there is nobody to tell.
    fn report(
        &mut self,
        node: NodeId,
        step: Arc<str>,
        kind: &'static str,
        fields: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Checked {
        // The callers ask only for nodes that report.
        let Some(to) = &self.program.node(node).reports_to else { return Ok(()) };
        let Some(owner) = self.living_at(to) else { return Ok(()) };
        if self.frame(owner)?.node == node {
            return Ok(());
        }
        let mut mail = Map::from_iter([("kind", Value::from(kind)), ("step", Value::Str(step.clone()))]);
        for (name, value) in fields {
            mail.insert(name, value);
        }
        let refused = self.refuses(owner);
        let letter = self.letter(step.clone(), mail);
        match refused {
            None => self.put(owner, letter.mail)?,
            Some(refused) => {
                let address = self.address_of(owner);
                self.drop_mail(&step, &address, &letter.mail, &refused.reason);
            }
        }
        Ok(())
    }

    /// The run ends: mail that came too late to be routed is not read.
    pub(in crate::reduce) fn mail_is_over(&mut self) {
        if !self.program.addresses().in_use() {
            return;
        }
        self.drop_early(self.program.plan.root);
        let late = |item: &Item| if let Item::Mail(mail) = item { Some(mail.clone()) } else { None };
        let late: Vec<Value> = self.state.agenda.iter().filter_map(late).collect();
        for mail in late {
            let to: Arc<str> = mail.get("to").and_then(Value::as_str).unwrap_or_default().into();
            let letter = self.letter("".into(), Map::new());
            let reason = self.why_closed(self.program.plan.root);
            self.drop_mail(&"".into(), &to, &letter.mail, &reason);
        }
    }
}
