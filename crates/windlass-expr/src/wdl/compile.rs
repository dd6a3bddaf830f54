//! Compilation of syntax to nodes: looks up functions, checks argument counts, folds constants. Collects all
//! problems.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use windlass_value::{
    CompileError, EvalError, EvalErrorKind, EvalScope, IterationView, Level, Meter, MeterCaps, NodeView, PathPart,
    RunView, StoredValue, Timestamp, Value, nearest,
};

use super::functions::{self, FunctionImpl, UNLIMITED, WdlFunction, is_node_result};
use super::node::{CallRun, ObjectKey, WdlCall, WdlNode, eval};
use super::path::{WdlKey, WdlPath, WdlStep};
use super::source::{MAX_TREE_DEPTH, WdlReference};
use super::syntax::{StepKey, StepSyntax, WdlSyntax, WdlSyntaxKind, WdlText, WdlTextPart, is_expression, parse_text};
use super::values::{WdlContext, describe, preview};
use super::variable::VariableName;

/// The fuel for folding a constant; a more expensive one is left to evaluation.
const FOLD_FUEL: u64 = 10_000;
const MAX_FOLD_BYTES: usize = 65_536;
/// The maximum number of range items and of XML nodes in a folded constant; a larger one is computed at run time,
/// within the limits of the run.
const MAX_FOLD_ITEMS: u32 = 100;

#[derive(Default)]
pub(crate) struct WdlCompiler {
    pub errors: Vec<CompileError>,
    pointer: Vec<PathPart>,
    /// Set for a loop's own condition.
    lenient: bool,
    /// The settings that `appsetting` reads, where it is allowed.
    settings: Option<Arc<BTreeMap<String, String>>>,
    /// Settings that were referenced but do not exist.
    pub missing_settings: Vec<WdlReference>,
}

impl WdlCompiler {
    pub(crate) fn new(lenient: bool) -> WdlCompiler {
        WdlCompiler { lenient, ..WdlCompiler::default() }
    }

    pub(crate) fn with_settings(settings: Arc<BTreeMap<String, String>>) -> WdlCompiler {
        WdlCompiler { settings: Some(settings), ..WdlCompiler::default() }
    }

    pub(crate) fn error(&mut self, message: impl Into<String>, hint: Option<String>, range: Range<usize>) {
        let pointer = self.pointer.clone();
        self.errors.push(CompileError { message: message.into(), hint, pointer, range });
    }

    /// Compiles a part of the tree with its path step on the pointer.
    pub(crate) fn inside<T>(&mut self, part: PathPart, compile: impl FnOnce(&mut WdlCompiler) -> T) -> T {
        self.pointer.push(part);
        let result = compile(self);
        self.pointer.pop();
        result
    }

    fn too_deep(&mut self) -> bool {
        let deep = self.pointer.len() > MAX_TREE_DEPTH;
        if deep {
            self.error(format!("the value nests deeper than {MAX_TREE_DEPTH}"), None, 0..0);
        }
        deep
    }

    pub(crate) fn tree(&mut self, source: &Value) -> WdlNode {
        if self.too_deep() {
            return WdlNode::Constant(Value::Null);
        }
        match source {
            Value::Str(text) => self.text(text),
            Value::List(items) => {
                let each = items.iter().enumerate();
                let nodes: Vec<WdlNode> =
                    each.map(|(index, item)| self.inside(PathPart::Index(index), |this| this.tree(item))).collect();
                match nodes.iter().map(constant).collect::<Option<Vec<Value>>>() {
                    Some(values) => WdlNode::Constant(Value::list(values)),
                    None => WdlNode::List(nodes.into()),
                }
            }
            Value::Map(map) => {
                let mut entries = Vec::with_capacity(map.len());
                for (key, item) in map.iter() {
                    let entry = self.inside(PathPart::Key(key.clone()), |this| {
                        let key = match this.text(key) {
                            WdlNode::Constant(Value::Str(name)) => ObjectKey::Fixed(name),
                            node => ObjectKey::Computed(node),
                        };
                        (key, this.tree(item))
                    });
                    entries.push(entry);
                }
                let constants = entries.iter().map(|(key, node)| match key {
                    ObjectKey::Fixed(name) => Some((name.clone(), constant(node)?)),
                    ObjectKey::Computed(_) => None,
                });
                match constants.collect::<Option<Vec<_>>>() {
                    Some(constants) => WdlNode::Constant(Value::object(constants)),
                    None => WdlNode::Object(entries.into()),
                }
            }
            other => WdlNode::Constant(other.clone()),
        }
    }

