//! The durable store: trait, conformance suite, memory, SQLite
