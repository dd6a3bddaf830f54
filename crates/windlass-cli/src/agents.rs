//! Models, tools and permission policy available to the agents of `windlass run`.

use std::collections::BTreeMap;
use std::sync::{Arc, Once};

use windlass_agents::chat::{HeaderSource, ModelService, Prices, TokenPrice};
use windlass_agents::{
    AGENT_MODEL, AgentFiles, AgentModelTool, AgentToolCaller, BashOptions, CallPattern, ChatOptions, DefaultRule,
    McpServer, PermissionPolicy, ProtectedPaths, TerminalPrompt, ToolRegistry, ToolSpec,
};
use windlass_core::ErrorInfo;
use windlass_errors::for_run_error;
use windlass_runtime::{Tool, ToolCall, ToolFuture, Tools};
use windlass_syntax::{did_you_mean, format_names, nearest};
use windlass_tools::{HttpOptions, HttpTool, Outbound, Secret};
use windlass_zenflow::{ModelProblem, Models};

use crate::args::PermissionArgs;
use crate::config::CliSettings;
use crate::failure::CliFailure;
use crate::tools::variable;

/// The tools that are always available, in addition to those of MCP servers.
pub(crate) const BUILT_IN_TOOLS: [&str; 6] = ["read", "write", "glob", "grep", "bash", "http"];

/// Returns the model scripts that the operator chose.
///
/// A script is a file on this machine. Where definitions are not trusted, only the operator's own choice may name
/// one.
pub(crate) fn operator_scripts(settings: &CliSettings) -> Vec<String> {
    let chosen = [settings.agent_options.model.clone(), default_model(settings)];
    chosen.into_iter().flatten().filter_map(|model| model.strip_prefix("scripted:").map(str::to_owned)).collect()
}

/// Environment variables that name the default model.
const MODEL_VARIABLES: [&str; 2] = ["WINDLASS_MODEL", "ZENFLOW_MODEL"];

/// The code of an error that neither a key nor an address would fix.
const NO_SUCH_MODEL: &str = "NoSuchModel";

/// The prefix of the models of `[model]`.
const DEFAULT_PREFIX: &str = "default";

/// Returns the model to use when neither the file nor the command line names one.
pub(crate) fn default_model(settings: &CliSettings) -> Option<String> {
    let model = &settings.model;
    let own = model.model.clone().map(|name| match model.base_url.is_some() && is_bare(&name) {
        // The model is served at this section's `base_url`, whatever provider its name suggests.
        true => format!("{DEFAULT_PREFIX}/{name}"),
        false => name,
    });
    own.or_else(|| MODEL_VARIABLES.into_iter().find_map(variable))
}

fn is_bare(name: &str) -> bool {
    !name.contains('/') && !name.starts_with("scripted:")
}

/// Model prices in the form that the workflow compiler takes.
pub(crate) fn prices(settings: &CliSettings) -> BTreeMap<String, windlass_zenflow::ModelPrice> {
    let price = |price: &TokenPrice| windlass_zenflow::ModelPrice {
        input: price.input,
        output: price.output,
        cache_read: price.cache_read.unwrap_or(price.input),
        cache_write: price.cache_write.unwrap_or(price.input),
    };
    settings.prices.iter().map(|(name, cost)| (name.clone(), price(cost))).collect()
}

/// The models that this configuration can reach.
pub(crate) struct ModelCatalog {
    options: ChatOptions,
    /// False when a file is only checked: the key may be missing on this machine.
    will_run: bool,
}

impl ModelCatalog {
    pub(crate) fn from_settings(settings: &CliSettings) -> ModelCatalog {
        ModelCatalog { options: chat_options(settings), will_run: settings.agent_options.will_run }
    }

    /// The catalog of a server. Scripts are files of the server: no definition may name one, and none is opened to
    /// check.
    pub(crate) fn for_server(settings: &CliSettings) -> ModelCatalog {
        let options = ChatOptions { scripts: Some(operator_scripts(settings)), ..chat_options(settings) };
        ModelCatalog { options, will_run: true }
    }
}

impl Models for ModelCatalog {
    fn problem(&self, model: Option<&str>) -> Option<ModelProblem> {
        let error = self.options.check(model).err()?;
        // The provider of a bare name may be configured where the workflow runs.
        let is_prefixed = model.is_some_and(|model| model.contains('/'));
        let is_reported = self.will_run || (is_prefixed && &*error.code == NO_SUCH_MODEL);
        is_reported.then(|| ModelProblem { message: error.message.to_string(), hint: error_hint(&error) })
    }
}

