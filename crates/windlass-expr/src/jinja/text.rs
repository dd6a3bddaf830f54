//! Compilation of one text: its classification, and the program that computes its value.

use minijinja::Error;
use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::{Token, parse, tokenize};
use windlass_value::Value;

use super::engine::{JinjaProgram, syntax};
use super::lower::{JinjaLowering, JinjaProblem, path_of};
use super::object::constant;
use super::path::JinjaPath;
use super::truth::parse_bool_word;

/// The maximum length of a template, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// The maximum number of operators, properties and brackets in one `{{ … }}`, and of statements in a text: each may
/// nest inside the previous one, and walking the syntax recurses as deep.
const MAX_LINKS: usize = 400;
const MAX_STATEMENTS: usize = 200;

pub(super) enum CompiledText {
    Constant(Value),
    Path(JinjaPath),
    Program(Box<JinjaProgram>),
}

/// Returns whether the text contains any template syntax.
pub(super) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("{#")
}

pub(super) fn compile_text(text: &str) -> Result<CompiledText, Vec<JinjaProblem>> {
    if !is_template(text) {
        return Ok(CompiledText::Constant(Value::from(text)));
    }
    let template = parse_template(text)?;
    let statements = children(&template);
    if let Some(expr) = single_expression(statements, |raw| raw.chars().all(|c| c == '\n' || c == '\r')) {
        return compile_expression(expr, false);
    }
    compile_template(statements, false)
}

pub(super) fn compile_condition(text: &str, lenient: bool) -> Result<CompiledText, Vec<JinjaProblem>> {
    let problem =
        |message: &str, hint: String, range| JinjaProblem { message: message.to_owned(), hint: Some(hint), range };
    if !is_template(text) {
        return match parse_bool_word(text) {
            Some(flag) => Ok(CompiledText::Constant(Value::Bool(flag))),
            None => {
                let hint = format!("write \"{{{{ {} }}}}\"", text.trim());
                Err(vec![problem("a condition needs a template, this is plain text", hint, 0..text.len())])
            }
        };
    }
    let template = parse_template(text)?;
    let statements = children(&template);
    if let Some(expr) = single_expression(statements, |raw| raw.trim().is_empty()) {
        let mut lowering = JinjaLowering::new(lenient);
        if let Some((name, steps)) = path_of(expr)
            && name != "keychain"
        {
            return Ok(CompiledText::Path(JinjaPath::new(name, steps)));
        }
        let source = lowering.condition(expr);
        return finish(lowering, source, true);
    }
    let plain = |statement: &Stmt<'_>| matches!(statement, Stmt::EmitRaw(_) | Stmt::EmitExpr(_));
    if statements.iter().all(plain) {
        let hint = "write the whole condition inside one {{ … }}".to_owned();
        return Err(vec![problem("there is text around the template of a condition", hint, 0..text.len())]);
    }
    compile_template(statements, lenient)
}

/// Lowers a text to collect its paths, for callers that check references.
pub(super) fn lower_text(text: &str) -> Result<JinjaLowering, Vec<JinjaProblem>> {
    let mut lowering = JinjaLowering::default();
    if is_template(text) {
        let template = parse_template(text)?;
        lowering.statements(children(&template), &mut String::new());
    }
    Ok(lowering)
}

pub(super) fn parse_template(text: &str) -> Result<Stmt<'_>, Vec<JinjaProblem>> {
    if text.len() > MAX_TEXT_BYTES {
        let message = format!("a template has at most {MAX_TEXT_BYTES} bytes");
        return Err(vec![JinjaProblem { message, hint: None, range: 0..0 }]);
    }
    check_bounds(text)?;
    parse(text, "t", syntax()).map_err(|error| vec![syntax_problem(&error, text)])
}

