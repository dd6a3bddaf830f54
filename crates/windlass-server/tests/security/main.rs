//! Authorization, proved over all routes; and the checks that every request passes.
#![allow(clippy::unwrap_used)]

mod audit;
mod compression;
mod limits;
mod listener;
mod middleware;
mod routes;
mod sessions;
mod tls;
mod tokens;
mod world;
