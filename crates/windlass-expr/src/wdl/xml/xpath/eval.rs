//! Values of expressions.

use std::collections::HashSet;

use windlass_value::EvalError;

use super::axes::{Axis, Test, namespace_of, passes};
use super::parser::{Expr, Operator, Start, Step, XPath};
use crate::wdl::values::{Context, type_error};
use crate::wdl::xml::document::{Document, Kind, NodeId, ROOT};

pub(super) enum XValue {
    /// In document order, each once.
    Nodes(Vec<NodeId>),
    Bool(bool),
    Number(f64),
    Text(String),
}

/// Where an expression is evaluated: the node, its place among its like, and how many of them there are.
#[derive(Clone, Copy)]
pub(super) struct Here {
    pub node: NodeId,
    pub position: usize,
    pub size: usize,
}

pub(super) type Found = Result<XValue, EvalError>;

pub(super) struct Evaluator<'a, 'b> {
    context: &'a mut Context<'b>,
    pub document: &'a Document,
}

impl<'a, 'b> Evaluator<'a, 'b> {
    pub(crate) fn new(context: &'a mut Context<'b>, document: &'a Document) -> Evaluator<'a, 'b> {
        Evaluator { context, document }
    }

    pub(crate) fn value(&mut self, path: &XPath) -> Found {
        self.eval(&path.0, Here { node: ROOT, position: 1, size: 1 })
    }

    pub(crate) fn eval(&mut self, expr: &Expr, here: Here) -> Found {
        self.context.step()?;
        match expr {
            Expr::Literal(text) => Ok(XValue::Text(text.clone())),
            Expr::Number(number) => Ok(XValue::Number(*number)),
            Expr::Negate(inner) => {
                let value = self.eval(inner, here)?;
                Ok(XValue::Number(-self.number(&value)?))
            }
            Expr::Call(function, arguments) => (function.run)(self, arguments, here),
            Expr::Chain(first, rest) => {
                let mut value = self.eval(first, here)?;
                for (operator, operand) in rest {
                    value = self.operate(*operator, value, operand, here)?;
                }
                Ok(value)
            }
            Expr::Path { start, steps } => {
                let mut nodes = match start {
                    Start::Root => vec![ROOT],
                    Start::Here => vec![here.node],
                    Start::Nodes(expr, predicates) => {
                        let nodes = self.nodes(expr, here)?;
                        self.filtered(nodes, predicates)?
                    }
                };
                for step in steps {
                    nodes = self.step(step, nodes)?;
                }
                Ok(XValue::Nodes(nodes))
            }
        }
    }

    /// What only nodes make sense for was checked when parsing; anything else is no nodes.
    pub(crate) fn nodes(&mut self, expr: &Expr, here: Here) -> Result<Vec<NodeId>, EvalError> {
        Ok(match self.eval(expr, here)? {
            XValue::Nodes(nodes) => nodes,
            _ => Vec::new(),
        })
    }

    fn step(&mut self, step: &Step, from: Vec<NodeId>) -> Result<Vec<NodeId>, EvalError> {
        let document = self.document;
        let namespace = match &step.test {
            Test::Name { prefix: Some(prefix), .. } => {
                self.context.items(document.nodes.len() / 64)?;
                namespace_of(document, prefix).ok_or_else(|| {
                    type_error(format!("`xpath`: the XML declares no prefix `{prefix}`"))
                        .hint("ask for the name alone: *[local-name() = 'name']")
                })?
            }
            _ => "",
        };
        let several = from.len() > 1;
        let mut all = Vec::new();
        for node in from {
            let mut reached = Vec::new();
            step.axis.walk(document, node, &mut |id| {
                self.context.step()?;
                if passes(document, step.axis, &step.test, namespace, id) {
                    reached.push(id);
                }
                Ok::<(), EvalError>(())
            })?;
            self.unreached(step.axis, node)?;
            all.append(&mut self.filtered(reached, &step.predicates)?);
        }
        if several || step.axis.is_reverse() {
            self.sort(&mut all)?;
        }
        Ok(all)
    }

    /// Some axes pass over nodes before they reach one; that is work too.
    fn unreached(&mut self, axis: Axis, node: NodeId) -> Result<(), EvalError> {
        let passed = match axis {
            Axis::Preceding => node as usize,
            Axis::Descendant | Axis::DescendantOrItself => (self.document.node(node).end - node) as usize,
            Axis::Following => self.document.nodes.len() - node as usize,
            _ => 0,
        };
        self.context.items(passed / 4)
    }

