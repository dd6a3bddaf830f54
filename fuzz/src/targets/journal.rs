//! The content of a store: values, ticks, snapshots, plans, iterations.

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::{Limits, Program, State};
use windlass_runtime::codec::{
    IterationPack, TickEntry, decode, decode_plan, decode_state, encode, encode_plan, state_bytes,
};
use windlass_value::Language;

use super::variant;

/// A decoded value is encoded and decoded again without a change.
pub(crate) fn value(data: &[u8]) {
    let Ok(value) = windlass_value::decode(data) else { return };
    let bytes = windlass_value::encode(&value);
    let again = windlass_value::decode(&bytes).unwrap_or_else(|error| panic!("{value:?}: {error}"));
    assert_eq!(windlass_value::encode(&again), bytes, "{value:?}");
}

/// Damaged bytes are refused or give something that can be encoded again; a state that is no state of its plan is found.
pub(crate) fn journal(data: &[u8]) {
    match variant(data) {
        (0, bytes) => round_trip::<Vec<TickEntry>>(bytes),
        (1, bytes) => round_trip::<IterationPack>(bytes),
        (2, bytes) => {
            if let Ok(plan) = decode_plan(bytes) {
                let encoded = encode_plan(&plan);
                let again = decode_plan(&encoded).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(encode_plan(&again), encoded);
                load(&encoded);
            }
        }
        (3, bytes) => {
            if let Ok(state) = decode_state(bytes) {
                let (encoded, _) = state_bytes(&state);
                let again = decode_state(&encoded).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(state_bytes(&again).0, encoded);
            }
        }
        (_, bytes) => plan_and_state(bytes),
    }
}

fn round_trip<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(value) = decode::<T>(bytes, "fuzz") else { return };
    let encoded = encode(&value);
    let again = decode::<T>(&encoded, "fuzz").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(encode(&again), encoded);
}

fn load(plan: &[u8]) -> Option<Program> {
    let wdl = windlass_expr::wdl::WdlLanguage;
    let steps = windlass_expr::steps::StepsLanguage;
    let languages: [&dyn Language; 2] = [&wdl, &steps];
    Program::load(decode_plan(plan).ok()?, &languages, Limits::default()).ok()
}

/// A length of two bytes, then a plan and a state: checking the state never panics.
fn plan_and_state(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return };
    let Some((plan, state)) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length))) else { return };
    let state: Option<State> = decode_state(state).ok();
    if let (Some(program), Some(state)) = (load(plan), state) {
        let _ = state.check(&program);
    }
}
