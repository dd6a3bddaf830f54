//! Test support: case files ([`cases`]), certificates ([`certificates`]), services on loopback ([`mock`],
//! [`test_service`], [`test_postgres`]), the log of a test ([`log`]), a disk that can be full ([`small_disk`]), and a
//! harness that kills the real program ([`crash`]).
//!
//! The crate depends on no store, tool or dialect: their tests depend on it. The program itself uses only the
//! scripted service.

#[cfg(feature = "cases")]
pub mod cases;
#[cfg(feature = "certificates")]
pub mod certificates;
#[cfg(feature = "crash")]
pub mod crash;
#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "mock")]
pub mod mock;
#[cfg(feature = "small-disk")]
pub mod small_disk;
#[cfg(feature = "services")]
pub mod test_postgres;
#[cfg(feature = "services")]
pub mod test_service;
