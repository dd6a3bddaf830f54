//! The encoding of the journal: records, snapshots, plans, iterations. Only this module knows it.
//!
//! MessagePack with names: any tool can display it. Data that cannot be decoded is damaged, unless its version shows
//! that a newer program has written it: such data is refused and left unchanged.

mod decoder;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_core::plan::{ENCODING_VERSION, Plan, SEMANTICS_VERSION};
use windlass_core::state::STATE_FORMAT;
use windlass_core::{Command, Event, IterationRecord, State, Tick};
use windlass_store::StoreError;
use windlass_value::{BlobHash, Value};

use crate::RuntimeError;
use decoder::{DecodeFailure, Decoder};

/// A tick as the journal stores it, with its results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TickEntry {
    /// The tick, with its time and seed.
    pub tick: Tick,
    /// A digest of the commands with their evaluated inputs: it detects a replay that diverges.
    pub digest: [u8; 16],
    /// The events that the tick published, in order.
    pub events: Vec<Event>,
}

/// A journaled tick without its events: a replay produces them again, so they are skipped, not decoded.
#[derive(Clone, Debug, Deserialize)]
pub struct TickEntryHeader {
    /// The tick, with its time and seed.
    pub tick: Tick,
    /// See [`TickEntry::digest`].
    pub digest: [u8; 16],
}

/// Encodes a value as MessagePack with field names.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Writing into memory cannot fail, and every type here can be encoded.
    rmp_serde::to_vec_named(value).unwrap_or_default()
}

/// Decodes MessagePack. `what` names the data in the error: `the journal`.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], what: &'static str) -> Result<T, RuntimeError> {
    decode_complete(bytes).map_err(|error| RuntimeError::Damaged { what, why: error.to_string() })
}

