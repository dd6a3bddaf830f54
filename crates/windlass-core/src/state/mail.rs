//! Mail that waits for its reader, and readers that wait for mail.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Value;

use super::FrameId;
use crate::plan::NodeId;

/// All mailboxes and waits for mail of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MailState {
    /// Number of mails so far: the newest mail has this number.
    pub numbers: u64,
    /// Number of waits so far.
    pub waits: u64,
    /// The mailboxes of live nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub boxes: BTreeMap<FrameId, MailboxFrame>,
    /// Their owners, by address. Several nodes of a net may share an address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_address: BTreeMap<Arc<str>, Vec<FrameId>>,
    /// The same with the last part of the address first, so that addresses with the same suffix are adjacent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_end: BTreeMap<Arc<str>, Vec<FrameId>>,
    /// Mail for nodes that have not begun.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub early: BTreeMap<NodeId, VecDeque<Value>>,
    /// Owners of mailboxes that have received mail for which a frame inside waits, in order.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub ready: VecDeque<FrameId>,
    /// Waits that first wait for another node to become idle, by their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waiting_for_idle: BTreeMap<u64, FrameId>,
    /// Waits for mail that has not arrived, by their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blocked: BTreeMap<u64, FrameId>,
}

/// The mailbox of a node that is alive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MailboxFrame {
    /// The address as events show it.
    pub address: Arc<str>,
    /// Oldest first: the content, with `id`, `from` and `at`.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub waiting: VecDeque<Value>,
    /// The number of waiting mails, from the oldest on, that were delivered to an earlier attempt of the node.
    #[serde(default, skip_serializing_if = "is_none")]
    pub redelivered: u64,
    /// Mail delivered to this attempt, where another attempt may follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delivered: Vec<Value>,
    /// How often new mail was taken from it.
    pub wakes: u64,
    /// Waits inside that wait for the next mail, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub readers: VecDeque<FrameId>,
    /// Waits elsewhere that wait for it to become idle, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub idle_waiters: VecDeque<FrameId>,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

impl MailboxFrame {
    /// Returns the mail that has not been delivered.
    pub(crate) fn undelivered(&self) -> impl Iterator<Item = &Value> {
        self.waiting.iter().skip(self.redelivered as usize)
    }

    /// Makes the mail of this attempt available to the next one.
    pub(crate) fn redeliver(&mut self) {
        self.redelivered += self.delivered.len() as u64;
        for mail in std::mem::take(&mut self.delivered).into_iter().rev() {
            self.waiting.push_front(mail);
        }
    }

    /// Returns true if its owner has read all mail and waits for more.
    pub fn is_idle(&self) -> bool {
        !self.readers.is_empty() && self.waiting.is_empty()
    }
}

/// A wait for mail.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct MailWait {
    /// The number of the wait, in the order in which waits began.
    pub number: u64,
    /// The owner of the mailbox.
    pub owner: FrameId,
    /// The wait goes on until there is mail.
    pub blocks: bool,
    /// The node that must become idle first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_target: Option<FrameId>,
}

impl MailState {
    /// Returns true if no mail was ever sent or waited for, and no node can receive any.
    pub(crate) fn is_unused(&self) -> bool {
        self.numbers == 0 && self.waits == 0 && self.is_empty()
    }

    /// Returns true if there is no mail and no wait.
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
