//! Compiles definitions for registration. Calls are pinned to the newest plans of their names.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::plan::{Action, Effect, NodeKind, Plan, SourceSpan, ToolName};
use windlass_dialect::{CompileContext, CompileProblems, DialectRegistry};
use windlass_server::{CompiledDraft, DefinitionCatalog, DefinitionCompiler, DefinitionDraft, RegisteredVersion};
use windlass_syntax::{Diagnostic, DiagnosticReport, SourceText, Span, nearest};
use windlass_tools::SecretSealer;
use windlass_value::BlobHash;
use windlass_zenflow::ContextFiles;

use super::files::{self, CatalogFiles};
use crate::config::CliSettings;
use crate::dialects::{self, registry};
use crate::project::{NO_SUCH_WORKFLOW, unset_credentials};
use crate::{agent_options, agents};

/// The problem code of a tool that only remote workers run.
const NEEDS_WORKER: &str = "WND-1524";
/// The problem code of a literal secret.
const LITERAL_SECRET: &str = "WND-1522";

/// The problem code of a definition without a name.
pub(crate) const NO_NAME: &str = "WND-1520";
/// The problem code of a text whose own name differs from the name it is registered under.
const OTHER_NAME: &str = "WND-1521";
/// The problem code of a name whose previous version was written in another dialect.
const OTHER_DIALECT: &str = "WND-1523";

/// The name in messages of a text that was registered without a name.
const NAMELESS: &str = "<definition>";

pub(crate) struct CatalogCompiler {
    settings: Arc<CliSettings>,
    /// Tools that the server does not run itself.
    remote: Vec<String>,
    seals: SecretSealer,
}

impl CatalogCompiler {
    /// `remote` names the tools that the server leaves to workers.
    pub(crate) fn new(settings: Arc<CliSettings>, remote: Vec<String>) -> CatalogCompiler {
        let seals = crate::secrets::sealer(&settings);
        CatalogCompiler { settings, remote, seals }
    }
}

impl DefinitionCompiler for CatalogCompiler {
    fn dialects(&self) -> &DialectRegistry {
        registry()
    }

    fn compile(
        &self,
        draft: &DefinitionDraft,
        catalog: &dyn DefinitionCatalog,
    ) -> Result<CompiledDraft, Vec<DiagnosticReport>> {
        let source = SourceText::new(draft.name.as_deref().unwrap_or(NAMELESS), draft.text.as_str());
        let context = compile_context(&self.settings, catalog, draft.name.as_deref());
        let compiled = registry().compile(&source, draft.dialect.as_deref(), &context);
        let compiled = compiled.map_err(|problems| reports(&source, problems))?;
        let mut found = compiled.warnings;
        let mut plan = compiled.plan;
        let own = plan.name.clone();
        match &draft.name {
            // The name given with the request counts, whatever the text calls itself.
            Some(given) => plan.name = given.as_str().into(),
            None if *own == *NAMELESS => found.push(nameless()),
            None => {}
        }
        if let Some(before) = catalog.newest(&plan.name).filter(|before| before.dialect != plan.dialect) {
            found.push(other_dialect(&plan, &before));
        }
        for (name, span) in compiled.calls {
            if own != plan.name && *own == *name {
                found.push(other_name(&own, &plan.name, span));
                continue;
            }
            match self.resolve_call(&name, span, &plan, catalog) {
                Ok(None) => {}
                Ok(Some(pin)) => plan.pins.push((name.into(), pin)),
                Err(problem) => found.push(*problem),
            }
        }
        for (name, sealed) in crate::secrets::seal_defaults(&self.seals, &mut plan) {
            let at = draft.text.find(&format!("\"{name}\"")).unwrap_or(0);
            let message = format!("the parameter `{name}` {}", sealed.problem());
            let problem = Diagnostic::error(LITERAL_SECRET, Span::new(at, at + name.len()), message);
            found.push(problem.with_hint("registered definitions are stored and shown: they must not contain secrets"));
        }
        for (tool, span) in self.remote_tools(&plan) {
            found.push(needs_worker(&tool, span));
        }
        unset_credentials(&source, &self.settings).into_iter().for_each(|warning| found.push(warning));
        let all = CompileProblems { own: found.sorted(), included_files: compiled.included_files };
        match all.own.has_errors() {
            true => Err(reports(&source, all)),
            false => Ok(CompiledDraft { plan, warnings: reports(&source, all) }),
        }
    }
}

impl CatalogCompiler {
    /// Returns the plan of a called definition, or `None` for a definition that calls itself by name: the engine
    /// resolves that.
    fn resolve_call(
        &self,
        name: &str,
        span: Span,
        plan: &Plan,
        catalog: &dyn DefinitionCatalog,
    ) -> Result<Option<BlobHash>, Box<Diagnostic>> {
        if *plan.name == *name {
            return Ok(None);
        }
        let problem = |message: String, hint: String| {
            Box::new(Diagnostic::error(NO_SUCH_WORKFLOW, span, message).with_hint(hint))
        };
        let Some(found) = files::find(catalog, name) else {
            let names = catalog.names();
            let hint = match nearest(name, names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "register it first: called definitions come from the catalog".to_owned(),
            };
            return Err(problem(format!("there is no registered definition `{name}`"), hint));
        };
        if self.calls_transitively(&found, &plan.name, catalog, &mut BTreeSet::new()) {
            let hint = "a definition can call itself by its own name; a cycle of several definitions cannot be pinned";
            return Err(problem(
                format!("the definition `{name}` calls `{}` again, directly or indirectly", plan.name),
                hint.to_owned(),
            ));
        }
        Ok(Some(found.plan))
    }

