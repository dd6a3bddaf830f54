//! The core function library of XPath.

use windlass_value::EvalError;

use super::XPathError;
use super::eval::{XPathContext, XPathEvaluator, XPathResult, XPathValue, parse_number, to_bool};
use super::parser::{XPathExpr, check_nodes};
use crate::wdl::xml::document::{ROOT, XmlName, XmlNodeId, XmlNodeKind};
use windlass_value::nearest;

type XPathFunctionImpl = fn(&mut XPathEvaluator, &[XPathExpr], XPathContext) -> XPathResult;

pub(super) struct XPathFunction {
    name: &'static str,
    min_arguments: usize,
    max_arguments: usize,
    first_argument: FirstArgument,
    pub run: XPathFunctionImpl,
}

/// The required type of the first argument.
#[derive(Clone, Copy, PartialEq)]
enum FirstArgument {
    Anything,
    Nodes,
}

const UNLIMITED: usize = usize::MAX;

const fn function(
    name: &'static str,
    min_arguments: usize,
    max_arguments: usize,
    run: XPathFunctionImpl,
) -> XPathFunction {
    XPathFunction { name, min_arguments, max_arguments, first_argument: FirstArgument::Anything, run }
}

const fn node_function(
    name: &'static str,
    min_arguments: usize,
    max_arguments: usize,
    run: XPathFunctionImpl,
) -> XPathFunction {
    XPathFunction { name, min_arguments, max_arguments, first_argument: FirstArgument::Nodes, run }
}

static FUNCTIONS: &[XPathFunction] = &[
    function("last", 0, 0, |_, _, here| Ok(XPathValue::Number(here.size as f64))),
    function("position", 0, 0, |_, _, here| Ok(XPathValue::Number(here.position as f64))),
    node_function("count", 1, 1, |this, arguments, here| {
        Ok(XPathValue::Number(this.nodes(&arguments[0], here)?.len() as f64))
    }),
    // Only a document type declares which attributes are ids, and document types are rejected.
    function("id", 1, 1, |_, _, _| Ok(XPathValue::Nodes(Vec::new()))),
    node_function("local-name", 0, 1, |this, arguments, here| {
        name_of(this, arguments, here, |name| name.local.to_string())
    }),
    node_function("namespace-uri", 0, 1, |this, arguments, here| {
        name_of(this, arguments, here, |name| name.namespace.to_string())
    }),
    node_function("name", 0, 1, |this, arguments, here| name_of(this, arguments, here, XmlName::qualified)),
    function("string", 0, 1, |this, arguments, here| text_or_context(this, arguments, here).map(XPathValue::Text)),
    function("concat", 2, UNLIMITED, concat),
    function("starts-with", 2, 2, |this, arguments, here| {
        let [text, part] = two_texts(this, arguments, here)?;
        Ok(XPathValue::Bool(text.starts_with(&part)))
    }),
    function("contains", 2, 2, |this, arguments, here| {
        let [text, part] = two_texts(this, arguments, here)?;
        Ok(XPathValue::Bool(text.contains(&part)))
    }),
    function("substring-before", 2, 2, |this, arguments, here| {
        let [text, part] = two_texts(this, arguments, here)?;
        Ok(XPathValue::Text(text.split_once(&part).map_or("", |(before, _)| before).to_owned()))
    }),
    function("substring-after", 2, 2, |this, arguments, here| {
        let [text, part] = two_texts(this, arguments, here)?;
        Ok(XPathValue::Text(text.split_once(&part).map_or("", |(_, after)| after).to_owned()))
    }),
    function("substring", 2, 3, substring),
    function("string-length", 0, 1, |this, arguments, here| {
        Ok(XPathValue::Number(text_or_context(this, arguments, here)?.chars().count() as f64))
    }),
    function("normalize-space", 0, 1, |this, arguments, here| {
        let text = text_or_context(this, arguments, here)?;
        let words: Vec<&str> = text.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()).collect();
        Ok(XPathValue::Text(words.join(" ")))
    }),
    function("translate", 3, 3, translate),
    function("boolean", 1, 1, |this, arguments, here| Ok(XPathValue::Bool(to_bool(&this.eval(&arguments[0], here)?)))),
    function("not", 1, 1, |this, arguments, here| Ok(XPathValue::Bool(!to_bool(&this.eval(&arguments[0], here)?)))),
    function("true", 0, 0, |_, _, _| Ok(XPathValue::Bool(true))),
    function("false", 0, 0, |_, _, _| Ok(XPathValue::Bool(false))),
    function("lang", 1, 1, lang),
    function("number", 0, 1, |this, arguments, here| {
        let value = match arguments.first() {
            Some(argument) => this.eval(argument, here)?,
            None => XPathValue::Nodes(vec![here.node]),
        };
        this.number(&value).map(XPathValue::Number)
    }),
    node_function("sum", 1, 1, |this, arguments, here| {
        let mut sum = 0.0;
        for id in this.nodes(&arguments[0], here)? {
            sum += parse_number(&this.string(id)?);
        }
        Ok(XPathValue::Number(sum))
    }),
    function("floor", 1, 1, |this, arguments, here| rounded(this, arguments, here, f64::floor)),
    function("ceiling", 1, 1, |this, arguments, here| rounded(this, arguments, here, f64::ceil)),
    function("round", 1, 1, |this, arguments, here| rounded(this, arguments, here, round)),
];

impl XPathFunction {
    pub(crate) fn returns_nodes(&self) -> bool {
        self.name == "id"
    }
}

