//! Arguments of an attribute: flags, `key = value`, `key(…)`.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Path, Result, Token, Type, parenthesized};

use crate::duration::duration;
use crate::nearest::unknown;

pub(crate) struct Arg {
    pub name: Ident,
    form: ArgForm,
}

enum ArgForm {
    Flag,
    Value(Expr),
    Group(TokenStream),
}

impl Parse for Arg {
    fn parse(input: ParseStream) -> Result<Arg> {
        let name: Ident = input.call(syn::ext::IdentExt::parse_any)?;
        let form = if input.peek(syn::token::Paren) {
            let inner;
            parenthesized!(inner in input);
            ArgForm::Group(inner.parse()?)
        } else if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            ArgForm::Value(bare(input.parse()?))
        } else {
            ArgForm::Flag
        };
        Ok(Arg { name, form })
    }
}

/// Removes the invisible group that a declarative macro puts around its arguments.
fn bare(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => bare(*group.expr),
        other => other,
    }
}

/// Parses all arguments; each key may occur once.
pub(crate) fn parse(tokens: TokenStream) -> Result<Vec<Arg>> {
    let args: Vec<Arg> = Punctuated::<Arg, Token![,]>::parse_terminated.parse2(tokens)?.into_iter().collect();
    for (at, arg) in args.iter().enumerate() {
        if args[..at].iter().any(|before| before.name == arg.name) {
            return Err(Error::new(arg.name.span(), format!("`{}` is given twice", arg.name)));
        }
    }
    Ok(args)
}

impl Arg {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name
    }

    pub(crate) fn unknown(&self, known: &[&str]) -> Error {
        Error::new(self.name.span(), unknown("key", &self.name.to_string(), known))
    }

    fn wrong(&self, form: &str) -> Error {
        let at = match &self.form {
            ArgForm::Value(value) => Error::new_spanned(value, String::new()).span(),
            ArgForm::Flag | ArgForm::Group(_) => self.name.span(),
        };
        Error::new(at, format!("`{}` is written as `{form}`", self.name))
    }

    fn literal(&self) -> Option<&Lit> {
        match &self.form {
            ArgForm::Value(Expr::Lit(ExprLit { lit, .. })) => Some(lit),
            _ => None,
        }
    }

    pub(crate) fn flag(&self) -> Result<()> {
        match self.form {
            ArgForm::Flag => Ok(()),
            ArgForm::Value(_) | ArgForm::Group(_) => {
                Err(Error::new(self.name.span(), format!("`{}` takes no value", self.name)))
            }
        }
    }

    pub(crate) fn text(&self, example: &str) -> Result<LitStr> {
        match self.literal() {
            Some(Lit::Str(text)) => Ok(text.clone()),
            _ => Err(self.wrong(&format!("{} = \"{example}\"", self.name))),
        }
    }

    pub(crate) fn duration(&self) -> Result<u64> {
        duration(&self.text("30s")?)
    }

    pub(crate) fn integer(&self, min: u32) -> Result<u32> {
        let wrong = || self.wrong(&format!("{} = {}", self.name, min.max(2)));
        let Some(Lit::Int(number)) = self.literal() else { return Err(wrong()) };
        let given: u32 = number.base10_parse().map_err(|_| wrong())?;
        match given >= min {
            true => Ok(given),
            false => Err(Error::new(number.span(), format!("`{}` must be at least {min}", self.name))),
        }
    }

    pub(crate) fn float(&self) -> Result<f64> {
        match self.literal() {
            Some(Lit::Float(number)) => number.base10_parse(),
            Some(Lit::Int(number)) => number.base10_parse(),
            _ => Err(self.wrong(&format!("{} = 2.0", self.name))),
        }
    }

    pub(crate) fn path(&self) -> Result<Path> {
        match &self.form {
            ArgForm::Value(Expr::Path(path)) if path.qself.is_none() => Ok(path.path.clone()),
            _ => Err(self.wrong(&format!("{} = function", self.name))),
        }
    }

    pub(crate) fn group(&self, example: &str) -> Result<TokenStream> {
        match &self.form {
            ArgForm::Group(tokens) => Ok(tokens.clone()),
            ArgForm::Flag | ArgForm::Value(_) => Err(self.wrong(&format!("{}({example})", self.name))),
        }
    }

    /// Parses `["a", "b"]`.
    pub(crate) fn texts(&self) -> Result<Vec<LitStr>> {
        let wrong = || self.wrong(&format!("{} = [\"…\", \"…\"]", self.name));
        let ArgForm::Value(Expr::Array(array)) = &self.form else { return Err(wrong()) };
        let one = |item: &Expr| match &bare(item.clone()) {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.clone()),
            other => Err(Error::new_spanned(other, format!("`{}` must be a list of strings", self.name))),
        };
        array.elems.iter().map(one).collect()
    }

    /// Parses `[a, b]`, names of methods.
    pub(crate) fn names(&self) -> Result<Vec<Ident>> {
        let wrong = || self.wrong(&format!("{} = [step, step]", self.name));
        let ArgForm::Value(Expr::Array(array)) = &self.form else { return Err(wrong()) };
        let one = |item: &Expr| match item {
            Expr::Path(path) if path.path.get_ident().is_some() => path.path.get_ident().cloned().ok_or_else(wrong),
            other => Err(Error::new_spanned(
                other,
                format!("`{}` must be a list of steps, by the names of their methods", self.name),
            )),
        };
        array.elems.iter().map(one).collect()
    }

    /// Parses `(A, B)` or `= [A, B]`.
    pub(crate) fn types(&self) -> Result<Vec<Type>> {
        let tokens = match &self.form {
            ArgForm::Group(tokens) => tokens.clone(),
            ArgForm::Value(Expr::Array(array)) => {
                let items = &array.elems;
                quote::quote!(#items)
            }
            ArgForm::Flag | ArgForm::Value(_) => return Err(self.wrong(&format!("{} = [Event, Event]", self.name))),
        };
        let types = Punctuated::<Type, Token![,]>::parse_terminated.parse2(tokens)?;
        Ok(types.into_iter().collect())
    }
}

/// Collects problems, so that all are reported together.
#[derive(Default)]
pub(crate) struct MacroProblems(Option<Error>);

impl MacroProblems {
    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub(crate) fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    pub(crate) fn into_compile_error(self) -> Option<TokenStream> {
        self.0.map(Error::into_compile_error)
    }

    pub(crate) fn finish(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
