//! What agents of `windlass run` can do: models, tools, and who is asked before they use them.

use std::collections::BTreeMap;
use std::sync::{Arc, Once};

use windlass_agents::chat::{HeaderText, ModelService, Price, Prices};
use windlass_agents::{
    AGENT_MODEL, AgentFiles, AgentModelTool, AgentToolCaller, BashOptions, ChatOptions, McpServer, DefaultRule, CallPattern,
    PermissionPolicy, Protected, Registry, TerminalPrompt, ToolSpec,
};
use windlass_core::ErrorInfo;
use windlass_runtime::{Tool, ToolCall, ToolFuture, Tools};
use windlass_syntax::{did_you_mean, list_of, nearest};
use windlass_tools::{HttpOptions, HttpTool, Outbound, Secret};
use windlass_zenflow::{ModelProblem, Models};

use crate::args::Permissions;
use crate::config::Settings;
use crate::failure::Failure;
use crate::tools::variable;

/// The tools that are always there, beside those of servers.
pub(crate) const BUILT_IN: [&str; 6] = ["read", "write", "glob", "grep", "bash", "http"];

/// A script is a file of this machine: where definitions are not trusted, only the operator's own choice is asked.
pub(crate) fn own_scripts(settings: &Settings) -> Vec<String> {
    let chosen = [settings.flow.model.clone(), default_model(settings)];
    chosen.into_iter().flatten().filter_map(|model| model.strip_prefix("scripted:").map(str::to_owned)).collect()
}

/// Variables that name the model for whoever names none.
const MODEL_VARIABLES: [&str; 2] = ["WINDLASS_MODEL", "ZENFLOW_MODEL"];

/// The code of an error that no key and no address would mend.
const NO_SUCH_MODEL: &str = "NoSuchModel";

/// The prefix of the models of `[model]`.
const DEFAULT: &str = "default";

/// The model where neither the file nor the command line says anything.
pub(crate) fn default_model(settings: &Settings) -> Option<String> {
    let model = &settings.model;
    let own = model.model.clone().map(|name| match model.base_url.is_some() && is_bare(&name) {
        // It is where the same section says, whatever its name suggests.
        true => format!("{DEFAULT}/{name}"),
        false => name,
    });
    own.or_else(|| MODEL_VARIABLES.into_iter().find_map(variable))
}

fn is_bare(name: &str) -> bool {
    !name.contains('/') && !name.starts_with("scripted:")
}

/// What models cost, for those who compile workflows.
pub(crate) fn prices(settings: &Settings) -> BTreeMap<String, windlass_zenflow::Price> {
    let price = |price: &Price| windlass_zenflow::Price {
        input: price.input,
        output: price.output,
        cache_read: price.cache_read.unwrap_or(price.input),
        cache_write: price.cache_write.unwrap_or(price.input),
    };
    settings.prices.iter().map(|(name, cost)| (name.clone(), price(cost))).collect()
}

/// Which models can be asked.
pub(crate) struct KnownModels {
    options: ChatOptions,
    /// Whoever only checks a file may have no key where it runs.
    runs: bool,
}

impl KnownModels {
    pub(crate) fn of(settings: &Settings) -> KnownModels {
        KnownModels { options: chat_options(settings), runs: settings.flow.runs }
    }

    /// Scripts are files of the server: no definition names one, and none is opened to look.
    pub(crate) fn of_server(settings: &Settings) -> KnownModels {
        let options = ChatOptions { scripts: Some(own_scripts(settings)), ..chat_options(settings) };
        KnownModels { options, runs: true }
    }
}

impl Models for KnownModels {
    fn problem(&self, model: Option<&str>) -> Option<ModelProblem> {
        let error = self.options.check(model).err()?;
        // Whose a bare name is may be said where the workflow runs.
        let is_prefixed = model.is_some_and(|model| model.contains('/'));
        let told = self.runs || (is_prefixed && &*error.code == NO_SUCH_MODEL);
        told.then(|| ModelProblem { message: error.message.to_string(), hint: hint(&error) })
    }
}