/// Checks the model that the command line names for everything.
pub(crate) fn check_model(settings: &CliSettings) -> Result<(), CliFailure> {
    let Some(model) = settings.agent_options.model.as_deref() else { return Ok(()) };
    chat_options(settings).check(Some(model)).map_err(|error| {
        let hint = error_hint(&error);
        let code = for_run_error(&error.code, &error.kind);
        CliFailure::usage(error.message.to_string()).code(code).location("--model").hint(hint)
    })
}

fn error_hint(error: &ErrorInfo) -> String {
    error.hint.as_ref().map_or_else(|| "see docs/models.md".to_owned(), |hint| hint.to_string())
}

/// The settings in which agents of a run and agents of a server differ.
pub(crate) struct AgentToolOptions {
    pub permissions: PermissionArgs,
    /// A user at a terminal can be asked for permission.
    pub has_terminal: bool,
    /// The addresses that models may call over HTTP. The model chooses these addresses, not the author of the file.
    pub outbound: Outbound,
    /// The scripts that may be used as models; `None` allows all.
    pub scripts: Option<Vec<String>>,
}

impl AgentToolOptions {
    pub(crate) fn for_run(settings: &CliSettings) -> AgentToolOptions {
        let permissions = settings.agent_options.permissions.clone();
        AgentToolOptions {
            permissions,
            has_terminal: TerminalPrompt::is_available(),
            outbound: Outbound::default(),
            scripts: None,
        }
    }
}

pub(crate) fn add_to(
    tools: Tools,
    settings: &CliSettings,
    http: HttpTool,
    tool_options: &AgentToolOptions,
) -> Result<Tools, CliFailure> {
    let registry = Arc::new(registry(settings, &http, &tool_options.outbound)?);
    let options = ChatOptions { scripts: tool_options.scripts.clone(), ..chat_options(settings) };
    let urls = options.configured_urls();
    let chat = AgentModelTool::new(options, http.with_trusted(urls.iter().map(String::as_str)), registry.clone());
    Ok(tools
        .with(AGENT_MODEL.name, chat)
        .with("agent_tool", HardenedTool(Arc::new(AgentToolCaller::new(registry, Arc::new(policy(tool_options)?)))))
        .with("agent_files", AgentFiles::with_limits(&settings.limits)))
}

/// The specifications of the built-in tools as models see them.
pub(crate) fn specs() -> Result<Vec<ToolSpec>, CliFailure> {
    let http = HttpTool::new(HttpOptions::default());
    let registry = ToolRegistry::builder().file_tools().bash(BashOptions::with_environment([])).http(http).build();
    let registry = registry.map_err(|error| CliFailure::usage(error.message.to_string()))?;
    Ok(registry.local_specs())
}

fn registry(settings: &CliSettings, http: &HttpTool, outbound: &Outbound) -> Result<ToolRegistry, CliFailure> {
    let limits = &settings.process_limits;
    let (outbound, destinations) = (outbound.clone(), settings.destinations.clone());
    let models = HttpOptions { outbound, destinations, ..HttpOptions::from_limits(limits) };
    let urls = settings.mcp.iter().filter_map(|server| server.url());
    let bash = BashOptions::with_environment(variables());
    let mut registry = ToolRegistry::builder_with_limits(limits)
        .protect(protected_paths(settings))
        .secrets(secrets(settings))
        .file_tools()
        .bash(bash)
        .http(HttpTool::new(models))
        .mcp_http(http.with_trusted(urls));
    for mcp in &settings.mcp {
        let server = mcp.to_server(variable)?;
        registry = registry.mcp(McpServer { connect_timeout: limits.max_mcp_connect_time, ..server });
    }
    registry.build().map_err(|error| CliFailure::usage(error.message.to_string()))
}

/// The store, which agents must not access, and the settings and source files, which they must not write: otherwise a
/// model could run arbitrary code or falsify a run's history.
fn protected_paths(settings: &CliSettings) -> ProtectedPaths {
    let kept = settings.file.clone().into_iter().chain(settings.agent_options.sources.paths()).collect();
    let secret = settings.store.iter().chain(&settings.credential_key_file).cloned().collect();
    ProtectedPaths { no_access: secret, read_only: kept }
}

