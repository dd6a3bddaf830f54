//! What may stand in `#[step(…)]` and `#[on_failure(…)]`, as calls of the builder.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Ident, Result};

use crate::args::{Arg, Problems};
use crate::nearest::unknown;
use crate::retry::retry;

const STEP: [&str; 9] = ["name", "workers", "timeout", "retry", "sends", "waits", "key", "surplus", "allow"];
const HANDLER: [&str; 9] = ["name", "of", "times", "workers", "timeout", "retry", "sends", "waits", "allow"];
const SURPLUS: [&str; 3] = ["keep", "drop", "fail"];

/// A span of time for the builder.
pub(crate) fn micros(micros: u64) -> TokenStream {
    quote!(::core::time::Duration::from_micros(#micros))
}

#[derive(Default)]
pub(crate) struct Options {
    pub name: Option<syn::LitStr>,
    /// `.workers(4).timeout(…)`
    pub calls: Vec<TokenStream>,
    /// The steps that a handler is for.
    pub of: Option<Vec<Ident>>,
}

pub(crate) fn options(args: &[Arg], handler: bool, problems: &mut Problems) -> Options {
    let mut options = Options::default();
    for arg in args {
        let read = one(arg, handler, &mut options);
        problems.note(read);
    }
    options
}

fn one(arg: &Arg, handler: bool, options: &mut Options) -> Result<()> {
    let known: &[&str] = if handler { &HANDLER } else { &STEP };
    let name = arg.name.to_string();
    if !known.contains(&name.as_str()) {
        return Err(match name.as_str() {
            "of" | "times" => Error::new(
                arg.name.span(),
                format!("`{name}` belongs to an error handler: `#[on_failure({name} = …)]`"),
            ),
            "key" | "surplus" => {
                Error::new(arg.name.span(), format!("`{name}` belongs to a step that collects: `#[step({name} = …)]`"))
            }
            _ => arg.unknown(known),
        });
    }
    let call = match name.as_str() {
        "name" => {
            options.name = Some(arg.text("charge")?);
            return Ok(());
        }
        "of" => {
            options.of = Some(arg.names()?);
            return Ok(());
        }
        "workers" => {
            let workers = arg.integer(1)?;
            quote!(.workers(#workers))
        }
        "times" => {
            let times = arg.integer(1)?;
            quote!(.times(#times))
        }
        "timeout" => {
            let timeout = micros(arg.duration()?);
            quote!(.timeout(#timeout))
        }
        "retry" => {
            let retry = retry(arg)?;
            quote!(.retry(#retry))
        }
        "sends" => {
            let types = arg.types()?;
            let calls = types.iter().map(|sent| quote_spanned!(sent.span()=> .sends::<#sent>()));
            quote!(#(#calls)*)
        }
        "waits" => {
            let types = arg.types()?;
            let calls = types.iter().map(|awaited| quote_spanned!(awaited.span()=> .waits::<#awaited>()));
            quote!(#(#calls)*)
        }
        "key" => {
            let key = arg.text("order")?;
            quote!(.key(#key))
        }
        "surplus" => {
            let given = arg.text("keep")?;
            let variant = match given.value().as_str() {
                "keep" => quote!(Keep),
                "drop" => quote!(Drop),
                "fail" => quote!(Fail),
                other => return Err(Error::new(given.span(), unknown("rule for a surplus", other, &SURPLUS))),
            };
            quote!(.surplus(::windlass::Surplus::#variant))
        }
        _ => {
            let checks = arg.texts()?.iter().map(check).collect::<Result<Vec<_>>>()?;
            quote!(#(.allow(::windlass::Check::#checks))*)
        }
    };
    options.calls.push(call);
    Ok(())
}

/// Checks that can be turned off, by name.
const CHECKS: [(&str, &str); 5] = [
    ("unreachable", "Unreachable"),
    ("dead_end", "DeadEnd"),
    ("never_produced", "NeverProduced"),
    ("never_consumed", "NeverConsumed"),
    ("join", "Join"),
];

pub(crate) fn check(name: &syn::LitStr) -> Result<Ident> {
    let text = name.value();
    match CHECKS.iter().find(|(check, _)| *check == text) {
        Some((_, variant)) => Ok(Ident::new(variant, name.span())),
        None => {
            let known: Vec<&str> = CHECKS.iter().map(|(check, _)| *check).collect();
            Err(Error::new(name.span(), unknown("check", &text, &known)))
        }
    }
}