    fn text(&mut self, text: &Arc<str>) -> WdlNode {
        let failed = WdlNode::Constant(Value::Null);
        match parse_text(text) {
            Err(error) => {
                self.error(error.message, error.hint, error.range);
                failed
            }
            Ok(WdlText::Plain) => WdlNode::Constant(Value::Str(text.clone())),
            Ok(WdlText::Unescaped(plain)) => WdlNode::Constant(Value::from(plain)),
            Ok(WdlText::Whole(syntax)) => with_source(text, self.syntax(text, &syntax)),
            Ok(WdlText::Mixed(pieces)) => {
                let nodes: Vec<WdlNode> = pieces.iter().map(|piece| self.piece(text, piece)).collect();
                fold_constant(WdlNode::Join(nodes.into()))
            }
        }
    }

    fn piece(&mut self, text: &str, piece: &WdlTextPart) -> WdlNode {
        match piece {
            WdlTextPart::Literal(literal) => WdlNode::Constant(Value::from(literal.as_str())),
            WdlTextPart::Expression(syntax) => {
                let node = self.syntax(text, syntax);
                with_source(&format!("@{{{}}}", &text[syntax.range.clone()]).into(), node)
            }
        }
    }

    fn syntax(&mut self, text: &str, syntax: &WdlSyntax) -> WdlNode {
        match &syntax.kind {
            WdlSyntaxKind::Literal(value) => WdlNode::Constant(value.clone()),
            WdlSyntaxKind::Call(call) if self.settings.is_some() && call.name.eq_ignore_ascii_case("appsetting") => {
                self.setting(&call.arguments)
            }
            WdlSyntaxKind::Call(call) => {
                let function = self.function(&call.name, call.arguments.len(), call.name_range.clone());
                let arguments: Vec<WdlNode> = call.arguments.iter().map(|part| self.syntax(text, part)).collect();
                let ranges: Vec<Range<usize>> = call.arguments.iter().map(|part| part.range.clone()).collect();
                function.map_or(WdlNode::Constant(Value::Null), |function| {
                    self.make_call(function, arguments, |index| ranges.get(index).cloned().unwrap_or_default())
                })
            }
            WdlSyntaxKind::Path { root, steps } => self.path(text, syntax, root, steps),
        }
    }

    fn setting(&mut self, arguments: &[WdlSyntax]) -> WdlNode {
        let (Some(settings), [WdlSyntax { kind: WdlSyntaxKind::Literal(Value::Str(name)), range }]) =
            (self.settings.clone(), arguments)
        else {
            let range = arguments.first().map_or(0..0, |argument| argument.range.clone());
            self.error("`appsetting` takes the name of a setting, as a text in quotes", None, range);
            return WdlNode::Constant(Value::Null);
        };
        let in_any_case = || settings.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        match settings.get(&**name).or_else(in_any_case) {
            Some(value) => WdlNode::Constant(Value::from(value.as_str())),
            None => {
                self.missing_settings.push(WdlReference {
                    name: name.clone(),
                    pointer: self.pointer.clone(),
                    range: range.clone(),
                });
                WdlNode::Constant(Value::Null)
            }
        }
    }

    /// Checks literal zones, locales and formats at compile time instead of when the run reaches them.
    fn check_literals(
        &mut self,
        function: &WdlFunction,
        arguments: &[WdlNode],
        argument_range: &dyn Fn(usize) -> Range<usize>,
    ) {
        for (index, literal) in function.literals {
            if let Some(WdlNode::Constant(Value::Str(text))) = arguments.get(*index)
                && let Some((message, hint)) = literal.problem(text)
            {
                self.error(format!("`{}`: {message}", function.name), Some(hint), argument_range(*index));
            }
        }
    }

