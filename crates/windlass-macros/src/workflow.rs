//! `#[workflow] impl … { #[step] async fn … }`

use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::{Attribute, Error, FnArg, ImplItem, ImplItemFn, ItemImpl, LitStr, Meta, Result, ReturnType, Signature, Type};

use crate::args::{MacroProblems, parse};
use crate::nearest::unknown;
use crate::options::{StepOptions, check, duration_tokens, parse_options};

const KEYS: [&str; 3] = ["name", "timeout", "allow"];

/// A marked method.
struct MarkedStep {
    signature: Signature,
    name: LitStr,
    handler: bool,
    options: StepOptions,
}

pub(crate) fn expand(arguments: TokenStream, mut item: ItemImpl) -> TokenStream {
    let mut problems = MacroProblems::default();
    let builder = workflow_builder(arguments, &item, &mut problems);
    let mut steps = Vec::new();
    for method in item.items.iter_mut() {
        if let ImplItem::Fn(method) = method {
            steps.extend(take_step(method, &mut problems));
        }
    }
    check_handlers(&steps, &mut problems);
    if let Some(errors) = problems.into_compile_error() {
        // Keep the methods, so that the compiler does not also report them as missing.
        return quote!(#item #errors);
    }
    let registered = steps.iter().map(|step| register(step, &item));
    let (generics, _, bounds) = item.generics.split_for_impl();
    let me = &item.self_ty;
    quote! {
        #item

        impl #generics #me #bounds {
            /// Returns the steps as a workflow builder, to which resources can be added.
            pub fn into_workflow(self) -> ::windlass::WorkflowBuilder {
                let me = ::std::sync::Arc::new(self);
                let builder = #builder;
                #(#registered)*
                builder
            }
        }
    }
}

