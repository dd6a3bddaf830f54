//! Every event type survives the journal and the wire with any field values.

use std::sync::Arc;

use proptest::prelude::*;
use windlass_core::{Event, EventDoc, EventKind, FieldDoc, FieldShape};
use windlass_value::{BlobHash, ContentSummary, Map, StoredValue, Timestamp, Value, parse_json, to_json};

/// Generates any value, including one that is stored outside the event.
fn any_value() -> BoxedStrategy<Value> {
    let stored = |size: u64| {
        Value::Stored(Arc::new(StoredValue {
            hash: BlobHash([7; 32]),
            size,
            items: 0,
            chunked: false,
            summary: ContentSummary::default(),
        }))
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        "[a-z ]{0,8}".prop_map(Value::from),
        any::<u64>().prop_map(stored),
    ];
    let object =
        |inner: BoxedStrategy<Value>| prop::collection::vec(("[a-z]{1,6}", inner), 0..4).prop_map(Value::object);
    leaf.boxed()
        .prop_recursive(2, 12, 4, move |inner| {
            prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::list), object(inner.boxed())]
        })
        .boxed()
}

fn value_of_shape(shape: FieldShape) -> BoxedStrategy<Value> {
    match shape {
        FieldShape::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        FieldShape::Integer | FieldShape::Milliseconds => (0..1_000_000_000u64).prop_map(Value::from).boxed(),
        FieldShape::Text => "[a-z\\[\\]0-9.]{0,12}".prop_map(Value::from).boxed(),
        FieldShape::Time => {
            (0..4_000_000_000_000i64).prop_map(|ms| Value::from(Timestamp(ms * 1_000).to_string())).boxed()
        }
        FieldShape::OneOf(words) => prop::sample::select(words).prop_map(Value::from).boxed(),
        FieldShape::List(inner) => prop::collection::vec(value_of_shape(*inner), 0..4).prop_map(Value::list).boxed(),
        FieldShape::OrNull(inner) => prop_oneof![Just(Value::Null), value_of_shape(*inner)].boxed(),
        FieldShape::Object(object) => map_of_fields(object.fields).prop_map(Value::map).boxed(),
        _ => any_value(),
    }
}

/// Generates all required fields and some of the optional ones. Generated fields are not empty, since empty ones are
/// omitted.
fn map_of_fields(fields: &'static [FieldDoc]) -> BoxedStrategy<Map> {
    let mut whole = Just(Map::new()).boxed();
    for field in fields {
        let value = value_of_shape(field.shape);
        let value = match field.optional {
            false => value.prop_map(Some).boxed(),
            true => {
                prop_oneof![Just(None), value.prop_map(|value| Some(value).filter(|value| !is_empty(value)))].boxed()
            }
        };
        whole = (whole, value)
            .prop_map(|(mut map, value)| {
                if let Some(value) = value {
                    map.insert(field.name, value);
                }
                map
            })
            .boxed();
    }
    whole
}

fn is_empty(value: &Value) -> bool {
    [Value::Null, Value::Bool(false), Value::Int(0), Value::from(""), Value::list(Vec::new())].contains(value)
}

