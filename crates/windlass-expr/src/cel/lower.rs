//! Syntax to what is evaluated: names get their meaning, functions are looked up, and what can never work is refused
//! with all its problems at once.

use std::ops::Range;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use windlass_value::nearest;

use super::lexer::is_word;
use super::node::{Bound, Fold, Function, How, Node, Operator, Part, Pattern};
use super::source::Place;
use super::syntax::{Kind as Form, Literal, Problem, Syntax};
use super::tables::{GLOBALS, MACROS, METHODS, TYPES, instead_of};
use super::value::{Kind, Val};

/// How large a pattern may become, in bytes.
const MAX_PATTERN_BYTES: usize = 512 * 1024;

/// Nobody reads more.
const MAX_PROBLEMS: usize = 50;

/// A node, and the kind of its value if that is certain.
type Typed = (Node, Option<Kind>);

pub(super) struct Lower<'a> {
    text: &'a str,
    place: &'a Place,
    pub problems: Vec<Problem>,
    /// Variables of the macros that are open.
    locals: Vec<Arc<str>>,
}

impl<'a> Lower<'a> {
    pub(crate) fn new(text: &'a str, place: &'a Place) -> Lower<'a> {
        Lower { text, place, problems: Vec::new(), locals: Vec::new() }
    }

    fn problem(&mut self, message: impl Into<String>, range: &Range<usize>, hint: Option<String>) -> Typed {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { message: message.into(), hint, range: range.clone() });
        }
        (Node::Constant(Val::Null), None)
    }

    pub(crate) fn node(&mut self, syntax: &Syntax) -> Typed {
        match &syntax.kind {
            Form::Literal(literal) => constant(literal_value(literal)),
            Form::Negative(number) => constant(Val::Int(0i64.wrapping_sub_unsigned(*number))),
            Form::Name(name) => self.name(name, &syntax.range),
            Form::Step { id, at } => match self.knows(id, at) {
                true => (Node::Step(id.clone()), Some(Kind::Map)),
                false => (Node::Constant(Val::Null), None),
            },
            Form::Select { operand, field, at } => self.select(syntax, operand, field, at),
            Form::Index { operand, index } => self.index(operand, index),
            Form::Call { target: None, name, at, arguments } => self.global(name, at, arguments),
            Form::Call { target: Some(target), name, at, arguments } => self.method(target, name, at, arguments),
            Form::Unary { sign, operand } => self.unary(sign, operand),
            Form::Binary { sign, at, left, right } => self.binary(sign, at, left, right),
            Form::Logic { all, parts } => self.logic(*all, parts),
            Form::Choice { test, yes, no } => self.choice(test, yes, no),
            Form::List(items) => (Node::List(self.nodes(items)), Some(Kind::List)),
            Form::Map(entries) => self.map(entries),
        }
    }

    fn logic(&mut self, all: bool, parts: &[Syntax]) -> Typed {
        let mark = if all { "`&&`" } else { "`||`" };
        let parts = parts.iter().map(|part| (self.truth(part, mark), part.range.clone())).collect();
        (Node::Logic { all, parts }, Some(Kind::Bool))
    }

    fn choice(&mut self, test: &Syntax, yes: &Syntax, no: &Syntax) -> Typed {
        let at = test.range.clone();
        let test = Box::new(self.truth(test, "`?`"));
        let ((yes, one), (no, other)) = (self.node(yes), self.node(no));
        let kind = one.filter(|_| one == other);
        (Node::Choice { test, at, yes: Box::new(yes), no: Box::new(no) }, kind)
    }

    fn map(&mut self, entries: &[(Syntax, Syntax)]) -> Typed {
        let mut nodes = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let (node, kind) = self.node(key);
            if let Some(kind) = kind.filter(|kind| !matches!(kind, Kind::Str | Kind::Bool | Kind::Int | Kind::Uint)) {
                let message = format!("a key of a map is a string, a bool, an int or a uint, not a {}", kind.told());
                self.problem(message, &key.range, None);
            }
            nodes.push((node, self.node(value).0));
        }
        (Node::Map(nodes), Some(Kind::Map))
    }

    fn nodes(&mut self, items: &[Syntax]) -> Vec<Node> {
        items.iter().map(|item| self.node(item).0).collect()
    }

    /// A part that must be true or false.
    fn truth(&mut self, syntax: &Syntax, what: &str) -> Node {
        let (node, kind) = self.node(syntax);
        if let Some(kind) = kind.filter(|kind| *kind != Kind::Bool) {
            let message = format!("{what} needs true or false, this is {}", a(kind));
            self.problem(message, &syntax.range, Some(compare_it(kind)));
        }
        node
    }

    /// The whole of a condition.
    pub(crate) fn condition(&mut self, syntax: &Syntax) -> Node {
        let (node, kind) = self.node(syntax);
        if let Some(kind) = kind.filter(|kind| *kind != Kind::Bool) {
            let message = format!("a condition gives true or false, this one gives {}", a(kind));
            self.problem(message, &syntax.range, Some(compare_it(kind)));
        }
        node
    }

    fn knows(&mut self, id: &str, at: &Range<usize>) -> bool {
        if self.place.steps.iter().any(|step| **step == *id) {
            return true;
        }
        let names = || self.place.steps.iter().map(|step| &**step);
        let hint = match nearest(id, names()) {
            Some(close) => format!("did you mean `{close}`?"),
            None if self.place.steps.is_empty() => "no step can be named here".to_owned(),
            None => format!("steps that can be named here: {}", listed(names())),
        };
        self.problem(format!("there is no step `{id}`"), at, Some(hint));
        false
    }

    fn name(&mut self, name: &Arc<str>, range: &Range<usize>) -> Typed {
        if let Some(slot) = self.locals.iter().rposition(|local| local == name) {
            return (Node::Local(slot), None);
        }
        if &**name == "steps" {
            return (Node::Steps, Some(Kind::Map));
        }
        if let Some(bound) = bound(name) {
            return match self.place.binds.contains(&bound) {
                true => (Node::Bound(bound), bound_kind(bound)),
                false => self.problem(format!("`{name}` has no meaning here"), range, Some(why_not(bound, self.place))),
            };
        }
        if let Some((_, kind)) = TYPES.iter().find(|(known, _)| **known == **name) {
            return constant(Val::Type(*kind));
        }
        let hint = self.hint_for_name(name);
        self.problem(format!("there is no variable `{name}`"), range, Some(hint))
    }

    fn hint_for_name(&self, name: &str) -> String {
        if self.place.steps.iter().any(|step| **step == *name) {
            return format!("write steps.{name}");
        }
        match name {
            "True" | "TRUE" | "False" | "FALSE" => return format!("write {}", name.to_ascii_lowercase()),
            "None" | "nil" | "undefined" => return "write null".to_owned(),
            "input" if self.place.binds.contains(&Bound::Inputs) => return "write inputs.name".to_owned(),
            _ => {}
        }
        let bound: Vec<&str> =
            NAMES.iter().filter(|(_, bound)| self.place.binds.contains(bound)).map(|(name, _)| *name).collect();
        let names = || self.locals.iter().map(|local| &**local).chain(["steps"]).chain(bound.iter().copied());
        match nearest(name, names()) {
            Some(close) => format!("did you mean `{close}`?"),
            None => format!("names that have a meaning here: {}; texts stand in quotes", listed(names())),
        }
    }

    fn select(&mut self, whole: &Syntax, operand: &Syntax, field: &Arc<str>, at: &Range<usize>) -> Typed {
        if let Form::Step { id, at: name } = &operand.kind {
            let known = self.knows(id, name);
            let Some(part) = Part::named(field) else { return self.no_part(field, at) };
            let kind = (part != Part::Result).then_some(Kind::Str);
            return match known {
                true => (Node::StepPart { id: id.clone(), part }, kind),
                false => (Node::Constant(Val::Null), None),
            };
        }
        if let Some(path) = dotted(whole)
            && !self.locals.iter().any(|local| **local == *"google")
            && let Some((_, kind)) = TYPES.iter().find(|(known, _)| *known == path)
        {
            return constant(Val::Type(*kind));
        }
        let (node, kind) = self.node(operand);
        self.has_fields(kind, &operand.range, field, at);
        (Node::Select { operand: Box::new(node), field: field.clone(), of: operand.range.clone() }, None)
    }

    fn no_part(&mut self, field: &str, at: &Range<usize>) -> Typed {
        let hint = match nearest(field, Part::ALL.iter().map(|(name, _)| *name)) {
            Some(close) => format!("did you mean `{close}`?"),
            None => format!("what it gave is in `result`, if it has a resultSchema: result.{field}"),
        };
        self.problem(format!("a step has `content`, `result` and `status`, not `{field}`"), at, Some(hint))
    }

    /// Fields are of maps.
    fn has_fields(&mut self, kind: Option<Kind>, operand: &Range<usize>, field: &str, at: &Range<usize>) {
        let Some(kind) = kind.filter(|kind| *kind != Kind::Map) else { return };
        let hint = match (kind, METHODS.iter().any(|(name, ..)| *name == field)) {
            (_, true) => Some(format!("write {field}(…)")),
            (Kind::Str, _) if matches!(field, "length" | "len") => Some("write size(x)".to_owned()),
            (Kind::List, _) => Some(format!("take an item first: […][0].{field}, or list.map(e, e.{field})")),
            _ => None,
        };
        self.problem(format!("{} has no field `{field}`", a(kind)), &(operand.start..at.end), hint);
    }

    fn index(&mut self, operand: &Syntax, index: &Syntax) -> Typed {
        if let (Form::Name(name), false) = (&operand.kind, self.locals.iter().any(|local| **local == *"steps"))
            && **name == *"steps"
        {
            let (name, _) = self.node(index);
            return (Node::StepNamed { name: Box::new(name), of: index.range.clone() }, Some(Kind::Map));
        }
        if let (Form::Step { id, at }, Form::Literal(Literal::Str(field))) = (&operand.kind, &index.kind) {
            let known = self.knows(id, at);
            return match Part::named(field) {
                Some(part) if known => (Node::StepPart { id: id.clone(), part }, None),
                Some(_) => (Node::Constant(Val::Null), None),
                None => self.no_part(field, &index.range),
            };
        }
        let ((node, kind), (key, _)) = (self.node(operand), self.node(index));
        if let Some(kind) = kind.filter(|kind| !matches!(kind, Kind::Map | Kind::List)) {
            self.problem(format!("{} has no items", a(kind)), &operand.range, None);
        }
        (Node::Index { operand: Box::new(node), index: Box::new(key), of: operand.range.clone() }, None)
    }

    fn unary(&mut self, sign: &str, operand: &Syntax) -> Typed {
        if sign == "!" {
            let node = self.truth(operand, "`!`");
            return (Node::Not(Box::new(node), operand.range.clone()), Some(Kind::Bool));
        }
        let (node, kind) = self.node(operand);
        if let Some(kind) = kind.filter(|kind| !matches!(kind, Kind::Int | Kind::Double | Kind::Duration)) {
            self.problem(format!("{} cannot be negative", a(kind)), &operand.range, None);
        }
        (Node::Negative(Box::new(node)), kind)
    }

    fn binary(&mut self, sign: &str, at: &Range<usize>, left: &Syntax, right: &Syntax) -> Typed {
        if sign == "-" && self.hyphen_in_a_name(at, left, right) {
            return (Node::Constant(Val::Null), None);
        }
        let (left_node, one) = self.node(left);
        let (right_node, other) = self.node(right);
        let operator = Operator::of(sign);
        let kind = match super::kinds::of_operator(operator, one, other) {
            Ok(kind) => kind,
            Err(hint) => self.no_overload(sign, (one, other), left.range.start..right.range.end, hint),
        };
        (Node::Binary { operator, left: Box::new(left_node), right: Box::new(right_node) }, kind)
    }

    fn no_overload(
        &mut self,
        sign: &str,
        (one, other): (Option<Kind>, Option<Kind>),
        range: Range<usize>,
        hint: Option<String>,
    ) -> Option<Kind> {
        let told = |kind: Option<Kind>| kind.map_or("a value".to_owned(), a);
        self.problem(format!("`{sign}` does not work between {} and {}", told(one), told(other)), &range, hint).1
    }

    /// Nothing is subtracted from a step: a hyphen right after its name was meant as a part of it.
    fn hyphen_in_a_name(&mut self, at: &Range<usize>, left: &Syntax, right: &Syntax) -> bool {
        let Form::Step { at: name, .. } = &left.kind else { return false };
        if name.end != at.start || at.end != right.range.start {
            return false;
        }
        let rest = self.text.get(name.start..).unwrap_or_default();
        let end = rest.find(|sign: char| !is_word(sign) && sign != '-').unwrap_or(rest.len());
        self.knows(&rest[..end], &(name.start..name.start + end));
        true
    }

    fn global(&mut self, name: &Arc<str>, at: &Range<usize>, arguments: &[Syntax]) -> Typed {
        if &**name == "has" {
            return self.has(at, arguments);
        }
        let Some((_, function, count)) = GLOBALS.iter().find(|(known, ..)| **known == **name) else {
            self.nodes(arguments);
            let as_method = METHODS.iter().map(|(name, ..)| *name).chain(MACROS.iter().map(|(name, ..)| *name));
            let hint = match instead_of(name) {
                Some(instead) => Some(instead.to_owned()),
                None if as_method.clone().any(|method| method == &**name) => Some(format!("write x.{name}(…)")),
                None => {
                    let known = GLOBALS.iter().map(|(name, ..)| *name).chain(["has"]).chain(as_method);
                    nearest(name, known).map(|close| format!("did you mean `{close}`?"))
                }
            };
            return self.problem(format!("there is no function `{name}`"), at, hint);
        };
        let nodes: Vec<Typed> = arguments.iter().map(|argument| self.node(argument)).collect();
        if !self.counted(name, at, nodes.len(), *count, *count) {
            return (Node::Constant(Val::Null), None);
        }
        self.call(name, *function, nodes, arguments, at)
    }

    fn counted(&mut self, name: &str, at: &Range<usize>, found: usize, least: usize, max: usize) -> bool {
        if (least..=max).contains(&found) {
            return true;
        }
        let wanted = match (least, max) {
            (0, 0) => "no argument".to_owned(),
            (1, 1) => "one argument".to_owned(),
            (least, max) if least == max => format!("{least} arguments"),
            (least, max) => format!("{least} to {max} arguments"),
        };
        let hint = MACROS.iter().any(|(known, ..)| *known == name).then(|| format!("write list.{name}(x, …x…)"));
        self.problem(format!("`{name}` takes {wanted}, not {found}"), at, hint);
        false
    }

    fn method(&mut self, target: &Syntax, name: &Arc<str>, at: &Range<usize>, arguments: &[Syntax]) -> Typed {
        if let Some((_, how, least, max)) = MACROS.iter().find(|(known, ..)| **known == **name) {
            return match self.counted(name, at, arguments.len(), *least, *max) {
                true => self.fold(*how, name, target, arguments),
                false => (Node::Constant(Val::Null), None),
            };
        }
        let target_node = self.node(target);
        let Some((_, function, least, max)) = METHODS.iter().find(|(known, ..)| **known == **name) else {
            self.nodes(arguments);
            let known = METHODS.iter().map(|(name, ..)| *name).chain(MACROS.iter().map(|(name, ..)| *name));
            let hint = match (instead_of(name), GLOBALS.iter().any(|(known, ..)| **known == **name)) {
                (Some(instead), _) => Some(instead.to_owned()),
                (None, true) => Some(format!("write {name}(x)")),
                (None, false) => nearest(name, known).map(|close| format!("did you mean `{close}`?")),
            };
            return self.problem(format!("there is no function `{name}`"), at, hint);
        };
        let mut nodes = vec![target_node];
        let rest: Vec<Typed> = arguments.iter().map(|argument| self.node(argument)).collect();
        nodes.extend(rest);
        if !self.counted(name, at, arguments.len(), *least, *max) {
            return (Node::Constant(Val::Null), None);
        }
        let mut parts = vec![target.clone()];
        parts.extend(arguments.iter().cloned());
        self.call(name, *function, nodes, &parts, at)
    }

    fn call(
        &mut self,
        name: &str,
        function: Function,
        nodes: Vec<Typed>,
        parts: &[Syntax],
        at: &Range<usize>,
    ) -> Typed {
        let kinds: Vec<Option<Kind>> = nodes.iter().map(|(_, kind)| *kind).collect();
        if let Err((message, hint)) = super::kinds::of_arguments(name, function, &kinds) {
            return self.problem(message, at, hint);
        }
        let kind = super::kinds::of_function(function);
        let mut arguments: Vec<Node> = nodes.into_iter().map(|(node, _)| node).collect();
        if let (Function::Matches, Some(Form::Literal(Literal::Str(text)))) =
            (function, parts.get(1).map(|part| &part.kind))
        {
            return match pattern(text) {
                Ok(regex) => {
                    let subject = Box::new(arguments.swap_remove(0));
                    (Node::Matches { text: subject, pattern: Pattern { regex, length: text.len() } }, kind)
                }
                Err(why) => self.problem(why, &parts[1].range, None),
            };
        }
        (Node::Call { function, arguments }, kind)
    }

    fn has(&mut self, at: &Range<usize>, arguments: &[Syntax]) -> Typed {
        if !self.counted("has", at, arguments.len(), 1, 1) {
            return (Node::Constant(Val::Null), None);
        }
        let node = match &arguments[0].kind {
            Form::Step { id, at } => {
                self.knows(id, at);
                Node::HasStep(id.clone())
            }
            Form::Select { operand, field, at } => {
                if matches!(&operand.kind, Form::Step { .. }) && Part::named(field).is_none() {
                    return self.no_part(field, at);
                }
                let (node, kind) = self.node(operand);
                self.has_fields(kind, &operand.range, field, at);
                Node::Has { operand: Box::new(node), field: field.clone(), of: operand.range.clone() }
            }
            _ => {
                let hint = "write has(a.b); for a computed key write key in a";
                return self.problem("`has` asks for a field", &arguments[0].range, Some(hint.to_owned()));
            }
        };
        (node, Some(Kind::Bool))
    }

    fn fold(&mut self, how: How, name: &str, target: &Syntax, arguments: &[Syntax]) -> Typed {
        let (over, kind) = self.node(target);
        if let Some(kind) = kind.filter(|kind| !matches!(kind, Kind::List | Kind::Map)) {
            self.problem(format!("`{name}` goes over a list or a map, not over {}", a(kind)), &target.range, None);
        }
        let Form::Name(variable) = &arguments[0].kind else {
            let message = format!("the first argument of `{name}` is the name of a variable");
            return self.problem(message, &arguments[0].range, Some(format!("write list.{name}(x, …x…)")));
        };
        let slot = self.locals.len();
        self.locals.push(variable.clone());
        let what = format!("`{name}`");
        let (test, give) = match (how, arguments) {
            (How::Map, [_, test, give]) => {
                (Some((self.truth(test, &what), test.range.clone())), Some(self.node(give).0))
            }
            (How::Map, [_, give]) => (None, Some(self.node(give).0)),
            (_, [_, test]) => (Some((self.truth(test, &what), test.range.clone())), None),
            _ => (None, None),
        };
        self.locals.pop();
        let kind = match how {
            How::Map | How::Filter => Kind::List,
            How::All | How::Exists | How::ExistsOne => Kind::Bool,
        };
        let fold = Fold { how, over, of: target.range.clone(), slot, test, give };
        (Node::Fold(Box::new(fold)), Some(kind))
    }
}

