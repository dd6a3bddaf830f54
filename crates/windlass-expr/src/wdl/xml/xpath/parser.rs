//! Tokens to syntax. Operators of one rank are kept in a flat list, so that a long chain is no deep tree.

use super::XPathError;
use super::axes::{Axis, Test};
use super::functions::{self, Function};
use super::lexer::{Token, Word, tokens};

/// The most characters an expression may have, and how deep it may nest.
const MAX_LENGTH: usize = 8192;
const MAX_NESTING: usize = 50;

/// A parsed expression.
pub(crate) struct XPath(pub(super) Expr);

pub(super) enum Expr {
    /// Operands with the operators between them, all of one rank, worked out from left to right.
    Chain(Box<Expr>, Vec<(Operator, Expr)>),
    Negate(Box<Expr>),
    Literal(String),
    Number(f64),
    Call(&'static Function, Vec<Expr>),
    Path {
        start: Start,
        steps: Vec<Step>,
    },
}

pub(super) enum Start {
    Root,
    Here,
    /// The nodes of another expression, filtered.
    Nodes(Box<Expr>, Vec<Expr>),
}

pub(super) struct Step {
    pub axis: Axis,
    pub test: Test,
    pub predicates: Vec<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
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

/// Ranks from the loosest to the tightest; negation stands between the last two.
const RANKS: &[&[(Token, Operator)]] = &[
    &[(Token::Operator(Word::Or), Operator::Or)],
    &[(Token::Operator(Word::And), Operator::And)],
    &[(Token::Sign("="), Operator::Equal), (Token::Sign("!="), Operator::NotEqual)],
    &[
        (Token::Sign("<"), Operator::Less),
        (Token::Sign("<="), Operator::LessOrEqual),
        (Token::Sign(">"), Operator::Greater),
        (Token::Sign(">="), Operator::GreaterOrEqual),
    ],
    &[(Token::Sign("+"), Operator::Add), (Token::Sign("-"), Operator::Subtract)],
    &[
        (Token::Operator(Word::Times), Operator::Multiply),
        (Token::Operator(Word::Div), Operator::Divide),
        (Token::Operator(Word::Mod), Operator::Modulo),
    ],
];

impl XPath {
    pub(crate) fn parse(text: &str) -> Result<XPath, XPathError> {
        if text.len() > MAX_LENGTH {
            return Err(XPathError::new(format!("the XPath is longer than {MAX_LENGTH} characters")));
        }
        let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, length: text.len() };
        let expr = parser.expression()?;
        match parser.tokens.get(parser.at) {
            None => Ok(XPath(expr)),
            Some(_) => Err(parser.unexpected("the end")),
        }
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    length: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    fn next_is(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.at + 1), Some((Token::Sign(found), _)) if *found == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let taken = self.is(sign);
        self.at += usize::from(taken);
        taken
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), XPathError> {
        match self.take(sign) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{sign}`"))),
        }
    }

    fn unexpected(&self, wanted: &str) -> XPathError {
        let place = self.tokens.get(self.at).map_or(self.length, |(_, at)| *at);
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(Token::Sign(sign)) => format!("`{sign}`"),
            Some(Token::Star | Token::Operator(Word::Times)) => "`*`".to_owned(),
            Some(Token::Operator(word)) => format!("`{word:?}`").to_lowercase(),
            Some(Token::Literal(text)) => format!("the text '{text}'"),
            Some(Token::Number(number)) => format!("the number {number}"),
            Some(Token::Name { local, .. }) => format!("`{local}`"),
        };
        XPathError::new(format!("expected {wanted} at {place}, found {found}"))
    }

    fn expression(&mut self) -> Result<Expr, XPathError> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(XPathError::new(format!("the XPath nests deeper than {MAX_NESTING}")));
        }
        let expr = self.rank(0)?;
        self.depth -= 1;
        Ok(expr)
    }

    fn rank(&mut self, rank: usize) -> Result<Expr, XPathError> {
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
        Ok(if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) })
    }

    fn negation(&mut self) -> Result<Expr, XPathError> {
        let (mut odd, mut any) = (false, false);
        while self.take("-") {
            (odd, any) = (!odd, true);
        }
        let expr = self.union()?;
        Ok(match (any, odd) {
            (false, _) => expr,
            (true, true) => Expr::Negate(Box::new(expr)),
            // Negated twice it is still a number.
            (true, false) => Expr::Negate(Box::new(Expr::Negate(Box::new(expr)))),
        })
    }

    fn union(&mut self) -> Result<Expr, XPathError> {
        let first = self.path()?;
        let mut rest = Vec::new();
        while self.take("|") {
            rest.push((Operator::Union, self.path()?));
        }
        for expr in rest.iter().map(|(_, expr)| expr).chain([&first]).filter(|_| !rest.is_empty()) {
            check_nodes(expr, "`|`")?;
        }
        Ok(if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) })
    }

    fn path(&mut self) -> Result<Expr, XPathError> {
        let mut steps = Vec::new();
        let start = if self.begins_primary() {
            let primary = self.primary()?;
            let predicates = self.predicates()?;
            let goes_on = self.is("/") || self.is("//");
            if predicates.is_empty() && !goes_on {
                return Ok(primary);
            }
            check_nodes(&primary, "a path or a filter")?;
            Start::Nodes(Box::new(primary), predicates)
        } else if self.take("/") {
            if self.begins_step() {
                steps.push(self.step()?);
            }
            Start::Root
        } else if self.take("//") {
            steps.extend([anywhere(), self.step()?]);
            Start::Root
        } else {
            steps.push(self.step()?);
            Start::Here
        };
        loop {
            if self.take("//") {
                steps.push(anywhere());
            } else if !self.take("/") {
                return Ok(Expr::Path { start, steps });
            }
            steps.push(self.step()?);
        }
    }

    /// A literal, a number, a parenthesis or a call of a function; a name followed by `(` may also be a node test.
    fn begins_primary(&self) -> bool {
        match self.peek() {
            Some(Token::Literal(_) | Token::Number(_) | Token::Sign("(")) => true,
            Some(Token::Name { prefix, local }) => self.next_is("(") && !(prefix.is_none() && is_node_type(local)),
            _ => false,
        }
    }

    fn begins_step(&self) -> bool {
        matches!(self.peek(), Some(Token::Star | Token::Name { .. } | Token::Sign("." | ".." | "@")))
    }

    fn primary(&mut self) -> Result<Expr, XPathError> {
        let token = self.peek().cloned();
        self.at += 1;
        match token {
            Some(Token::Literal(text)) => Ok(Expr::Literal(text)),
            Some(Token::Number(number)) => Ok(Expr::Number(number)),
            Some(Token::Name { prefix, local }) => self.call(prefix, &local),
            _ => {
                let expr = self.expression()?;
                self.expect(")")?;
                Ok(expr)
            }
        }
    }

    fn call(&mut self, prefix: Option<String>, local: &str) -> Result<Expr, XPathError> {
        let name = prefix.map_or_else(|| local.to_owned(), |prefix| format!("{prefix}:{local}"));
        let function = functions::find(&name)?;
        self.expect("(")?;
        let mut arguments = Vec::new();
        if !self.take(")") {
            loop {
                arguments.push(self.expression()?);
                if self.take(")") {
                    break;
                }
                self.expect(",")?;
            }
        }
        functions::check(function, &arguments)?;
        Ok(Expr::Call(function, arguments))
    }

    fn predicates(&mut self) -> Result<Vec<Expr>, XPathError> {
        let mut found = Vec::new();
        while self.take("[") {
            found.push(self.expression()?);
            self.expect("]")?;
        }
        Ok(found)
    }

    fn step(&mut self) -> Result<Step, XPathError> {
        for (sign, axis) in [("..", Axis::Parent), (".", Axis::Itself)] {
            if self.take(sign) {
                return Ok(Step { axis, test: Test::Any, predicates: Vec::new() });
            }
        }
        let axis = match self.peek() {
            Some(Token::Sign("@")) => {
                self.at += 1;
                Axis::Attribute
            }
            Some(Token::Name { prefix: None, local }) if self.next_is("::") => {
                let axis = Axis::named(local)?;
                self.at += 2;
                axis
            }
            _ => Axis::Child,
        };
        let test = self.test()?;
        Ok(Step { axis, test, predicates: self.predicates()? })
    }

    fn test(&mut self) -> Result<Test, XPathError> {
        let token = self.peek().cloned();
        match token {
            Some(Token::Star) => {
                self.at += 1;
                Ok(Test::Name { prefix: None, local: None })
            }
            Some(Token::Name { prefix: None, local }) if is_node_type(&local) && self.next_is("(") => {
                self.at += 2;
                let target = match self.peek() {
                    Some(Token::Literal(target)) if local == "processing-instruction" => Some(target.clone()),
                    _ => None,
                };
                self.at += usize::from(target.is_some());
                self.expect(")")?;
                Ok(match local.as_str() {
                    "text" => Test::Text,
                    "comment" => Test::Comment,
                    "processing-instruction" => Test::Instruction(target),
                    _ => Test::Any,
                })
            }
            Some(Token::Name { prefix, local }) => {
                self.at += 1;
                Ok(Test::Name { prefix, local: Some(local).filter(|local| local != "*") })
            }
            _ => Err(self.unexpected("a step of a path")),
        }
    }
}

fn is_node_type(name: &str) -> bool {
    matches!(name, "node" | "text" | "comment" | "processing-instruction")
}

fn anywhere() -> Step {
    Step { axis: Axis::DescendantOrItself, test: Test::Any, predicates: Vec::new() }
}

/// Refuses what can never be nodes where nodes are needed.
pub(super) fn check_nodes(expr: &Expr, whose: &str) -> Result<(), XPathError> {
    let nodes = match expr {
        Expr::Path { .. } => true,
        Expr::Chain(_, rest) => rest.iter().all(|(operator, _)| *operator == Operator::Union),
        Expr::Call(function, _) => function.gives_nodes(),
        Expr::Literal(_) | Expr::Number(_) | Expr::Negate(_) => false,
    };
    match nodes {
        true => Ok(()),
        false => Err(XPathError::new(format!("{whose} needs nodes, not a text, a number or a boolean"))),
    }
}
