//! Mail that waits for its reader, and readers that wait for mail.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Value;

use super::FrameId;
use crate::plan::NodeId;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MailState {
    /// How many there have been: the newest mail has this number.
    pub numbers: u64,
    /// How many waits there have been.
    pub waits: u64,
    /// The mailboxes of nodes that are alive.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub boxes: BTreeMap<FrameId, MailboxFrame>,
    /// Whose they are, by address. In a net several may have the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_address: BTreeMap<Arc<str>, Vec<FrameId>>,
    /// The same with the last part of the address first: those that end alike stand together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_end: BTreeMap<Arc<str>, Vec<FrameId>>,
    /// What has come for nodes that have not begun.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub early: BTreeMap<NodeId, VecDeque<Value>>,
    /// Owners of mailboxes that have got something somebody inside waits for, in that order.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub ready: VecDeque<FrameId>,
    /// Waits that let somebody else come to rest first, by their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waiting_for_idle: BTreeMap<u64, FrameId>,
    /// Waits for mail that has not come, by their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blocked: BTreeMap<u64, FrameId>,
}

/// The mailbox of a node that is alive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MailboxFrame {
    /// As events show it.
    pub address: Arc<str>,
    /// Oldest first: what was sent, with `id`, `from` and `at`.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub waiting: VecDeque<Value>,
    /// How many of those that wait, from the oldest on, were given to an earlier try of the node.
    #[serde(default, skip_serializing_if = "is_none")]
    pub redelivered: u64,
    /// What this try was given, where another may follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delivered: Vec<Value>,
    /// How often it was emptied of what was new.
    pub wakes: u64,
    /// Waits inside that want what comes next, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub readers: VecDeque<FrameId>,
    /// Waits elsewhere that let it come to rest, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub idle_waiters: VecDeque<FrameId>,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

impl MailboxFrame {
    /// What has not been given to anybody.
    pub(crate) fn undelivered(&self) -> impl Iterator<Item = &Value> {
        self.waiting.iter().skip(self.redelivered as usize)
    }

    /// The next try gets what this one was given.
    pub(crate) fn redeliver(&mut self) {
        self.redelivered += self.delivered.len() as u64;
        for mail in std::mem::take(&mut self.delivered).into_iter().rev() {
            self.waiting.push_front(mail);
        }
    }

    /// Its owner has read all and wants more.
    pub fn is_idle(&self) -> bool {
        !self.readers.is_empty() && self.waiting.is_empty()
    }
}

/// A wait for mail.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct MailWait {
    pub number: u64,
    /// Whose mail.
    pub owner: FrameId,
    pub blocks: bool,
    /// Whose rest comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_target: Option<FrameId>,
}

impl MailState {
    /// Nobody has written or waited, and nobody can be written to.
    pub(crate) fn is_unused(&self) -> bool {
        self.numbers == 0 && self.waits == 0 && self.is_empty()
    }

    /// Nothing lies anywhere, and nobody waits.
    pub fn is_empty(&self) -> bool {
        let MailState {
            numbers: _,
            waits: _,
            boxes,
            by_address,
            by_end,
            early,
            ready,
            waiting_for_idle: settling,
            blocked,
        } = self;
        boxes.is_empty()
            && by_address.is_empty()
            && by_end.is_empty()
            && early.is_empty()
            && ready.is_empty()
            && settling.is_empty()
            && blocked.is_empty()
    }
}
