//! Lowering of syntax to evaluable nodes: resolves names, looks up functions, and rejects expressions that can never
//! work, reporting all problems together.

use std::ops::Range;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use windlass_value::nearest;

use super::lexer::is_word;
use super::node::{CelFold, CelFunction, CelNode, CelOperator, CelPattern, CelVariable, FoldKind, StepPart};
use super::source::CelEnvironment;
use super::syntax::{CelLiteral, CelProblem, CelSyntax, CelSyntaxKind as Form};
use super::tables::{GLOBALS, MACROS, METHODS, TYPES, replacement_hint};
use super::value::{CelType, CelValue};

/// The maximum size of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 512 * 1024;

/// The maximum number of problems that are reported: authors would not read more.
const MAX_PROBLEMS: usize = 50;

/// A node, and the type of its value if that is certain.
type TypedNode = (CelNode, Option<CelType>);

pub(super) struct CelLowering<'a> {
    text: &'a str,
    env: &'a CelEnvironment,
    pub problems: Vec<CelProblem>,
    /// Variables of the enclosing macros.
    locals: Vec<Arc<str>>,
}

impl<'a> CelLowering<'a> {
    pub(crate) fn new(text: &'a str, env: &'a CelEnvironment) -> CelLowering<'a> {
        CelLowering { text, env, problems: Vec::new(), locals: Vec::new() }
    }

    fn problem(&mut self, message: impl Into<String>, range: &Range<usize>, hint: Option<String>) -> TypedNode {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(CelProblem { message: message.into(), hint, range: range.clone() });
        }
        (CelNode::Constant(CelValue::Null), None)
    }

    pub(crate) fn node(&mut self, syntax: &CelSyntax) -> TypedNode {
        match &syntax.kind {
            Form::Literal(literal) => constant(literal_value(literal)),
            Form::Negative(number) => constant(CelValue::Int(0i64.wrapping_sub_unsigned(*number))),
            Form::Name(name) => self.name(name, &syntax.range),
            Form::Step { id, at } => match self.check_step(id, at) {
                true => (CelNode::Step(id.clone()), Some(CelType::Map)),
                false => (CelNode::Constant(CelValue::Null), None),
            },
            Form::Select { operand, field, at } => self.select(syntax, operand, field, at),
            Form::Index { operand, index } => self.index(operand, index),
            Form::Call { target: None, name, at, arguments } => self.global(name, at, arguments),
            Form::Call { target: Some(target), name, at, arguments } => self.method(target, name, at, arguments),
            Form::Unary { sign, operand } => self.unary(sign, operand),
            Form::Binary { sign, at, left, right } => self.binary(sign, at, left, right),
            Form::Logic { all, parts } => self.logic(*all, parts),
            Form::Choice { test, yes, no } => self.choice(test, yes, no),
            Form::List(items) => (CelNode::List(self.nodes(items)), Some(CelType::List)),
            Form::Map(entries) => self.map(entries),
        }
    }

    fn logic(&mut self, all: bool, parts: &[CelSyntax]) -> TypedNode {
        let mark = if all { "`&&`" } else { "`||`" };
        let parts = parts.iter().map(|part| (self.truth(part, mark), part.range.clone())).collect();
        (CelNode::Logic { all, parts }, Some(CelType::Bool))
    }

    fn choice(&mut self, test: &CelSyntax, yes: &CelSyntax, no: &CelSyntax) -> TypedNode {
        let at = test.range.clone();
        let test = Box::new(self.truth(test, "`?`"));
        let ((yes, one), (no, other)) = (self.node(yes), self.node(no));
        let kind = one.filter(|_| one == other);
        (CelNode::Choice { test, at, yes: Box::new(yes), no: Box::new(no) }, kind)
    }

    fn map(&mut self, entries: &[(CelSyntax, CelSyntax)]) -> TypedNode {
        let mut nodes = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let (node, kind) = self.node(key);
            if let Some(kind) =
                kind.filter(|kind| !matches!(kind, CelType::Str | CelType::Bool | CelType::Int | CelType::Uint))
            {
                let message =
                    format!("a key of a map is a string, a bool, an int or a uint, not a {}", kind.display_name());
                self.problem(message, &key.range, None);
            }
            nodes.push((node, self.node(value).0));
        }
        (CelNode::Map(nodes), Some(CelType::Map))
    }

    fn nodes(&mut self, items: &[CelSyntax]) -> Vec<CelNode> {
        items.iter().map(|item| self.node(item).0).collect()
    }

    /// Lowers a part that must evaluate to a bool.
    fn truth(&mut self, syntax: &CelSyntax, what: &str) -> CelNode {
        let (node, kind) = self.node(syntax);
        if let Some(kind) = kind.filter(|kind| *kind != CelType::Bool) {
            let message = format!("{what} needs true or false, this is {}", with_article(kind));
            self.problem(message, &syntax.range, Some(comparison_hint(kind)));
        }
        node
    }

    /// Lowers a whole condition.
    pub(crate) fn condition(&mut self, syntax: &CelSyntax) -> CelNode {
        let (node, kind) = self.node(syntax);
        if let Some(kind) = kind.filter(|kind| *kind != CelType::Bool) {
            let message = format!("a condition gives true or false, this one gives {}", with_article(kind));
            self.problem(message, &syntax.range, Some(comparison_hint(kind)));
        }
        node
    }

    fn check_step(&mut self, id: &str, at: &Range<usize>) -> bool {
        if self.env.steps.iter().any(|step| **step == *id) {
            return true;
        }
        let names = || self.env.steps.iter().map(|step| &**step);
        let hint = match nearest(id, names()) {
            Some(close) => format!("did you mean `{close}`?"),
            None if self.env.steps.is_empty() => "no step can be named here".to_owned(),
            None => format!("steps that can be named here: {}", format_names(names())),
        };
        self.problem(format!("there is no step `{id}`"), at, Some(hint));
        false
    }

    fn name(&mut self, name: &Arc<str>, range: &Range<usize>) -> TypedNode {
        if let Some(slot) = self.locals.iter().rposition(|local| local == name) {
            return (CelNode::Local(slot), None);
        }
        if &**name == "steps" {
            return (CelNode::Steps, Some(CelType::Map));
        }
        if let Some(bound) = variable_from_name(name) {
            return match self.env.binds.contains(&bound) {
                true => (CelNode::Variable(bound), variable_type(bound)),
                false => {
                    self.problem(format!("`{name}` has no meaning here"), range, Some(unbound_hint(bound, self.env)))
                }
            };
        }
        if let Some((_, kind)) = TYPES.iter().find(|(known, _)| **known == **name) {
            return constant(CelValue::Type(*kind));
        }
        let hint = self.hint_for_name(name);
        self.problem(format!("there is no variable `{name}`"), range, Some(hint))
    }

    fn hint_for_name(&self, name: &str) -> String {
        if self.env.steps.iter().any(|step| **step == *name) {
            return format!("write steps.{name}");
        }
        match name {
            "True" | "TRUE" | "False" | "FALSE" => return format!("write {}", name.to_ascii_lowercase()),
            "None" | "nil" | "undefined" => return "write null".to_owned(),
            "input" if self.env.binds.contains(&CelVariable::Inputs) => return "write inputs.name".to_owned(),
            _ => {}
        }
        let bound: Vec<&str> =
            VARIABLES.iter().filter(|(_, bound)| self.env.binds.contains(bound)).map(|(name, _)| *name).collect();
        let names = || self.locals.iter().map(|local| &**local).chain(["steps"]).chain(bound.iter().copied());
        match nearest(name, names()) {
            Some(close) => format!("did you mean `{close}`?"),
            None => format!("names available here: {}; texts are written in quotes", format_names(names())),
        }
    }

    fn select(&mut self, whole: &CelSyntax, operand: &CelSyntax, field: &Arc<str>, at: &Range<usize>) -> TypedNode {
        if let Form::Step { id, at: name } = &operand.kind {
            let known = self.check_step(id, name);
            let Some(part) = StepPart::from_name(field) else { return self.unknown_step_part(field, at) };
            let kind = (part != StepPart::Result).then_some(CelType::Str);
            return match known {
                true => (CelNode::StepPart { id: id.clone(), part }, kind),
                false => (CelNode::Constant(CelValue::Null), None),
            };
        }
        if let Some(path) = dotted_path(whole)
            && !self.locals.iter().any(|local| **local == *"google")
            && let Some((_, kind)) = TYPES.iter().find(|(known, _)| *known == path)
        {
            return constant(CelValue::Type(*kind));
        }
        let (node, kind) = self.node(operand);
        self.check_has_fields(kind, &operand.range, field, at);
        (CelNode::Select { operand: Box::new(node), field: field.clone(), of: operand.range.clone() }, None)
    }

    fn unknown_step_part(&mut self, field: &str, at: &Range<usize>) -> TypedNode {
        let hint = match nearest(field, StepPart::ALL.iter().map(|(name, _)| *name)) {
            Some(close) => format!("did you mean `{close}`?"),
            None => format!("its output is in `result`, if it has a resultSchema: result.{field}"),
        };
        self.problem(format!("a step has `content`, `result`, `status` and `stop`, not `{field}`"), at, Some(hint))
    }

    /// Checks that the operand can have fields: only maps have them.
    fn check_has_fields(&mut self, kind: Option<CelType>, operand: &Range<usize>, field: &str, at: &Range<usize>) {
        let Some(kind) = kind.filter(|kind| *kind != CelType::Map) else { return };
        let hint = match (kind, METHODS.iter().any(|(name, ..)| *name == field)) {
            (_, true) => Some(format!("write {field}(…)")),
            (CelType::Str, _) if matches!(field, "length" | "len") => Some("write size(x)".to_owned()),
            (CelType::List, _) => Some(format!("take an item first: […][0].{field}, or list.map(e, e.{field})")),
            _ => None,
        };
        self.problem(format!("{} has no field `{field}`", with_article(kind)), &(operand.start..at.end), hint);
    }

    fn index(&mut self, operand: &CelSyntax, index: &CelSyntax) -> TypedNode {
        if let (Form::Name(name), false) = (&operand.kind, self.locals.iter().any(|local| **local == *"steps"))
            && **name == *"steps"
        {
            let (name, _) = self.node(index);
            return (CelNode::StepByName { name: Box::new(name), of: index.range.clone() }, Some(CelType::Map));
        }
        if let (Form::Step { id, at }, Form::Literal(CelLiteral::Str(field))) = (&operand.kind, &index.kind) {
            let known = self.check_step(id, at);
            return match StepPart::from_name(field) {
                Some(part) if known => (CelNode::StepPart { id: id.clone(), part }, None),
                Some(_) => (CelNode::Constant(CelValue::Null), None),
                None => self.unknown_step_part(field, &index.range),
            };
        }
        let ((node, kind), (key, _)) = (self.node(operand), self.node(index));
        if let Some(kind) = kind.filter(|kind| !matches!(kind, CelType::Map | CelType::List)) {
            self.problem(format!("{} has no items", with_article(kind)), &operand.range, None);
        }
        (CelNode::Index { operand: Box::new(node), index: Box::new(key), of: operand.range.clone() }, None)
    }

    fn unary(&mut self, sign: &str, operand: &CelSyntax) -> TypedNode {
        if sign == "!" {
            let node = self.truth(operand, "`!`");
            return (CelNode::Not(Box::new(node), operand.range.clone()), Some(CelType::Bool));
        }
        let (node, kind) = self.node(operand);
        if let Some(kind) = kind.filter(|kind| !matches!(kind, CelType::Int | CelType::Double | CelType::Duration)) {
            self.problem(format!("{} cannot be negative", with_article(kind)), &operand.range, None);
        }
        (CelNode::Negative(Box::new(node)), kind)
    }

    fn binary(&mut self, sign: &str, at: &Range<usize>, left: &CelSyntax, right: &CelSyntax) -> TypedNode {
        if sign == "-" && self.is_hyphenated_step_name(at, left, right) {
            return (CelNode::Constant(CelValue::Null), None);
        }
        let (left_node, one) = self.node(left);
        let (right_node, other) = self.node(right);
        let operator = CelOperator::from_sign(sign);
        let kind = match super::types::operator_result_type(operator, one, other) {
            Ok(kind) => kind,
            Err(hint) => self.no_overload(sign, (one, other), left.range.start..right.range.end, hint),
        };
        (CelNode::Binary { operator, left: Box::new(left_node), right: Box::new(right_node) }, kind)
    }

    fn no_overload(
        &mut self,
        sign: &str,
        (one, other): (Option<CelType>, Option<CelType>),
        range: Range<usize>,
        hint: Option<String>,
    ) -> Option<CelType> {
        let describe_type = |kind: Option<CelType>| kind.map_or("a value".to_owned(), with_article);
        self.problem(
            format!("`{sign}` does not work between {} and {}", describe_type(one), describe_type(other)),
            &range,
            hint,
        )
        .1
    }

    /// Detects an unknown step id with a hyphen. Nothing can be subtracted from a step, so a hyphen directly after a
    /// step's name was meant as part of the name.
    fn is_hyphenated_step_name(&mut self, at: &Range<usize>, left: &CelSyntax, right: &CelSyntax) -> bool {
        let Form::Step { at: name, .. } = &left.kind else { return false };
        if name.end != at.start || at.end != right.range.start {
            return false;
        }
        let rest = self.text.get(name.start..).unwrap_or_default();
        let end = rest.find(|sign: char| !is_word(sign) && sign != '-').unwrap_or(rest.len());
        self.check_step(&rest[..end], &(name.start..name.start + end));
        true
    }

    fn global(&mut self, name: &Arc<str>, at: &Range<usize>, arguments: &[CelSyntax]) -> TypedNode {
        if &**name == "has" {
            return self.has(at, arguments);
        }
        let Some((_, function, count)) = GLOBALS.iter().find(|(known, ..)| **known == **name) else {
            self.nodes(arguments);
            let as_method = METHODS.iter().map(|(name, ..)| *name).chain(MACROS.iter().map(|(name, ..)| *name));
            let hint = match replacement_hint(name) {
                Some(instead) => Some(instead.to_owned()),
                None if as_method.clone().any(|method| method == &**name) => Some(format!("write x.{name}(…)")),
                None => {
                    let known = GLOBALS.iter().map(|(name, ..)| *name).chain(["has"]).chain(as_method);
                    nearest(name, known).map(|close| format!("did you mean `{close}`?"))
                }
            };
            return self.problem(format!("there is no function `{name}`"), at, hint);
        };
        let nodes: Vec<TypedNode> = arguments.iter().map(|argument| self.node(argument)).collect();
        if !self.check_argument_count(name, at, nodes.len(), *count, *count) {
            return (CelNode::Constant(CelValue::Null), None);
        }
        self.call(name, *function, nodes, arguments, at)
    }

    fn check_argument_count(&mut self, name: &str, at: &Range<usize>, found: usize, min: usize, max: usize) -> bool {
        if (min..=max).contains(&found) {
            return true;
        }
        let expected = match (min, max) {
            (0, 0) => "no argument".to_owned(),
            (1, 1) => "one argument".to_owned(),
            (min, max) if min == max => format!("{min} arguments"),
            (min, max) => format!("{min} to {max} arguments"),
        };
        let hint = MACROS.iter().any(|(known, ..)| *known == name).then(|| format!("write list.{name}(x, …x…)"));
        self.problem(format!("`{name}` takes {expected}, not {found}"), at, hint);
        false
    }

    fn method(&mut self, target: &CelSyntax, name: &Arc<str>, at: &Range<usize>, arguments: &[CelSyntax]) -> TypedNode {
        if let Some((_, how, min, max)) = MACROS.iter().find(|(known, ..)| **known == **name) {
            return match self.check_argument_count(name, at, arguments.len(), *min, *max) {
                true => self.fold(*how, name, target, arguments),
                false => (CelNode::Constant(CelValue::Null), None),
            };
        }
        let target_node = self.node(target);
        let Some((_, function, min, max)) = METHODS.iter().find(|(known, ..)| **known == **name) else {
            self.nodes(arguments);
            let known = METHODS.iter().map(|(name, ..)| *name).chain(MACROS.iter().map(|(name, ..)| *name));
            let hint = match (replacement_hint(name), GLOBALS.iter().any(|(known, ..)| **known == **name)) {
                (Some(instead), _) => Some(instead.to_owned()),
                (None, true) => Some(format!("write {name}(x)")),
                (None, false) => nearest(name, known).map(|close| format!("did you mean `{close}`?")),
            };
            return self.problem(format!("there is no function `{name}`"), at, hint);
        };
        let mut nodes = vec![target_node];
        let rest: Vec<TypedNode> = arguments.iter().map(|argument| self.node(argument)).collect();
        nodes.extend(rest);
        if !self.check_argument_count(name, at, arguments.len(), *min, *max) {
            return (CelNode::Constant(CelValue::Null), None);
        }
        let mut parts = vec![target.clone()];
        parts.extend(arguments.iter().cloned());
        self.call(name, *function, nodes, &parts, at)
    }

    fn call(
        &mut self,
        name: &str,
        function: CelFunction,
        nodes: Vec<TypedNode>,
        parts: &[CelSyntax],
        at: &Range<usize>,
    ) -> TypedNode {
        let kinds: Vec<Option<CelType>> = nodes.iter().map(|(_, kind)| *kind).collect();
        if let Err((message, hint)) = super::types::check_arguments(name, function, &kinds) {
            return self.problem(message, at, hint);
        }
        let kind = super::types::function_result_type(function);
        let mut arguments: Vec<CelNode> = nodes.into_iter().map(|(node, _)| node).collect();
        if let (CelFunction::Matches, Some(Form::Literal(CelLiteral::Str(text)))) =
            (function, parts.get(1).map(|part| &part.kind))
        {
            return match compile_pattern(text) {
                Ok(regex) => {
                    let subject = Box::new(arguments.swap_remove(0));
                    (CelNode::Matches { text: subject, pattern: CelPattern { regex, length: text.len() } }, kind)
                }
                Err(why) => self.problem(why, &parts[1].range, None),
            };
        }
        (CelNode::Call { function, arguments }, kind)
    }

    fn has(&mut self, at: &Range<usize>, arguments: &[CelSyntax]) -> TypedNode {
        if !self.check_argument_count("has", at, arguments.len(), 1, 1) {
            return (CelNode::Constant(CelValue::Null), None);
        }
        let node = match &arguments[0].kind {
            Form::Step { id, at } => {
                self.check_step(id, at);
                CelNode::HasStep(id.clone())
            }
            Form::Select { operand, field, at } => {
                if matches!(&operand.kind, Form::Step { .. }) && StepPart::from_name(field).is_none() {
                    return self.unknown_step_part(field, at);
                }
                let (node, kind) = self.node(operand);
                self.check_has_fields(kind, &operand.range, field, at);
                CelNode::Has { operand: Box::new(node), field: field.clone(), of: operand.range.clone() }
            }
            _ => {
                let hint = "write has(a.b); for a computed key write key in a";
                return self.problem("`has` needs a field", &arguments[0].range, Some(hint.to_owned()));
            }
        };
        (node, Some(CelType::Bool))
    }

    fn fold(&mut self, how: FoldKind, name: &str, target: &CelSyntax, arguments: &[CelSyntax]) -> TypedNode {
        let (over, kind) = self.node(target);
        if let Some(kind) = kind.filter(|kind| !matches!(kind, CelType::List | CelType::Map)) {
            self.problem(
                format!("`{name}` iterates over a list or a map, not over {}", with_article(kind)),
                &target.range,
                None,
            );
        }
        let Form::Name(variable) = &arguments[0].kind else {
            let message = format!("the first argument of `{name}` is the name of a variable");
            return self.problem(message, &arguments[0].range, Some(format!("write list.{name}(x, …x…)")));
        };
        let slot = self.locals.len();
        self.locals.push(variable.clone());
        let what = format!("`{name}`");
        let (test, give) = match (how, arguments) {
            (FoldKind::Map, [_, test, give]) => {
                (Some((self.truth(test, &what), test.range.clone())), Some(self.node(give).0))
            }
            (FoldKind::Map, [_, give]) => (None, Some(self.node(give).0)),
            (_, [_, test]) => (Some((self.truth(test, &what), test.range.clone())), None),
            _ => (None, None),
        };
        self.locals.pop();
        let kind = match how {
            FoldKind::Map | FoldKind::Filter => CelType::List,
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => CelType::Bool,
        };
        let fold = CelFold { kind: how, over, of: target.range.clone(), slot, test, give };
        (CelNode::Fold(Box::new(fold)), Some(kind))
    }
}

