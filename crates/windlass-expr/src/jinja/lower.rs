//! Lowering of syntax to the template that the engine runs. Every path becomes a generated name (`__p0`: must exist;
//! `__g0`: may be missing; `__n0`: null when missing), every filter, test, function and method is looked up, every
//! condition is evaluated by our truth table, and every operation that can lengthen a string is checked for size.
//! All problems are collected.

use std::ops::Range;

use minijinja::Value as Inner;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{BinOpKind, Call, CallArg, CallType, CompareOpKind, Expr, ForLoop, Stmt, UnaryOpKind};
use minijinja::value::ValueKind;

use super::path::{JinjaPath, JinjaStep};
use super::tables::{self, CallableKind};

/// A problem in one text.
pub(super) struct JinjaProblem {
    pub message: String,
    pub hint: Option<String>,
    pub range: Range<usize>,
}

/// A path as written in a template.
pub(super) struct PathUse {
    pub path: JinjaPath,
    pub range: Range<usize>,
    /// Whether the path may be missing: it is tested with `is defined`, or it has a default.
    pub guarded: bool,
}

#[derive(Default)]
pub(super) struct JinjaLowering {
    pub paths: Vec<PathUse>,
    pub problems: Vec<JinjaProblem>,
    /// Whether a missing value evaluates to null.
    pub lenient: bool,
    pub uses_random: bool,
    /// Names that the text itself binds, innermost last, and whether they are certainly bound.
    bound: Vec<(String, bool)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Presence {
    /// The value must exist.
    Required,
    /// The value may be missing.
    Guarded,
}

impl JinjaLowering {
    pub(crate) fn new(lenient: bool) -> JinjaLowering {
        JinjaLowering { lenient, ..JinjaLowering::default() }
    }

    pub(crate) fn problem(&mut self, span: Span, message: impl Into<String>, hint: Option<String>) {
        let range = span.start_offset as usize..span.end_offset as usize;
        self.problems.push(JinjaProblem { message: message.into(), hint, range });
    }

    fn unknown(&mut self, span: Span, kind: CallableKind, name: &str) {
        let (message, hint) = tables::unknown_message(kind, name);
        self.problem(span, message, hint);
    }

    /// Lowers an expression of which only the truth value is needed.
    pub(crate) fn condition(&mut self, expr: &Expr<'_>) -> String {
        match expr {
            Expr::BinOp(op) if matches!(op.op, BinOpKind::ScAnd | BinOpKind::ScOr) => {
                let word = if matches!(op.op, BinOpKind::ScAnd) { "and" } else { "or" };
                format!("({} {word} {})", self.condition(&op.left), self.condition(&op.right))
            }
            Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Not) => self.value(expr),
            Expr::Compare(_) | Expr::Test(_) => self.value(expr),
            Expr::BinOp(op) if is_comparison(op.op) => self.value(expr),
            _ => format!("({}|__truth)", self.value(expr)),
        }
    }

    pub(crate) fn value(&mut self, expr: &Expr<'_>) -> String {
        self.expr(expr, Presence::Required)
    }