fn an_event() -> impl Strategy<Value = (&'static EventDoc, Map)> {
    prop::sample::select(EventKind::DOCS).prop_flat_map(|docs| {
        let docs = EventKind::DOCS.iter().find(|one| one.type_name == docs.type_name).unwrap();
        map_of_fields(docs.fields).prop_map(move |fields| (docs, fields))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_event_of_any_type_survives_journal_and_wire((docs, fields) in an_event(), seq in 1..u64::from(u32::MAX)) {
        let kind = EventKind::new(docs.type_name.into(), fields.clone());
        prop_assert!(!matches!(kind, EventKind::Other { .. }), "{}: {:?}", docs.type_name, fields);
        prop_assert_eq!(kind.type_name(), docs.type_name);
        prop_assert_eq!(&kind.fields(), &fields);
        let event = Event { seq, at: Timestamp(1_000_000), path: "a[3].b".into(), kind };
        let bytes = rmp_serde::to_vec_named(&event).unwrap();
        prop_assert_eq!(&rmp_serde::from_slice::<Event>(&bytes).unwrap(), &event);
        let compact = rmp_serde::to_vec(&event).unwrap();
        prop_assert!(compact.len() <= bytes.len());
        prop_assert_eq!(&Event::from_wire(event.to_wire(Some("run"))).unwrap(), &event);
        // The journal is no larger than with the fields as one object.
        let loose = (seq, event.at, docs.type_name, &event.path, Value::map(fields));
        prop_assert!(bytes.len() <= rmp_serde::to_vec(&loose).unwrap().len() + 24 + docs.fields.len() * 6);
    }

    #[test]
    fn an_event_of_another_type_is_carried_unchanged(name in "[a-z]{1,8}\\.[a-z]{1,8}", data in any_value()) {
        let fields: Map = [("data", data), ("seq_like", Value::Int(1))].into_iter().collect();
        let kind = EventKind::new(name.as_str().into(), fields.clone());
        prop_assume!(!EventKind::TYPES.contains(&name.as_str()));
        prop_assert_eq!(&kind, &EventKind::Other { type_name: name.as_str().into(), fields: Value::map(fields) });
        let event = Event { seq: 1, at: Timestamp(0), path: "".into(), kind };
        prop_assert_eq!(&rmp_serde::from_slice::<Event>(&rmp_serde::to_vec_named(&event).unwrap()).unwrap(), &event);
        prop_assert_eq!(&Event::from_wire(event.to_wire(None)).unwrap(), &event);
    }
}

#[test]
fn a_known_type_with_other_fields_is_carried_unchanged() {
    for fields in [r#"{"iterations": "many"}"#, "{}", r#"{"status": "succeeded", "more": 1}"#] {
        let fields = parse_json(fields).unwrap().as_map().unwrap().clone();
        let kind = EventKind::new(EventKind::STEP_DONE.into(), fields.clone());
        assert!(matches!(kind, EventKind::Other { .. }), "{kind:?}");
        assert_eq!(kind.fields(), fields);
    }
}

#[test]
fn every_type_has_a_distinct_name_and_documented_fields() {
    let mut names: Vec<&str> = EventKind::TYPES.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), EventKind::DOCS.len());
    for docs in EventKind::DOCS {
        assert!(docs.docs.iter().all(|line| !line.trim().is_empty()), "{}", docs.type_name);
        assert!(docs.fields.iter().all(|field| !["seq", "at", "type", "path", "workflowId"].contains(&field.name)));
        let kind = EventKind::with_defaults(docs.type_name, Map::new());
        assert!(!matches!(kind, EventKind::Other { .. }), "{}", docs.type_name);
    }
    for name in [
        EventKind::STEP_DONE,
        EventKind::STEP_FAILED,
        EventKind::LOOP_DONE,
        EventKind::TASK_PROGRESS,
        EventKind::AGENT_OUTPUT,
        EventKind::COORDINATOR_NARRATION,
        EventKind::COORDINATOR_SYNTHESIS,
        EventKind::COORDINATOR_FAILED,
    ] {
        assert!(EventKind::TYPES.contains(&name), "{name}");
    }
}

#[test]
fn the_wire_has_the_fields_next_to_the_type() {
    let kind = EventKind::LoopProgress { from: 1, to: 2, failed: 0, steps: Vec::new() };
    let event = Event { seq: 7, at: Timestamp(0), path: "sync".into(), kind };
    let wire =
        r#"{"seq":7,"at":"1970-01-01T00:00:00.000Z","type":"loop.progress","path":"sync","from":1,"to":2,"failed":0}"#;
    assert_eq!(to_json(&Value::map(event.to_wire(None))), wire);
}
