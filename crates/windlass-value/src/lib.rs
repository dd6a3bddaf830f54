//! One value type for every dialect, and the trait through which expressions read state.
//!
//! Cloning a [`Value`] costs a reference count, so scopes, events and snapshots share payloads. There is no NaN and
//! no infinity: a float that is not finite cannot be constructed. `1 == 1.0`, yet `1.0` keeps its point when
//! printed.

mod charset;
mod codec;
mod digits;
mod eval;
mod interned;
mod json;
mod map;
mod nearest;
mod schema;
mod strict;
mod time;
mod typed;
mod value;

pub use charset::{UndecodableText, content_type_parameter, decode_text};
pub use codec::{DecodeError, decode, encode};
pub use digits::Digits;
pub use eval::{
    CompileError, EvalError, EvalErrorKind, EvalScope, Expression, ExpressionMode, IterationRecords, IterationView,
    Language, Level, LoopInnerNode, Meter, MeterCaps, NodeView, PathPart, RunView,
};
pub use interned::interned;
pub use json::{JsonError, format_float, parse_json, to_json, to_json_pretty, write_json};
pub use map::Map;
pub use nearest::{edit_distance, nearest, nearest_within};
pub use schema::{SchemaTooLarge, schema_width};
pub use strict::{StrictJsonError, check_json};
pub use time::{Duration, Timestamp};
pub use typed::{ConvertError, from_value, to_value};
pub use value::{BlobHash, ContentKind, ContentSummary, StoredValue, Value};
