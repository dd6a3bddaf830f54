//! Compiled expressions: names are resolved, functions are looked up, patterns are compiled.

use std::ops::Range;
use std::sync::Arc;

use regex::Regex;

use super::value::CelValue;

#[derive(Debug)]
pub(super) enum CelNode {
    Constant(CelValue),
    /// A macro variable, by its index among the enclosing ones.
    Local(usize),
    Variable(CelVariable),
    /// All existing steps.
    Steps,
    Step(Arc<str>),
    StepPart {
        id: Arc<str>,
        part: StepPart,
    },
    /// `steps[…]` with a computed name.
    StepByName {
        name: Box<CelNode>,
        of: Range<usize>,
    },
    HasStep(Arc<str>),
    /// `of` is the source range of the operand, for messages.
    Select {
        operand: Box<CelNode>,
        field: Arc<str>,
        of: Range<usize>,
    },
    Has {
        operand: Box<CelNode>,
        field: Arc<str>,
        of: Range<usize>,
    },
    Index {
        operand: Box<CelNode>,
        index: Box<CelNode>,
        of: Range<usize>,
    },
    Call {
        function: CelFunction,
        arguments: Vec<CelNode>,
    },
    /// `matches` with a literal pattern.
    Matches {
        text: Box<CelNode>,
        pattern: CelPattern,
    },
    Not(Box<CelNode>, Range<usize>),
    Negative(Box<CelNode>),
    Binary {
        operator: CelOperator,
        left: Box<CelNode>,
        right: Box<CelNode>,
    },
    /// `&&` if `all` is true, otherwise `||`.
    Logic {
        all: bool,
        parts: Vec<(CelNode, Range<usize>)>,
    },
    Choice {
        test: Box<CelNode>,
        at: Range<usize>,
        yes: Box<CelNode>,
        no: Box<CelNode>,
    },
    List(Vec<CelNode>),
    Map(Vec<(CelNode, CelNode)>),
    Fold(Box<CelFold>),
}

/// `list.all(x, test)` and similar macros.
#[derive(Debug)]
pub(super) struct CelFold {
    pub kind: FoldKind,
    pub over: CelNode,
    pub of: Range<usize>,
    /// The index of the macro's variable.
    pub slot: usize,
    pub test: Option<(CelNode, Range<usize>)>,
    pub give: Option<CelNode>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
}

#[derive(Debug)]
pub(super) struct CelPattern {
    pub regex: Regex,
    pub length: usize,
}

/// A variable that the environment of the expression binds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CelVariable {
    Iteration,
    Item,
    Index,
    Content,
    Result,
    Status,
    Stop,
    Inputs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StepPart {
    Content,
    Result,
    Status,
    /// How the last reply of the step's agent ended.
    Stop,
}

impl StepPart {
    pub(crate) const ALL: [(&'static str, StepPart); 4] = [
        ("content", StepPart::Content),
        ("result", StepPart::Result),
        ("status", StepPart::Status),
        ("stop", StepPart::Stop),
    ];

    pub(crate) fn from_name(name: &str) -> Option<StepPart> {
        StepPart::ALL.iter().find(|(known, _)| *known == name).map(|(_, part)| *part)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            StepPart::Content => "content",
            StepPart::Result => "result",
            StepPart::Status => "status",
            StepPart::Stop => "stop",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CelOperator {
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

impl CelOperator {
    pub(crate) fn from_sign(sign: &str) -> CelOperator {
        match sign {
            "+" => CelOperator::Add,
            "-" => CelOperator::Subtract,
            "*" => CelOperator::Multiply,
            "/" => CelOperator::Divide,
            "%" => CelOperator::Remainder,
            "==" => CelOperator::Equal,
            "!=" => CelOperator::Unequal,
            "<" => CelOperator::Less,
            "<=" => CelOperator::LessEqual,
            ">" => CelOperator::Greater,
            ">=" => CelOperator::GreaterEqual,
            _ => CelOperator::In,
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            CelOperator::Add => "+",
            CelOperator::Subtract => "-",
            CelOperator::Multiply => "*",
            CelOperator::Divide => "/",
            CelOperator::Remainder => "%",
            CelOperator::Equal => "==",
            CelOperator::Unequal => "!=",
            CelOperator::Less => "<",
            CelOperator::LessEqual => "<=",
            CelOperator::Greater => ">",
            CelOperator::GreaterEqual => ">=",
            CelOperator::In => "in",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CelFunction {
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
    /// `getHours` and similar functions.
    Getter(&'static str),
}
