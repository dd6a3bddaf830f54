//! Runs the code of docs/rust.md: the documentation's code comes from here and from the examples, word for word (see
//! pages.rs).

mod context;
mod events;
mod handles;
mod joins;
mod people;
mod steps;
