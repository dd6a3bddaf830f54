//! `retry(exponential, attempts = 5, first = "200ms", …)`

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Result};

use crate::args::{Arg, MacroProblems, parse};
use crate::options::duration_tokens;

const KEYS: [&str; 13] = [
    "fixed",
    "exponential",
    "none",
    "attempts",
    "every",
    "first",
    "factor",
    "max",
    "min",
    "jitter",
    "stop_after",
    "stop_before",
    "on",
];

/// Expands to a value of `windlass::RetryPolicy`.
pub(crate) fn retry(arg: &Arg) -> Result<TokenStream> {
    let args = parse(arg.group("exponential, attempts = 5, first = \"200ms\"")?)?;
    let shape = args.iter().filter(|arg| ["fixed", "exponential", "none"].iter().any(|shape| arg.is(shape)));
    let shapes: Vec<&Arg> = shape.collect();
    let mut problems = MacroProblems::default();
    if let Some(second) = shapes.get(1) {
        let why = "a retry is exactly one of `fixed`, `exponential` and `none`";
        problems.add(Error::new(second.name.span(), why));
    }
    let shape = shapes.first().map_or_else(|| "fixed".to_owned(), |shape| shape.name.to_string());
    let mut wait = None;
    let mut calls = Vec::new();
    for arg in &args {
        let read = parse_retry_option(arg, &shape, &mut wait);
        calls.extend(problems.note(read));
    }
    if shape == "none" && args.len() > 1 {
        problems.add(Error::new(arg.name.span(), "`none` means a single attempt and takes no other options"));
    }
    problems.finish()?;
    let wait = wait.map(duration_tokens);
    let begin = match (shape.as_str(), wait) {
        ("none", _) => quote!(::windlass::RetryPolicy::none()),
        ("exponential", Some(first)) => quote!(::windlass::RetryPolicy::exponential(#first)),
        ("exponential", None) => quote!(::windlass::RetryPolicy::exponential(::core::time::Duration::from_secs(1))),
        (_, Some(every)) => quote!(::windlass::RetryPolicy::fixed(#every)),
        (_, None) => quote!(::windlass::RetryPolicy::fixed(::core::time::Duration::from_secs(5))),
    };
    Ok(quote!(#begin #(#calls)*))
}

fn parse_retry_option(arg: &Arg, shape: &str, wait: &mut Option<u64>) -> Result<TokenStream> {
    let mut waits = |right: &str, other: &str| {
        let given = arg.duration()?;
        if shape != right {
            let why = format!("`{}` belongs to `{right}`; with `{shape}` it is `{other}`", arg.name);
            return Err(Error::new(arg.name.span(), why));
        }
        *wait = Some(given);
        Ok(TokenStream::new())
    };
    match arg.name.to_string().as_str() {
        "fixed" | "exponential" | "none" => arg.flag().map(|()| TokenStream::new()),
        "every" => waits("fixed", "first"),
        "first" => waits("exponential", "every"),
        "attempts" => arg.integer(1).map(|attempts| quote!(.attempts(#attempts))),
        "factor" => arg.float().map(|factor| quote!(.factor(#factor))),
        "jitter" => arg.float().map(|part| quote!(.jitter(#part))),
        "max" => arg.duration().map(duration_tokens).map(|max| quote!(.max(#max))),
        "min" => arg.duration().map(duration_tokens).map(|min| quote!(.min(#min))),
        "stop_after" => arg.duration().map(duration_tokens).map(|time| quote!(.stop_after(#time))),
        "stop_before" => arg.duration().map(duration_tokens).map(|time| quote!(.stop_before(#time))),
        "on" => arg.texts().map(|codes| quote!(.on([#(#codes),*]))),
        _ => Err(arg.unknown(&KEYS)),
    }
}
