//! The credentials that definitions refer to, in one order of sources: the environment, `[auth]` of the settings, then
//! those of the store; at a remote worker, those that came with the job take the place of the store's.
//!
//! - `key`: the key of the store's credentials; `job`: the credentials of a job; `value`: values as users write them;
//!   `prompt`: questions at the terminal

pub(crate) mod job;
mod key;
pub(crate) mod prompt;
pub(crate) mod value;

use std::sync::Arc;

use windlass_agents::AGENT_MODEL;
use windlass_agents::chat::{PROVIDERS, Variables};
use windlass_server::ServerCredentials;
use windlass_server::workers::LeasedJob;
use windlass_store_sqlite::SqliteOptions;
use windlass_tools::{
    CredentialVault, Credentials, ModelKey, NamedCredentials, Secret, SecretBoundary, UnopenedCredential, VaultLimits,
    auth_variable,
};
use windlass_value::Value;

use crate::config::CliSettings;
use crate::tools::variable;
use crate::{agents, stores};
pub(crate) use key::KEY_VARIABLE;

/// The tool that Loom's `ai` actions call.
const MODEL_TOOL: &str = "model";

/// The usual variable of the key of that tool's service.
const MODEL_KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// Returns the credentials of the store of these settings. It need not exist yet.
pub(crate) fn vault(settings: &CliSettings) -> CredentialVault {
    let (folder, store, key_file) =
        (settings.store.clone(), settings.store.clone(), settings.credential_key_file.clone());
    let open = move || {
        let folder = folder.as_deref().filter(|folder| stores::exists(folder))?;
        stores::open_or_create(folder, SqliteOptions::default()).ok()
    };
    CredentialVault::new(open, move |access| key::provide(key_file.as_deref(), store.as_deref(), access))
}

/// Returns the limits of stored credentials.
pub(crate) fn vault_limits(settings: &CliSettings) -> VaultLimits {
    let limits = &settings.server.limits;
    VaultLimits { max_credentials: limits.max_credentials, max_credential_bytes: limits.max_credential_bytes }
}

/// Returns all credentials. They are read when they are used.
pub(crate) fn credentials(settings: &CliSettings) -> NamedCredentials {
    let (entries, reasons, vault) = (settings.auth.clone(), settings.auth.clone(), settings.vault.clone());
    NamedCredentials::new(move |name| variable(name).or_else(|| entries.variable_value(name)))
        .with_stored(move |name| stored_text(&vault, name))
        .with_reasons(move |name| reasons.unset_reason(name))
}

fn stored_text(vault: &CredentialVault, variable: &str) -> Result<Option<String>, UnopenedCredential> {
    job::text(variable).unwrap_or_else(|| vault.open(variable))
}

/// Returns the known names, for `check`. Those of the environment are spelled as there.
pub(crate) fn aliases(settings: &CliSettings) -> Vec<String> {
    let prefix = auth_variable("");
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let from_variables = variables.filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned));
    settings.auth.aliases().map(str::to_owned).chain(from_variables).chain(settings.vault.names()).collect()
}

/// Returns the variables of model services. A key that is not in the environment is the credential of that name.
pub(crate) fn model_variables(settings: &CliSettings) -> Variables {
    let credentials = credentials(settings);
    Arc::new(move |name| variable(name).or_else(|| secret_text(&credentials, name)))
}

/// Returns the key of the tool `model`, looked up in the same way.
pub(crate) fn model_key(settings: &CliSettings) -> ModelKey {
    let (credentials, name) = (credentials(settings), model_key_name(settings).to_owned());
    ModelKey::new(move || secret_text(&credentials, &name).map(Secret::new))
}

pub(crate) fn model_key_name(settings: &CliSettings) -> &str {
    settings.model.key_env.as_deref().unwrap_or(MODEL_KEY_VARIABLE)
}

fn secret_text(credentials: &NamedCredentials, name: &str) -> Option<String> {
    // The address of a service is not a secret.
    let is_url = PROVIDERS.iter().any(|provider| provider.url_variable == name);
    let found = if is_url { None } else { credentials.find(name).ok() };
    found?.secret_field("").map(str::to_owned)
}

/// Returns the credentials of a server.
pub(crate) fn for_server(settings: &CliSettings, edge: &SecretBoundary) -> ServerCredentials {
    let (edge, chat, model_key) = (edge.clone(), agents::chat_options(settings), model_key_name(settings).to_owned());
    let names = move |job: &LeasedJob| {
        let mut names = edge.credential_names(&job.tool, &job.input, job.run_tree.as_ref().unwrap_or(&job.run));
        names.extend(match &*job.tool {
            tool if tool == AGENT_MODEL.name => chat.secret_variables(job.input.get("model").and_then(Value::as_str)),
            MODEL_TOOL => vec![model_key.clone()],
            _ => Vec::new(),
        });
        names
    };
    let (entries, vault) = (settings.auth.clone(), settings.vault.clone());
    let lookup = move |name: &str| match variable(name).or_else(|| entries.variable_value(name)) {
        None => vault.open(name),
        configured => Ok(configured),
    };
    ServerCredentials::new(settings.vault.clone(), names, lookup)
}

/// Makes the secrets of all stored credentials known for redaction, and reports those that cannot be opened.
pub(crate) fn learn(settings: &CliSettings) {
    for (name, problem) in settings.vault.learn_all() {
        tracing::warn!(
            event = "credential",
            "the stored credential `{name}` cannot be opened: {}; {}",
            problem.reason,
            problem.hint
        );
    }
}
