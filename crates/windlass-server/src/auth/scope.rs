//! Scopes, as values and as types.

use serde::{Deserialize, Serialize};

/// The operations that a token permits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenScope {
    /// Read-only operations, except on tokens and the audit log.
    Read,
    /// Starting runs; includes `read`.
    Run,
    /// Steering runs, answering approvals, enabling definitions and draining workers; includes `read`.
    Control,
    /// The worker protocol.
    Work,
    /// Every operation.
    Admin,
}

impl TokenScope {
    pub const ALL: [TokenScope; 5] =
        [TokenScope::Read, TokenScope::Run, TokenScope::Control, TokenScope::Work, TokenScope::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            TokenScope::Read => "read",
            TokenScope::Run => "run",
            TokenScope::Control => "control",
            TokenScope::Work => "work",
            TokenScope::Admin => "admin",
        }
    }

    /// Returns whether this scope permits operations that need the other one.
    pub fn includes(self, other: TokenScope) -> bool {
        self == other
            || self == TokenScope::Admin
            || (other == TokenScope::Read && matches!(self, TokenScope::Run | TokenScope::Control))
    }
}

/// The scope that a handler requires, as a type.
pub trait RequiredScope: Send + Sync + 'static {
    const SCOPE: TokenScope;
}

macro_rules! needs {
    ($($name:ident),+) => { $(
        pub struct $name;

        impl RequiredScope for $name {
            const SCOPE: TokenScope = TokenScope::$name;
        }
    )+ };
}

needs!(Read, Run, Control, Work, Admin);
