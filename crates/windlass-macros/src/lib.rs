//! The derives and attributes of the crate `windlass`, where they are documented with examples.
//!
//! The macros only read the attributes and check what is visible in the tokens. The events that a step accepts and
//! produces follow from the types of its signature, through traits: no macro guesses from a type's name.

mod args;
mod duration;
mod event;
mod events;
mod nearest;
mod options;
mod retry;
mod workflow;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemImpl, parse_macro_input};

/// Derives `Event` for a struct: `#[event(name = "order.placed", start)]`.
#[proc_macro_derive(Event, attributes(event))]
pub fn event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    event::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Derives `Events` for an enum whose variants hold one event each: a union of events.
#[proc_macro_derive(Events)]
pub fn events(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    events::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Turns the methods of an `impl` that are marked with `#[step]` and `#[on_failure]` into the steps of a workflow.
#[proc_macro_attribute]
pub fn workflow(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as ItemImpl);
    workflow::expand(arguments.into(), item).into()
}

/// Marks a method as a step, inside an `impl` that is marked with `#[workflow]`.
#[proc_macro_attribute]
pub fn step(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    workflow::misplaced_marker("step", item.into()).into()
}

/// Marks a method as an error handler, inside an `impl` that is marked with `#[workflow]`.
#[proc_macro_attribute]
pub fn on_failure(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    workflow::misplaced_marker("on_failure", item.into()).into()
}
