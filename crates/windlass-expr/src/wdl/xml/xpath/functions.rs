//! The core library.

use windlass_value::EvalError;

use super::XPathError;
use super::eval::{Evaluator, Found, Here, XValue, parse_number, truth};
use super::parser::{Expr, check_nodes};
use crate::wdl::xml::document::{Kind, Name, NodeId, ROOT};
use windlass_value::nearest;

type Run = fn(&mut Evaluator, &[Expr], Here) -> Found;

pub(super) struct Function {
    name: &'static str,
    least: usize,
    max_arguments: usize,
    wants: Wants,
    pub run: Run,
}

/// What the first argument must be.
#[derive(Clone, Copy, PartialEq)]
enum Wants {
    Anything,
    Nodes,
}

const ANY: usize = usize::MAX;

const fn function(name: &'static str, least: usize, max_arguments: usize, run: Run) -> Function {
    Function { name, least, max_arguments: most: max_arguments, wants: Wants::Anything, run }
}

const fn of_nodes(name: &'static str, least: usize, max_arguments: usize, run: Run) -> Function {
    Function { name, least, max_arguments: most: max_arguments, wants: Wants::Nodes, run }
}

static FUNCTIONS: &[Function] = &[
    function("last", 0, 0, |_, _, here| Ok(XValue::Number(here.size as f64))),
    function("position", 0, 0, |_, _, here| Ok(XValue::Number(here.position as f64))),
    of_nodes("count", 1, 1, |this, arguments, here| Ok(XValue::Number(this.nodes(&arguments[0], here)?.len() as f64))),
    // Only a document type says which attributes are ids, and those are refused.
    function("id", 1, 1, |_, _, _| Ok(XValue::Nodes(Vec::new()))),
    of_nodes("local-name", 0, 1, |this, arguments, here| name_of(this, arguments, here, |name| name.local.to_string())),
    of_nodes("namespace-uri", 0, 1, |this, arguments, here| {
        name_of(this, arguments, here, |name| name.namespace.to_string())
    }),
    of_nodes("name", 0, 1, |this, arguments, here| name_of(this, arguments, here, Name::qualified)),
    function("string", 0, 1, |this, arguments, here| own_text(this, arguments, here).map(XValue::Text)),
    function("concat", 2, ANY, concat),
    function("starts-with", 2, 2, |this, arguments, here| {
        let [text, part] = two(this, arguments, here)?;
        Ok(XValue::Bool(text.starts_with(&part)))
    }),
    function("contains", 2, 2, |this, arguments, here| {
        let [text, part] = two(this, arguments, here)?;
        Ok(XValue::Bool(text.contains(&part)))
    }),
    function("substring-before", 2, 2, |this, arguments, here| {
        let [text, part] = two(this, arguments, here)?;
        Ok(XValue::Text(text.split_once(&part).map_or("", |(before, _)| before).to_owned()))
    }),
    function("substring-after", 2, 2, |this, arguments, here| {
        let [text, part] = two(this, arguments, here)?;
        Ok(XValue::Text(text.split_once(&part).map_or("", |(_, after)| after).to_owned()))
    }),
    function("substring", 2, 3, substring),
    function("string-length", 0, 1, |this, arguments, here| {
        Ok(XValue::Number(own_text(this, arguments, here)?.chars().count() as f64))
    }),
    function("normalize-space", 0, 1, |this, arguments, here| {
        let text = own_text(this, arguments, here)?;
        let words: Vec<&str> = text.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()).collect();
        Ok(XValue::Text(words.join(" ")))
    }),
    function("translate", 3, 3, translate),
    function("boolean", 1, 1, |this, arguments, here| Ok(XValue::Bool(truth(&this.eval(&arguments[0], here)?)))),
    function("not", 1, 1, |this, arguments, here| Ok(XValue::Bool(!truth(&this.eval(&arguments[0], here)?)))),
    function("true", 0, 0, |_, _, _| Ok(XValue::Bool(true))),
    function("false", 0, 0, |_, _, _| Ok(XValue::Bool(false))),
    function("lang", 1, 1, lang),
    function("number", 0, 1, |this, arguments, here| {
        let value = match arguments.first() {
            Some(argument) => this.eval(argument, here)?,
            None => XValue::Nodes(vec![here.node]),
        };
        this.number(&value).map(XValue::Number)
    }),
    of_nodes("sum", 1, 1, |this, arguments, here| {
        let mut sum = 0.0;
        for id in this.nodes(&arguments[0], here)? {
            sum += parse_number(&this.string(id)?);
        }
        Ok(XValue::Number(sum))
    }),
    function("floor", 1, 1, |this, arguments, here| rounded(this, arguments, here, f64::floor)),
    function("ceiling", 1, 1, |this, arguments, here| rounded(this, arguments, here, f64::ceil)),
    function("round", 1, 1, |this, arguments, here| rounded(this, arguments, here, round)),
];

impl Function {
    pub(crate) fn gives_nodes(&self) -> bool {
        self.name == "id"
    }
}

pub(super) fn find(name: &str) -> Result<&'static Function, XPathError> {
    FUNCTIONS.iter().find(|function| function.name == name).ok_or_else(|| {
        let close = nearest(name, FUNCTIONS.iter().map(|function| function.name));
        let hint = close.map(|close| format!("did you mean `{close}`?"));
        XPathError { message: format!("XPath 1.0 has no function `{name}`"), hint }
    })
}

