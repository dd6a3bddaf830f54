//! Events as tests inspect them: by the names and fields of the wire.

use std::sync::Arc;

use windlass_core::{Event, EventKind};
use windlass_value::{Timestamp, Value};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObservedEvent {
    pub seq: u64,
    pub at: Timestamp,
    pub kind: Arc<str>,
    pub path: Arc<str>,
    pub data: Value,
}

impl ObservedEvent {
    /// Converts an event and asserts that it survives the journal and the wire.
    pub(crate) fn new(event: &Event) -> ObservedEvent {
        let bytes = rmp_serde::to_vec_named(event).unwrap();
        assert_eq!(rmp_serde::from_slice::<Event>(&bytes).unwrap(), *event);
        let wire = event.to_wire(None);
        let read = Event::from_wire(wire.clone()).unwrap();
        assert_eq!(read.to_wire(None), wire);
        let known = EventKind::TYPES.contains(&event.type_name());
        assert_eq!(matches!(read.kind, EventKind::Other { .. }), !known, "{event:?}");
        ObservedEvent {
            seq: event.seq,
            at: event.at,
            kind: event.type_name().into(),
            path: event.path.clone(),
            data: Value::map(event.fields()),
        }
    }
}