const NAMES: [(&str, Bound); 7] = [
    ("iteration", Bound::Iteration),
    ("item", Bound::Item),
    ("index", Bound::Index),
    ("content", Bound::Content),
    ("result", Bound::Result),
    ("status", Bound::Status),
    ("inputs", Bound::Inputs),
];

pub(super) fn bound(name: &str) -> Option<Bound> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, bound)| *bound)
}

fn bound_kind(bound: Bound) -> Option<Kind> {
    match bound {
        Bound::Iteration | Bound::Index => Some(Kind::Int),
        Bound::Content | Bound::Status => Some(Kind::Str),
        Bound::Inputs => Some(Kind::Map),
        Bound::Item | Bound::Result => None,
    }
}

fn why_not(bound: Bound, place: &Place) -> String {
    let name = NAMES.iter().find(|(_, known)| *known == bound).map_or("", |(name, _)| name);
    match bound {
        Bound::Content | Bound::Result | Bound::Status => {
            let step = place.steps.first().map_or("<step>", |step| step);
            format!("alone it is for the `until` of single-step loops only: write steps.{step}.{name}")
        }
        Bound::Item | Bound::Index => "it is for steps inside a loop with forEach".to_owned(),
        Bound::Iteration => "it is for loops: their `until`, and conditions of the steps inside".to_owned(),
        Bound::Inputs => "declare the inputs of the workflow first: x-windlass: {inputs: {name: default}}".to_owned(),
    }
}