const VARIABLES: [(&str, CelVariable); 8] = [
    ("iteration", CelVariable::Iteration),
    ("item", CelVariable::Item),
    ("index", CelVariable::Index),
    ("content", CelVariable::Content),
    ("result", CelVariable::Result),
    ("status", CelVariable::Status),
    ("stop", CelVariable::Stop),
    ("inputs", CelVariable::Inputs),
];

pub(super) fn variable_from_name(name: &str) -> Option<CelVariable> {
    VARIABLES.iter().find(|(known, _)| *known == name).map(|(_, bound)| *bound)
}

fn variable_type(bound: CelVariable) -> Option<CelType> {
    match bound {
        CelVariable::Iteration | CelVariable::Index => Some(CelType::Int),
        CelVariable::Content | CelVariable::Status | CelVariable::Stop => Some(CelType::Str),
        CelVariable::Inputs => Some(CelType::Map),
        CelVariable::Item | CelVariable::Result => None,
    }
}

fn unbound_hint(bound: CelVariable, env: &CelEnvironment) -> String {
    let name = VARIABLES.iter().find(|(_, known)| *known == bound).map_or("", |(name, _)| name);
    match bound {
        CelVariable::Content | CelVariable::Result | CelVariable::Status | CelVariable::Stop => {
            let step = env.steps.first().map_or("<step>", |step| step);
            format!(
                "without a step it is available only in the `until` of single-step loops: write steps.{step}.{name}"
            )
        }
        CelVariable::Item | CelVariable::Index => "it is available to steps inside a loop with forEach".to_owned(),
        CelVariable::Iteration => {
            "it is available in the `until` of loops and in conditions of the steps inside".to_owned()
        }
        CelVariable::Inputs => {
            "declare the inputs of the workflow first: x-windlass: {inputs: {name: default}}".to_owned()
        }
    }
}

