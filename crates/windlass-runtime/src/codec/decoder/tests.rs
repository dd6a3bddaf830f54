//! Round trips, and bytes that are not what the encoder writes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Newtype(i64);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Point,
    Line(u64),
    Pair(u8, String),
    Circle { radius: f64, name: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Tagged {
    One { number: i32 },
    Two,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    flag: bool,
    unsigned: Vec<u64>,
    signed: Vec<i64>,
    floats: (f32, f64),
    letter: char,
    texts: BTreeMap<String, String>,
    digest: [u8; 16],
    nothing: Option<u8>,
    something: Option<Option<u8>>,
    unit: (),
    empty: Unit,
    newtype: Newtype,
    shapes: Vec<Shape>,
    tagged: Vec<Tagged>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<u8>,
}

fn everything() -> Everything {
    let unsigned = [0, 127, 128, 255, 256, 65_535, 65_536, u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX];
    let signed = [-1, -32, -33, -128, -129, -32_768, -32_769, i64::from(i32::MIN), i64::from(i32::MIN) - 1];
    let shapes = [
        Shape::Point,
        Shape::Line(7),
        Shape::Pair(1, "one".to_owned()),
        Shape::Circle { radius: 1.5, name: Some("round".to_owned()) },
    ];
    let texts = [0, 31, 32, 255, 256, 65_535, 65_536].map(|length| (format!("{length}"), "ä".repeat(length / 2)));
    Everything {
        flag: true,
        unsigned: unsigned.to_vec(),
        signed: signed.into_iter().chain([i64::MIN, i64::MAX, 5]).collect(),
        floats: (0.25, -1e300),
        letter: 'ß',
        texts: texts.into_iter().collect(),
        digest: [200; 16],
        nothing: None,
        something: Some(Some(3)),
        unit: (),
        empty: Unit,
        newtype: Newtype(-4),
        shapes: shapes.iter().cycle().take(70_000).cloned().collect(),
        tagged: vec![Tagged::One { number: -9 }, Tagged::Two],
        left_out: Vec::new(),
    }
}

fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, DecodeFailure> {
    let mut decoder = Decoder::new(bytes);
    let value = T::deserialize(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

#[test]
fn what_the_encoder_writes_is_read_back() {
    let value = everything();
    assert_eq!(read::<Everything>(&super::super::encode(&value)).expect("it is read"), value);
}

#[test]
fn unknown_fields_are_skipped() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Part {
        digest: [u8; 16],
    }
    assert_eq!(read::<Part>(&super::super::encode(&everything())).expect("it is read"), Part { digest: [200; 16] });
}

#[test]
fn damaged_bytes_are_errors_and_never_panic() {
    let small = Everything { shapes: Vec::new(), texts: BTreeMap::new(), ..everything() };
    let bytes = super::super::encode(&small);
    for end in 0..bytes.len() {
        assert!(read::<Everything>(&bytes[..end]).is_err(), "cut at {end}");
    }
    let mut longer = bytes.clone();
    longer.push(0xc0);
    assert!(read::<Everything>(&longer).is_err_and(|why| why.to_string().contains("followed by 1 more")));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            // Some changes give another valid value.
            let _ = read::<Everything>(&changed);
        }
    }
}

#[test]
fn deep_data_is_refused() {
    #[derive(Deserialize)]
    struct Nested(#[expect(dead_code, reason = "only its depth counts")] Vec<Nested>);
    assert!(read::<Nested>(&vec![0x91; 100_000]).is_err_and(|why| why.to_string().contains("too deep")));
    // Skipping needs no stack.
    let mut deep = vec![0x91; 100_000];
    deep.push(0xc0);
    assert!(read::<serde::de::IgnoredAny>(&deep).is_ok());
}

#[test]
fn a_huge_length_allocates_nothing() {
    assert!(read::<Vec<u64>>(&[0xdd, 0xff, 0xff, 0xff, 0xff]).is_err());
    assert!(read::<serde::de::IgnoredAny>(&[0xdf, 0xff, 0xff, 0xff, 0xff]).is_err());
}