fn check_bounds(text: &str) -> Result<(), Vec<JinjaProblem>> {
    let (mut links, mut statements) = (0, 0);
    for token in tokenize(text, false, syntax()) {
        let (token, span) = token.map_err(|error| vec![syntax_problem(&error, text)])?;
        match token {
            Token::VariableStart => links = 0,
            Token::BlockStart => (links, statements) = (0, statements + 1),
            Token::Ident("and" | "or" | "not" | "is" | "if" | "in") => links += 1,
            Token::TemplateData(_) | Token::Ident(_) | Token::Comma | Token::Colon | Token::VariableEnd => {}
            Token::BracketClose | Token::ParenClose | Token::BraceClose | Token::BlockEnd => {}
            Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => {}
            _ => links += 1,
        }
        if links > MAX_LINKS || statements > MAX_STATEMENTS {
            let range = span.start_offset as usize..span.end_offset as usize;
            let message = format!("more than {MAX_LINKS} operators in one template, or {MAX_STATEMENTS} statements");
            let hint = Some("compute parts of it in earlier steps".to_owned());
            return Err(vec![JinjaProblem { message, hint, range }]);
        }
    }
    Ok(())
}

pub(super) fn children<'a, 'b>(template: &'b Stmt<'a>) -> &'b [Stmt<'a>] {
    match template {
        Stmt::Template(template) => &template.children,
        other => std::slice::from_ref(other),
    }
}

/// Returns the only expression of a text that contains nothing else.
fn single_expression<'a, 'b>(statements: &'b [Stmt<'a>], blank: impl Fn(&str) -> bool) -> Option<&'b Expr<'a>> {
    let mut found = None;
    for statement in statements {
        match statement {
            Stmt::EmitRaw(raw) if found.is_some() && blank(raw.raw) => {}
            // Spaces before the expression are ignored only in conditions, where `blank` accepts a space.
            Stmt::EmitRaw(raw) if blank(" ") && blank(raw.raw) => {}
            Stmt::EmitExpr(emit) if found.is_none() => found = Some(&emit.expr),
            _ => return None,
        }
    }
    found
}

fn compile_expression(expr: &Expr<'_>, lenient: bool) -> Result<CompiledText, Vec<JinjaProblem>> {
    let mut lowering = JinjaLowering::new(lenient);
    if let Some((name, steps)) = path_of(expr)
        && name != "keychain"
    {
        return Ok(CompiledText::Path(JinjaPath::new(name, steps)));
    }
    if let Some(value) = scalar(expr) {
        return Ok(CompiledText::Constant(value));
    }
    let source = lowering.value(expr);
    finish(lowering, source, true)
}

/// Returns the value of a literal constant.
fn scalar(expr: &Expr<'_>) -> Option<Value> {
    match expr {
        Expr::Const(written) => constant(&written.value),
        _ => None,
    }
}

fn compile_template(statements: &[Stmt<'_>], lenient: bool) -> Result<CompiledText, Vec<JinjaProblem>> {
    let mut lowering = JinjaLowering::new(lenient);
    let mut source = String::new();
    lowering.statements(statements, &mut source);
    finish(lowering, source, false)
}

fn finish(lowering: JinjaLowering, source: String, keeps_type: bool) -> Result<CompiledText, Vec<JinjaProblem>> {
    if !lowering.problems.is_empty() {
        return Err(lowering.problems);
    }
    let paths = lowering.paths.into_iter().map(|written| written.path).collect();
    let program = match keeps_type {
        true => JinjaProgram::expression(&source, paths, lowering.uses_random),
        false => JinjaProgram::template(source, paths, lowering.uses_random),
    };
    program.map(|program| CompiledText::Program(Box::new(program))).map_err(|error| vec![syntax_problem(&error, "")])
}

pub(super) fn syntax_problem(error: &Error, text: &str) -> JinjaProblem {
    let range = error.range().filter(|range| text.get(range.clone()).is_some()).unwrap_or(0..text.len());
    let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let hint = match message.as_str() {
        detail if detail.contains("unexpected end of variable block") => {
            Some("something is missing before `}}`: a value, after an operator".to_owned())
        }
        detail if detail.contains("expected end of variable block") || detail.contains("end of input") => {
            Some("a template is closed with `}}`, a statement with `%}`".to_owned())
        }
        detail if detail.contains("unknown statement") => {
            Some("the statements are if, for, set, with, filter and raw".to_owned())
        }
        detail if detail.contains("unexpected") && text[range.start..].starts_with('=') => {
            Some("two values are compared with `==`".to_owned())
        }
        _ => None,
    };
    JinjaProblem { message, hint, range }
}
