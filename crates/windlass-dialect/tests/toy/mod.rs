//! A dialect in one file, to prove that a registered dialect works everywhere. Each line is a statement.
//!
//! ```text
//! toy greeting
//! input name = world
//! say hello Hello, {name}
//! call priced pricing
//! ```
//!
//! `input` declares an input with its default, `say` outputs a text under a name, `call` runs another definition
//! with all inputs and outputs its result under a name.

use std::sync::Arc;

use windlass_core::plan::{
    ChildRunCall, ExprId, Graph, GraphChild, GraphFailurePolicy, GraphStatusRule, Node, NodeId, NodeKind, Parameter,
    PickPolicy, Plan, VariableKind,
};
use windlass_core::{Status, StatusSet};
use windlass_dialect::{
    CompileContext, CompileProblems, CompiledDefinition, Detection, DiagnosticSink, Dialect, ParsedSource,
    add_expression, finish, source_span,
};
use windlass_syntax::{Diagnostics, Span, did_you_mean};
use windlass_value::{CompileError, EvalError, EvalScope, Expression, ExpressionMode, Language, Map, Meter, Value};

const BAD_LINE: &str = "TOY-0001";

pub(crate) struct ToyDialect;

impl Dialect for ToyDialect {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn describe(&self) -> &'static str {
        "lines, of which the first is `toy NAME`"
    }

    fn detect(&self, reading: &ParsedSource<'_>) -> Detection {
        if reading.source.text.starts_with("toy ") { Detection::Yes } else { Detection::No }
    }

    fn compile(
        &self,
        reading: &ParsedSource<'_>,
        context: &CompileContext,
    ) -> Result<CompiledDefinition, CompileProblems> {
        let mut compiler = ToyCompiler::new(&reading.source.text);
        let mut at = 0;
        for line in reading.source.text.split_inclusive('\n') {
            compiler.line(line.trim_end(), Span::new(at, at + line.trim_end().len()), context);
            at += line.len();
        }
        Ok(compiler.end()?)
    }

    fn languages(&self) -> Vec<Arc<dyn Language>> {
        vec![Arc::new(Templates)]
    }

    fn sample(&self) -> &'static str {
        "toy greeting\ninput name = world\nsay hello Hello, {name}\n"
    }
}

struct ToyCompiler {
    plan: Plan,
    found: Diagnostics,
    calls: Vec<(String, Span)>,
    children: Vec<GraphChild>,
    outputs: Vec<(Arc<str>, ExprId)>,
}

impl DiagnosticSink for ToyCompiler {
    fn diagnostics(&mut self) -> &mut Diagnostics {
        &mut self.found
    }
}

impl ToyCompiler {
    fn new(text: &str) -> ToyCompiler {
        let mut plan = Plan::new("toy", ToyDialect.name(), text);
        plan.add_node(Node { hidden: true, ..Node::new("root", "lines", None, steps(Vec::new())) });
        ToyCompiler { plan, found: Diagnostics::new(), calls: Vec::new(), children: Vec::new(), outputs: Vec::new() }
    }

    fn line(&mut self, line: &str, span: Span, context: &CompileContext) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "toy" => self.plan.name = name.into(),
            "input" => {
                let default = rest.strip_prefix("= ").map(Value::from);
                self.plan.parameters.push(Parameter { default, ..Parameter::new(name, VariableKind::Any) });
            }
            "say" => {
                let text = self.template(Value::from(rest), span);
                self.step(name, "say", NodeKind::evaluate(text), span);
            }
            "call" => {
                if !context.registered.has_definition(rest) {
                    self.calls.push((rest.to_owned(), span));
                }
                let (definition, input) = (self.template(Value::from(rest), span), self.template(Value::Null, span));
                self.step(name, "call", NodeKind::Call(ChildRunCall { definition, input }), span);
            }
            "" => {}
            other => {
                let hint = did_you_mean(other, ["input", "say", "call"]).unwrap_or_default();
                self.error(BAD_LINE, span, format!("a line cannot begin with `{other}`"), hint);
            }
        }
    }

    fn template(&mut self, source: Value, span: Span) -> ExprId {
        add_expression(&mut self.plan, Templates.name(), source, ExpressionMode::Value, span)
    }

    fn step(&mut self, name: &str, label: &str, kind: NodeKind, span: Span) {
        let node = Node { span: source_span(span), ..Node::new(name, label, Some(NodeId(0)), kind) };
        let node = self.plan.add_node(node);
        let before = self.children.len().checked_sub(1).map(|child| windlass_core::plan::GraphDependency {
            child: child as u32,
            accepts: StatusSet::from_statuses([Status::Succeeded]),
        });
        self.children.push(GraphChild { node, after: before.into_iter().collect(), condition: None, group: None });
        let output = self.template(Value::from(format!("{{{name}}}")), span);
        self.outputs.push((name.into(), output));
    }

    fn end(mut self) -> Result<CompiledDefinition, Diagnostics> {
        self.plan.nodes[0].kind = steps(self.children);
        self.plan.outputs = Some(self.outputs);
        finish(self.plan, self.found, self.calls)
    }
}

/// Runs the children in sequence.
fn steps(children: Vec<GraphChild>) -> NodeKind {
    NodeKind::Graph(Graph {
        children,
        max_concurrency: None,
        ending: GraphStatusRule::Leaves,
        on_failure: GraphFailurePolicy::Continue,
        unmet: Status::Skipped,
        skips_transitively: false,
        pick: PickPolicy::Ready,
    })
}

/// `{name}` is an input, or the output of a line; a text that is only a reference keeps its type. No text: all
/// inputs.
struct Templates;

struct Template(Option<Arc<str>>);

impl Language for Templates {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn compile(&self, source: &Value, _: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        Ok(Box::new(Template(source.as_str().map(Arc::from))))
    }
}

impl Expression for Template {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        meter.spend(1)?;
        let inputs = &scope.run().parameters;
        let Some(text) = &self.0 else {
            return Ok(if inputs.is_null() { Value::map(Map::new()) } else { inputs.clone() });
        };
        let value = |name: &str| inputs.get(name).cloned().or_else(|| Some(scope.node(name)?.output));
        let whole = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if let Some(value) = whole.and_then(value) {
            return Ok(value);
        }
        let mut given = String::new();
        for part in text.split_inclusive('}') {
            let named = part.strip_suffix('}').and_then(|part| part.split_once('{'));
            match named.and_then(|(before, name)| Some((before, value(name)?))) {
                Some((before, value)) => {
                    given.push_str(before);
                    given.push_str(value.as_str().unwrap_or_default());
                }
                None => given.push_str(part),
            }
        }
        Ok(Value::from(given))
    }
}