    /// Returns the function of that name, if it accepts that many arguments.
    fn function(&mut self, name: &str, count: usize, range: Range<usize>) -> Option<&'static WdlFunction> {
        let Some(function) = functions::find(name) else {
            match functions::replacement_hint(name) {
                Some(instead) => {
                    self.error(format!("the function `{name}` is not supported"), Some(instead.to_owned()), range)
                }
                None => {
                    let hint = nearest(name, functions::all().map(|function| function.name));
                    let hint = hint.map(|close| format!("did you mean `{close}`?"));
                    self.error(format!("there is no function `{name}`"), hint, range);
                }
            }
            return None;
        };
        if function.loop_condition_only && !self.lenient {
            let hint = "elsewhere use actions('name')".to_owned();
            let message = format!("`{}` is allowed only in the condition of a loop", function.name);
            self.error(message, Some(hint), range);
            return None;
        }
        if count < function.min_arguments || count > function.max_arguments {
            let (min, max) = (function.min_arguments, function.max_arguments);
            let expected = match (min, max) {
                (0, 0) => "no arguments".to_owned(),
                (1, 1) => "1 argument".to_owned(),
                (min, max) if min == max => format!("{min} arguments"),
                (1, UNLIMITED) => "at least 1 argument".to_owned(),
                (min, UNLIMITED) => format!("at least {min} arguments"),
                (min, max) => format!("{min} to {max} arguments"),
            };
            self.error(format!("`{}` takes {expected}, got {count}", function.name), None, range);
            return None;
        }
        Some(function)
    }

    /// Builds a call; `argument_range` returns the source range of an argument.
    fn make_call(
        &mut self,
        function: &'static WdlFunction,
        arguments: Vec<WdlNode>,
        argument_range: impl Fn(usize) -> Range<usize>,
    ) -> WdlNode {
        if function.name == "variables"
            && let [WdlNode::Constant(Value::Str(name))] = arguments.as_slice()
        {
            return WdlNode::Variable(Box::new(VariableName::new(name)));
        }
        self.check_literals(function, &arguments, &argument_range);
        let prepared = match function.prepare.map_or(Ok(None), |prepare| prepare(&arguments)) {
            Ok(prepared) => prepared,
            Err(bad) => {
                self.error(bad.message, bad.hint, argument_range(bad.index));
                return WdlNode::Constant(Value::Null);
            }
        };
        let constants = arguments.iter().all(|node| matches!(node, WdlNode::Constant(_)));
        let arguments = arguments.into();
        match function.run {
            FunctionImpl::Lazy(run) => WdlNode::Lazy(run, arguments),
            FunctionImpl::Eager(run) => {
                let run = prepared.map_or(CallRun::Function(run), CallRun::Prepared);
                let (content, reads) = (function.content, function.returns_existing);
                let node = WdlNode::Call(Box::new(WdlCall { run, content, returns_existing: reads, arguments }));
                if function.pure && constants { fold_constant(node) } else { node }
            }
        }
    }

    fn path(&mut self, text: &str, whole: &WdlSyntax, root: &WdlSyntax, steps: &[StepSyntax]) -> WdlNode {
        let of_node = matches!(&root.kind, WdlSyntaxKind::Call(call) if is_node_result(&call.name));
        let root = self.syntax(text, root);
        let start = whole.range.start;
        let step = |this: &mut WdlCompiler, step: &StepSyntax| {
            let key = match &step.key {
                StepKey::Name(name) => WdlKey::Name(name.as_str().into()),
                StepKey::Index(index) => match this.syntax(text, index) {
                    WdlNode::Constant(Value::Str(name)) => WdlKey::Name(name),
                    WdlNode::Constant(Value::Int(index)) if index >= 0 => WdlKey::Index(index as usize),
                    node => WdlKey::Computed(node),
                },
            };
            WdlStep { key, safe: step.safe, start: step.range.start - start }
        };
        let steps: Vec<WdlStep> = steps.iter().map(|part| step(self, part)).collect();
        let constant_keys = steps.iter().all(|step| !matches!(step.key, WdlKey::Computed(_)));
        let foldable = constant(&root).is_some() && constant_keys;
        let text = text[whole.range.clone()].into();
        let node =
            WdlNode::Path(Box::new(WdlPath { root, steps: steps.into(), text, lenient: self.lenient && of_node }));
        if foldable { fold_constant(node) } else { node }
    }

    /// Compiles a condition: a boolean, the text of one, an expression, or an object of functions.
    pub(crate) fn condition(&mut self, source: &Value) -> WdlNode {
        let node = match source {
            Value::Bool(_) => WdlNode::Constant(source.clone()),
            Value::Str(text) => match truth_text(text) {
                Some(flag) => WdlNode::Constant(Value::Bool(flag)),
                None if is_expression(text) => self.text(text),
                None => {
                    let hint = match text.contains('(') {
                        true => format!("did you forget the `@`? write `@{}`", text.trim()),
                        false => {
                            "did you forget the `@`? write a condition such as `@equals(variables('x'), 1)`".to_owned()
                        }
                    };
                    let message = format!("the condition {} is a text, not an expression", preview(source));
                    self.error(message, Some(hint), 0..text.len());
                    return WdlNode::Constant(Value::Null);
                }
            },
            Value::Map(_) => self.operation(source),
            other => {
                self.error(format!("a condition cannot be {}", describe(other)), condition_hint(), 0..0);
                return WdlNode::Constant(Value::Null);
            }
        };
        if let (Some(value), true) = (constant(&node), self.errors.is_empty())
            && truth(&value).is_none()
        {
            let length = source.as_str().map_or(0, str::len);
            let message = format!("the condition is always {}, never true or false", describe(&value));
            self.error(message, condition_hint(), 0..length);
        }
        node
    }

    /// Compiles `{"and": [..]}`: one key that names a function, with its arguments below it.
    fn operation(&mut self, source: &Value) -> WdlNode {
        let failed = WdlNode::Constant(Value::Null);
        if self.too_deep() {
            return failed;
        }
        let entry = source.as_map().filter(|map| map.len() == 1).and_then(|map| map.iter().next());
        let Some((name, arguments)) = entry else {
            let count = source.as_map().map_or(0, windlass_value::Map::len);
            let hint = Some("combine several with {\"and\": [ … ]}".to_owned());
            self.error(format!("an object in a condition has one key, a function; this has {count}"), hint, 0..0);
            return failed;
        };
        self.inside(PathPart::Key(name.clone()), |this| {
            let of_booleans = ["and", "or", "not"].iter().any(|known| known.eq_ignore_ascii_case(name));
            let nodes: Vec<WdlNode> = match arguments {
                Value::List(items) => {
                    let each = items.iter().enumerate();
                    each.map(|(index, item)| {
                        this.inside(PathPart::Index(index), |this| this.operand(item, of_booleans))
                    })
                    .collect()
                }
                lone => vec![this.operand(lone, of_booleans)],
            };
            match this.function(name, nodes.len(), 0..name.len()) {
                Some(function) => {
                    let call = this.make_call(function, nodes, |_| 0..0);
                    with_source(&preview(source).into(), call)
                }
                None => WdlNode::Constant(Value::Null),
            }
        })
    }

    fn operand(&mut self, source: &Value, of_booleans: bool) -> WdlNode {
        match source {
            Value::Map(_) => self.operation(source),
            Value::List(_) => {
                let hint = Some("write the array as an expression: @createArray(…) or @json('[…]')".to_owned());
                self.error("an array cannot be an argument here", hint, 0..0);
                WdlNode::Constant(Value::Null)
            }
            Value::Str(text) => match truth_text(text) {
                Some(flag) if of_booleans => WdlNode::Constant(Value::Bool(flag)),
                _ => self.text(text),
            },
            other => WdlNode::Constant(other.clone()),
        }
    }
}

