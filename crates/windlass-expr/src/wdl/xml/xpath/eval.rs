//! Evaluation of XPath expressions.

use std::collections::HashSet;

use windlass_value::EvalError;

use super::axes::{Axis, NodeTest, matches_test, namespace_of};
use super::parser::{PathStart, XPath, XPathExpr, XPathOperator, XPathStep};
use crate::wdl::values::{WdlContext, type_error};
use crate::wdl::xml::document::{ROOT, XmlDocument, XmlNodeId, XmlNodeKind};

pub(super) enum XPathValue {
    /// In document order, without duplicates.
    Nodes(Vec<XmlNodeId>),
    Bool(bool),
    Number(f64),
    Text(String),
}

/// The evaluation context: the node, its position in the node list, and the size of that list.
#[derive(Clone, Copy)]
pub(super) struct XPathContext {
    pub node: XmlNodeId,
    pub position: usize,
    pub size: usize,
}

pub(super) type XPathResult = Result<XPathValue, EvalError>;

pub(super) struct XPathEvaluator<'a, 'b> {
    context: &'a mut WdlContext<'b>,
    pub document: &'a XmlDocument,
}

impl<'a, 'b> XPathEvaluator<'a, 'b> {
    pub(crate) fn new(context: &'a mut WdlContext<'b>, document: &'a XmlDocument) -> XPathEvaluator<'a, 'b> {
        XPathEvaluator { context, document }
    }

    pub(crate) fn value(&mut self, path: &XPath) -> XPathResult {
        self.eval(&path.0, XPathContext { node: ROOT, position: 1, size: 1 })
    }

    pub(crate) fn eval(&mut self, expr: &XPathExpr, here: XPathContext) -> XPathResult {
        self.context.charge_node()?;
        match expr {
            XPathExpr::Literal(text) => Ok(XPathValue::Text(text.clone())),
            XPathExpr::Number(number) => Ok(XPathValue::Number(*number)),
            XPathExpr::Negate(inner) => {
                let value = self.eval(inner, here)?;
                Ok(XPathValue::Number(-self.number(&value)?))
            }
            XPathExpr::Call(function, arguments) => (function.run)(self, arguments, here),
            XPathExpr::Chain(first, rest) => {
                let mut value = self.eval(first, here)?;
                for (operator, operand) in rest {
                    value = self.operate(*operator, value, operand, here)?;
                }
                Ok(value)
            }
            XPathExpr::Path { start, steps } => {
                let mut nodes = match start {
                    PathStart::Root => vec![ROOT],
                    PathStart::ContextNode => vec![here.node],
                    PathStart::Nodes(expr, predicates) => {
                        let nodes = self.nodes(expr, here)?;
                        self.apply_predicates(nodes, predicates)?
                    }
                };
                for step in steps {
                    nodes = self.step(step, nodes)?;
                }
                Ok(XPathValue::Nodes(nodes))
            }
        }
    }

    /// Evaluates to nodes. The parser has checked where only nodes are valid; any other value is an empty set.
    pub(crate) fn nodes(&mut self, expr: &XPathExpr, here: XPathContext) -> Result<Vec<XmlNodeId>, EvalError> {
        Ok(match self.eval(expr, here)? {
            XPathValue::Nodes(nodes) => nodes,
            _ => Vec::new(),
        })
    }

    fn step(&mut self, step: &XPathStep, from: Vec<XmlNodeId>) -> Result<Vec<XmlNodeId>, EvalError> {
        let document = self.document;
        let namespace = match &step.test {
            NodeTest::Name { prefix: Some(prefix), .. } => {
                self.context.charge_items(document.nodes.len() / 64)?;
                namespace_of(document, prefix).ok_or_else(|| {
                    type_error(format!("`xpath`: the XML declares no prefix `{prefix}`"))
                        .with_hint("match the name without its prefix: *[local-name() = 'name']")
                })?
            }
            _ => "",
        };
        let several = from.len() > 1;
        let mut all = Vec::new();
        for node in from {
            let mut reached = Vec::new();
            step.axis.walk(document, node, &mut |id| {
                self.context.charge_node()?;
                if matches_test(document, step.axis, &step.test, namespace, id) {
                    reached.push(id);
                }
                Ok::<(), EvalError>(())
            })?;
            self.charge_skipped(step.axis, node)?;
            all.append(&mut self.apply_predicates(reached, &step.predicates)?);
        }
        if several || step.axis.is_reverse() {
            self.sort(&mut all)?;
        }
        Ok(all)
    }

    /// Charges for nodes that an axis skips before it reaches one.
    fn charge_skipped(&mut self, axis: Axis, node: XmlNodeId) -> Result<(), EvalError> {
        let passed = match axis {
            Axis::Preceding => node as usize,
            Axis::Descendant | Axis::DescendantOrSelf => (self.document.node(node).end - node) as usize,
            Axis::Following => self.document.nodes.len() - node as usize,
            _ => 0,
        };
        self.context.charge_items(passed / 4)
    }

