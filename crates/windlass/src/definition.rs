//! Compiles definitions of other dialects for an embedded engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::plan::{Action, Effect, NodeKind, Plan, ToolName};
use windlass_dialect::{
    CompileContext, CompileProblems, Dialect, DialectOptions, DialectRegistry, DiskFiles, RegisteredNames, RustDialect,
};
use windlass_runtime::Tools;
use windlass_syntax::{Colour, SourceText};
use windlass_value::Language;

use crate::Error;

/// The tool that calls models.
const AGENT_MODEL: &str = "agent_model";

/// The dialects of an engine and their compile options.
#[derive(Clone)]
pub(crate) struct Dialects {
    pub registry: DialectRegistry,
    pub options: DialectOptions,
}

impl Dialects {
    /// Returns the dialects that this crate was built with.
    pub(crate) fn built_in() -> Dialects {
        let registry = DialectRegistry::new().with(RustDialect);
        #[cfg(feature = "noetl")]
        let registry = registry.with(windlass_noetl::Noetl);
        #[cfg(feature = "zenflow")]
        let registry = registry.with(windlass_zenflow::Zenflow);
        #[cfg(feature = "loom")]
        let registry = registry.with(windlass_loom::Loom);
        Dialects { registry, options: DialectOptions::default() }
    }

    pub(crate) fn add(&mut self, dialect: impl Dialect + 'static) {
        self.registry = std::mem::take(&mut self.registry).with(dialect);
    }

    /// Returns the expression languages of all plans.
    pub(crate) fn languages(&self) -> Vec<Arc<dyn Language>> {
        let mut languages = self.registry.languages();
        languages.push(Arc::new(windlass_expr::steps::StepsLanguage));
        #[cfg(feature = "zenflow")]
        languages.push(Arc::new(windlass_agents::language::AgentLanguage));
        languages
    }

    /// Lets agents name the tools of this registry, unless the options name others.
    #[cfg(feature = "zenflow")]
    pub(crate) fn offer(&mut self, registry: &windlass_agents::ToolRegistry) {
        let mut options = self.options.get::<windlass_zenflow::ZenflowOptions>().cloned().unwrap_or_default();
        if options.tools.is_empty() {
            options.tools = registry.local_specs().into_iter().map(|spec| spec.name).collect();
        }
        if options.mcp.is_empty() {
            options.mcp = registry.server_names();
        }
        self.options = std::mem::take(&mut self.options).with(options);
    }

    /// Returns the compile context of a definition. A definition from a file may read files of the same directory.
    fn context(&self, name: &str, file: Option<&Path>, environment: &CompileEnvironment) -> CompileContext {
        let mut context = CompileContext {
            limits: environment.limits.clone(),
            name: Some(name.to_owned()),
            tools: environment.tools.clone(),
            registered: environment.registered.clone(),
            options: self.options.clone(),
            ..CompileContext::default()
        };
        if let Some(folder) = file.and_then(|file| folder_of(file).canonicalize().ok()) {
            context.folder = Some(folder);
            context.files = Arc::new(DiskFiles);
        }
        context
    }

    /// Compiles a text in the dialect that it is detected as.
    pub(crate) fn compile(
        &self,
        name: &str,
        text: &str,
        file: Option<&Path>,
        environment: &CompileEnvironment,
    ) -> Result<Plan, Error> {
        if self.registry.names().is_empty() {
            let message = format!("the definition `{name}` cannot be read: no dialect was built in");
            let hint = "turn on the features `loom`, `noetl` or `zenflow` of the crate `windlass`";
            return Err(Error::refused("Definition", format!("{message}; {hint}")));
        }
        let path = file.map_or_else(|| name.to_owned(), |file| file.display().to_string());
        let source = SourceText::new(path, text);
        let refused = |problems: CompileProblems| {
            let own = problems.own.render(&source, Colour::Never);
            let others = problems.included_files.iter().map(|(source, found)| found.render(source, Colour::Never));
            let all = std::iter::once(own).chain(others).collect::<Vec<_>>().join("\n");
            Error::refused("Definition", format!("the definition `{name}` cannot be used:\n{all}"))
        };
        let context = self.context(name, file, environment);
        let compiled = self.registry.compile(&source, None, &context).map_err(refused)?;
        if let Some((missing, _)) = compiled.calls.first() {
            let message = format!("the definition `{name}` calls `{missing}`, which this engine does not have");
            return Err(Error::refused(
                "Definition",
                format!("{message}: add it with `.definition(\"{missing}\", …)`"),
            ));
        }
        let mut plan = compiled.plan;
        if uses_models(&plan) && !environment.has_models {
            let message = format!("the definition `{name}` has agents, and this engine has no models for them");
            return Err(Error::refused("Definition", format!("{message}: add them with `.agents(…)`")));
        }
        plan.name = name.into();
        Ok(plan)
    }
}

/// Everything that a definition may refer to, and the limits that it is checked against.
pub(crate) struct CompileEnvironment {
    tools: Vec<String>,
    registered: RegisteredNames,
    limits: windlass_core::Limits,
    has_models: bool,
}

impl CompileEnvironment {
    pub(crate) fn new(
        tools: &Tools,
        functions: &[String],
        definitions: Vec<String>,
        limits: windlass_core::Limits,
    ) -> CompileEnvironment {
        let own = |name: &&str| !functions.iter().any(|one| one == name);
        CompileEnvironment {
            tools: tools.names().filter(own).map(str::to_owned).collect(),
            registered: RegisteredNames { functions: functions.to_vec(), definitions },
            limits,
            has_models: tools.get(AGENT_MODEL).is_some(),
        }
    }
}

fn uses_models(plan: &Plan) -> bool {
    let calls_model = |action: &Action| matches!(action, Action::Effect(Effect { tool: ToolName::Fixed(tool), .. }) if **tool == *AGENT_MODEL);
    plan.nodes.iter().any(|node| match &node.kind {
        NodeKind::Pipeline(pipeline) => pipeline.tasks.iter().any(|task| calls_model(&task.action)),
        _ => false,
    })
}

/// Returns the directory of a file; for a bare file name that is the current one.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
