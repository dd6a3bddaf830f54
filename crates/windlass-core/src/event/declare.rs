//! Macros that declare event types and the objects inside them: names, fields, documentation and conversions at once.

/// The wire name of a field: its own name, unless another one is given.
macro_rules! wire_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $wire:literal) => {
        $wire
    };
}
pub(super) use wire_name;

/// Declares structs that are objects on the wire, with fields that are always present and optional fields that are
/// omitted when empty.
macro_rules! object_fields {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident {
            $( $(#[doc = $field_doc:literal])+ $field:ident $(as $wire:literal)? : $type:ty, )*
        }
        $(optional {
            $( $(#[doc = $optional_doc:literal])+ $optional:ident $(as $optional_wire:literal)? : $optional_type:ty, )*
        })?
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            $( $(#[doc = $field_doc])+ $(#[serde(rename = $wire)])? pub $field: $type, )*
            $($(
                $(#[doc = $optional_doc])+
                $(#[serde(rename = $optional_wire)])?
                #[serde(default, skip_serializing_if = "is_default")]
                pub $optional: $optional_type,
            )*)?
        }

        impl EventField for $name {
            const SHAPE: FieldShape = FieldShape::Object(&ObjectShape {
                name: stringify!($name),
                docs: &[$($doc),+],
                fields: &[
                    $( FieldDoc {
                        name: wire_name!($field $($wire)?),
                        docs: &[$($field_doc),+],
                        optional: false,
                        shape: <$type as EventField>::SHAPE,
                    }, )*
                    $($( FieldDoc {
                        name: wire_name!($optional $($optional_wire)?),
                        docs: &[$($optional_doc),+],
                        optional: true,
                        shape: present(<$optional_type as EventField>::SHAPE),
                    }, )*)?
                ],
                open: false,
            });

            fn to_wire(&self) -> Value {
                let mut map = Map::new();
                $( put(&mut map, wire_name!($field $($wire)?), &self.$field); )*
                $($( if !is_default(&self.$optional) {
                    put(&mut map, wire_name!($optional $($optional_wire)?), &self.$optional);
                } )*)?
                Value::map(map)
            }

            fn from_wire(value: &Value) -> Option<$name> {
                let map = value.as_map()?;
                Some($name {
                    $( $field: <$type as EventField>::from_wire(map.get(wire_name!($field $($wire)?))?)?, )*
                    $($( $optional: match map.get(wire_name!($optional $($optional_wire)?)) {
                        Some(value) => <$optional_type as EventField>::from_wire(value)?,
                        None => Default::default(),
                    }, )*)?
                })
            }

            fn each_value(&mut self, visit: &mut dyn FnMut(&mut Value)) {
                $( self.$field.each_value(visit); )*
                $($( self.$optional.each_value(visit); )*)?
            }
        }
    )+};
}
pub(super) use object_fields;

/// Declares the enum and its conversions. `optional` fields are omitted from the wire when they are empty.
macro_rules! events {
    ($(
        $(#[doc = $doc:literal])+
        $name:literal $variant:ident {
            $( $(#[doc = $field_doc:literal])+ $field:ident $(as $wire:literal)? : $type:ty, )*
        }
        $(optional {
            $( $(#[doc = $optional_doc:literal])+ $optional:ident $(as $optional_wire:literal)? : $optional_type:ty, )*
        })?
    )+) => {
        /// The type of an event, with the fields of that type.
        ///
        /// The journal holds this form, tagged with the type's name; the wire holds the fields next to `type`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum EventKind {
            $(
                $(#[doc = $doc])+
                #[serde(rename = $name)]
                $variant {
                    $( $(#[doc = $field_doc])+ $(#[serde(rename = $wire)])? $field: $type, )*
                    $($(
                        $(#[doc = $optional_doc])+
                        $(#[serde(rename = $optional_wire)])?
                        #[serde(default, skip_serializing_if = "is_default")]
                        $optional: $optional_type,
                    )*)?
                },
            )+
            /// An event of a type that the engine does not define, or whose fields differ from those of its type. It is
            /// carried unchanged.
            #[serde(rename = "other")]
            Other {
                /// The type's name.
                #[serde(rename = "type")]
                type_name: Arc<str>,
                /// An object.
                fields: Value,
            },
        }

        impl EventKind {
            /// The names of all types that the engine defines.
            pub const TYPES: &'static [&'static str] = &[$($name),+];

            /// The descriptions of all types that the engine defines, in the order of their declaration.
            pub const DOCS: &'static [EventDoc] = &[$(EventDoc {
                type_name: $name,
                docs: &[$($doc),+],
                fields: &[
                    $( FieldDoc {
                        name: wire_name!($field $($wire)?),
                        docs: &[$($field_doc),+],
                        optional: false,
                        shape: <$type as EventField>::SHAPE,
                    }, )*
                    $($( FieldDoc {
                        name: wire_name!($optional $($optional_wire)?),
                        docs: &[$($optional_doc),+],
                        optional: true,
                        shape: present(<$optional_type as EventField>::SHAPE),
                    }, )*)?
                ],
            }),+];

            /// The `type` on the wire.
            pub fn type_name(&self) -> &str {
                match self {
                    $( EventKind::$variant { .. } => $name, )+
                    EventKind::Other { type_name, .. } => type_name,
                }
            }

            /// The fields on the wire.
            pub fn fields(&self) -> Map {
                match self {
                    $( EventKind::$variant { $($field,)* $($($optional,)*)? } => {
                        #[allow(unused_mut)]
                        let mut map = Map::new();
                        $( put(&mut map, wire_name!($field $($wire)?), $field); )*
                        $($( if !is_default($optional) {
                            put(&mut map, wire_name!($optional $($optional_wire)?), $optional);
                        } )*)?
                        map
                    } )+
                    EventKind::Other { fields, .. } => fields.as_map().cloned().unwrap_or_default(),
                }
            }

            /// Returns None when there is no such type or the fields are not those of the type.
            pub(super) fn typed(type_name: &str, map: &Map) -> Option<EventKind> {
                Some(match type_name {
                    $( $name => EventKind::$variant {
                        $( $field: <$type as EventField>::from_wire(map.get(wire_name!($field $($wire)?))?)?, )*
                        $($( $optional: match map.get(wire_name!($optional $($optional_wire)?)) {
                            Some(value) => <$optional_type as EventField>::from_wire(value)?,
                            None => Default::default(),
                        }, )*)?
                    }, )+
                    _ => return None,
                })
            }

            /// Visits every field that holds a value of any shape, for example to replace large values by references.
            pub fn each_value(&mut self, visit: &mut dyn FnMut(&mut Value)) {
                match self {
                    $( EventKind::$variant { $($field,)* $($($optional,)*)? } => {
                        $( $field.each_value(visit); )*
                        $($( $optional.each_value(visit); )*)?
                    } )+
                    EventKind::Other { fields: Value::Map(map), .. } => {
                        Arc::make_mut(map).values_mut().for_each(visit);
                    }
                    EventKind::Other { .. } => {}
                }
            }
        }
    };
}
pub(super) use events;