    fn sort(&mut self, nodes: &mut Vec<NodeId>) -> Result<(), EvalError> {
        self.context.items(nodes.len())?;
        nodes.sort_unstable();
        nodes.dedup();
        Ok(())
    }

    /// A number as a predicate is a position.
    fn filtered(&mut self, mut nodes: Vec<NodeId>, predicates: &[Expr]) -> Result<Vec<NodeId>, EvalError> {
        for predicate in predicates {
            let (size, mut kept) = (nodes.len(), Vec::new());
            for (index, node) in nodes.into_iter().enumerate() {
                let position = index + 1;
                let value = self.eval(predicate, Here { node, position, size })?;
                let keep = match value {
                    XValue::Number(number) => number == position as f64,
                    other => truth(&other),
                };
                if keep {
                    kept.push(node);
                }
            }
            nodes = kept;
        }
        Ok(nodes)
    }

    fn operate(&mut self, operator: Operator, left: XValue, operand: &Expr, here: Here) -> Found {
        match operator {
            Operator::Or if truth(&left) => return Ok(XValue::Bool(true)),
            Operator::And if !truth(&left) => return Ok(XValue::Bool(false)),
            _ => {}
        }
        let right = self.eval(operand, here)?;
        let arithmetic = |this: &mut Self, apply: fn(f64, f64) -> f64| {
            Ok(XValue::Number(apply(this.number(&left)?, this.number(&right)?)))
        };
        match operator {
            Operator::Or | Operator::And => Ok(XValue::Bool(truth(&right))),
            Operator::Add => arithmetic(self, |a, b| a + b),
            Operator::Subtract => arithmetic(self, |a, b| a - b),
            Operator::Multiply => arithmetic(self, |a, b| a * b),
            Operator::Divide => arithmetic(self, |a, b| a / b),
            Operator::Modulo => arithmetic(self, |a, b| a % b),
            Operator::Union => {
                let (XValue::Nodes(mut nodes), XValue::Nodes(mut more)) = (left, right) else {
                    return Ok(XValue::Nodes(Vec::new()));
                };
                nodes.append(&mut more);
                self.sort(&mut nodes)?;
                Ok(XValue::Nodes(nodes))
            }
            Operator::Equal | Operator::NotEqual => {
                self.equal(&left, &right, operator == Operator::Equal).map(XValue::Bool)
            }
            Operator::Less => self.less(&left, &right, |a, b| a < b).map(XValue::Bool),
            Operator::LessOrEqual => self.less(&left, &right, |a, b| a <= b).map(XValue::Bool),
            Operator::Greater => self.less(&right, &left, |a, b| a < b).map(XValue::Bool),
            Operator::GreaterOrEqual => self.less(&right, &left, |a, b| a <= b).map(XValue::Bool),
        }
    }

    fn strings(&mut self, nodes: &[NodeId]) -> Result<Vec<String>, EvalError> {
        nodes.iter().map(|id| self.string(*id)).collect()
    }

    /// Of nodes: whether any of them compares so.
    fn equal(&mut self, left: &XValue, right: &XValue, wanted: bool) -> Result<bool, EvalError> {
        Ok(match (left, right) {
            (XValue::Nodes(left), XValue::Nodes(right)) => {
                let (left, right) = (self.strings(left)?, self.strings(right)?);
                match wanted {
                    true => {
                        let known: HashSet<&String> = left.iter().collect();
                        right.iter().any(|text| known.contains(text))
                    }
                    // Some pair differs, unless there is none or all are the same text.
                    false => match (left.first(), right.first()) {
                        (Some(first), Some(_)) => left.iter().chain(&right).any(|text| text != first),
                        _ => false,
                    },
                }
            }
            (XValue::Nodes(nodes), XValue::Bool(flag)) | (XValue::Bool(flag), XValue::Nodes(nodes)) => {
                (nodes.is_empty() != *flag) == wanted
            }
            (XValue::Nodes(nodes), XValue::Number(number)) | (XValue::Number(number), XValue::Nodes(nodes)) => {
                self.strings(nodes)?.iter().any(|text| (parse_number(text) == *number) == wanted)
            }
            (XValue::Nodes(nodes), XValue::Text(text)) | (XValue::Text(text), XValue::Nodes(nodes)) => {
                self.strings(nodes)?.iter().any(|found| (found == text) == wanted)
            }
            (XValue::Bool(_), _) | (_, XValue::Bool(_)) => (truth(left) == truth(right)) == wanted,
            (XValue::Number(_), _) | (_, XValue::Number(_)) => (self.number(left)? == self.number(right)?) == wanted,
            (XValue::Text(left), XValue::Text(right)) => (left == right) == wanted,
        })
    }

