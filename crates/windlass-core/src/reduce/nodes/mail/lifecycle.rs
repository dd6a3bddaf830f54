//! The effect of a node's start and end on mail: mailboxes open and close, and reports are sent.
//!
//! | mailbox | its node's frame is created | its node is entered again | its node ends | its node will not run |
//! |---|---|---|---|---|
//! | none | open, with the mail that arrived before | – | – | the mail that arrived before is dropped |
//! | open | – | open: mail of the previous attempt is redelivered | closed; undelivered mail is dropped | – |
//!
//! – is impossible; the end of a node whose mailbox is not open is a fault.

use std::sync::Arc;

use windlass_value::{Map, Value};

use crate::addresses::{last_first, normalised};
use crate::plan::{NodeId, NodeKind};
use crate::reduce::Reducer;
use crate::reduce::fault::{FaultResult, no_part, wrong_frame};
use crate::state::{AgendaItem, FrameBody, FrameId, MailboxFrame, WaitFrame};
use crate::{ErrorInfo, Outcome, Status};

impl Reducer<'_> {
    /// Handles the creation of a frame.
    pub(in crate::reduce) fn mailbox_begins(&mut self, id: FrameId) -> FaultResult {
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

    /// Handles the final removal of a frame.
    pub(in crate::reduce) fn mailbox_ends(&mut self, id: FrameId, outcome: &Outcome) -> FaultResult {
        if !self.program.addresses().in_use() {
            return Ok(());
        }
        let frame = self.frame(id)?;
        let node = frame.node;
        // Actions of other nodes in response to this end must not reach a wait that is ending.
        if let FrameBody::Wait(WaitFrame::Mail(wait)) = frame.body {
            self.forget_mail_wait(id, wait);
        }
        self.report_unstarted(id)?;
        self.drop_early_mail(node);
        if self.program.node(node).mailbox.is_some() {
            self.close_mailbox(id, node)?;
        }
        if self.program.node(node).reports_to.is_some() {
            let step = self.path(id);
            self.report_end(node, step, outcome)?;
        }
        Ok(())
    }

    fn close_mailbox(&mut self, id: FrameId, node: NodeId) -> FaultResult {
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
        let reason = self.closed_reason(node);
        for mail in open.undelivered() {
            self.drop_mail(&open.address, &open.address, mail, &reason);
        }
        open.idle_waiters.into_iter().try_for_each(|settler| self.idle_reached(settler))
    }

    /// Handles a node that will not begin.
    pub(in crate::reduce) fn mailbox_without_run(
        &mut self,
        near: FrameId,
        node: NodeId,
        outcome: &Outcome,
    ) -> FaultResult {
        if !self.program.addresses().in_use() {
            return Ok(());
        }
        self.drop_early_mail(node);
        if self.program.node(node).reports_to.is_some() {
            let step = self.child_path(near, node);
            self.report_end(node, step, outcome)?;
        }
        Ok(())
    }

    /// Drops the mail that was kept for nodes in here that have not begun and now never will.
    fn drop_early_mail(&mut self, around: NodeId) {
        if self.state.mail.early.is_empty() {
            return;
        }
        let program = self.program;
        for node in program.addresses().inside(around) {
            let Some(mails) = self.state.mail.early.remove(node) else { continue };
            let address = program.addresses().display_address(*node).cloned().unwrap_or_default();
            let reason = self.closed_reason(*node);
            for mail in &mails {
                self.drop_mail(&address, &address, mail, &reason);
            }
        }
    }

    /// Reports children of a graph that is cancelled before they have begun. Only a graph has children with
    /// dependencies.
    fn report_unstarted(&mut self, id: FrameId) -> FaultResult {
        let program = self.program;
        let frame = self.frame(id)?;
        let NodeKind::Graph(graph) = &program.node(frame.node).kind else { return Ok(()) };
        let body = match &frame.body {
            FrameBody::Graph(body) => body,
            // It ends before it was entered: it has no children yet.
            FrameBody::New | FrameBody::Backoff => return Ok(()),
            other @ (FrameBody::Pipeline(_)
            | FrameBody::Branch { .. }
            | FrameBody::Loop(_)
            | FrameBody::Net(_)
            | FrameBody::Wait(_)
            | FrameBody::Call { .. }) => return Err(wrong_frame(id, "a graph", other)),
        };
        let unstarted = graph.children.iter().zip(&body.children);
        let unstarted = unstarted.filter(|(_, state)| state.status.is_none() && state.frame.is_none());
        let nodes = unstarted.map(|(child, _)| child.node).filter(|node| program.node(*node).reports_to.is_some());
        for node in nodes.collect::<Vec<NodeId>>() {
            let step = self.child_path(id, node);
            let (status, none) = (Value::from(Status::Cancelled.as_str()), Value::Int(0));
            self.report(node, step, "ended", [("status", status), ("attempts", none.clone()), ("duration_ms", none)])?;
        }
        Ok(())
    }

    fn report_end(&mut self, node: NodeId, step: Arc<str>, outcome: &Outcome) -> FaultResult {
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

    /// Sends a report of the engine to the mailbox that a node reports to. Does nothing if that mailbox is not alive.
    fn report(
        &mut self,
        node: NodeId,
        step: Arc<str>,
        kind: &'static str,
        fields: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> FaultResult {
        // The callers only pass nodes that report.
        let Some(to) = &self.program.node(node).reports_to else { return Ok(()) };
        let Some(owner) = self.live_owner_at(to) else { return Ok(()) };
        if self.frame(owner)?.node == node {
            return Ok(());
        }
        let mut mail = Map::from_iter([("kind", Value::from(kind)), ("step", Value::Str(step.clone()))]);
        for (name, value) in fields {
            mail.insert(name, value);
        }
        let rejection = self.rejection(owner);
        let outgoing = self.new_mail(step.clone(), mail);
        match rejection {
            None => self.deliver_mail(owner, outgoing.mail)?,
            Some(rejection) => {
                let address = self.address_of(owner);
                self.drop_mail(&step, &address, &outgoing.mail, &rejection.reason);
            }
        }
        Ok(())
    }

    /// Drops mail that arrived too late to be routed, because the run ends.
    pub(in crate::reduce) fn drop_remaining_mail(&mut self) {
        if !self.program.addresses().in_use() {
            return;
        }
        self.drop_early_mail(self.program.plan.root);
        let late = |item: &AgendaItem| if let AgendaItem::Mail(mail) = item { Some(mail.clone()) } else { None };
        let late: Vec<Value> = self.state.agenda.iter().filter_map(late).collect();
        for mail in late {
            let to: Arc<str> = mail.get("to").and_then(Value::as_str).unwrap_or_default().into();
            let outgoing = self.new_mail("".into(), Map::new());
            let reason = self.closed_reason(self.program.plan.root);
            self.drop_mail(&"".into(), &to, &outgoing.mail, &reason);
        }
    }
}
