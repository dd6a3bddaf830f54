//! Scopes, as values and as types.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Read,
    Run,
    Control,
    Work,
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 5] = [Scope::Read, Scope::Run, Scope::Control, Scope::Work, Scope::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Control => "control",
            Scope::Work => "work",
            Scope::Admin => "admin",
        }
    }

    /// Whether whoever has this one may do what needs the other.
    pub fn includes(self, other: Scope) -> bool {
        self == other || self == Scope::Admin || (other == Scope::Read && matches!(self, Scope::Run | Scope::Control))
    }
}

/// What a handler needs, as a type.
pub trait Needs: Send + Sync + 'static {
    const SCOPE: Scope;
}

macro_rules! needs {
    ($($name:ident),+) => { $(
        pub struct $name;

        impl Needs for $name {
            const SCOPE: Scope = Scope::$name;
        }
    )+ };
}

needs!(Read, Run, Control, Work, Admin);