pub(super) fn find(name: &str) -> Result<&'static XPathFunction, XPathError> {
    FUNCTIONS.iter().find(|function| function.name == name).ok_or_else(|| {
        let close = nearest(name, FUNCTIONS.iter().map(|function| function.name));
        let hint = close.map(|close| format!("did you mean `{close}`?"));
        XPathError { message: format!("XPath 1.0 has no function `{name}`"), hint }
    })
}

/// Rejects a wrong number of arguments, and arguments that can never be nodes.
pub(super) fn check(function: &XPathFunction, arguments: &[XPathExpr]) -> Result<(), XPathError> {
    let (min, max, count) = (function.min_arguments, function.max_arguments, arguments.len());
    if count < min || count > max {
        let expected = match (min, max) {
            (min, max) if min == max => format!("{min}"),
            (min, UNLIMITED) => format!("at least {min}"),
            (min, max) => format!("{min} to {max}"),
        };
        return Err(XPathError::new(format!(
            "the XPath function `{}` takes {expected} arguments, got {count}",
            function.name
        )));
    }
    match (function.first_argument, arguments.first()) {
        (FirstArgument::Nodes, Some(first)) => check_nodes(first, &format!("`{}`", function.name)),
        _ => Ok(()),
    }
}

fn text_at(this: &mut XPathEvaluator, argument: &XPathExpr, here: XPathContext) -> Result<String, EvalError> {
    let value = this.eval(argument, here)?;
    this.text(value)
}

fn two_texts(this: &mut XPathEvaluator, arguments: &[XPathExpr], here: XPathContext) -> Result<[String; 2], EvalError> {
    Ok([text_at(this, &arguments[0], here)?, text_at(this, &arguments[1], here)?])
}

/// Returns the argument as text, or the text of the context node.
fn text_or_context(
    this: &mut XPathEvaluator,
    arguments: &[XPathExpr],
    here: XPathContext,
) -> Result<String, EvalError> {
    match arguments.first() {
        Some(argument) => text_at(this, argument, here),
        None => this.string(here.node),
    }
}

/// Returns a part of the first node's name; a node without a name returns an empty text.
fn name_of(
    this: &mut XPathEvaluator,
    arguments: &[XPathExpr],
    here: XPathContext,
    part: fn(&XmlName) -> String,
) -> XPathResult {
    let node: Option<XmlNodeId> = match arguments.first() {
        Some(argument) => this.nodes(argument, here)?.first().copied(),
        None => Some(here.node),
    };
    let simple = |local: &str| XmlName { prefix: "".into(), local: local.into(), namespace: "".into() };
    Ok(XPathValue::Text(match node.map(|id| &this.document.node(id).kind) {
        Some(XmlNodeKind::Element { name, .. } | XmlNodeKind::Attribute { name, .. }) => part(name),
        Some(XmlNodeKind::Instruction { target, .. }) => part(&simple(target)),
        Some(XmlNodeKind::Namespace { prefix, .. }) => part(&simple(prefix)),
        _ => String::new(),
    }))
}

fn concat(this: &mut XPathEvaluator, arguments: &[XPathExpr], here: XPathContext) -> XPathResult {
    let mut out = String::new();
    for argument in arguments {
        out.push_str(&text_at(this, argument, here)?);
        out = this.charge_text(out)?;
    }
    Ok(XPathValue::Text(out))
}

/// Rounds halves up, also below zero.
fn round(number: f64) -> f64 {
    let floor = number.floor();
    if number - floor < 0.5 { floor } else { number.ceil() }
}

fn rounded(
    this: &mut XPathEvaluator,
    arguments: &[XPathExpr],
    here: XPathContext,
    rounding: fn(f64) -> f64,
) -> XPathResult {
    let value = this.eval(&arguments[0], here)?;
    Ok(XPathValue::Number(rounding(this.number(&value)?)))
}

/// Returns a part of the text. Positions count from 1 and are rounded; the end position is exclusive.
fn substring(this: &mut XPathEvaluator, arguments: &[XPathExpr], here: XPathContext) -> XPathResult {
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
    Ok(XPathValue::Text(each.map(|(_, c)| c).collect()))
}

fn translate(this: &mut XPathEvaluator, arguments: &[XPathExpr], here: XPathContext) -> XPathResult {
    let text = text_at(this, &arguments[0], here)?;
    let [from, to] = two_texts(this, &arguments[1..], here)?;
    let to: Vec<char> = to.chars().collect();
    let mut changes = std::collections::HashMap::new();
    for (index, c) in from.chars().enumerate() {
        changes.entry(c).or_insert_with(|| to.get(index).copied());
    }
    let out = text.chars().filter_map(|c| changes.get(&c).copied().unwrap_or(Some(c))).collect();
    Ok(XPathValue::Text(out))
}

/// Returns whether the `xml:lang` in effect at the node is the language or one of its variants.
fn lang(this: &mut XPathEvaluator, arguments: &[XPathExpr], here: XPathContext) -> XPathResult {
    let requested = text_at(this, &arguments[0], here)?.to_lowercase();
    let (document, mut node) = (this.document, here.node);
    loop {
        this.charge(1)?;
        let language = document.attributes(node).find_map(|id| match &document.node(id).kind {
            XmlNodeKind::Attribute { name, value } if &*name.prefix == "xml" && &*name.local == "lang" => Some(value),
            _ => None,
        });
        if let Some(language) = language {
            let language = language.to_lowercase();
            let rest = language.strip_prefix(&requested);
            return Ok(XPathValue::Bool(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))));
        }
        if node == ROOT {
            return Ok(XPathValue::Bool(false));
        }
        node = document.node(node).parent;
    }
}
