//! The derives and attributes of the crate `windlass`, where they are documented with examples.
//!
//! They only read what is written in attributes, and check what can be seen in the text. What a step accepts and gives is
//! worked out from the types of its signature, by traits: no macro guesses at a type's name.

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

/// Makes a struct an event: `#[event(name = "order.placed", start)]`.
#[proc_macro_derive(Event, attributes(event))]
pub fn event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    event::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes an enum whose variants hold one event each a union of events.
#[proc_macro_derive(Events)]
pub fn events(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    events::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes the methods of an `impl` that are marked with `#[step]` and `#[on_failure]` the steps of a workflow.
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
