//! Conversion of typed values in both directions: the representation of serde_json, nothing lost, errors with a path.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use windlass_value::{Value, from_value, parse_json, to_json, to_value};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    note: Option<String>,
    lines: Vec<Line>,
    shape: Shape,
    by_number: BTreeMap<i32, bool>,
    by_colour: BTreeMap<Colour, Wrapped>,
    pair: (u8, char),
    nothing: (),
    unit: Unit,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    price: f64,
    weight: f32,
    big: i128,
    huge: u128,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Point,
    Circle(u32),
    Line(i8, i64),
    Box { width: u16, inner: Option<std::boxed::Box<Shape>> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Colour {
    Red,
    Green,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(i64);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Tagged {
    A { n: u64 },
    B(Inner),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Inner {
    text: String,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Either {
    Number(u64),
    Text(String),
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Point),
        any::<u32>().prop_map(Shape::Circle),
        any::<(i8, i64)>().prop_map(|(a, b)| Shape::Line(a, b))
    ];
    leaf.prop_recursive(4, 8, 1, |inner| {
        (any::<u16>(), proptest::option::of(inner))
            .prop_map(|(width, inner)| Shape::Box { width, inner: inner.map(std::boxed::Box::new) })
    })
}

fn order() -> impl Strategy<Value = Order> {
    let line = (-1e300..1e300f64, -1e30..1e30f32, any::<i128>(), any::<u128>());
    let line = line.prop_map(|(price, weight, big, huge)| Line { price, weight, big, huge });
    let colour = prop_oneof![Just(Colour::Red), Just(Colour::Green)];
    (
        any::<u64>(),
        proptest::option::of(".*"),
        prop::collection::vec(line, 0..4),
        shape(),
        prop::collection::btree_map(any::<i32>(), any::<bool>(), 0..4),
        prop::collection::btree_map(colour, any::<i64>().prop_map(Wrapped), 0..2),
        any::<(u8, char)>(),
    )
        .prop_map(|(id, note, lines, shape, by_number, by_colour, pair)| Order {
            id,
            note,
            lines,
            shape,
            by_number,
            by_colour,
            pair,
            nothing: (),
            unit: Unit,
        })
}

proptest! {
    #[test]
    fn typed_values_round_trip(order in order()) {
        let value = to_value(&order).unwrap();
        prop_assert_eq!(&from_value::<Order>(&value).unwrap(), &order);
        // Through the journal encoding, and through JSON text.
        let stored = windlass_value::decode(&windlass_value::encode(&value)).unwrap();
        prop_assert_eq!(&from_value::<Order>(&stored).unwrap(), &order);
        let printed = parse_json(&to_json(&value)).unwrap();
        prop_assert_eq!(&from_value::<Order>(&printed).unwrap(), &order);
    }

    #[test]
    fn the_forms_are_those_of_serde_json(order in order()) {
        let theirs = parse_json(&serde_json::to_string(&order).unwrap()).unwrap();
        let ours = to_value(&order).unwrap();
        // A narrow float may be written there with other digits.
        let bare = |value: &Value| Order { lines: Vec::new(), ..from_value(value).unwrap() };
        prop_assert_eq!(to_json(&to_value(&bare(&ours)).unwrap()), to_json(&to_value(&bare(&theirs)).unwrap()));
    }
}

#[test]
fn forms() {
    let table: [(Value, &str); 12] = [
        (to_value(&Shape::Point).unwrap(), r#""Point""#),
        (to_value(&Shape::Circle(2)).unwrap(), r#"{"Circle":2}"#),
        (to_value(&Shape::Line(1, 2)).unwrap(), r#"{"Line":[1,2]}"#),
        (to_value(&Shape::Box { width: 1, inner: None }).unwrap(), r#"{"Box":{"width":1,"inner":null}}"#),
        (to_value(&Tagged::A { n: 3 }).unwrap(), r#"{"type":"A","n":3}"#),
        (to_value(&u64::MAX).unwrap(), "18446744073709551615"),
        (to_value(&i128::MIN).unwrap(), "-170141183460469231731687303715884105728"),
        (to_value(&0.1f32).unwrap(), "0.1"),
        (to_value(&BTreeMap::from([(true, 1)])).unwrap(), r#"{"true":1}"#),
        (to_value(&Some(1)).unwrap(), "1"),
        (to_value(&None::<u8>).unwrap(), "null"),
        (to_value(&parse_json("123456789012345678901234567890").unwrap()).unwrap(), "123456789012345678901234567890"),
    ];
    for (value, json) in table {
        assert_eq!(to_json(&value), json);
    }
}

#[test]
fn other_ways_to_tag_and_free_values() {
    let tagged = Tagged::B(Inner {
        text: "x".into(),
        rest: BTreeMap::from([("big".to_owned(), serde_json::from_str("12345678901234567890123").unwrap())]),
    });
    assert_eq!(from_value::<Tagged>(&to_value(&tagged).unwrap()).unwrap(), tagged);
    for either in [Either::Number(u64::MAX), Either::Text("x".into())] {
        assert_eq!(from_value::<Either>(&to_value(&either).unwrap()).unwrap(), either);
    }
    let free = parse_json(r#"{"a": [1, 2.5, null, {"b": 12345678901234567890123}]}"#).unwrap();
    assert_eq!(from_value::<Value>(&free).unwrap(), free);
    assert_eq!(to_value(&from_value::<serde_json::Value>(&free).unwrap()).unwrap(), free);
}

#[test]
fn errors_name_the_path() {
    let refused = |json: &str| from_value::<Order>(&parse_json(json).unwrap()).unwrap_err().to_string();
    let table = [
        (r#"{"id": "x"}"#, "at `id`: invalid type: string \"x\", expected u64"),
        (r#"{"id": -1}"#, "at `id`: invalid value: integer `-1`, expected u64"),
        (
            r#"{"lines": [{"price": 1, "weight": 1, "big": 1, "huge": -1}]}"#,
            "at `lines[0].huge`: invalid value: integer `-1`, expected u128",
        ),
        (
            r#"{"shape": {"Box": {"width": 1, "inner": {"Circle": "x"}}}}"#,
            "at `shape.Box.inner.Circle`: invalid type: string \"x\", expected u32",
        ),
        (
            r#"{"shape": "Square"}"#,
            "at `shape`: unknown variant `Square`, expected one of `Point`, `Circle`, `Line`, `Box`",
        ),
        (r#"{"pair": [1, "x", 3]}"#, "at `pair`: a list of 3 items, expected 2"),
        (r#"{"id": 1}"#, "missing field `lines`"),
        (
            r#"{"id": 99999999999999999999999}"#,
            "at `id`: the number 99999999999999999999999 does not fit, expected u64",
        ),
    ];
    for (json, message) in table {
        assert_eq!(refused(json), *message);
    }
    #[derive(Serialize)]
    struct Nested {
        list: Vec<BTreeMap<String, f64>>,
    }
    let nested = Nested { list: vec![BTreeMap::from([("x".to_owned(), f64::NAN)])] };
    assert_eq!(
        to_value(&nested).unwrap_err().to_string(),
        "at `list[0].x`: NaN cannot be represented: only finite numbers can"
    );
    let keys = BTreeMap::from([(vec![1], 1)]);
    assert!(to_value(&keys).unwrap_err().to_string().contains("a list cannot be a key"));
}
