//! What a text says, with the place of each part.

use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
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
pub(super) struct Syntax {
    pub kind: Kind,
    pub range: Range<usize>,
    /// How many levels there are below, itself included.
    pub depth: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Literal(Literal),
    Negative(u64),
    Name(Arc<str>),
    /// `steps` followed by the name of a step, with or without quotes: a name that is known holds hyphens too.
    Step {
        id: Arc<str>,
        at: Range<usize>,
    },
    Select {
        operand: Box<Syntax>,
        field: Arc<str>,
        at: Range<usize>,
    },
    Index {
        operand: Box<Syntax>,
        index: Box<Syntax>,
    },
    Call {
        target: Option<Box<Syntax>>,
        name: Arc<str>,
        at: Range<usize>,
        arguments: Vec<Syntax>,
    },
    Unary {
        sign: &'static str,
        operand: Box<Syntax>,
    },
    Binary {
        sign: &'static str,
        at: Range<usize>,
        left: Box<Syntax>,
        right: Box<Syntax>,
    },
    /// `&&` or `||` of several, however many: a chain of them is not deep.
    Logic {
        all: bool,
        parts: Vec<Syntax>,
    },
    Choice {
        test: Box<Syntax>,
        yes: Box<Syntax>,
        no: Box<Syntax>,
    },
    List(Vec<Syntax>),
    Map(Vec<(Syntax, Syntax)>),
}

/// What is wrong, where, and what to do. In a box while a text is read: results stay small, and so do frames.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub message: String,
    pub hint: Option<String>,
    pub range: Range<usize>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>, range: Range<usize>) -> Box<Problem> {
        Box::new(Problem { message: message.into(), hint: None, range })
    }

    pub(crate) fn hint(mut self: Box<Problem>, hint: impl Into<String>) -> Box<Problem> {
        self.hint = Some(hint.into());
        self
    }
}