/// The model that the command line names for everything.
pub(crate) fn check_model(settings: &Settings) -> Result<(), Failure> {
    let Some(model) = settings.flow.model.as_deref() else { return Ok(()) };
    chat_options(settings).check(Some(model)).map_err(|error| {
        let hint = hint(&error);
        Failure::usage(error.message.to_string()).place("--model").hint(hint)
    })
}

fn hint(error: &ErrorInfo) -> String {
    error.hint.as_ref().map_or_else(|| "docs/models.md has all of it".to_owned(), |hint| hint.to_string())
}

/// What is different for agents of a server.
pub(crate) struct Manners {
    pub permissions: Permissions,
    /// Somebody can be asked.
    pub terminal: bool,
    /// What models may call over HTTP. They choose these addresses, not whoever wrote the file.
    pub outbound: Outbound,
    /// The scripts that may be models; none: all.
    pub scripts: Option<Vec<String>>,
}

impl Manners {
    pub(crate) fn of_run(settings: &Settings) -> Manners {
        let permissions = settings.flow.permissions.clone();
        Manners { permissions, terminal: TerminalPrompt::is_there(), outbound: Outbound::default(), scripts: None }
    }
}

pub(crate) fn add_to(tools: Tools, settings: &Settings, http: HttpTool, manners: &Manners) -> Result<Tools, Failure> {
    let registry = Arc::new(registry(settings, &http, &manners.outbound)?);
    let options = ChatOptions { scripts: manners.scripts.clone(), ..chat_options(settings) };
    let urls = options.configured_urls();
    let chat = AgentModelTool::new(options, http.with_trusted(urls.iter().map(String::as_str)), registry.clone());
    Ok(tools
        .with(AGENT_MODEL.name, chat)
        .with("agent_tool", Closed(Arc::new(AgentToolCaller::new(registry, Arc::new(policy(manners)?)))))
        .with("agent_files", AgentFiles::within(&settings.limits)))
}

/// What models are told of the tools that are always there.
pub(crate) fn specs() -> Result<Vec<ToolSpec>, Failure> {
    let http = HttpTool::new(HttpOptions::default());
    let registry = Registry::builder().file_tools().bash(BashOptions::with_environment([])).http(http).build();
    let registry = registry.map_err(|error| Failure::usage(error.message.to_string()))?;
    Ok(registry.own_specs())
}

fn registry(settings: &Settings, http: &HttpTool, outbound: &Outbound) -> Result<Registry, Failure> {
    let limits = &settings.process_limits;
    let models = HttpOptions { outbound: outbound.clone(), ..HttpOptions::from_limits(limits) };
    let urls = settings.mcp.iter().filter_map(|server| server.url());
    let bash = BashOptions::with_environment(variables());
    let mut registry = Registry::builder_within(limits)
        .protect(protected(settings))
        .secrets(secrets(settings))
        .file_tools()
        .bash(bash)
        .http(HttpTool::new(models))
        .mcp_http(http.with_trusted(urls));
    for mcp in &settings.mcp {
        let server = mcp.server(variable)?;
        registry = registry.mcp(McpServer { connect_timeout: limits.max_mcp_connect_time, ..server });
    }
    registry.build().map_err(|error| Failure::usage(error.message.to_string()))
}

/// Whoever writes these has the program run what they like, or tells it another past.
fn protected(settings: &Settings) -> Protected {
    let kept = settings.file.clone().into_iter().chain(settings.flow.sources.paths()).collect();
    Protected { closed: settings.store.clone().into_iter().collect(), kept }
}

/// What the settings take from the environment for models, whatever the variables are called. Those of MCP servers are
/// known to the registry.
pub(crate) fn secrets(settings: &Settings) -> Vec<Secret> {
    let headers = settings.models.iter().flat_map(|service| &service.headers);
    let headers = headers.filter_map(|(_, text)| match text {
        HeaderText::Variable(name) => Some(name),
        HeaderText::Text(_) => None,
    });
    let keys = settings.models.iter().filter_map(|service| service.key_env.as_ref());
    let names = headers.chain(keys).chain(&settings.model.key_env);
    names.filter_map(|name| variable(name)).map(Secret::new).collect()
}