    fn sort(&mut self, nodes: &mut Vec<XmlNodeId>) -> Result<(), EvalError> {
        self.context.charge_items(nodes.len())?;
        nodes.sort_unstable();
        nodes.dedup();
        Ok(())
    }

    /// Applies predicates. A number as a predicate is a position.
    fn apply_predicates(
        &mut self,
        mut nodes: Vec<XmlNodeId>,
        predicates: &[XPathExpr],
    ) -> Result<Vec<XmlNodeId>, EvalError> {
        for predicate in predicates {
            let (size, mut kept) = (nodes.len(), Vec::new());
            for (index, node) in nodes.into_iter().enumerate() {
                let position = index + 1;
                let value = self.eval(predicate, XPathContext { node, position, size })?;
                let keep = match value {
                    XPathValue::Number(number) => number == position as f64,
                    other => to_bool(&other),
                };
                if keep {
                    kept.push(node);
                }
            }
            nodes = kept;
        }
        Ok(nodes)
    }

    fn operate(
        &mut self,
        operator: XPathOperator,
        left: XPathValue,
        operand: &XPathExpr,
        here: XPathContext,
    ) -> XPathResult {
        match operator {
            XPathOperator::Or if to_bool(&left) => return Ok(XPathValue::Bool(true)),
            XPathOperator::And if !to_bool(&left) => return Ok(XPathValue::Bool(false)),
            _ => {}
        }
        let right = self.eval(operand, here)?;
        let arithmetic = |this: &mut Self, apply: fn(f64, f64) -> f64| {
            Ok(XPathValue::Number(apply(this.number(&left)?, this.number(&right)?)))
        };
        match operator {
            XPathOperator::Or | XPathOperator::And => Ok(XPathValue::Bool(to_bool(&right))),
            XPathOperator::Add => arithmetic(self, |a, b| a + b),
            XPathOperator::Subtract => arithmetic(self, |a, b| a - b),
            XPathOperator::Multiply => arithmetic(self, |a, b| a * b),
            XPathOperator::Divide => arithmetic(self, |a, b| a / b),
            XPathOperator::Modulo => arithmetic(self, |a, b| a % b),
            XPathOperator::Union => {
                let (XPathValue::Nodes(mut nodes), XPathValue::Nodes(mut more)) = (left, right) else {
                    return Ok(XPathValue::Nodes(Vec::new()));
                };
                nodes.append(&mut more);
                self.sort(&mut nodes)?;
                Ok(XPathValue::Nodes(nodes))
            }
            XPathOperator::Equal | XPathOperator::NotEqual => {
                self.equal(&left, &right, operator == XPathOperator::Equal).map(XPathValue::Bool)
            }
            XPathOperator::Less => self.less(&left, &right, |a, b| a < b).map(XPathValue::Bool),
            XPathOperator::LessOrEqual => self.less(&left, &right, |a, b| a <= b).map(XPathValue::Bool),
            XPathOperator::Greater => self.less(&right, &left, |a, b| a < b).map(XPathValue::Bool),
            XPathOperator::GreaterOrEqual => self.less(&right, &left, |a, b| a <= b).map(XPathValue::Bool),
        }
    }

    fn strings(&mut self, nodes: &[XmlNodeId]) -> Result<Vec<String>, EvalError> {
        nodes.iter().map(|id| self.string(*id)).collect()
    }

    /// Compares for equality. For nodes, returns whether any of them compares as expected.
    fn equal(&mut self, left: &XPathValue, right: &XPathValue, expected: bool) -> Result<bool, EvalError> {
        Ok(match (left, right) {
            (XPathValue::Nodes(left), XPathValue::Nodes(right)) => {
                let (left, right) = (self.strings(left)?, self.strings(right)?);
                match expected {
                    true => {
                        let known: HashSet<&String> = left.iter().collect();
                        right.iter().any(|text| known.contains(text))
                    }
                    // Some pair differs, unless one side is empty or all texts are the same.
                    false => match (left.first(), right.first()) {
                        (Some(first), Some(_)) => left.iter().chain(&right).any(|text| text != first),
                        _ => false,
                    },
                }
            }
            (XPathValue::Nodes(nodes), XPathValue::Bool(flag)) | (XPathValue::Bool(flag), XPathValue::Nodes(nodes)) => {
                (nodes.is_empty() != *flag) == expected
            }
            (XPathValue::Nodes(nodes), XPathValue::Number(number))
            | (XPathValue::Number(number), XPathValue::Nodes(nodes)) => {
                self.strings(nodes)?.iter().any(|text| (parse_number(text) == *number) == expected)
            }
            (XPathValue::Nodes(nodes), XPathValue::Text(text)) | (XPathValue::Text(text), XPathValue::Nodes(nodes)) => {
                self.strings(nodes)?.iter().any(|found| (found == text) == expected)
            }
            (XPathValue::Bool(_), _) | (_, XPathValue::Bool(_)) => (to_bool(left) == to_bool(right)) == expected,
            (XPathValue::Number(_), _) | (_, XPathValue::Number(_)) => {
                (self.number(left)? == self.number(right)?) == expected
            }
            (XPathValue::Text(left), XPathValue::Text(right)) => (left == right) == expected,
        })
    }