fn condition_hint() -> Option<String> {
    Some(
        "a condition is true, false, an expression such as `@equals(a, b)`, or an object such as {\"and\": [ … ]}"
            .into(),
    )
}

fn truth_text(text: &str) -> Option<bool> {
    let text = text.trim();
    match text.eq_ignore_ascii_case("true") {
        true => Some(true),
        false => text.eq_ignore_ascii_case("false").then_some(false),
    }
}

/// Returns the truth value of a boolean or its text; no other value is true or false.
pub(crate) fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Str(text) => truth_text(text),
        _ => None,
    }
}

fn constant(node: &WdlNode) -> Option<Value> {
    match node {
        WdlNode::Constant(value) => Some(value.clone()),
        _ => None,
    }
}

/// Wraps a node with its source text for error messages. A constant cannot fail, so it needs no source.
fn with_source(text: &Arc<str>, node: WdlNode) -> WdlNode {
    match node {
        WdlNode::Constant(_) => node,
        node => WdlNode::Source(text.clone(), Box::new(node)),
    }
}

/// Replaces a node by its value if it can be computed now. A node that fails is kept: it may never be evaluated.
fn fold_constant(node: WdlNode) -> WdlNode {
    if let WdlNode::Join(parts) = &node
        && parts.iter().any(|part| !matches!(part, WdlNode::Constant(_)))
    {
        return node;
    }
    let caps =
        MeterCaps { max_range_items: MAX_FOLD_ITEMS as usize, max_xml_nodes: MAX_FOLD_ITEMS, ..MeterCaps::default() };
    let mut meter = Meter::new(FOLD_FUEL, MAX_FOLD_BYTES).with_caps(caps);
    let mut context = WdlContext::new(&EmptyScope, &mut meter);
    match eval(&node, &mut context) {
        Ok(value) => WdlNode::Constant(value),
        Err(_) => node,
    }
}

/// The scope for folding constants: pure functions never read it.
struct EmptyScope;

static EMPTY_RUN: LazyLock<RunView> = LazyLock::new(|| RunView::new("", "", Timestamp(0)));

impl EvalScope for EmptyScope {
    fn variable(&self, _level: Level, _name: &str) -> Option<Value> {
        None
    }

    fn node(&self, _name: &str) -> Option<NodeView> {
        None
    }

    fn children(&self, _name: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        None
    }

    fn iteration(&self, _loop_name: Option<&str>) -> Option<IterationView> {
        None
    }

    fn run(&self) -> &RunView {
        &EMPTY_RUN
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn random(&self) -> u64 {
        0
    }

    fn blob(&self, _stored: &StoredValue) -> Result<Value, EvalError> {
        Err(EvalError::new(EvalErrorKind::Missing, "a constant has no stored content"))
    }
}
