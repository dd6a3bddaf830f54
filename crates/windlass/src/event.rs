//! Events: the values that steps accept and produce.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_value::{Map, Value, from_value, interned, to_value};

use crate::StepError;
use crate::nearest::list_names;

/// The key of the version in an event's payload, present from version 2 on. Kinds and plans do not change with the
/// version, so runs that began with an older version continue.
const VERSION_KEY: &str = "@version";

/// The key of a payload that is not an object, when it needs a version.
const VALUE_KEY: &str = "@value";

/// A type whose values travel between steps. Derive it together with serde's two traits:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Event, EventRole};
///
/// #[derive(Event, Serialize, Deserialize)]
/// #[event(name = "order.placed", start)]
/// struct OrderPlaced {
///     id: u64,
/// }
///
/// assert_eq!(OrderPlaced::NAME, "order.placed");
/// assert_eq!(OrderPlaced::ROLE, EventRole::Start);
/// ```
///
/// The journal stores the name: it stays when the type is renamed or moved. A version above 1 comes with a function
/// that upgrades a payload of any older version to the newest:
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// use windlass::{Event, StepError, Value};
///
/// #[derive(Event, Serialize, Deserialize)]
/// #[event(name = "order.placed", start, version = 2, upgrade = with_currency)]
/// struct OrderPlaced {
///     id: u64,
///     currency: String,
/// }
///
/// fn with_currency(_from: u32, payload: Value) -> Result<Value, StepError> {
///     let id = payload.get("id").cloned().unwrap_or_default();
///     Ok(Value::object([("id", id), ("currency", "EUR".into())]))
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "not an event",
    note = "an event is a struct of yours: `#[derive(Event, Serialize, Deserialize)] #[event(name = \"…\")] struct MyEvent {{ … }}`"
)]
pub trait Event: Serialize + DeserializeOwned + Send + 'static {
    /// The name in journals, streams and drawings.
    const NAME: &'static str;
    /// The version; increase it when a change of the fields makes older payloads unreadable.
    const VERSION: u32 = 1;
    /// The role of the event in a workflow.
    const ROLE: EventRole = EventRole::Plain;

    /// Upgrades the payload of an older version to the newest. `from` is at least 1 and less than
    /// [`VERSION`](Self::VERSION).
    fn upgrade(from: u32, payload: Value) -> Result<Value, StepError> {
        let _ = payload;
        let message =
            format!("`{}` of version {from} cannot be read: this program has version {}", Self::NAME, Self::VERSION);
        Err(StepError::new("EventTooOld", message)
            .with_kind("event")
            .hint("declare how older versions are read: `#[event(upgrade = function)]`"))
    }
}

/// The role of an event in a workflow.
///
/// ```
/// use windlass::EventRole;
/// assert_eq!(EventRole::HumanResponse.as_str(), "human_response");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum EventRole {
    /// Travels between steps.
    #[default]
    Plain,
    /// Begins a run: one step accepts it.
    Start,
    /// Ends a run, and is its result.
    Stop,
    /// Requests input from outside: published in the stream; no step has to accept it.
    InputRequired,
    /// Comes from outside: no step has to produce it.
    HumanResponse,
}

impl EventRole {
    /// Returns the spelling in attributes and in a plan's metadata.
    pub fn as_str(self) -> &'static str {
        match self {
            EventRole::Plain => "plain",
            EventRole::Start => "start",
            EventRole::Stop => "stop",
            EventRole::InputRequired => "input_required",
            EventRole::HumanResponse => "human_response",
        }
    }
}

/// Metadata of an event type.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, EventType};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "tick")]
/// # struct Tick;
/// assert_eq!(EventType::for_type::<Tick>().name, "tick");
/// ```
#[derive(Clone, Copy)]
pub struct EventType {
    /// [`Event::NAME`]
    pub name: &'static str,
    /// [`Event::VERSION`]
    pub version: u32,
    /// [`Event::ROLE`]
    pub role: EventRole,
    pub(crate) type_id: TypeId,
    pub(crate) type_name: &'static str,
    /// Reads a payload of any known version and writes it in the newest.
    pub(crate) read: fn(&Value) -> Result<Value, StepError>,
}

impl EventType {
    /// Returns the metadata of a type.
    pub fn for_type<E: Event>() -> EventType {
        EventType {
            name: E::NAME,
            version: E::VERSION,
            role: E::ROLE,
            type_id: TypeId::of::<E>(),
            type_name: std::any::type_name::<E>(),
            read: |payload| encode(&decode::<E>(payload)?),
        }
    }
}

impl PartialEq for EventType {
    fn eq(&self, other: &EventType) -> bool {
        self.type_id == other.type_id
    }
}

impl Eq for EventType {}

impl fmt::Debug for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, version {})", self.name, self.role.as_str(), self.version)
    }
}

