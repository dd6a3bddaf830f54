//! An event entered the run: its start, a signal, a token for a net, or mail.
//!
//! | run | start | other event |
//! |---|---|---|
//! | created | running; ended if its input is not valid | – |
//! | created, paused | held, with its input | – |
//! | held | late | buffered until the run starts; late if too many are buffered |
//! | running | late | mail, by name, if nodes have mailboxes; else delivered to a wait or a net, or buffered |
//! | ended | late | late |
//!
//! – is impossible and a fault. *Late* is legitimate: the event changes nothing, and another event reports it.

use windlass_value::Value;

use crate::program::merge_deep;
use crate::reduce::fault::{FaultResult, not_started};
use crate::reduce::{ItemStop, Reducer, redacted_value};
use crate::signal_delivery;
use crate::state::{AgendaItem, FrameId, HeldEvent, HeldStart, Phase};
use crate::tick::{MAIL_EVENT, START_EVENT};
use crate::{CallOrigin, ErrorInfo, EventKind, Status};
use std::sync::Arc;

impl Reducer<'_> {
    pub(super) fn add_event(
        &mut self,
        name: &Arc<str>,
        payload: &Value,
        origin: Option<&CallOrigin>,
        to: Option<&Arc<str>>,
        (trigger_metadata, defaults): (&Value, &Value),
    ) -> FaultResult {
        match (&self.state.phase, &**name == START_EVENT) {
            (Phase::Created, true) if self.state.held_start.is_some() => self.publish_late("start"),
            (Phase::Created, true) if self.state.paused => self.hold_start(payload, origin, trigger_metadata, defaults),
            (Phase::Created, true) => self.start(payload, origin, trigger_metadata, defaults)?,
            (Phase::Created, false) => {
                let event = HeldEvent { name: name.clone(), payload: payload.clone(), to: to.cloned() };
                self.buffer_until_started(event)?;
            }
            (Phase::Running, true) => self.publish_late("start"),
            (Phase::Running, false) if &**name == MAIL_EVENT && to.is_none() && self.program.addresses().in_use() => {
                self.state.agenda.push_back(AgendaItem::Mail(payload.clone()));
            }
            (Phase::Running, false) => self.deliver_signal(name, payload, to)?,
            (Phase::Ended(_), _) => self.publish_late("AddEvent"),
        }
        Ok(())
    }

    /// Holds the start: nothing begins, not even the run's time, until the run is resumed.
    fn hold_start(&mut self, input: &Value, origin: Option<&CallOrigin>, trigger_metadata: &Value, defaults: &Value) {
        (self.state.run.input, self.state.run.trigger_metadata) = (input.clone(), trigger_metadata.clone());
        let origin = origin.cloned().map(Box::new);
        self.state.held_start = Some(Box::new(HeldStart { origin, defaults: defaults.clone(), events: Vec::new() }));
        let (definition, input) = (self.program.plan.name.clone(), self.redacted_input());
        self.publish("".into(), EventKind::WorkflowHeld { definition, input });
    }

    fn redacted_input(&self) -> Value {
        match self.program.plan.redaction.inputs {
            true => redacted_value(),
            false => self.state.run.input.clone(),
        }
    }

    /// Buffers an event for a held run, as long as there is room. A run that is not held accepts none before its start.
    fn buffer_until_started(&mut self, event: HeldEvent) -> FaultResult {
        match &mut self.state.held_start {
            Some(held) if held.events.len() < self.program.limits.max_buffered_signals => held.events.push(event),
            Some(_) => self.publish_late("AddEvent"),
            None => return Err(not_started()),
        }
        Ok(())
    }

    pub(super) fn start(
        &mut self,
        input: &Value,
        origin: Option<&CallOrigin>,
        trigger_metadata: &Value,
        defaults: &Value,
    ) -> FaultResult {
        self.state.phase = Phase::Running;
        self.state.run.parent = origin.map(|origin| origin.parent.clone());
        self.state.run.parent_execution_id = origin.map(|origin| origin.parent_execution_id);
        self.state.run.trace = origin.map(|origin| origin.trace.clone());
        self.state.output_node = origin.and_then(|origin| origin.output_node.clone());
        self.state.run.input = self.move_parameters_to_blobs(input.clone());
        self.state.run.trigger_metadata = trigger_metadata.clone();
        self.state.run.started_at = self.state.now;
        let definition = self.program.plan.name.clone();
        let requested = EventKind::ExecutionRequested {
            definition: definition.clone(),
            input: self.redacted_input(),
            parent: origin.map(|origin| origin.parent.clone()),
            trace: origin.map(|origin| origin.trace.clone()),
        };
        self.publish("".into(), requested);
        match self.program.parameters_with_defaults(input, defaults) {
            Ok(parameters) => {
                self.state.run.parameters = self.move_parameters_to_blobs(parameters);
                self.publish("".into(), EventKind::WorkflowStarted { definition });
                self.arm_run_timeout();
                if self.program.plan.parameters.iter().any(|parameter| parameter.computed.is_some()) {
                    self.state.agenda.push_back(AgendaItem::Parameters);
                }
                self.begin_root()
            }
            Err(problems) => {
                let error = ErrorInfo::new("InvalidInput", "input", problems.join("; "));
                self.end_before_start(error);
                Ok(())
            }
        }
    }

    /// Computes the parameters in plan order, so that a parameter may read the preceding ones. Repeated from the start
    /// when a value has to be loaded, with the same result.
    pub(in crate::reduce) fn compute_parameters(&mut self) -> Result<(), ItemStop> {
        let program = self.program;
        for parameter in &program.plan.parameters {
            let Some(computed) = parameter.computed else { continue };
            let given = self.state.run.input.get(&parameter.name).cloned();
            let given = given.map(|given| self.resolve(&given)).transpose()?;
            let value = match given {
                Some(given) if !parameter.merge || given.as_map().is_none() => given,
                given => {
                    let default = self.eval(computed, self.state.root_scope)?;
                    given.map_or(default.clone(), |given| merge_deep(&default, &given))
                }
            };
            let value = self.move_to_blob(value);
            let mut all = self.state.run.parameters.as_map().cloned().unwrap_or_default();
            all.insert(parameter.name.clone(), value);
            self.state.run.parameters = Value::map(all);
        }
        Ok(())
    }

    /// Replaces large parameters by references. Merged ones arrive complete, however large they are.
    fn move_parameters_to_blobs(&mut self, parameters: Value) -> Value {
        let merged = |name: &Arc<str>| self.program.plan.parameters.iter().any(|own| own.merge && own.name == *name);
        let Some(map) = parameters.as_map().filter(|map| map.keys().any(merged)) else { return parameters };
        Value::object(map.iter().map(|(name, value)| (name.clone(), self.move_to_blob(value.clone()))))
    }

    fn end_before_start(&mut self, error: ErrorInfo) {
        let now = self.state.now;
        let outcome = crate::Outcome {
            status: Status::Failed,
            output: Value::Null,
            error: Some(error.clone()),
            inputs: Value::Null,
            attempts: 0,
            started_at: now,
            ended_at: now,
            loop_summary: None,
            usage: Value::Null,
        };
        self.fail_run(&Arc::new(outcome), error);
    }

    /// Delivers an event to the oldest wait whose requirements it meets; without one it is buffered.
    fn deliver_signal(&mut self, name: &Arc<str>, payload: &Value, to: Option<&Arc<str>>) -> FaultResult {
        if let Some(to) = to {
            // It is addressed to one place only and is never buffered.
            let asking = signal_delivery::find_addressed_wait(self.program, self.state, name, to);
            if let Some(frame) = asking.filter(|frame| self.wait_accepts(*frame, payload)) {
                self.signal_received(frame, payload.clone())?;
            } else if !self.deliver_to_nets(name, payload, Some(to))? {
                self.publish_unhandled(name, format!("no step `{to}` accepts it"));
            }
            return Ok(());
        }
        if let Some(frame) = signal_delivery::find_wait(self.state, name, payload) {
            // Besides a step that waits for the event, other steps may begin with it.
            if !(self.is_accepted_by_places(frame, name)? && self.deliver_to_nets(name, payload, None)?) {
                self.signal_received(frame, payload.clone())?;
            }
            return Ok(());
        }
        if !self.deliver_to_nets(name, payload, None)? {
            self.buffer_signal(name, payload);
        }
        Ok(())
    }

    /// Buffers an event for a wait that has not begun yet.
    pub(in crate::reduce) fn buffer_signal(&mut self, name: &Arc<str>, payload: &Value) {
        let max = signal_delivery::max_buffered(self.program, self.state);
        let buffered = self.state.signals.entry(name.clone()).or_default();
        if buffered.len() >= max {
            return self.publish_late("signal");
        }
        buffered.push_back(payload.clone());
        self.publish_unhandled(name, "no node waits for it yet; it is buffered".to_owned());
    }

    fn publish_unhandled(&mut self, name: &Arc<str>, reason: String) {
        let idle = self.publishes_slots().then(|| self.state.agenda.is_empty() && self.is_stalled());
        let (event, reason) = (name.clone(), reason.into());
        self.publish("".into(), EventKind::EventUnhandled { event, reason, idle });
    }

    pub(in crate::reduce) fn wait_accepts(&self, frame: FrameId, payload: &Value) -> bool {
        signal_delivery::wait_accepts(self.state, frame, payload)
    }
}