/// The secrets that the settings read from the environment for models, whatever the variables are called. The
/// registry already knows those of MCP servers.
pub(crate) fn secrets(settings: &CliSettings) -> Vec<Secret> {
    let headers = settings.models.iter().flat_map(|service| &service.headers);
    let headers = headers.filter_map(|(_, text)| match text {
        HeaderSource::Variable(name) => Some(name),
        HeaderSource::Text(_) => None,
    });
    let keys = settings.models.iter().filter_map(|service| service.key_env.as_ref());
    let names = headers.chain(keys).chain(&settings.model.key_env);
    names.filter_map(|name| variable(name)).map(Secret::new).collect()
}

/// A tool that makes this process unreadable for other processes of the same user before its first call: programs that
/// the tool starts must not read the process's environment and memory. This does not stop a process with full
/// privileges, such as root.
pub(crate) struct HardenedTool(pub Arc<dyn Tool>);

impl Tool for HardenedTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // Secrets are redacted from results even on systems without this protection.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
        });
        self.0.call(call)
    }
}

/// The environment variables whose names and values are valid UTF-8.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

pub(crate) fn chat_options(settings: &CliSettings) -> ChatOptions {
    let model = &settings.model;
    let own = model.base_url.as_ref().map(|base_url| ModelService {
        name: DEFAULT_PREFIX.to_owned(),
        base_url: Some(base_url.clone()),
        key_env: model.key_env.clone(),
        ..ModelService::default()
    });
    ChatOptions {
        default_model: default_model(settings),
        default_provider: model.provider.clone().or_else(|| own.as_ref().map(|own| own.name.clone())),
        services: settings.models.iter().cloned().chain(own).collect(),
        prices: Prices::new(settings.prices.iter().map(|(name, price)| (name.clone(), *price))),
        deltas: settings.agent_options.stream,
        variables: crate::credentials::model_variables(settings),
        ..ChatOptions::with_limits(&settings.process_limits)
    }
}

fn policy(tool_options: &AgentToolOptions) -> Result<PermissionPolicy, CliFailure> {
    let permissions = &tool_options.permissions;
    let otherwise = match permissions {
        PermissionArgs { yolo: true, .. } => DefaultRule::Allow,
        PermissionArgs { sandbox: true, .. } => DefaultRule::Sandbox,
        _ if tool_options.has_terminal => DefaultRule::Ask,
        _ => DefaultRule::Deny,
    };
    Ok(PermissionPolicy::new(otherwise)
        .allow(patterns("--allow", &permissions.allow)?)
        .deny(patterns("--deny", &permissions.deny)?))
}

/// Warns about tools named by `--allow` or `--deny` that do not exist: most likely a typo, which permits or forbids
/// nothing.
pub(crate) fn unknown_permissions(settings: &CliSettings) -> Vec<String> {
    let permissions = &settings.agent_options.permissions;
    let flags = [("--allow", &permissions.allow), ("--deny", &permissions.deny)];
    let named = flags.iter().flat_map(|(flag, texts)| texts.iter().map(move |text| (flag, text)));
    let warnings = named.filter_map(|(flag, text)| {
        let hint = unknown_tool(text.parse::<CallPattern>().ok()?.tool(), settings)?;
        Some(format!("warning: {flag} {text}: there is no such tool\n  hint: {hint}"))
    });
    warnings.collect()
}

/// A hint for a name that no tool can have. The tools of an MCP server are known only after it was asked.
fn unknown_tool(name: &str, settings: &CliSettings) -> Option<String> {
    if name.contains('*') {
        return None;
    }
    let servers = || settings.mcp.iter().map(|server| server.name.as_str());
    match name.split_once("__") {
        _ if BUILT_IN_TOOLS.contains(&name) => None,
        Some((server, _)) if servers().any(|known| known == server) => None,
        Some((server, tool)) => Some(match nearest(server, servers()) {
            Some(near) => format!("did you mean `{near}__{tool}`?"),
            None => format!("no server `{server}` is named under [mcp] in windlass.toml"),
        }),
        None => Some(did_you_mean(name, BUILT_IN_TOOLS).unwrap_or_else(|| {
            format!("there are {}; a server's tools are named `server__tool`", format_names(BUILT_IN_TOOLS))
        })),
    }
}

fn patterns(flag: &str, texts: &[String]) -> Result<Vec<CallPattern>, CliFailure> {
    let parsed = |text: &String| {
        text.parse::<CallPattern>().map_err(|error| {
            CliFailure::usage(format!("{flag} {text}: {error}")).hint("name a tool: bash, or bash(git *)")
        })
    };
    texts.iter().map(parsed).collect()
}