/// One event, or one of several: a type that a step can accept one at a time, and return. Deriving it turns an enum
/// with one event in each variant into a union; every [`Event`] is a union of one.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Event, Events};
///
/// #[derive(Event, Serialize, Deserialize)]
/// #[event(name = "order.charge")]
/// struct Charge;
///
/// #[derive(Event, Serialize, Deserialize)]
/// #[event(name = "order.rejected", stop)]
/// struct Rejected;
///
/// #[derive(Events)]
/// enum Next {
///     Charge(Charge),
///     Reject(Rejected),
/// }
///
/// let names: Vec<&str> = Next::types().iter().map(|one| one.name).collect();
/// assert_eq!(names, ["order.charge", "order.rejected"]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither an event nor a union of events",
    label = "neither an event nor a union of events",
    note = "a struct becomes an event with `#[derive(Event)]`, an enum of events a union with `#[derive(Events)]`"
)]
pub trait Events: Sized + Send + 'static {
    /// Returns all event types of the union.
    fn types() -> Vec<EventType>;
    /// Reads an event that has arrived.
    #[doc(hidden)]
    fn read(token: &Token) -> Result<Self, StepError>;
    /// Emits an event that a step returns.
    #[doc(hidden)]
    fn emit(self, emitted: &mut Emitted) -> Result<(), StepError>;
}

#[diagnostic::do_not_recommend]
impl<E: Event> Events for E {
    fn types() -> Vec<EventType> {
        vec![EventType::for_type::<E>()]
    }

    fn read(token: &Token) -> Result<E, StepError> {
        match token.is::<E>() {
            true => token.event(),
            false => Err(token.unknown(&E::types())),
        }
    }

    fn emit(self, emitted: &mut Emitted) -> Result<(), StepError> {
        emitted.event(self)
    }
}

/// An event in transit: its name and payload.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Token {
    /// The event's name.
    pub kind: Arc<str>,
    /// Its fields.
    pub payload: Value,
}

impl Token {
    /// Reads `{kind, payload}`.
    pub(crate) fn from_value(value: &Value) -> Result<Token, StepError> {
        let kind = match value.get("kind") {
            Some(Value::Str(kind)) => kind.clone(),
            _ => return Err(StepError::new("NotAnEvent", format!("{value:?} is not an event")).with_kind("event")),
        };
        Ok(Token { kind, payload: value.get("payload").cloned().unwrap_or_default() })
    }

    /// Reports whether it is an event of this type, in any version.
    pub fn is<E: Event>(&self) -> bool {
        *self.kind == *E::NAME
    }

    /// Returns the typed event.
    pub fn event<E: Event>(&self) -> Result<E, StepError> {
        decode(&self.payload)
    }

    /// Returns the error for an event that is none of the known types.
    pub fn unknown(&self, known: &[EventType]) -> StepError {
        unknown(&self.kind, known)
    }
}

/// Returns an error that lists the known names.
pub(crate) fn unknown(name: &str, known: &[EventType]) -> StepError {
    let message = format!("unknown event `{name}`; {}", list_names("known", known.iter().map(|one| one.name)));
    StepError::new("UnknownEvent", message).with_kind("event")
}

/// The events that a step returns.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Emitted(pub(crate) Vec<Value>);

impl Emitted {
    /// Appends an event.
    pub fn event<E: Event>(&mut self, event: E) -> Result<(), StepError> {
        self.0.push(token(E::NAME, encode(&event)?));
        Ok(())
    }
}

fn token(kind: &'static str, payload: Value) -> Value {
    let mut map = Map::with_capacity(2);
    map.insert(interned("kind"), interned(kind));
    map.insert(interned("payload"), payload);
    Value::map(map)
}

/// Encodes an event as a payload.
pub(crate) fn encode<E: Event>(event: &E) -> Result<Value, StepError> {
    let payload = to_value(event).map_err(|error| {
        let message = format!("the event `{}` cannot be written: {error}", E::NAME);
        StepError::new("EventNotWritten", message).with_kind("event")
    })?;
    if E::VERSION == 1 {
        return Ok(payload);
    }
    let mut map = match payload {
        Value::Map(map) => Arc::unwrap_or_clone(map),
        other => Map::from_iter([(VALUE_KEY, other)]),
    };
    map.insert(VERSION_KEY, E::VERSION);
    Ok(Value::map(map))
}

/// Decodes a payload of this version or an older one.
pub(crate) fn decode<E: Event>(payload: &Value) -> Result<E, StepError> {
    let given = payload.get(VERSION_KEY).and_then(Value::as_int).and_then(|version| u32::try_from(version).ok());
    let given = given.unwrap_or(1).max(1);
    if given == 1 && E::VERSION == 1 {
        return read(payload);
    }
    if given > E::VERSION {
        let message = format!("`{}` is of version {given}: this program reads up to {}", E::NAME, E::VERSION);
        let hint = "it was written by a newer program: use that version";
        return Err(StepError::new("EventTooNew", message).with_kind("event").hint(hint));
    }
    let plain = unversioned(payload);
    if given == E::VERSION {
        return read(&plain);
    }
    read(&E::upgrade(given, plain)?)
}

fn unversioned(payload: &Value) -> Value {
    let Some(map) = payload.as_map().filter(|map| map.contains_key(VERSION_KEY)) else { return payload.clone() };
    if let Some(value) = map.get(VALUE_KEY) {
        return value.clone();
    }
    let mut map = map.clone();
    map.remove(VERSION_KEY);
    Value::map(map)
}

fn read<E: Event>(payload: &Value) -> Result<E, StepError> {
    from_value(payload).map_err(|error| {
        let message = format!("the event `{}` cannot be read: {error}", E::NAME);
        StepError::new("EventNotRead", message)
            .with_kind("event")
            .hint("a change of its fields needs a new version: `#[event(version = 2, upgrade = …)]`")
    })
}
