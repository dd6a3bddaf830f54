//! `#[derive(Events)]`

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Result};

use crate::args::MacroProblems;

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        let why = "a union of events is an enum with one event in each variant; a single event is `#[derive(Event)]`";
        return Err(Error::new(input.ident.span(), why));
    };
    let mut problems = MacroProblems::default();
    if data.variants.is_empty() {
        problems.add(Error::new(input.ident.span(), "a union of no events: give it a variant for each of them"));
    }
    if !input.generics.params.is_empty() {
        problems.add(Error::new_spanned(&input.generics, "a union of events has no generic parameters"));
    }
    let mut members = Vec::new();
    for variant in &data.variants {
        match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                members.extend(fields.unnamed.first().map(|field| (&variant.ident, &field.ty)));
            }
            Fields::Unnamed(_) | Fields::Named(_) | Fields::Unit => {
                let why = format!("a variant holds one event: `{0}({0})`", variant.ident);
                problems.add(Error::new_spanned(variant, why));
            }
        }
    }
    for (at, (_, one)) in members.iter().enumerate() {
        if members[..at].iter().any(|(_, other)| quote!(#one).to_string() == quote!(#other).to_string()) {
            problems.add(Error::new_spanned(one, "two variants hold this event: an incoming event would be ambiguous"));
        }
    }
    problems.finish()?;
    let ident = &input.ident;
    let held = members.iter().map(|(_, member)| quote_spanned!(member.span()=> #member: ::windlass::Event));
    let types = members.iter().map(|(_, member)| quote!(::windlass::EventType::for_type::<#member>()));
    let read = members.iter().map(|(variant, member)| {
        quote!(if token.is::<#member>() { return ::core::result::Result::Ok(#ident::#variant(token.event()?)); })
    });
    let emit = members.iter().map(|(variant, _)| quote!(#ident::#variant(event) => emitted.event(event)));
    let from = members.iter().map(|(variant, member)| {
        quote! {
            #[automatically_derived]
            impl ::core::convert::From<#member> for #ident {
                fn from(event: #member) -> Self {
                    #ident::#variant(event)
                }
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl ::windlass::Events for #ident
        where
            // A variant whose type is no event is reported here once, at the span of the variant.
            #(#held,)*
        {
            fn types() -> ::std::vec::Vec<::windlass::EventType> {
                ::std::vec![#(#types),*]
            }

            fn read(token: &::windlass::Token) -> ::core::result::Result<Self, ::windlass::StepError> {
                #(#read)*
                ::core::result::Result::Err(token.unknown(&<Self as ::windlass::Events>::types()))
            }

            fn emit(self, emitted: &mut ::windlass::Emitted) -> ::core::result::Result<(), ::windlass::StepError> {
                match self {
                    #(#emit,)*
                }
            }
        }
        #(#from)*
    })
}
