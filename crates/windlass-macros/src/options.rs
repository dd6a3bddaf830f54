//! The options of `#[step(…)]` and `#[on_failure(…)]`, as calls of the builder.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Ident, Result};

use crate::args::{Arg, MacroProblems};
use crate::nearest::unknown;
use crate::retry::retry;

const STEP_KEYS: [&str; 9] = ["name", "workers", "timeout", "retry", "sends", "waits", "key", "surplus", "allow"];
const HANDLER_KEYS: [&str; 9] = ["name", "of", "times", "workers", "timeout", "retry", "sends", "waits", "allow"];
const SURPLUS_RULES: [&str; 3] = ["keep", "drop", "fail"];

/// Returns the tokens of a `Duration`.
pub(crate) fn duration_tokens(micros: u64) -> TokenStream {
    quote!(::core::time::Duration::from_micros(#micros))
}

#[derive(Default)]
pub(crate) struct StepOptions {
    pub name: Option<syn::LitStr>,
    /// Builder calls: `.workers(4).timeout(…)`.
    pub calls: Vec<TokenStream>,
    /// The steps that a handler handles.
    pub handled_steps: Option<Vec<Ident>>,
}

pub(crate) fn parse_options(args: &[Arg], handler: bool, problems: &mut MacroProblems) -> StepOptions {
    let mut options = StepOptions::default();
    for arg in args {
        let read = parse_step_option(arg, handler, &mut options);
        problems.note(read);
    }
    options
}

fn parse_step_option(arg: &Arg, handler: bool, options: &mut StepOptions) -> Result<()> {
    let known: &[&str] = if handler { &HANDLER_KEYS } else { &STEP_KEYS };
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
            options.handled_steps = Some(arg.names()?);
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
            let timeout = duration_tokens(arg.duration()?);
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
                other => return Err(Error::new(given.span(), unknown("rule for a surplus", other, &SURPLUS_RULES))),
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
