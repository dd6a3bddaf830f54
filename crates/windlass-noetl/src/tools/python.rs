//! `kind: python`. A template in code becomes a variable, so no value can break out of a text.

mod source;

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{ObjectReader, Span, SpannedKey, SyntaxNode, SyntaxNodeKind, expect_text};

use super::TaskInputs;
use super::http::text;
use crate::compiler::NoetlCompiler;
use crate::form::TaskWork;
use crate::tasks::overlay_object;
use crate::{codes, expr};

impl NoetlCompiler<'_> {
    pub(crate) fn python(&mut self, inputs: &mut TaskInputs, span: Span) -> Option<TaskWork> {
        let code = inputs.object.take("code");
        if let Some((key, _)) = inputs.object.take_entry("script") {
            let hint = "write the code here, or run the file with `shell`";
            self.error(codes::NOT_SUPPORTED, key.span, "`script` is not supported", hint);
        }
        if let Some((key, node)) = inputs.object.take_entry("auth")
            && node.as_map().is_none_or(|entries| !entries.is_empty())
        {
            let hint = "use a task of kind `postgres` or `http` for the call that needs the credential";
            self.error(codes::NOT_SUPPORTED, key.span, "code gets no credentials", hint);
        }
        let libs = self.libs(inputs);
        let own = self.one_of(inputs, &["input", "args"]).map(|(_, node)| node);
        let given = match (inputs.step_input, own) {
            (Some(given), Some(own)) => Some(overlay_object(given, own)),
            (given, own) => own.or(given).cloned(),
        };
        self.input_timeout(inputs);
        let Some(code) = code else {
            self.missing_input("python", "code", span);
            return None;
        };
        let written = &expect_text(code, "`code`", &mut self.diagnostics)?.text;
        let (source, given) = self.code(written, code, given);
        let mut entries = vec![("code", text(expr::literal_text(&source), code.span))];
        entries.extend(given.map(|given| ("args", given)));
        entries.extend(libs.map(|libs| ("libs", libs)));
        let input = SyntaxNode::object(inputs.span, entries);
        self.effect("python", span, &input)
    }

    /// Replaces templates and `context` in the code by variables, and returns the code and its input.
    fn code(&mut self, written: &str, code: &SyntaxNode, given: Option<SyntaxNode>) -> (String, Option<SyntaxNode>) {
        let span = code.span;
        let span_at = |range: &std::ops::Range<usize>| match &code.kind {
            SyntaxNodeKind::Str(text) => text.span_of(range.clone(), span),
            _ => span,
        };
        let given = given.filter(|given| !matches!(given.kind, SyntaxNodeKind::Null));
        let found = source::scan(written);
        for range in &found.in_texts {
            let message = format!(
                "a template inside a string literal of the code is not evaluated: `{}`",
                &written[range.clone()]
            );
            let hint = "pass the value under `input`, and build the string in the code";
            self.no_effect(span_at(range), message, hint);
        }
        let names: Vec<String> =
            given.iter().filter_map(SyntaxNode::as_map).flatten().map(|(key, _)| key.text.clone()).collect();
        let wants_context = found.words.contains("context") && !names.iter().any(|name| name == "context");
        if found.templates.is_empty() && !wants_context {
            return (written.to_owned(), given);
        }
        let mut entries: Vec<(SpannedKey, SyntaxNode)> = match &given {
            None => Vec::new(),
            Some(SyntaxNode { kind: SyntaxNodeKind::Map(entries), .. }) => entries.clone(),
            Some(other) => {
                let hint = "write `input` as an object";
                self.no_effect(other.span, "templates in code need an `input` with names", hint);
                return (written.to_owned(), given);
            }
        };
        let mut add =
            |name: String, value: String, span| entries.push((SpannedKey { text: name, span }, text(value, span)));
        let (mut source, mut copied) = (String::new(), 0);
        for (index, range) in found.templates.iter().enumerate() {
            let name = format!("_template_{}", index + 1);
            source.push_str(&written[copied..range.start]);
            source.push_str(&name);
            copied = range.end;
            add(name, written[range.clone()].to_owned(), span_at(range));
        }
        source.push_str(&written[copied..]);
        if wants_context {
            let value = self.context_template();
            entries.push((SpannedKey { text: "context".to_owned(), span }, text(value, span)));
        }
        (source, Some(SyntaxNode::new(span, SyntaxNodeKind::Map(entries))))
    }

    /// Returns the value of `context`, as in earlier versions: the inputs of the run, its variables, the steps that have
    /// ended.
    fn context_template(&self) -> String {
        let workload = self.workload.iter().flat_map(|workload| workload.keys()).filter(|name| plain(name));
        let workload = workload.map(|name| format!("'{name}': workload.{name} | default(none)"));
        let steps = self.steps.keys().filter(|name| plain(name));
        let steps = steps.map(|name| format!("'{name}': {name} | default(none)"));
        let own = ["'workload': workload", "'ctx': ctx", "'execution_id': execution_id"].map(str::to_owned);
        let all: Vec<String> = workload.chain(own).chain(steps).collect();
        format!("{{{{ {{{}}} | present }}}}", all.join(", "))
    }

    /// Reads `libs`: `{np: numpy}` and `{day: {from: datetime, import: date}}` are imports; a list names packages that
    /// must be installed.
    fn libs(&mut self, inputs: &mut TaskInputs) -> Option<SyntaxNode> {
        let (key, node) = inputs.object.take_entry("libs")?;
        match &node.kind {
            SyntaxNodeKind::Map(entries) if entries.is_empty() => None,
            SyntaxNodeKind::Map(entries) => {
                let libs =
                    entries.iter().filter_map(|(alias, lib)| Some((alias.clone(), self.lib(alias, lib)?))).collect();
                Some(SyntaxNode::new(node.span, SyntaxNodeKind::Map(libs)))
            }
            SyntaxNodeKind::Null => None,
            SyntaxNodeKind::List(items) if items.is_empty() => None,
            _ => {
                let hint = "install the packages for the python3 of this machine";
                self.no_effect(key.span, "`libs` installs nothing", hint);
                None
            }
        }
    }

    /// Reads one import: the name of a module, or a part of a module.
    fn lib(&mut self, alias: &SpannedKey, lib: &SyntaxNode) -> Option<SyntaxNode> {
        let found = match &lib.kind {
            SyntaxNodeKind::Map(_) => self.imported_part(lib)?,
            // Only the module's name: it is imported under itself.
            SyntaxNodeKind::Null => text(&alias.text, alias.span),
            _ => match lib.as_str().filter(|module| is_module(module)) {
                Some(module) => text(module, lib.span),
                None => {
                    let message = format!("{} is not a module name", lib.describe());
                    self.error(codes::BAD_VALUE, lib.span, message, LIBS_HINT);
                    return None;
                }
            },
        };
        // `import a.b` binds `a`; under another name a module needs a plain one.
        let is_import = found.as_str() == Some(&alias.text) && is_module(&alias.text);
        if !plain(&alias.text) && !is_import {
            let message = format!("`{}` cannot be a name in the code", alias.text);
            self.error(codes::BAD_VALUE, alias.span, message, LIBS_HINT);
            return None;
        }
        Some(found)
    }

    /// Reads `{from, import}`, which is `from module import name`.
    fn imported_part(&mut self, node: &SyntaxNode) -> Option<SyntaxNode> {
        let mut object = ObjectReader::read(node, "a library", &mut self.diagnostics)?;
        let (module, part) = (object.take("from"), object.take("import"));
        object.finish(codes::UNKNOWN_KEY, "a library", &mut self.diagnostics);
        let (Some(module), Some(part)) = (module, part) else {
            let missing = if module.is_none() { "from" } else { "import" };
            self.error(codes::MISSING_KEY, node.span, format!("this library has no `{missing}`"), LIBS_HINT);
            return None;
        };
        for (what, found, fits) in [
            ("a module name", module, module.as_str().is_some_and(is_module)),
            ("the name of a part of a module", part, part.as_str().is_some_and(plain)),
        ] {
            if !fits {
                let message = format!("{} is not {what}", found.describe());
                self.error(codes::BAD_VALUE, found.span, message, LIBS_HINT);
                return None;
            }
        }
        Some(SyntaxNode::object(node.span, [("from", module.clone()), ("import", part.clone())]))
    }
}

const LIBS_HINT: &str = "write `libs: {np: numpy}`, or `libs: {day: {from: datetime, import: date}}`";

fn is_module(name: &str) -> bool {
    name.split('.').all(plain)
}

fn plain(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_alphabetic() || c == '_') && letters.all(|c| c.is_alphanumeric() || c == '_')
}
