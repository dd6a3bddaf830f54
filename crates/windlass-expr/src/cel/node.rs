//! What a text is compiled to: names are resolved, functions are known, patterns are built.

use std::ops::Range;
use std::sync::Arc;

use regex::Regex;

use super::value::Val;

#[derive(Debug)]
pub(super) enum Node {
    Constant(Val),
    /// A variable of a macro, by its place among those that are open.
    Local(usize),
    Bound(Bound),
    /// All steps that there are.
    Steps,
    Step(Arc<str>),
    StepPart {
        id: Arc<str>,
        part: Part,
    },
    /// `steps[…]` with a computed name.
    StepNamed {
        name: Box<Node>,
        of: Range<usize>,
    },
    HasStep(Arc<str>),
    /// `of` is the place of the operand, for messages.
    Select {
        operand: Box<Node>,
        field: Arc<str>,
        of: Range<usize>,
    },
    Has {
        operand: Box<Node>,
        field: Arc<str>,
        of: Range<usize>,
    },
    Index {
        operand: Box<Node>,
        index: Box<Node>,
        of: Range<usize>,
    },
    Call {
        function: Function,
        arguments: Vec<Node>,
    },
    /// With a pattern that is written out.
    Matches {
        text: Box<Node>,
        pattern: Pattern,
    },
    Not(Box<Node>, Range<usize>),
    Negative(Box<Node>),
    Binary {
        operator: Operator,
        left: Box<Node>,
        right: Box<Node>,
    },
    /// `&&` if all must hold, else `||`.
    Logic {
        all: bool,
        parts: Vec<(Node, Range<usize>)>,
    },
    Choice {
        test: Box<Node>,
        at: Range<usize>,
        yes: Box<Node>,
        no: Box<Node>,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Fold(Box<Fold>),
}

/// `list.all(x, test)` and its like.
#[derive(Debug)]
pub(super) struct Fold {
    pub how: How,
    pub over: Node,
    pub of: Range<usize>,
    /// The place of its variable.
    pub slot: usize,
    pub test: Option<(Node, Range<usize>)>,
    pub give: Option<Node>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
}

#[derive(Debug)]
pub(super) struct Pattern {
    pub regex: Regex,
    pub length: usize,
}

/// A name that the place of the expression gives a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bound {
    Iteration,
    Item,
    Index,
    Content,
    Result,
    Status,
    Inputs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Content,
    Result,
    Status,
}

impl Part {
    pub(crate) const ALL: [(&'static str, Part); 3] =
        [("content", Part::Content), ("result", Part::Result), ("status", Part::Status)];

    pub(crate) fn named(name: &str) -> Option<Part> {
        Part::ALL.iter().find(|(known, _)| *known == name).map(|(_, part)| *part)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Content => "content",
            Part::Result => "result",
            Part::Status => "status",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
}

impl Operator {
    pub(crate) fn of(sign: &str) -> Operator {
        match sign {
            "+" => Operator::Add,
            "-" => Operator::Subtract,
            "*" => Operator::Multiply,
            "/" => Operator::Divide,
            "%" => Operator::Remainder,
            "==" => Operator::Equal,
            "!=" => Operator::Unequal,
            "<" => Operator::Less,
            "<=" => Operator::LessEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterEqual,
            _ => Operator::In,
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Remainder => "%",
            Operator::Equal => "==",
            Operator::Unequal => "!=",
            Operator::Less => "<",
            Operator::LessEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterEqual => ">=",
            Operator::In => "in",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    Int,
    Uint,
    Double,
    Str,
    Bytes,
    Bool,
    Timestamp,
    Duration,
    Type,
    Dyn,
    /// `getHours` and its like.
    Getter(&'static str),
}
