//! Fuzz targets of every decoder and parser. A target takes any bytes and panics where a property does not hold: each has
//! more properties than that nothing panics.

mod scope;
mod targets;

use targets::{definitions, edge, expressions, journal, signatures, sql, syntax, worker};

/// A target by its name, which is also the folder of its corpus.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [FuzzTarget; 15] = [
    FuzzTarget { name: "json", run: syntax::json },
    FuzzTarget { name: "yaml", run: syntax::yaml },
    FuzzTarget { name: "value", run: journal::value },
    FuzzTarget { name: "loom", run: definitions::loom },
    FuzzTarget { name: "noetl", run: definitions::noetl },
    FuzzTarget { name: "zenflow", run: definitions::zenflow },
    FuzzTarget { name: "wdl", run: expressions::wdl },
    FuzzTarget { name: "jinja", run: expressions::jinja },
    FuzzTarget { name: "cel", run: expressions::cel },
    FuzzTarget { name: "agent", run: expressions::agent },
    FuzzTarget { name: "sql", run: sql::sql },
    FuzzTarget { name: "journal", run: journal::journal },
    FuzzTarget { name: "worker", run: worker::worker },
    FuzzTarget { name: "edge", run: edge::edge },
    FuzzTarget { name: "signature", run: signatures::signature },
];

/// Returns the target of this name.
pub fn find(name: &str) -> Option<FuzzTarget> {
    TARGETS.into_iter().find(|target| target.name == name)
}
