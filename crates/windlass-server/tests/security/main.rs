//! Who may do what, proved over all routes; and what every request meets.
#![allow(clippy::unwrap_used)]

mod audit;
mod limits;
mod listener;
mod middleware;
mod routes;
mod tokens;
mod world;