/// Before the first call this process is closed to others of the same user: programs that the tool starts must not read
/// its environment and its memory. Whoever has started it with all rights is not kept from it.
pub(crate) struct Closed(pub Arc<dyn Tool>);

impl Tool for Closed {
    fn call(&self, call: ToolCall) -> ToolFuture {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // Where it cannot be done there is still what is struck out of answers.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
        });
        self.0.call(call)
    }
}

/// The environment, as far as it is text.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn chat_options(settings: &Settings) -> ChatOptions {
    let model = &settings.model;
    let own = model.base_url.as_ref().map(|base_url| ModelService {
        name: DEFAULT.to_owned(),
        base_url: Some(base_url.clone()),
        key_env: model.key_env.clone(),
        ..ModelService::default()
    });
    ChatOptions {
        default_model: default_model(settings),
        default_provider: model.provider.clone().or_else(|| own.as_ref().map(|own| own.name.clone())),
        services: settings.models.iter().cloned().chain(own).collect(),
        prices: Prices::new(settings.prices.iter().map(|(name, price)| (name.clone(), *price))),
        deltas: settings.flow.stream,
        variables: Arc::new(variable),
        ..ChatOptions::within(&settings.process_limits)
    }
}

fn policy(manners: &Manners) -> Result<PermissionPolicy, Failure> {
    let permissions = &manners.permissions;
    let otherwise = match permissions {
        Permissions { yolo: true, .. } => DefaultRule::Allow,
        Permissions { sandbox: true, .. } => DefaultRule::Sandbox,
        _ if manners.terminal => DefaultRule::Ask,
        _ => DefaultRule::Deny,
    };
    Ok(PermissionPolicy::new(otherwise)
        .allow(patterns("--allow", &permissions.allow)?)
        .deny(patterns("--deny", &permissions.deny)?))
}

/// What `--allow` and `--deny` name and nobody has is most likely a slip, which permits nothing or forbids nothing.
pub(crate) fn unknown_permissions(settings: &Settings) -> Vec<String> {
    let permissions = &settings.flow.permissions;
    let flags = [("--allow", &permissions.allow), ("--deny", &permissions.deny)];
    let named = flags.iter().flat_map(|(flag, texts)| texts.iter().map(move |text| (flag, text)));
    let warnings = named.filter_map(|(flag, text)| {
        let hint = unknown_tool(text.parse::<CallPattern>().ok()?.tool(), settings)?;
        Some(format!("warning: {flag} {text}: there is no such tool\n  hint: {hint}"))
    });
    warnings.collect()
}

/// What was meant by a name that no tool can have. Which tools a server has is known only once it is asked.
fn unknown_tool(name: &str, settings: &Settings) -> Option<String> {
    if name.contains('*') {
        return None;
    }
    let servers = || settings.mcp.iter().map(|server| server.name.as_str());
    match name.split_once("__") {
        _ if BUILT_IN.contains(&name) => None,
        Some((server, _)) if servers().any(|known| known == server) => None,
        Some((server, tool)) => Some(match nearest(server, servers()) {
            Some(near) => format!("did you mean `{near}__{tool}`?"),
            None => format!("no server `{server}` is named under [mcp] in windlass.toml"),
        }),
        None => {
            Some(did_you_mean(name, BUILT_IN).unwrap_or_else(|| {
                format!("there are {}; a server's tools are named `server__tool`", list_of(BUILT_IN))
            }))
        }
    }
}

fn patterns(flag: &str, texts: &[String]) -> Result<Vec<CallPattern>, Failure> {
    let parsed = |text: &String| {
        text.parse::<CallPattern>().map_err(|error| {
            Failure::usage(format!("{flag} {text}: {error}")).hint("name a tool: bash, or bash(git *)")
        })
    };
    texts.iter().map(parsed).collect()
}
