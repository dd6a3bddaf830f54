//! Parser: tokens to syntax. Operators of one rank are kept in a flat list, so that a long chain is not a deep tree.

use super::XPathError;
use super::axes::{Axis, NodeTest};
use super::functions::{self, XPathFunction};
use super::lexer::{OperatorWord, XPathToken, tokenize};

/// The maximum length of an expression, and its maximum nesting depth.
const MAX_LENGTH: usize = 8192;
const MAX_NESTING: usize = 50;

/// A parsed expression.
pub(crate) struct XPath(pub(super) XPathExpr);

pub(super) enum XPathExpr {
    /// Operands with operators of one rank between them, evaluated from left to right.
    Chain(Box<XPathExpr>, Vec<(XPathOperator, XPathExpr)>),
    Negate(Box<XPathExpr>),
    Literal(String),
    Number(f64),
    Call(&'static XPathFunction, Vec<XPathExpr>),
    Path {
        start: PathStart,
        steps: Vec<XPathStep>,
    },
}

pub(super) enum PathStart {
    Root,
    ContextNode,
    /// The nodes of another expression, filtered.
    Nodes(Box<XPathExpr>, Vec<XPathExpr>),
}

pub(super) struct XPathStep {
    pub axis: Axis,
    pub test: NodeTest,
    pub predicates: Vec<XPathExpr>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum XPathOperator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Union,
}

/// Ranks from the loosest to the tightest; negation is between the last of them and the union.
const RANKS: &[&[(XPathToken, XPathOperator)]] = &[
    &[(XPathToken::Operator(OperatorWord::Or), XPathOperator::Or)],
    &[(XPathToken::Operator(OperatorWord::And), XPathOperator::And)],
    &[(XPathToken::Sign("="), XPathOperator::Equal), (XPathToken::Sign("!="), XPathOperator::NotEqual)],
    &[
        (XPathToken::Sign("<"), XPathOperator::Less),
        (XPathToken::Sign("<="), XPathOperator::LessOrEqual),
        (XPathToken::Sign(">"), XPathOperator::Greater),
        (XPathToken::Sign(">="), XPathOperator::GreaterOrEqual),
    ],
    &[(XPathToken::Sign("+"), XPathOperator::Add), (XPathToken::Sign("-"), XPathOperator::Subtract)],
    &[
        (XPathToken::Operator(OperatorWord::Times), XPathOperator::Multiply),
        (XPathToken::Operator(OperatorWord::Div), XPathOperator::Divide),
        (XPathToken::Operator(OperatorWord::Mod), XPathOperator::Modulo),
    ],
];

impl XPath {
    pub(crate) fn parse(text: &str) -> Result<XPath, XPathError> {
        if text.len() > MAX_LENGTH {
            return Err(XPathError::new(format!("the XPath is longer than {MAX_LENGTH} characters")));
        }
        let mut parser = Parser { tokens: tokenize(text)?, at: 0, depth: 0, length: text.len() };
        let expr = parser.expression()?;
        match parser.tokens.get(parser.at) {
            None => Ok(XPath(expr)),
            Some(_) => Err(parser.unexpected("the end")),
        }
    }
}

struct Parser {
    tokens: Vec<(XPathToken, usize)>,
    at: usize,
    depth: usize,
    length: usize,
}

impl Parser {
    fn peek(&self) -> Option<&XPathToken> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(XPathToken::Sign(found)) if *found == sign)
    }

    fn next_is(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.at + 1), Some((XPathToken::Sign(found), _)) if *found == sign)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), XPathError> {
        match self.take_sign(sign) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{sign}`"))),
        }
    }

    fn unexpected(&self, expected: &str) -> XPathError {
        let position = self.tokens.get(self.at).map_or(self.length, |(_, at)| *at);
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(XPathToken::Sign(sign)) => format!("`{sign}`"),
            Some(XPathToken::Star | XPathToken::Operator(OperatorWord::Times)) => "`*`".to_owned(),
            Some(XPathToken::Operator(word)) => format!("`{word:?}`").to_lowercase(),
            Some(XPathToken::Literal(text)) => format!("the text '{text}'"),
            Some(XPathToken::Number(number)) => format!("the number {number}"),
            Some(XPathToken::Name { local, .. }) => format!("`{local}`"),
        };
        XPathError::new(format!("expected {expected} at {position}, found {found}"))
    }

    fn expression(&mut self) -> Result<XPathExpr, XPathError> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(XPathError::new(format!("the XPath nests deeper than {MAX_NESTING}")));
        }
        let expr = self.rank(0)?;
        self.depth -= 1;
        Ok(expr)
    }

    fn rank(&mut self, rank: usize) -> Result<XPathExpr, XPathError> {
        let Some(operators) = RANKS.get(rank) else { return self.negation() };
        let first = self.rank(rank + 1)?;
        let mut rest = Vec::new();
        while let Some(operator) = self
            .peek()
            .and_then(|token| operators.iter().find(|(known, _)| known == token).map(|(_, operator)| *operator))
        {
            self.at += 1;
            rest.push((operator, self.rank(rank + 1)?));
        }
        Ok(if rest.is_empty() { first } else { XPathExpr::Chain(Box::new(first), rest) })
    }

    fn negation(&mut self) -> Result<XPathExpr, XPathError> {
        let (mut odd, mut any) = (false, false);
        while self.take_sign("-") {
            (odd, any) = (!odd, true);
        }
        let expr = self.union()?;
        Ok(match (any, odd) {
            (false, _) => expr,
            (true, true) => XPathExpr::Negate(Box::new(expr)),
            // A double negation still converts to a number.
            (true, false) => XPathExpr::Negate(Box::new(XPathExpr::Negate(Box::new(expr)))),
        })
    }

    fn union(&mut self) -> Result<XPathExpr, XPathError> {
        let first = self.path()?;
        let mut rest = Vec::new();
        while self.take_sign("|") {
            rest.push((XPathOperator::Union, self.path()?));
        }
        for expr in rest.iter().map(|(_, expr)| expr).chain([&first]).filter(|_| !rest.is_empty()) {
            check_nodes(expr, "`|`")?;
        }
        Ok(if rest.is_empty() { first } else { XPathExpr::Chain(Box::new(first), rest) })
    }

    fn path(&mut self) -> Result<XPathExpr, XPathError> {
        let mut steps = Vec::new();
        let start = if self.begins_primary() {
            let primary = self.primary()?;
            let predicates = self.predicates()?;
            let continues = self.is("/") || self.is("//");
            if predicates.is_empty() && !continues {
                return Ok(primary);
            }
            check_nodes(&primary, "a path or a filter")?;
            PathStart::Nodes(Box::new(primary), predicates)
        } else if self.take_sign("/") {
            if self.begins_step() {
                steps.push(self.step()?);
            }
            PathStart::Root
        } else if self.take_sign("//") {
            steps.extend([descendants_step(), self.step()?]);
            PathStart::Root
        } else {
            steps.push(self.step()?);
            PathStart::ContextNode
        };
        loop {
            if self.take_sign("//") {
                steps.push(descendants_step());
            } else if !self.take_sign("/") {
                return Ok(XPathExpr::Path { start, steps });
            }
            steps.push(self.step()?);
        }
    }

    /// Returns whether a literal, number, parenthesis or function call begins here; `name(` may also be a node test.
    fn begins_primary(&self) -> bool {
        match self.peek() {
            Some(XPathToken::Literal(_) | XPathToken::Number(_) | XPathToken::Sign("(")) => true,
            Some(XPathToken::Name { prefix, local }) => self.next_is("(") && !(prefix.is_none() && is_node_type(local)),
            _ => false,
        }
    }

    fn begins_step(&self) -> bool {
        matches!(self.peek(), Some(XPathToken::Star | XPathToken::Name { .. } | XPathToken::Sign("." | ".." | "@")))
    }

    fn primary(&mut self) -> Result<XPathExpr, XPathError> {
        let token = self.peek().cloned();
        self.at += 1;
        match token {
            Some(XPathToken::Literal(text)) => Ok(XPathExpr::Literal(text)),
            Some(XPathToken::Number(number)) => Ok(XPathExpr::Number(number)),
            Some(XPathToken::Name { prefix, local }) => self.call(prefix, &local),
            _ => {
                let expr = self.expression()?;
                self.expect(")")?;
                Ok(expr)
            }
        }
    }

    fn call(&mut self, prefix: Option<String>, local: &str) -> Result<XPathExpr, XPathError> {
        let name = prefix.map_or_else(|| local.to_owned(), |prefix| format!("{prefix}:{local}"));
        let function = functions::find(&name)?;
        self.expect("(")?;
        let mut arguments = Vec::new();
        if !self.take_sign(")") {
            loop {
                arguments.push(self.expression()?);
                if self.take_sign(")") {
                    break;
                }
                self.expect(",")?;
            }
        }
        functions::check(function, &arguments)?;
        Ok(XPathExpr::Call(function, arguments))
    }

    fn predicates(&mut self) -> Result<Vec<XPathExpr>, XPathError> {
        let mut found = Vec::new();
        while self.take_sign("[") {
            found.push(self.expression()?);
            self.expect("]")?;
        }
        Ok(found)
    }

    fn step(&mut self) -> Result<XPathStep, XPathError> {
        for (sign, axis) in [("..", Axis::Parent), (".", Axis::SelfNode)] {
            if self.take_sign(sign) {
                return Ok(XPathStep { axis, test: NodeTest::Any, predicates: Vec::new() });
            }
        }
        let axis = match self.peek() {
            Some(XPathToken::Sign("@")) => {
                self.at += 1;
                Axis::Attribute
            }
            Some(XPathToken::Name { prefix: None, local }) if self.next_is("::") => {
                let axis = Axis::from_name(local)?;
                self.at += 2;
                axis
            }
            _ => Axis::Child,
        };
        let test = self.test()?;
        Ok(XPathStep { axis, test, predicates: self.predicates()? })
    }

    fn test(&mut self) -> Result<NodeTest, XPathError> {
        let token = self.peek().cloned();
        match token {
            Some(XPathToken::Star) => {
                self.at += 1;
                Ok(NodeTest::Name { prefix: None, local: None })
            }
            Some(XPathToken::Name { prefix: None, local }) if is_node_type(&local) && self.next_is("(") => {
                self.at += 2;
                let target = match self.peek() {
                    Some(XPathToken::Literal(target)) if local == "processing-instruction" => Some(target.clone()),
                    _ => None,
                };
                self.at += usize::from(target.is_some());
                self.expect(")")?;
                Ok(match local.as_str() {
                    "text" => NodeTest::Text,
                    "comment" => NodeTest::Comment,
                    "processing-instruction" => NodeTest::Instruction(target),
                    _ => NodeTest::Any,
                })
            }
            Some(XPathToken::Name { prefix, local }) => {
                self.at += 1;
                Ok(NodeTest::Name { prefix, local: Some(local).filter(|local| local != "*") })
            }
            _ => Err(self.unexpected("a step of a path")),
        }
    }
}

fn is_node_type(name: &str) -> bool {
    matches!(name, "node" | "text" | "comment" | "processing-instruction")
}

fn descendants_step() -> XPathStep {
    XPathStep { axis: Axis::DescendantOrSelf, test: NodeTest::Any, predicates: Vec::new() }
}

/// Rejects expressions that can never be nodes where nodes are required.
pub(super) fn check_nodes(expr: &XPathExpr, construct: &str) -> Result<(), XPathError> {
    let nodes = match expr {
        XPathExpr::Path { .. } => true,
        XPathExpr::Chain(_, rest) => rest.iter().all(|(operator, _)| *operator == XPathOperator::Union),
        XPathExpr::Call(function, _) => function.returns_nodes(),
        XPathExpr::Literal(_) | XPathExpr::Number(_) | XPathExpr::Negate(_) => false,
    };
    match nodes {
        true => Ok(()),
        false => Err(XPathError::new(format!("{construct} needs nodes, not a text, a number or a boolean"))),
    }
}