    /// Of nodes: whether any of them compares so. For that the least on the left and the greatest on the right are enough.
    fn less(&mut self, left: &XValue, right: &XValue, holds: fn(f64, f64) -> bool) -> Result<bool, EvalError> {
        let crossed =
            matches!((left, right), (XValue::Nodes(_), XValue::Bool(_)) | (XValue::Bool(_), XValue::Nodes(_)));
        let mut bound = |value: &XValue, pick: fn(f64, f64) -> f64| match value {
            XValue::Nodes(nodes) if crossed => Ok(Some(if nodes.is_empty() { 0.0 } else { 1.0 })),
            XValue::Nodes(nodes) => {
                let numbers = self.strings(nodes)?.into_iter().map(|text| parse_number(&text));
                Ok(numbers.filter(|number| !number.is_nan()).reduce(pick))
            }
            other => self.number(other).map(Some),
        };
        let (least, max) = (bound(left, f64::min)?, bound(right, f64::max)?);
        Ok(least.zip(max).is_some_and(|(least, max)| holds(least, max)))
    }

    pub(crate) fn number(&mut self, value: &XValue) -> Result<f64, EvalError> {
        Ok(match value {
            XValue::Number(number) => *number,
            XValue::Bool(flag) => f64::from(u8::from(*flag)),
            XValue::Text(text) => parse_number(text),
            XValue::Nodes(nodes) => match nodes.first() {
                Some(first) => parse_number(&self.string(*first)?),
                None => f64::NAN,
            },
        })
    }

    pub(crate) fn text(&mut self, value: XValue) -> Result<String, EvalError> {
        Ok(match value {
            XValue::Text(text) => text,
            XValue::Bool(flag) => flag.to_string(),
            XValue::Number(number) => number_text(number),
            XValue::Nodes(nodes) => match nodes.first() {
                Some(first) => self.string(*first)?,
                None => String::new(),
            },
        })
    }

    /// Pays for a text that is made.
    pub(crate) fn room(&mut self, text: String) -> Result<String, EvalError> {
        self.context.room_for_bytes(text.len())?;
        Ok(text)
    }

    pub(crate) fn pay(&mut self, items: usize) -> Result<(), EvalError> {
        self.context.items(items)
    }

    /// The string-value of a node: of an element, all text inside.
    pub(crate) fn string(&mut self, id: NodeId) -> Result<String, EvalError> {
        let node = self.document.node(id);
        let text = match &node.kind {
            Kind::Attribute { value, .. } => value.to_string(),
            Kind::Namespace { uri, .. } => uri.to_string(),
            Kind::Comment(text) => text.to_string(),
            Kind::Instruction { value, .. } => value.to_string(),
            Kind::Text { .. } => {
                let run = |next: &NodeId| {
                    *next == id
                        || matches!(self.document.nodes.get(*next as usize), Some(node) if matches!(node.kind, Kind::Text { continues: true, .. }))
                };
                self.texts((id..).take_while(run))
            }
            Kind::Root | Kind::Element { .. } => {
                self.context.items((node.end - id) as usize)?;
                self.texts(id + 1..node.end)
            }
        };
        self.room(text)
    }

    fn texts(&self, ids: impl Iterator<Item = NodeId>) -> String {
        let mut out = String::new();
        for id in ids {
            if let Kind::Text { text, .. } = &self.document.node(id).kind {
                out.push_str(text);
            }
        }
        out
    }
}

pub(super) fn truth(value: &XValue) -> bool {
    match value {
        XValue::Bool(flag) => *flag,
        XValue::Number(number) => *number != 0.0 && !number.is_nan(),
        XValue::Text(text) => !text.is_empty(),
        XValue::Nodes(nodes) => !nodes.is_empty(),
    }
}

/// Digits with a point and a minus, spaces around them; anything else is no number.
pub(super) fn parse_number(text: &str) -> f64 {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let any = digits.bytes().any(|byte| byte.is_ascii_digit());
    if plain && any { text.parse().unwrap_or(f64::NAN) } else { f64::NAN }
}

/// Never with an exponent.
pub(super) fn number_text(number: f64) -> String {
    match number {
        number if number.is_nan() => "NaN".to_owned(),
        number if number == f64::INFINITY => "Infinity".to_owned(),
        number if number == f64::NEG_INFINITY => "-Infinity".to_owned(),
        // There is no negative zero in texts.
        0.0 => "0".to_owned(),
        number => number.to_string(),
    }
}