    fn expr(&mut self, expr: &Expr<'_>, need: Presence) -> String {
        match expr {
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.access(expr, need),
            Expr::Const(constant) => literal(&constant.value),
            Expr::Slice(slice) => {
                let base = format!("({}|__walk)", self.expr(&slice.expr, Presence::Required));
                let mut part = |part: &Option<Expr<'_>>| part.as_ref().map(|part| self.value(part)).unwrap_or_default();
                format!("({base}[{}:{}:{}])", part(&slice.start), part(&slice.stop), part(&slice.step))
                    .replace(":])", "])")
            }
            Expr::UnaryOp(op) => match op.op {
                UnaryOpKind::Not => format!("(not {})", self.condition(&op.expr)),
                UnaryOpKind::Neg => format!("(-{})", self.value(&op.expr)),
            },
            Expr::BinOp(op) => {
                let (left, right) = (self.value(&op.left), self.value(&op.right));
                // A comparison costs the size of its operands, a search the size of the searched value.
                let is_search = matches!(op.op, BinOpKind::In);
                let short = is_short(&op.right) || (!is_search && is_short(&op.left));
                let right = if is_comparison(op.op) && !short { format!("({right}|__weigh)") } else { right };
                binary(op.op, &left, &right)
            }
            Expr::Compare(compare) => {
                let mut text = format!("({}", self.value(&compare.expr));
                for op in &compare.ops {
                    let is_search = matches!(op.op, CompareOpKind::In | CompareOpKind::NotIn);
                    let short = is_short(&op.expr) || (!is_search && is_short(&compare.expr));
                    let value = self.value(&op.expr);
                    let value = if short { value } else { format!("({value}|__weigh)") };
                    text.push_str(&format!(" {} {value}", comparison(op.op)));
                }
                text + ")"
            }
            Expr::IfExpr(choice) => {
                let test = match reads_tested_path(&choice.test_expr, &choice.true_expr) {
                    true => format!("({}|__truth)", self.expr(&choice.test_expr, Presence::Guarded)),
                    false => self.condition(&choice.test_expr),
                };
                let good = self.expr(&choice.true_expr, need);
                let other =
                    choice.false_expr.as_ref().map_or_else(|| "none".to_owned(), |other| self.expr(other, need));
                format!("({good} if {test} else {other})")
            }
            Expr::Filter(filter) => self.filter(filter.name, filter.expr.as_ref(), &filter.args, filter.span(), need),
            Expr::Test(test) => {
                if !tables::is_known(CallableKind::Test, test.name) {
                    self.unknown(test.span(), CallableKind::Test, test.name);
                }
                let guard = matches!(test.name, "defined" | "undefined");
                let inner = self.expr(&test.expr, if guard { Presence::Guarded } else { Presence::Required });
                // Testing for existence costs nothing; other tests may read the whole value.
                let inner = if guard || is_short(&test.expr) { inner } else { format!("({inner}|__cost)") };
                format!(
                    "({inner} is {}{})",
                    test.name,
                    self.arguments_with(&test.args, test.span(), Self::charged_value)
                )
            }
            Expr::Call(call) => self.call(call, call.span()),
            Expr::List(list) => {
                let items: Vec<String> = list.items.iter().map(|item| self.value(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Expr::Tuple(tuple) => {
                let items: Vec<String> = tuple.items.iter().map(|item| self.value(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Expr::Map(map) => {
                let pairs = map.keys.iter().zip(&map.values);
                let pairs: Vec<String> =
                    pairs.map(|(key, value)| format!("{}: {}", self.charged_value(key), self.value(value))).collect();
                format!("{{{}}}", pairs.join(", "))
            }
        }
    }

    /// Lowers a name, a property or an item.
    fn access(&mut self, expr: &Expr<'_>, need: Presence) -> String {
        if let Some((name, steps)) = path_of(expr)
            && !self.bound.iter().any(|(bound, _)| bound == name)
        {
            let span = Span { start_offset: root_span(expr).start_offset, ..expr.span() };
            return self.path(name, steps, span, need);
        }
        match expr {
            Expr::GetAttr(attr) => {
                let base = self.expr(&attr.expr, need);
                match (need, self.lenient) {
                    (Presence::Guarded, _) => format!("{base}.{}", attr.name),
                    (Presence::Required, true) => format!("({base}.{}|__null)", attr.name),
                    (Presence::Required, false) => {
                        format!("({base}|__attr({}, {}))", quoted(attr.name), quoted_path(&attr.expr))
                    }
                }
            }
            Expr::GetItem(item) => {
                let base = self.expr(&item.expr, need);
                let key = self.charged_value(&item.subscript_expr);
                match (need, self.lenient) {
                    (Presence::Guarded, _) => format!("{base}[{key}]"),
                    (Presence::Required, true) => format!("({base}[{key}]|__null)"),
                    (Presence::Required, false) => format!("({base}|__attr({key}, {}))", quoted_path(&item.expr)),
                }
            }
            Expr::Var(var) => match self.bound.iter().rev().find(|(bound, _)| bound == var.id) {
                Some((_, false)) if need == Presence::Required => format!("({}|__need({}))", var.id, quoted(var.id)),
                _ => var.id.to_owned(),
            },
            _ => String::new(),
        }
    }

    fn path(&mut self, name: &str, steps: Vec<JinjaStep>, span: Span, need: Presence) -> String {
        if name == "keychain" {
            let hint = "name the credential with `auth: <alias>`, or write `{{ keychain.name.field }}` in an input of a tool, without filters".to_owned();
            self.problem(span, "secrets cannot be read in a template", Some(hint));
        }
        let path = JinjaPath::new(name, steps);
        let range = span.start_offset as usize..span.end_offset as usize;
        let guarded = need == Presence::Guarded;
        let same = self.paths.iter().position(|written| written.path == path && written.guarded == guarded);
        let index = same.unwrap_or_else(|| {
            self.paths.push(PathUse { path, range, guarded });
            self.paths.len() - 1
        });
        match (need, self.lenient) {
            (Presence::Guarded, _) => format!("__g{index}"),
            (Presence::Required, true) => format!("__n{index}"),
            (Presence::Required, false) => format!("__p{index}"),
        }
    }

    fn filter(
        &mut self,
        name: &str,
        inner: Option<&Expr<'_>>,
        args: &[CallArg<'_>],
        span: Span,
        need: Presence,
    ) -> String {
        if !tables::is_known(CallableKind::Filter, name) {
            self.unknown(span, CallableKind::Filter, name);
        }
        self.named_argument(name, args, span);
        let guard = matches!(name, "default" | "d");
        // Without a value, the filter is applied to a block.
        let base = inner.map(|inner| self.expr(inner, if guard { Presence::Guarded } else { Presence::Required }));
        let applied = match base {
            Some(base) if tables::SELF_METERED.contains(&name) => {
                format!("({base}|{name}{})", self.arguments(args, span))
            }
            Some(base) if tables::LIGHT.contains(&name) => {
                format!("({base}|__cost|{name}{})", self.arguments(args, span))
            }
            Some(base) => format!("({base}|__walk|{name}{})", self.arguments(args, span)),
            None => format!("{name}{}", self.arguments(args, span)),
        };
        // For an empty list these filters return undefined.
        match matches!(name, "first" | "last" | "min" | "max") && need == Presence::Required && inner.is_some() {
            true => format!("({applied}|__need({}))", quoted(&format!("… | {name}"))),
            false => applied,
        }
    }

    /// Checks filters whose argument is the name of another filter or of a test.
    fn named_argument(&mut self, filter: &str, args: &[CallArg<'_>], span: Span) {
        let (kind, position) = match filter {
            "map" => (CallableKind::Filter, 0),
            "select" | "reject" => (CallableKind::Test, 0),
            "selectattr" | "rejectattr" => (CallableKind::Test, 1),
            _ => return,
        };
        let positional = args.iter().filter_map(|arg| if let CallArg::Pos(expr) = arg { Some(expr) } else { None });
        if let Some(Expr::Const(name)) = positional.into_iter().nth(position)
            && let Some(name) = name.value.as_str()
            && !tables::is_known(kind, name)
        {
            self.unknown(span, kind, name);
        }
    }

    fn call(&mut self, call: &Call<'_>, span: Span) -> String {
        match call.identify_call() {
            CallType::Function(name) => {
                if !tables::is_known(CallableKind::Function, name) {
                    self.unknown(span, CallableKind::Function, name);
                }
                self.uses_random |= name == "uuid";
                format!("{name}{}", self.arguments_or_empty(&call.args, span))
            }
            CallType::Method(Expr::Var(var), method @ ("cycle" | "changed")) if var.id == "loop" => {
                format!("loop.{method}{}", self.arguments_or_empty(&call.args, span))
            }
            CallType::Method(base, method) => {
                if !tables::is_known(CallableKind::Method, method) {
                    self.unknown(span, CallableKind::Method, method);
                }
                let base = self.value(base);
                let cost = if matches!(method, "split" | "splitlines" | "title") { "__walk" } else { "__cost" };
                format!("({base}|{cost}|__m_{method}{})", self.arguments(&call.args, span))
            }
            CallType::Object(_) => {
                self.problem(span, "this cannot be called", None);
                String::new()
            }
        }
    }

    /// Lowers a value that is traversed in place.
    fn charged_value(&mut self, expr: &Expr<'_>) -> String {
        let value = self.value(expr);
        if is_short(expr) { value } else { format!("({value}|__cost)") }
    }

    fn arguments_or_empty(&mut self, args: &[CallArg<'_>], span: Span) -> String {
        let text = self.arguments(args, span);
        if text.is_empty() { "()".to_owned() } else { text }
    }

    fn arguments(&mut self, args: &[CallArg<'_>], span: Span) -> String {
        self.arguments_with(args, span, Self::value)
    }

    fn arguments_with(
        &mut self,
        args: &[CallArg<'_>],
        span: Span,
        value: impl Fn(&mut Self, &Expr<'_>) -> String,
    ) -> String {
        if args.is_empty() {
            return String::new();
        }
        let mut texts = Vec::new();
        for arg in args {
            match arg {
                CallArg::Pos(expr) => texts.push(value(self, expr)),
                CallArg::Kwarg(name, expr) => texts.push(format!("{name}={}", value(self, expr))),
                CallArg::PosSplat(_) | CallArg::KwargSplat(_) => {
                    self.problem(span, "`*` and `**` before an argument are not supported", None);
                }
            }
        }
        format!("({})", texts.join(", "))
    }

    pub(crate) fn statements(&mut self, statements: &[Stmt<'_>], out: &mut String) {
        statements.iter().for_each(|statement| self.statement(statement, out));
    }

    fn statement(&mut self, statement: &Stmt<'_>, out: &mut String) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children, out),
            Stmt::EmitRaw(raw) => out.push_str(&format!("{{{{ {} }}}}", quoted(raw.raw))),
            Stmt::EmitExpr(emit) => out.push_str(&format!("{{{{ {} }}}}", self.value(&emit.expr))),
            Stmt::IfCond(choice) => {
                out.push_str(&format!("{{% if {} %}}", self.condition(&choice.expr)));
                let bound = self.bound.len();
                self.statements(&choice.true_body, out);
                if !choice.false_body.is_empty() {
                    out.push_str("{% else %}");
                    self.statements(&choice.false_body, out);
                }
                out.push_str("{% endif %}");
                // A name bound in one arm may be unbound afterwards.
                self.bound[bound..].iter_mut().for_each(|(_, certain)| *certain = false);
            }
            Stmt::ForLoop(each) => self.for_loop(each, out),
            Stmt::Set(set) => {
                let value = self.value(&set.expr);
                let target = self.target(&set.target);
                out.push_str(&format!("{{% set {target} = {value} %}}"));
            }
            Stmt::SetBlock(set) => {
                let filter = set.filter.as_ref().map(|filter| format!(" | {}", self.chain(filter)));
                let mut body = String::new();
                self.statements(&set.body, &mut body);
                let target = self.target(&set.target);
                out.push_str(&format!("{{% set {target}{} %}}{body}{{% endset %}}", filter.unwrap_or_default()));
            }
            Stmt::WithBlock(with) => {
                let bound = self.bound.len();
                let pairs: Vec<(String, &Expr<'_>)> =
                    with.assignments.iter().map(|(target, value)| (self.value(value), target)).collect();
                let pairs: Vec<String> =
                    pairs.into_iter().map(|(value, target)| format!("{} = {value}", self.target(target))).collect();
                out.push_str(&format!("{{% with {} %}}", pairs.join(", ")));
                self.statements(&with.body, out);
                out.push_str("{% endwith %}");
                self.bound.truncate(bound);
            }
            Stmt::FilterBlock(block) => {
                let filter = self.chain(&block.filter);
                out.push_str(&format!("{{% filter {filter} %}}"));
                self.statements(&block.body, out);
                out.push_str("{% endfilter %}");
            }
            Stmt::AutoEscape(escape) => {
                self.problem(escape.span(), "`autoescape` is not supported: nothing is escaped here", None);
            }
            Stmt::Do(action) => {
                let hint = "values cannot be changed in a template; a rule of the task writes them".to_owned();
                self.problem(action.span(), "`do` is not supported", Some(hint));
            }
        }
    }

    fn for_loop(&mut self, each: &ForLoop<'_>, out: &mut String) {
        let items = self.value(&each.iter);
        let bound = self.bound.len();
        let target = self.target(&each.target);
        self.bound.push(("loop".to_owned(), true));
        let filter = each.filter_expr.as_ref().map(|filter| format!(" if {}", self.condition(filter)));
        if each.recursive {
            self.problem(each.iter.span(), "a recursive loop is not supported", None);
        }
        out.push_str(&format!("{{% for {target} in {items}{} %}}", filter.unwrap_or_default()));
        self.statements(&each.body, out);
        self.bound.truncate(bound);
        if !each.else_body.is_empty() {
            out.push_str("{% else %}");
            self.statements(&each.else_body, out);
            self.bound.truncate(bound);
        }
        out.push_str("{% endfor %}");
    }

    /// Lowers a chain of filters that is applied to a block.
    fn chain(&mut self, filter: &Expr<'_>) -> String {
        let Expr::Filter(filter) = filter else { return String::new() };
        let before = filter.expr.as_ref().map(|before| format!("{} | ", self.chain(before)));
        let applied = self.filter(filter.name, None, &filter.args, filter.span(), Presence::Required);
        before.unwrap_or_default() + &applied
    }

    /// Lowers the target of an assignment: one name or several.
    fn target(&mut self, target: &Expr<'_>) -> String {
        match target {
            Expr::Var(var) => {
                if var.id.starts_with("__") {
                    self.problem(target.span(), "a name must not begin with `__`", None);
                }
                self.bound.push((var.id.to_owned(), true));
                var.id.to_owned()
            }
            Expr::List(list) => self.targets(&list.items),
            Expr::Tuple(tuple) => self.targets(&tuple.items),
            other => {
                let hint = "values cannot be changed in a template; a rule of the task writes them".to_owned();
                self.problem(other.span(), "only a name can be set", Some(hint));
                String::new()
            }
        }
    }

    fn targets(&mut self, targets: &[Expr<'_>]) -> String {
        let targets: Vec<String> = targets.iter().map(|target| self.target(target)).collect();
        format!("({})", targets.join(", "))
    }
}

/// Returns whether the expression has the form `x.name if x else …`, which tests whether `x` exists.
fn reads_tested_path(test: &Expr<'_>, good: &Expr<'_>) -> bool {
    let mut read = good;
    while let Expr::Filter(filter) = read
        && let Some(inner) = &filter.expr
    {
        read = inner;
    }
    match (path_of(test), path_of(read)) {
        (Some((tested, steps)), Some((name, more))) => tested == name && more.starts_with(&steps),
        _ => false,
    }
}

/// Returns the name and the steps of a literal path; None for anything computed.
pub(super) fn path_of<'a>(expr: &Expr<'a>) -> Option<(&'a str, Vec<JinjaStep>)> {
    match expr {
        Expr::Var(var) => Some((var.id, Vec::new())),
        Expr::GetAttr(attr) => {
            let (name, mut steps) = path_of(&attr.expr)?;
            steps.push(JinjaStep::Key(attr.name.into()));
            Some((name, steps))
        }
        Expr::GetItem(item) => {
            let (name, mut steps) = path_of(&item.expr)?;
            let key = item.subscript_expr.as_const()?;
            steps.push(match key.as_str() {
                Some(text) => JinjaStep::Key(text.into()),
                None => JinjaStep::Index(key.as_i64().filter(|_| key.is_integer())?),
            });
            Some((name, steps))
        }
        _ => None,
    }
}

/// Returns the span of a path's first name.
fn root_span(expr: &Expr<'_>) -> Span {
    match expr {
        Expr::GetAttr(attr) => root_span(&attr.expr),
        Expr::GetItem(item) => root_span(&item.expr),
        other => other.span(),
    }
}

/// Returns whether a value is known to be small.
fn is_short(expr: &Expr<'_>) -> bool {
    match expr {
        Expr::Const(_) => true,
        Expr::List(list) => list.items.iter().all(is_short),
        Expr::Tuple(tuple) => tuple.items.iter().all(is_short),
        _ => false,
    }
}

fn is_comparison(op: BinOpKind) -> bool {
    use BinOpKind::{Eq, Gt, Gte, In, Lt, Lte, Ne};
    matches!(op, Eq | Ne | Lt | Lte | Gt | Gte | In)
}

/// Returns an operand of `~`: the text of a binary value.
fn concatenated(operand: &str) -> String {
    match operand.starts_with(['"', '\'']) {
        true => operand.to_owned(),
        false => format!("({operand}|__text)"),
    }
}

fn binary(op: BinOpKind, left: &str, right: &str) -> String {
    let number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let sign = match op {
        BinOpKind::Eq => "==",
        BinOpKind::Ne => "!=",
        BinOpKind::Lt => "<",
        BinOpKind::Lte => "<=",
        BinOpKind::Gt => ">",
        BinOpKind::Gte => ">=",
        BinOpKind::ScAnd => "and",
        BinOpKind::ScOr => "or",
        BinOpKind::Sub => "-",
        BinOpKind::Div => "/",
        BinOpKind::FloorDiv => "//",
        BinOpKind::Pow => "**",
        BinOpKind::In => "in",
        // The engine would treat a string on the left as a format string.
        BinOpKind::Rem => return format!("(({left}|__number) % {right})"),
        // These can lengthen a string.
        BinOpKind::Concat => return format!("(({} ~ {})|__size)", concatenated(left), concatenated(right)),
        BinOpKind::Mul if number(left) && number(right) => "*",
        BinOpKind::Mul => return format!("((({left}|__factor) * ({right}|__factor))|__size)"),
        BinOpKind::Add if !number(left) && !number(right) => return format!("(({left} + {right})|__size)"),
        BinOpKind::Add => "+",
    };
    format!("({left} {sign} {right})")
}

fn comparison(op: CompareOpKind) -> &'static str {
    match op {
        CompareOpKind::Eq => "==",
        CompareOpKind::Ne => "!=",
        CompareOpKind::Lt => "<",
        CompareOpKind::Lte => "<=",
        CompareOpKind::Gt => ">",
        CompareOpKind::Gte => ">=",
        CompareOpKind::In => "in",
        CompareOpKind::NotIn => "not in",
    }
}

/// Renders a constant so that the engine parses it back.
fn literal(value: &Inner) -> String {
    match (value.kind(), value.as_str()) {
        (_, Some(text)) => quoted(text),
        (ValueKind::None, _) => "none".to_owned(),
        (ValueKind::Bool, _) => value.is_true().to_string(),
        (ValueKind::Number, _) if !value.is_integer() => {
            f64::try_from(value.clone()).map_or_else(|_| "0.0".to_owned(), |number| format!("{number:?}"))
        }
        _ => value.to_string(),
    }
}

pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns the quoted path of an expression's value, for messages.
fn quoted_path(expr: &Expr<'_>) -> String {
    quoted(&path_of(expr).map_or_else(|| "the value".to_owned(), |(name, steps)| JinjaPath::new(name, steps).render()))
}