/// Refuses the wrong number of arguments, and arguments that can never be nodes.
pub(super) fn check(function: &Function, arguments: &[Expr]) -> Result<(), XPathError> {
    let (least, max, count) = (function.least, function.max_arguments, arguments.len());
    if count < least || count > max {
        let wanted = match (least, max) {
            (least, max) if least == max => format!("{least}"),
            (least, ANY) => format!("at least {least}"),
            (least, max) => format!("{least} to {max}"),
        };
        return Err(XPathError::new(format!(
            "the XPath function `{}` takes {wanted} arguments, got {count}",
            function.name
        )));
    }
    match (function.wants, arguments.first()) {
        (Wants::Nodes, Some(first)) => check_nodes(first, &format!("`{}`", function.name)),
        _ => Ok(()),
    }
}

fn text_at(this: &mut Evaluator, argument: &Expr, here: Here) -> Result<String, EvalError> {
    let value = this.eval(argument, here)?;
    this.text(value)
}

fn two(this: &mut Evaluator, arguments: &[Expr], here: Here) -> Result<[String; 2], EvalError> {
    Ok([text_at(this, &arguments[0], here)?, text_at(this, &arguments[1], here)?])
}

/// The argument as text, or the text of the node at hand.
fn own_text(this: &mut Evaluator, arguments: &[Expr], here: Here) -> Result<String, EvalError> {
    match arguments.first() {
        Some(argument) => text_at(this, argument, here),
        None => this.string(here.node),
    }
}

/// Something of the name of the first node; what has no name gives an empty text.
fn name_of(this: &mut Evaluator, arguments: &[Expr], here: Here, part: fn(&Name) -> String) -> Found {
    let node: Option<NodeId> = match arguments.first() {
        Some(argument) => this.nodes(argument, here)?.first().copied(),
        None => Some(here.node),
    };
    let simple = |local: &str| Name { prefix: "".into(), local: local.into(), namespace: "".into() };
    Ok(XValue::Text(match node.map(|id| &this.document.node(id).kind) {
        Some(Kind::Element { name, .. } | Kind::Attribute { name, .. }) => part(name),
        Some(Kind::Instruction { target, .. }) => part(&simple(target)),
        Some(Kind::Namespace { prefix, .. }) => part(&simple(prefix)),
        _ => String::new(),
    }))
}

fn concat(this: &mut Evaluator, arguments: &[Expr], here: Here) -> Found {
    let mut out = String::new();
    for argument in arguments {
        out.push_str(&text_at(this, argument, here)?);
        out = this.room(out)?;
    }
    Ok(XValue::Text(out))
}

/// Halves are rounded up, also below zero.
fn round(number: f64) -> f64 {
    let floor = number.floor();
    if number - floor < 0.5 { floor } else { number.ceil() }
}

fn rounded(this: &mut Evaluator, arguments: &[Expr], here: Here, how: fn(f64) -> f64) -> Found {
    let value = this.eval(&arguments[0], here)?;
    Ok(XValue::Number(how(this.number(&value)?)))
}

/// Positions are counted from 1 and rounded; a character is in if its position lies within.
fn substring(this: &mut Evaluator, arguments: &[Expr], here: Here) -> Found {
    let text = text_at(this, &arguments[0], here)?;
    let start = this.eval(&arguments[1], here)?;
    let start = round(this.number(&start)?);
    let end = match arguments.get(2) {
        Some(length) => {
            let length = this.eval(length, here)?;
            start + round(this.number(&length)?)
        }
        None => f64::INFINITY,
    };
    let each = text.chars().enumerate().filter(|(index, _)| {
        let position = (index + 1) as f64;
        position >= start && position < end
    });
    Ok(XValue::Text(each.map(|(_, c)| c).collect()))
}

fn translate(this: &mut Evaluator, arguments: &[Expr], here: Here) -> Found {
    let text = text_at(this, &arguments[0], here)?;
    let [from, to] = two(this, &arguments[1..], here)?;
    let to: Vec<char> = to.chars().collect();
    let mut changes = std::collections::HashMap::new();
    for (index, c) in from.chars().enumerate() {
        changes.entry(c).or_insert_with(|| to.get(index).copied());
    }
    let out = text.chars().filter_map(|c| changes.get(&c).copied().unwrap_or(Some(c))).collect();
    Ok(XValue::Text(out))
}

/// Whether `xml:lang` around the node names the language, or one of its variants.
fn lang(this: &mut Evaluator, arguments: &[Expr], here: Here) -> Found {
    let wanted = text_at(this, &arguments[0], here)?.to_lowercase();
    let (document, mut node) = (this.document, here.node);
    loop {
        this.pay(1)?;
        let language = document.attributes(node).find_map(|id| match &document.node(id).kind {
            Kind::Attribute { name, value } if &*name.prefix == "xml" && &*name.local == "lang" => Some(value),
            _ => None,
        });
        if let Some(language) = language {
            let language = language.to_lowercase();
            let rest = language.strip_prefix(&wanted);
            return Ok(XValue::Bool(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))));
        }
        if node == ROOT {
            return Ok(XValue::Bool(false));
        }
        node = document.node(node).parent;
    }
}
