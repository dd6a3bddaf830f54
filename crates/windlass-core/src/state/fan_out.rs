//! Fan-outs of a net: their open work, and the tokens that come together again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_value::Value;

use super::NetToken;

/// The tokens that one body has returned, and everything that results from them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FanOut {
    /// Its open work: tokens, bodies and inner fan-outs, and itself until all members are delivered. At 0 it closes.
    pub open: u64,
    /// The fan-outs around it, innermost last.
    pub parent: Vec<u64>,
    /// Tokens that joins hold for it: place, then members in arrival order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<u32, Vec<FanOutMember>>,
    /// The place whose body created it, if that is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
    /// The order of the body that created it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<u64>,
    /// The counts of the token that created it; see [`NetToken::handled`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handled: BTreeMap<u32, u32>,
}

/// A token that a join holds for a fan-out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FanOutMember {
    /// Which member of the fan-out it comes from.
    pub at: u64,
    /// The content of the token.
    pub payload: Value,
    /// The bodies, by slot, that it comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<u64>,
    /// The counts of the token; see [`NetToken::handled`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handled: BTreeMap<u32, u32>,
}

/// All that has resulted from one token at the head of a region and is still inside: the tokens of one fan-out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RegionActivation {
    /// The index of the region.
    pub region: u32,
    /// Its tokens and bodies, held ones included. At 0 it is over.
    pub live: u64,
    /// By meeting place: the tokens and bodies that can still arrive there; missing for none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pending: BTreeMap<u32, u64>,
    /// By meeting place: the tokens that wait there, in order of arrival.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<u32, Vec<NetToken>>,
}