fn literal_value(literal: &CelLiteral) -> CelValue {
    match literal {
        CelLiteral::Null => CelValue::Null,
        CelLiteral::Bool(flag) => CelValue::Bool(*flag),
        CelLiteral::Int(number) => CelValue::Int(*number as i64),
        CelLiteral::Uint(number) => CelValue::Uint(*number),
        CelLiteral::Double(number) => CelValue::Double(*number),
        CelLiteral::Str(text) => CelValue::Str(text.clone()),
        CelLiteral::Bytes(bytes) => CelValue::Bytes(bytes.clone()),
    }
}

fn constant(value: CelValue) -> TypedNode {
    let kind = value.kind();
    (CelNode::Constant(value), kind)
}

/// Returns `a.b.c` as written if the syntax consists only of names.
fn dotted_path(syntax: &CelSyntax) -> Option<String> {
    match &syntax.kind {
        Form::Name(name) => Some(name.to_string()),
        Form::Select { operand, field, .. } if syntax.depth <= 3 => Some(format!("{}.{field}", dotted_path(operand)?)),
        _ => None,
    }
}

pub(super) fn compile_pattern(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).nest_limit(50).build();
    built.map_err(|error| {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
        format!("the pattern cannot be used: {why}")
    })
}

/// Formats the first few names for a message.
pub(super) fn format_names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.len() {
        0..=8 => names.join(", "),
        count => format!("{} and {} more", names[..8].join(", "), count - 8),
    }
}

/// Returns the name of a type with its article.
pub(super) fn with_article(kind: CelType) -> String {
    match kind {
        CelType::Null => "null".to_owned(),
        CelType::Int => "an int".to_owned(),
        kind => format!("a {}", kind.display_name()),
    }
}

pub(super) fn comparison_hint(kind: CelType) -> String {
    match kind {
        CelType::Str => "compare it: x == 'text', x.contains('text')",
        CelType::List | CelType::Map => "test it: size(x) > 0, x.exists(e, …)",
        CelType::Int | CelType::Uint | CelType::Double => "compare it: x > 0",
        _ => "compare it with something: x == y",
    }
    .to_owned()
}
