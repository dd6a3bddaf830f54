//! Syntax tree, with the source range of each part.

use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum CelLiteral {
    Null,
    Bool(bool),
    /// Without its sign: may be one more than the largest int.
    Int(u64),
    Uint(u64),
    Double(f64),
    Str(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Clone, Debug)]
pub(super) struct CelSyntax {
    pub kind: CelSyntaxKind,
    pub range: Range<usize>,
    /// The number of levels in this subtree, including this node.
    pub depth: usize,
}

#[derive(Clone, Debug)]
pub(super) enum CelSyntaxKind {
    Literal(CelLiteral),
    Negative(u64),
    Name(Arc<str>),
    /// `steps` followed by a step id, with or without quotes; a known id may contain hyphens.
    Step {
        id: Arc<str>,
        at: Range<usize>,
    },
    Select {
        operand: Box<CelSyntax>,
        field: Arc<str>,
        at: Range<usize>,
    },
    Index {
        operand: Box<CelSyntax>,
        index: Box<CelSyntax>,
    },
    Call {
        target: Option<Box<CelSyntax>>,
        name: Arc<str>,
        at: Range<usize>,
        arguments: Vec<CelSyntax>,
    },
    Unary {
        sign: &'static str,
        operand: Box<CelSyntax>,
    },
    Binary {
        sign: &'static str,
        at: Range<usize>,
        left: Box<CelSyntax>,
        right: Box<CelSyntax>,
    },
    /// A chain of `&&` or `||` of any length: a chain counts as one level of depth.
    Logic {
        all: bool,
        parts: Vec<CelSyntax>,
    },
    Choice {
        test: Box<CelSyntax>,
        yes: Box<CelSyntax>,
        no: Box<CelSyntax>,
    },
    List(Vec<CelSyntax>),
    Map(Vec<(CelSyntax, CelSyntax)>),
}

/// A problem with its location and a hint. Boxed during parsing, to keep results and stack frames small.
#[derive(Clone, Debug)]
pub(super) struct CelProblem {
    pub message: String,
    pub hint: Option<String>,
    pub range: Range<usize>,
}

impl CelProblem {
    pub(crate) fn new(message: impl Into<String>, range: Range<usize>) -> Box<CelProblem> {
        Box::new(CelProblem { message: message.into(), hint: None, range })
    }

    pub(crate) fn hint(mut self: Box<CelProblem>, hint: impl Into<String>) -> Box<CelProblem> {
        self.hint = Some(hint.into());
        self
    }
}