    /// Returns whether a registered definition calls another, directly or through others.
    fn calls_transitively(
        &self,
        from: &RegisteredVersion,
        target: &str,
        catalog: &dyn DefinitionCatalog,
        seen: &mut BTreeSet<Arc<str>>,
    ) -> bool {
        if !seen.insert(from.name.clone()) {
            return false;
        }
        let source = SourceText::new(&*from.name, &*from.source);
        let context = compile_context(&self.settings, catalog, Some(&from.name));
        // A definition that no longer compiles keeps the calls pinned when it did, so it cannot call the new one.
        let Ok(compiled) = registry().compile(&source, Some(&*from.dialect), &context) else { return false };
        compiled.calls.iter().any(|(name, _)| {
            name == target
                || files::find(catalog, name)
                    .is_some_and(|next| *next.name == *target || self.calls_transitively(&next, target, catalog, seen))
        })
    }

    /// Returns each tool that the server does not run itself, with its first use.
    fn remote_tools(&self, plan: &Plan) -> Vec<(Arc<str>, SourceSpan)> {
        let mut found: Vec<(Arc<str>, SourceSpan)> = Vec::new();
        for node in &plan.nodes {
            let NodeKind::Pipeline(pipeline) = &node.kind else { continue };
            for task in &pipeline.tasks {
                let Action::Effect(Effect { tool: ToolName::Fixed(tool), .. }) = &task.action else { continue };
                let is_new = !found.iter().any(|(known, _)| known == tool);
                if is_new && self.remote.iter().any(|off| **off == **tool) {
                    found.push((tool.clone(), node.span));
                }
            }
        }
        found
    }
}

fn nameless() -> Diagnostic {
    let problem = Diagnostic::error(NO_NAME, Span::at(0), "the definition has no name");
    problem.with_hint("pass `name` with `source`, or write it into the text")
}

fn other_dialect(plan: &Plan, before: &RegisteredVersion) -> Diagnostic {
    let (name, version) = (&plan.name, before.version);
    let message = format!("version {version} of `{name}` is {}; this one is {}", before.dialect, plan.dialect);
    Diagnostic::warning(OTHER_DIALECT, Span::at(0), message).with_hint(
        "register a different definition under a different name: pass `name` with `source` (`windlass register --name`)",
    )
}

fn other_name(own: &str, given: &str, span: Span) -> Diagnostic {
    let message = format!("this calls the definition by its own name, `{own}`, but it is registered as `{given}`");
    Diagnostic::error(OTHER_NAME, span, message).with_hint(format!("call `{given}` here, or register it as `{own}`"))
}

fn needs_worker(tool: &str, span: SourceSpan) -> Diagnostic {
    let span = Span::new(span.start as usize, span.end as usize);
    let message = match tool {
        // Agents without a tool list may call every tool, and most call none: the step starts immediately.
        "agent_tool" => "this server does not run the tools of agents itself: if the model calls one, that call waits \
                         until a worker takes it"
            .to_owned(),
        _ => format!("this server does not run `{tool}` itself: the step waits until a worker takes it"),
    };
    Diagnostic::warning(NEEDS_WORKER, span, message).with_hint(format!(
        "start `windlass worker` on a machine that may run it; or put \"{tool}\" into `tools` under [server] in \
         windlass.toml"
    ))
}

fn reports(source: &SourceText, problems: CompileProblems) -> Vec<DiagnosticReport> {
    let own = problems.own.reports(source);
    let others = problems.included_files.iter().flat_map(|(source, found)| found.reports(source));
    own.into_iter().chain(others).collect()
}

/// The compile context of a registered definition: the operator's settings and the catalog, without any file system.
fn compile_context(settings: &CliSettings, catalog: &dyn DefinitionCatalog, name: Option<&str>) -> CompileContext {
    let workdir = settings.server.workdir.clone();
    let refused = || {
        let hint = "set `workdir` under [server] in windlass.toml: such files are read from it";
        ContextFiles::Refused(hint.to_owned())
    };
    let agents = windlass_zenflow::ZenflowOptions {
        work_folder: workdir.clone(),
        context_files: workdir.map_or_else(refused, ContextFiles::In),
        models: Arc::new(agents::ModelCatalog::for_server(settings)),
        strict_files: true,
        ..agent_options::compile_options(settings)
    };
    CompileContext {
        name: Some(name.unwrap_or(NAMELESS).to_owned()),
        settings: settings.app_settings.clone(),
        folder: Some(files::folder_of(name)),
        files: Arc::new(CatalogFiles::from_catalog(catalog)),
        ..dialects::context(settings, agents)
    }
}