    /// Compares. For nodes, returns whether any of them satisfies the comparison; the minimum on the left and the
    /// maximum on the right are sufficient.
    fn less(&mut self, left: &XPathValue, right: &XPathValue, holds: fn(f64, f64) -> bool) -> Result<bool, EvalError> {
        let crossed = matches!(
            (left, right),
            (XPathValue::Nodes(_), XPathValue::Bool(_)) | (XPathValue::Bool(_), XPathValue::Nodes(_))
        );
        let mut bound = |value: &XPathValue, pick: fn(f64, f64) -> f64| match value {
            XPathValue::Nodes(nodes) if crossed => Ok(Some(if nodes.is_empty() { 0.0 } else { 1.0 })),
            XPathValue::Nodes(nodes) => {
                let numbers = self.strings(nodes)?.into_iter().map(|text| parse_number(&text));
                Ok(numbers.filter(|number| !number.is_nan()).reduce(pick))
            }
            other => self.number(other).map(Some),
        };
        let (min, max) = (bound(left, f64::min)?, bound(right, f64::max)?);
        Ok(min.zip(max).is_some_and(|(min, max)| holds(min, max)))
    }

    pub(crate) fn number(&mut self, value: &XPathValue) -> Result<f64, EvalError> {
        Ok(match value {
            XPathValue::Number(number) => *number,
            XPathValue::Bool(flag) => f64::from(u8::from(*flag)),
            XPathValue::Text(text) => parse_number(text),
            XPathValue::Nodes(nodes) => match nodes.first() {
                Some(first) => parse_number(&self.string(*first)?),
                None => f64::NAN,
            },
        })
    }

    pub(crate) fn text(&mut self, value: XPathValue) -> Result<String, EvalError> {
        Ok(match value {
            XPathValue::Text(text) => text,
            XPathValue::Bool(flag) => flag.to_string(),
            XPathValue::Number(number) => number_text(number),
            XPathValue::Nodes(nodes) => match nodes.first() {
                Some(first) => self.string(*first)?,
                None => String::new(),
            },
        })
    }

    /// Charges for a text that has been created.
    pub(crate) fn charge_text(&mut self, text: String) -> Result<String, EvalError> {
        self.context.reserve_bytes(text.len())?;
        Ok(text)
    }

    pub(crate) fn charge(&mut self, items: usize) -> Result<(), EvalError> {
        self.context.charge_items(items)
    }

    /// Returns the string-value of a node: for an element, all text inside.
    pub(crate) fn string(&mut self, id: XmlNodeId) -> Result<String, EvalError> {
        let node = self.document.node(id);
        let text = match &node.kind {
            XmlNodeKind::Attribute { value, .. } => value.to_string(),
            XmlNodeKind::Namespace { uri, .. } => uri.to_string(),
            XmlNodeKind::Comment(text) => text.to_string(),
            XmlNodeKind::Instruction { value, .. } => value.to_string(),
            XmlNodeKind::Text { .. } => {
                let run = |next: &XmlNodeId| {
                    *next == id
                        || matches!(self.document.nodes.get(*next as usize), Some(node) if matches!(node.kind, XmlNodeKind::Text { continues: true, .. }))
                };
                self.texts((id..).take_while(run))
            }
            XmlNodeKind::Root | XmlNodeKind::Element { .. } => {
                self.context.charge_items((node.end - id) as usize)?;
                self.texts(id + 1..node.end)
            }
        };
        self.charge_text(text)
    }

    fn texts(&self, ids: impl Iterator<Item = XmlNodeId>) -> String {
        let mut out = String::new();
        for id in ids {
            if let XmlNodeKind::Text { text, .. } = &self.document.node(id).kind {
                out.push_str(text);
            }
        }
        out
    }
}

pub(super) fn to_bool(value: &XPathValue) -> bool {
    match value {
        XPathValue::Bool(flag) => *flag,
        XPathValue::Number(number) => *number != 0.0 && !number.is_nan(),
        XPathValue::Text(text) => !text.is_empty(),
        XPathValue::Nodes(nodes) => !nodes.is_empty(),
    }
}

/// Parses digits with a point and a minus and surrounding spaces; anything else is NaN.
pub(super) fn parse_number(text: &str) -> f64 {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let any = digits.bytes().any(|byte| byte.is_ascii_digit());
    if plain && any { text.parse().unwrap_or(f64::NAN) } else { f64::NAN }
}

/// Formats a number, never with an exponent.
pub(super) fn number_text(number: f64) -> String {
    match number {
        number if number.is_nan() => "NaN".to_owned(),
        number if number == f64::INFINITY => "Infinity".to_owned(),
        number if number == f64::NEG_INFINITY => "-Infinity".to_owned(),
        // Texts have no negative zero.
        0.0 => "0".to_owned(),
        number => number.to_string(),
    }
}
