//! `#[derive(Event)]`

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Ident, LitStr, Path, Result};

use crate::args::{Arg, MacroProblems, parse};

const MARKERS: [(&str, &str); 4] =
    [("start", "Start"), ("stop", "Stop"), ("input_required", "InputRequired"), ("human_response", "HumanResponse")];
const KEYS: [&str; 7] = ["name", "version", "upgrade", "start", "stop", "input_required", "human_response"];

#[derive(Default)]
struct EventAttributes {
    name: Option<LitStr>,
    version: Option<u32>,
    upgrade: Option<Path>,
    marker: Option<(Ident, &'static str)>,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let mut problems = MacroProblems::default();
    match &input.data {
        Data::Struct(_) => {}
        Data::Enum(_) => problems.add(Error::new(
            input.ident.span(),
            "an event is a struct; an enum of events is a union: `#[derive(Events)]`",
        )),
        Data::Union(_) => problems.add(Error::new(input.ident.span(), "an event is a struct")),
    }
    if !input.generics.params.is_empty() {
        let why = "an event has no generic parameters: its name stands for one type";
        problems.add(Error::new_spanned(&input.generics, why));
    }
    let mut attributes = EventAttributes::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("event")) {
        let Some(list) = problems.note(attribute.meta.require_list()) else { continue };
        for arg in problems.note(parse(list.tokens.clone())).unwrap_or_default() {
            let read = read(&arg, &mut attributes);
            problems.note(read);
        }
    }
    if attributes.name.is_none() {
        let example = snake(&input.ident.to_string());
        let why = format!("an event has a name that stays when the type is renamed: `#[event(name = \"{example}\")]`");
        problems.add(Error::new(input.ident.span(), why));
    }
    if attributes.upgrade.is_some() && attributes.version.unwrap_or(1) < 2 {
        let why = "`upgrade` reads older versions, and this is version 1: add `version = 2`, or leave `upgrade` out";
        problems.add(Error::new_spanned(&attributes.upgrade, why));
    }
    problems.finish()?;
    let ident = &input.ident;
    let (name, version) = (attributes.name, attributes.version.unwrap_or(1));
    let kind = Ident::new(attributes.marker.map_or("Plain", |(_, kind)| kind), ident.span());
    let upgrade = attributes.upgrade.map(|function| {
        quote! {
            fn upgrade(from: u32, payload: ::windlass::Value) -> ::core::result::Result<::windlass::Value, ::windlass::StepError> {
                ::windlass::__private::upgraded(#function(from, payload))
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl ::windlass::Event for #ident {
            const NAME: &'static str = #name;
            const VERSION: u32 = #version;
            const ROLE: ::windlass::EventRole = ::windlass::EventRole::#kind;
            #upgrade
        }
    })
}

fn read(arg: &Arg, attributes: &mut EventAttributes) -> Result<()> {
    if let Some((_, kind)) = MARKERS.iter().find(|(marker, _)| arg.is(marker)) {
        arg.flag()?;
        if let Some((before, _)) = &attributes.marker {
            let why = format!("an event has one role: it is already marked as `{before}`");
            return Err(Error::new(arg.name.span(), why));
        }
        attributes.marker = Some((arg.name.clone(), kind));
        return Ok(());
    }
    match arg.name.to_string().as_str() {
        "name" => {
            let name = arg.text("order.placed")?;
            let fits = |one: char| one.is_alphanumeric() || matches!(one, '.' | '_' | '-' | '/');
            let text = name.value();
            if text.is_empty() || !text.chars().all(fits) {
                let why = "the name of an event is made of letters, digits, `.`, `_`, `-` and `/`";
                return Err(Error::new(name.span(), why));
            }
            attributes.name = Some(name);
        }
        "version" => attributes.version = Some(arg.integer(1)?),
        "upgrade" => attributes.upgrade = Some(arg.path()?),
        _ => return Err(arg.unknown(&KEYS)),
    }
    Ok(())
}

/// Suggests a name for a type: `order.placed` for `OrderPlaced`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for one in name.chars() {
        if one.is_uppercase() && !out.is_empty() {
            out.push('.');
        }
        out.extend(one.to_lowercase());
    }
    out
}