fn literal_value(literal: &Literal) -> Val {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(flag) => Val::Bool(*flag),
        Literal::Int(number) => Val::Int(*number as i64),
        Literal::Uint(number) => Val::Uint(*number),
        Literal::Double(number) => Val::Double(*number),
        Literal::Str(text) => Val::Str(text.clone()),
        Literal::Bytes(bytes) => Val::Bytes(bytes.clone()),
    }
}

fn constant(value: Val) -> Typed {
    let kind = value.kind();
    (Node::Constant(value), kind)
}

/// `a.b.c` as it is written, if it is nothing but names.
fn dotted(syntax: &Syntax) -> Option<String> {
    match &syntax.kind {
        Form::Name(name) => Some(name.to_string()),
        Form::Select { operand, field, .. } if syntax.depth <= 3 => Some(format!("{}.{field}", dotted(operand)?)),
        _ => None,
    }
}

pub(super) fn pattern(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).nest_limit(50).build();
    built.map_err(|error| {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
        format!("the pattern cannot be used: {why}")
    })
}

/// The first few names, for messages.
pub(super) fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.len() {
        0..=8 => names.join(", "),
        count => format!("{} and {} more", names[..8].join(", "), count - 8),
    }
}

/// A kind with its article.
pub(super) fn a(kind: Kind) -> String {
    match kind {
        Kind::Null => "null".to_owned(),
        Kind::Int => "an int".to_owned(),
        kind => format!("a {}", kind.told()),
    }
}

pub(super) fn compare_it(kind: Kind) -> String {
    match kind {
        Kind::Str => "compare it: x == 'text', x.contains('text')",
        Kind::List | Kind::Map => "ask for something: size(x) > 0, x.exists(e, …)",
        Kind::Int | Kind::Uint | Kind::Double => "compare it: x > 0",
        _ => "compare it with something: x == y",
    }
    .to_owned()
}