/// Expands to the builder with the options of the workflow itself.
fn workflow_builder(arguments: TokenStream, item: &ItemImpl, problems: &mut MacroProblems) -> TokenStream {
    if let Some((path, _)) = &item.trait_ {
        problems.add(Error::new_spanned(path, "steps are a type's own methods, not those of a trait"));
    }
    let mut name = None;
    let mut calls = Vec::new();
    for arg in problems.note(parse(arguments)).unwrap_or_default() {
        let call = match arg.name.to_string().as_str() {
            "name" => {
                name = problems.note(arg.text("orders"));
                continue;
            }
            "timeout" => arg.duration().map(duration_tokens).map(|time| quote!(.timeout(#time))),
            "allow" => arg.texts().and_then(|names| {
                let checks = names.iter().map(check).collect::<Result<Vec<_>>>()?;
                Ok(quote!(#(.allow(::windlass::Check::#checks))*))
            }),
            _ => Err(arg.unknown(&KEYS)),
        };
        calls.extend(problems.note(call));
    }
    if name.is_none() {
        let why = "a workflow has a name that stays when the type is renamed: `#[workflow(name = \"orders\")]`";
        problems.add(Error::new_spanned(&item.self_ty, why));
    }
    quote!(::windlass::Workflow::builder(#name) #(#calls)*)
}

/// Removes the marker attribute from a method and parses it.
fn take_step(method: &mut ImplItemFn, problems: &mut MacroProblems) -> Option<MarkedStep> {
    let marks =
        |attribute: &Attribute, name: &str| attribute.path().segments.last().is_some_and(|last| last.ident == name);
    let marked = |attribute: &Attribute| marks(attribute, "step") || marks(attribute, "on_failure");
    let at = method.attrs.iter().position(marked)?;
    let mark = method.attrs.remove(at);
    if let Some(second) = method.attrs.iter().find(|attribute| marked(attribute)) {
        problems.add(Error::new_spanned(second, "a method is one step: this one is already marked"));
    }
    let handler = marks(&mark, "on_failure");
    let args = match &mark.meta {
        Meta::Path(_) => Vec::new(),
        Meta::List(list) => problems.note(parse(list.tokens.clone())).unwrap_or_default(),
        other => {
            problems.add(Error::new_spanned(other, "options go in parentheses: `#[step(workers = 4)]`"));
            Vec::new()
        }
    };
    let options = parse_options(&args, handler, problems);
    let signature = method.sig.clone();
    check_signature(&signature, handler, problems);
    let name =
        options.name.clone().unwrap_or_else(|| LitStr::new(&signature.ident.to_string(), signature.ident.span()));
    Some(MarkedStep { signature, name, handler, options })
}

fn check_signature(signature: &Signature, handler: bool, problems: &mut MacroProblems) {
    let name = &signature.ident;
    let takes = if handler { "failed: StepFailed" } else { "event: MyEvent" };
    if signature.asyncness.is_none() {
        problems.add(Error::new_spanned(signature.fn_token, format!("a step is async: `async fn {name}`")));
    }
    if !signature.generics.params.is_empty() {
        let why = "a step has no generic parameters: its events must be known at compile time";
        problems.add(Error::new_spanned(&signature.generics, why));
    }
    if let Some(receiver) = signature.receiver()
        && quote!(#receiver).to_string().replace(' ', "") != "&self"
    {
        let why = "a step takes `&self`: its executions are concurrent; put mutable data in the state of its `Context`";
        problems.add(Error::new_spanned(receiver, why));
    }
    if typed(signature).next().is_none() {
        let why = format!("a step takes an event: `async fn {name}(&self, ctx: Context, {takes})`");
        problems.add(Error::new_spanned(name, why));
    }
    if matches!(signature.output, ReturnType::Default) {
        let why = format!(
            "a step declares what it returns: `async fn {name}(…) -> Result<MyEvent, StepError>`, or `Result<(), StepError>` for nothing"
        );
        problems.add(Error::new_spanned(name, why));
    }
}

fn typed(signature: &Signature) -> impl Iterator<Item = &Type> {
    signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(&*typed.ty),
        FnArg::Receiver(_) => None,
    })
}

/// Checks that the names after `of` are methods of the same `impl`.
fn check_handlers(steps: &[MarkedStep], problems: &mut MacroProblems) {
    let known: Vec<String> =
        steps.iter().filter(|step| !step.handler).map(|step| step.signature.ident.to_string()).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    for target in steps.iter().filter_map(|step| step.options.handled_steps.as_ref()).flatten() {
        let text = target.to_string();
        if steps.iter().any(|step| step.handler && step.signature.ident == text) {
            problems.add(Error::new(target.span(), "an error handler cannot handle another error handler"));
        } else if !known.contains(&text.as_str()) {
            problems.add(Error::new(target.span(), unknown("step", &text, &known)));
        }
    }
}

/// Expands to the builder call that adds a step.
fn register(step: &MarkedStep, item: &ItemImpl) -> TokenStream {
    let MarkedStep { signature, name, handler, options } = step;
    let method = &signature.ident;
    let types: Vec<&Type> = typed(signature).collect();
    let given: Vec<_> = (0..types.len()).map(|at| format_ident!("given{at}")).collect();
    let returned = match &signature.output {
        ReturnType::Type(_, one) if !matches!(**one, Type::ImplTrait(_)) => quote!(#one),
        _ => quote!(_),
    };
    let me = &item.self_ty;
    let call = match signature.receiver() {
        Some(_) => quote!(me.#method(#(#given),*)),
        None => quote!(<#me>::#method(#(#given),*)),
    };
    let all = quote_spanned!(method.span()=> (#(#types,)*));
    let counted = check_event_count(signature, &types, item);
    let calls = &options.calls;
    let of = options.handled_steps.as_ref().map(|of| {
        let names = of.iter().map(|one| one.to_string());
        quote!(.for_steps([#(#names),*]))
    });
    quote! {
        #counted
        let builder = {
            let me = ::std::sync::Arc::clone(&me);
            ::windlass::__private::add::<#all, #returned, _, _>(
                builder,
                #name,
                #handler,
                move |(#(#given,)*): (#(#types,)*)| {
                    let me = ::std::sync::Arc::clone(&me);
                    async move {
                        let _ = &me;
                        #call.await
                    }
                },
            )
            #(#calls)*
            #of
            .workflow()
        };
    }
}

/// Expands to a compile-time check that one of the parameters is an event, if the types can be named outside of the
/// `impl`. Otherwise the check happens when the workflow is built.
fn check_event_count(signature: &Signature, types: &[&Type], item: &ItemImpl) -> TokenStream {
    let bound = !item.generics.params.is_empty() || types.iter().any(|one| names_self(quote!(#one)));
    let events = types.iter().map(|one| quote!(::windlass::__private::Count::<#one>::EVENTS));
    let check = quote_spanned! { signature.ident.span()=>
        const _: () = {
            #[allow(unused_imports)]
            use ::windlass::__private::Counted as _;
            ::windlass::__private::one_event(0 #(+ #events)*)
        };
    };
    if bound { TokenStream::new() } else { check }
}

fn names_self(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident == "Self",
        TokenTree::Group(group) => names_self(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Reports a marker outside of a `#[workflow]` impl.
pub(crate) fn misplaced_marker(mark: &str, item: TokenStream) -> TokenStream {
    let why = format!(
        "`#[{mark}]` marks a method inside an `impl` that is marked with `#[windlass::workflow(name = \"…\")]`; a plain function is given to the builder: `Workflow::builder(\"…\").step(\"name\", function)`"
    );
    let at = item.clone().into_iter().next().map_or_else(proc_macro2::Span::call_site, |first| first.span());
    let error = Error::new(at, why).into_compile_error();
    quote!(#error #item)
}
