//! Lines about what a run waits for from outside, each with the command that answers it.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::{Event, EventKind};

use crate::args::GlobalArgs;
use crate::stores;

#[derive(Default)]
pub(crate) struct RunWaits {
    /// The commands without the name of what they answer; empty until the run is known.
    approve: String,
    signal: String,
    /// The names of signals that answer forms.
    forms: BTreeSet<Arc<str>>,
}

impl RunWaits {
    pub(crate) fn new(global: &GlobalArgs, run: &str) -> RunWaits {
        let command = |verb: &str| stores::command(global, &format!("{verb} {run}"));
        RunWaits { approve: command("approve"), signal: command("signal"), forms: BTreeSet::new() }
    }

    /// Returns the line about a form that was open before the display started.
    pub(crate) fn seed(&mut self, name: &Arc<str>, address: &str) -> String {
        self.forms.insert(name.clone());
        self.form(address)
    }

    /// Returns the line about an event after which the run waits.
    pub(crate) fn line(&mut self, event: &Event) -> Option<String> {
        match &event.kind {
            EventKind::ApprovalRequested { name, address, .. } => Some(self.seed(name, address)),
            EventKind::WorkflowIdle { waits } => {
                let signals: Vec<&str> =
                    waits.iter().filter(|name| !self.forms.contains(*name)).map(|name| &**name).collect();
                let first = signals.first()?;
                let names = signals.join(", ");
                Some(format!("waiting for {names}: {} {}", self.signal, stores::shell_quote(first)))
            }
            _ => None,
        }
    }

    fn form(&self, address: &str) -> String {
        format!("{address} waits for approval: {} {}", self.approve, stores::shell_quote(address))
    }
}
