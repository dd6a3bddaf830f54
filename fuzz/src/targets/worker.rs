//! The messages of the worker protocol.

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_server::workers::{
    CompleteRequest, DeregisterRequest, FailRequest, HeartbeatRequest, HeartbeatResponse, LeaseRequest, LeaseResponse,
    LogReport, ProgressReport,
};

use super::variant;

/// A message that is read, written and read again is the same message.
pub(crate) fn worker(data: &[u8]) {
    let (variant, bytes) = variant(data);
    match variant {
        0 => round_trip::<LeaseRequest>(bytes),
        1 => round_trip::<LeaseResponse>(bytes),
        2 => round_trip::<HeartbeatRequest>(bytes),
        3 => round_trip::<HeartbeatResponse>(bytes),
        4 => round_trip::<ProgressReport>(bytes),
        5 => round_trip::<LogReport>(bytes),
        6 => round_trip::<CompleteRequest>(bytes),
        7 => round_trip::<FailRequest>(bytes),
        _ => round_trip::<DeregisterRequest>(bytes),
    }
}

fn round_trip<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(message) = serde_json::from_slice::<T>(bytes) else { return };
    let text = serde_json::to_string(&message).unwrap_or_else(|error| panic!("it cannot be written: {error}"));
    let again: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let again = serde_json::to_string(&again).unwrap_or_else(|error| panic!("it cannot be written: {error}"));
    assert_eq!(again, text);
}