fn decode_complete<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeFailure> {
    let mut decoder = Decoder::new(bytes);
    let value = T::deserialize(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

/// Decodes ticks as a row of the journal holds them.
///
/// Other crates call this and its siblings instead of [`decode`]: each crate that does compiles the decoder again.
pub fn decode_ticks(bytes: &[u8]) -> Result<Vec<TickEntry>, RuntimeError> {
    decode(bytes, "the journal")
}

/// Encodes a plan.
pub fn encode_plan(plan: &Plan) -> Vec<u8> {
    encode(plan)
}

/// Decodes a plan. A plan of a newer program is refused as such, even if its bytes no longer fit.
pub fn decode_plan(bytes: &[u8]) -> Result<Plan, RuntimeError> {
    #[derive(Deserialize)]
    struct PlanVersion {
        encoding: u16,
        semantics: u16,
        name: String,
    }
    let plan: Result<Plan, RuntimeError> = decode(bytes, "a plan");
    let version = match &plan {
        Ok(plan) => PlanVersion { encoding: plan.encoding, semantics: plan.semantics, name: plan.name.to_string() },
        Err(error) => decode(bytes, "a plan").map_err(|_| error.clone())?,
    };
    let known = [
        ("plan encoding", version.encoding, ENCODING_VERSION),
        ("plan semantics", version.semantics, SEMANTICS_VERSION),
    ];
    match known.into_iter().find(|(_, found, known)| found > known) {
        Some((kind, found, known)) => Err(needs_newer_error(&format!("plan `{}`", version.name), kind, found, known)),
        None => plan,
    }
}

/// Decodes the state of a snapshot. A state of a newer program is refused as such, even if its bytes no longer fit.
pub fn decode_state(bytes: &[u8]) -> Result<State, RuntimeError> {
    #[derive(Deserialize)]
    struct StateVersion {
        format: u16,
    }
    let state: Result<State, RuntimeError> = decode(bytes, "a snapshot");
    let format = match &state {
        Ok(state) => state.format,
        Err(error) => decode::<StateVersion>(bytes, "a snapshot").map_err(|_| error.clone())?.format,
    };
    match format > STATE_FORMAT {
        true => Err(needs_newer_error("a snapshot", "state format", format, STATE_FORMAT)),
        false => state,
    }
}

pub(crate) fn needs_newer_error(what: &str, kind: &str, found: impl Into<u64>, known: impl Into<u64>) -> RuntimeError {
    StoreError::needs_newer(what, kind, found.into(), known.into()).into()
}

pub(crate) fn plan_hash(plan: &Plan) -> (BlobHash, Vec<u8>) {
    let bytes = encode(plan);
    (BlobHash(*blake3::hash(&bytes).as_bytes()), bytes)
}

/// Encodes a state and returns the bytes with their BLAKE3 hash.
pub fn state_bytes(state: &State) -> (Vec<u8>, [u8; 32]) {
    let bytes = encode(state);
    let hash = *blake3::hash(&bytes).as_bytes();
    (bytes, hash)
}

/// Returns a digest of all commands of a tick, in order.
pub fn digest(commands: &[Command]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = Vec::with_capacity(256);
    for command in commands {
        buffer.clear();
        if rmp_serde::encode::write(&mut buffer, command).is_ok() {
            hasher.update(&buffer);
        }
    }
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    digest
}

/// Decodes a stored value after checking that its bytes match its hash.
pub fn blob_value(hash: &BlobHash, bytes: &[u8]) -> Result<Value, RuntimeError> {
    let damaged = |why: String| RuntimeError::Damaged { what: "a stored value", why };
    if blake3::hash(bytes).as_bytes() != &hash.0 {
        return Err(damaged(format!("the checksum of {hash} does not match its bytes")));
    }
    windlass_value::decode(bytes).map_err(|error| damaged(format!("{hash}: {error}")))
}

/// Iterations of one loop, many per row. The row has the loop's path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IterationPack(pub Vec<IterationRecord>);

/// Returns the idempotency key of an effect, as tools and receivers see it.
pub(crate) fn effect_key(root: &str, key: &windlass_core::EffectKey) -> String {
    let mut parts = Vec::with_capacity(root.len() + key.path.len() + 32);
    for part in [root.as_bytes(), key.path.as_bytes()] {
        parts.extend_from_slice(&(part.len() as u64).to_le_bytes());
        parts.extend_from_slice(part);
    }
    for number in [key.generation, key.visit, key.group] {
        parts.extend_from_slice(&number.to_le_bytes());
    }
    if key.call > 0 {
        parts.extend_from_slice(&key.call.to_le_bytes());
    }
    let mut text = String::with_capacity(35);
    text.push_str("wl-");
    text.push_str(&blake3::hash(&parts).to_hex()[..32]);
    text
}

/// Returns the id of the request by which a parent cancels its child.
pub fn cancel_request_id(parent: &str) -> std::sync::Arc<str> {
    format!("cancel:{parent}").into()
}

/// Returns the id of a child run: a repeat of the same call is the same run.
pub(crate) fn child_id(root: &str, key: &windlass_core::EffectKey) -> String {
    format!("{root}-{}", &effect_key(root, key)[3..15])
}

#[cfg(test)]
mod tests {
    use windlass_value::{RunView, Timestamp};

    use super::*;

    /// Returns the bytes with the version after this name raised by one and, if requested, the rest made undecodable.
    fn with_raised_version(bytes: &[u8], name: &[u8], unreadable: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let find = |bytes: &[u8], name: &[u8]| bytes.windows(name.len()).position(|part| part == name).expect("there");
        let at = find(&bytes, name) + name.len();
        bytes[at] += 1;
        if !unreadable.is_empty() {
            let at = find(&bytes, unreadable);
            bytes[at] = b'x';
        }
        bytes
    }

    #[test]
    fn a_newer_plan_or_state_is_refused_even_if_it_cannot_be_decoded() {
        let plan = encode(&Plan::new("p", "test", ""));
        let state = encode(&State::new(RunView::new("r", "p", Timestamp(7))));
        assert!(decode_plan(&plan).is_ok() && decode_state(&state).is_ok());
        for unreadable in [&b""[..], b"expressions"] {
            for (name, expected) in [(&b"encoding"[..], "plan encoding 2"), (b"semantics", "plan semantics 2")] {
                let error = decode_plan(&with_raised_version(&plan, name, unreadable)).expect_err("refused");
                assert!(error.needs_newer() && error.to_string().contains(expected), "{error}");
            }
        }
        for unreadable in [&b""[..], b"frames"] {
            let error = decode_state(&with_raised_version(&state, b"format", unreadable)).expect_err("refused");
            assert!(error.needs_newer() && error.to_string().contains("state format 2"), "{error}");
        }
        assert!(matches!(decode_plan(b"\x81"), Err(RuntimeError::Damaged { .. })));
    }
}
