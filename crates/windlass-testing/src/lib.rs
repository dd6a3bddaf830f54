//! What tests are made with: case files ([`cases`]), services on loopback ([`mock`], [`test_service`],
//! [`test_postgres`]), the log of a test ([`log`]), and a harness that kills the real program ([`crash`]).
//!
//! It knows no stores, tools or dialects: their tests use it, never the other way round. Of all this the program itself
//! uses the scripted service only.

#[cfg(feature = "cases")]
pub mod cases;
#[cfg(feature = "crash")]
pub mod crash;
#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "mock")]
pub mod mock;
#[cfg(feature = "services")]
pub mod test_postgres;
#[cfg(feature = "services")]
pub mod test_service;
