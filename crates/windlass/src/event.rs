//! Events: what steps take and give.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_value::{Map, Value, from_value, interned, to_value};

use crate::StepError;
use crate::nearest::list_names;

/// Where the payload of an event says its version, from the second one on. Kinds and plans do not change with it, so runs
/// that have begun with an older version go on.
const VERSION_KEY: &str = "@version";

/// Holds a payload that is no object, when it needs a version.
const VALUE_KEY: &str = "@value";

/// A type whose values travel between steps. Derive it, beside serde's two:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Event, EventKind};
///
/// #[derive(Event, Serialize, Deserialize)]
/// #[event(name = "order.placed", start)]
/// struct OrderPlaced {
///     id: u64,
/// }
///
/// assert_eq!(OrderPlaced::NAME, "order.placed");
/// assert_eq!(OrderPlaced::KIND, EventKind::Start);
/// ```
///
/// The name is what the journal keeps: it stays when the type is renamed or moved. A version above 1 comes with a function
/// that makes an older payload the next one:
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
    /// Goes up when the fields change so that older payloads cannot be read.
    const VERSION: u32 = 1;
    /// What part it has in a workflow.
    const KIND: EventKind = EventKind::Plain;

    /// Makes the payload of an older version one of the newest. `from` is at least 1 and less than [`VERSION`](Self::VERSION).
    fn upgrade(from: u32, payload: Value) -> Result<Value, StepError> {
        let _ = payload;
        let message =
            format!("`{}` of version {from} cannot be read: this program has version {}", Self::NAME, Self::VERSION);
        Err(StepError::new("EventTooOld", message)
            .with_kind("event")
            .hint("say how older ones are read: `#[event(upgrade = function)]`"))
    }
}

/// What part an event has in a workflow.
///
/// ```
/// use windlass::EventKind;
/// assert_eq!(EventKind::HumanResponse.as_str(), "human_response");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum EventKind {
    /// Travels between steps.
    #[default]
    Plain,
    /// Begins a run: one step accepts it.
    Start,
    /// Ends a run, and is its result.
    Stop,
    /// Asks somebody outside: shown in the stream, nobody inside need take it.
    InputRequired,
    /// Comes from outside: nobody inside need make it.
    HumanResponse,
}

impl EventKind {
    /// As it is written in attributes and in a plan's facts.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Plain => "plain",
            EventKind::Start => "start",
            EventKind::Stop => "stop",
            EventKind::InputRequired => "input_required",
            EventKind::HumanResponse => "human_response",
        }
    }
}

/// What is known of an event's type.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, EventType};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "tick")]
/// # struct Tick;
/// assert_eq!(EventType::of::<Tick>().name, "tick");
/// ```
#[derive(Clone, Copy)]
pub struct EventType {
    /// [`Event::NAME`]
    pub name: &'static str,
    /// [`Event::VERSION`]
    pub version: u32,
    /// [`Event::KIND`]
    pub kind: EventKind,
    pub(crate) type_id: TypeId,
    pub(crate) type_name: &'static str,
    /// Reads a payload of any known version, and writes it in the newest.
    pub(crate) read: fn(&Value) -> Result<Value, StepError>,
}

impl EventType {
    /// The facts of a type.
    pub fn for_type<E: Event>() -> EventType {
        EventType {
            name: E::NAME,
            version: E::VERSION,
            kind: E::KIND,
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
        write!(f, "{} ({}, version {})", self.name, self.kind.as_str(), self.version)
    }
}

/// One event, or one of several: what a step can accept as it comes, and return. An enum with one event in each variant
/// becomes a union with a derive; every [`Event`] is one by itself.
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
    /// All it can be.
    fn types() -> Vec<EventType>;
    /// What has arrived.
    #[doc(hidden)]
    fn read(token: &Token) -> Result<Self, StepError>;
    /// What is returned.
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

/// An event on its way: its kind and what it carries.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Token {
    /// The event's name.
    pub kind: Arc<str>,
    /// Its fields.
    pub payload: Value,
}

impl Token {
    /// From `{kind, payload}`.
    pub(crate) fn from_value(value: &Value) -> Result<Token, StepError> {
        let kind = match value.get("kind") {
            Some(Value::Str(kind)) => kind.clone(),
            _ => return Err(StepError::new("NotAnEvent", format!("{value:?} is not an event")).with_kind("event")),
        };
        Ok(Token { kind, payload: value.get("payload").cloned().unwrap_or_default() })
    }

    /// Whether it is an event of this type, in any version.
    pub fn is<E: Event>(&self) -> bool {
        *self.kind == *E::NAME
    }

    /// The typed event.
    pub fn event<E: Event>(&self) -> Result<E, StepError> {
        decode(&self.payload)
    }

    /// It is none of those that are known here.
    pub fn unknown(&self, known: &[EventType]) -> StepError {
        unknown(&self.kind, known)
    }
}

/// An error that lists the names that are known.
pub(crate) fn unknown(name: &str, known: &[EventType]) -> StepError {
    let message =
        format!("the event `{name}` is not known here; {}", list_names("known", known.iter().map(|one| one.name)));
    StepError::new("UnknownEvent", message).with_kind("event")
}

/// What a step returns, as it collects.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Emitted(pub(crate) Vec<Value>);

impl Emitted {
    /// One more event.
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

/// The payload of an event.
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

/// The event of a payload, of this version or an older one.
pub(crate) fn decode<E: Event>(payload: &Value) -> Result<E, StepError> {
    let given = payload.get(VERSION_KEY).and_then(Value::as_int).and_then(|version| u32::try_from(version).ok());
    let given = given.unwrap_or(1).max(1);
    if given == 1 && E::VERSION == 1 {
        return read(payload);
    }
    if given > E::VERSION {
        let message = format!("`{}` is of version {given}: this program reads up to {}", E::NAME, E::VERSION);
        let hint = "it was made by a newer program: run that one";
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
