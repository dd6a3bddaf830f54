//! What docs/rust.md shows, run: the page's code is taken from here and from the examples, word for word (see pages.rs).

mod context;
mod events;
mod handles;
mod joins;
mod people;
mod steps;
