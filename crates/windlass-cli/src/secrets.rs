//! Secrets of the settings and the environment that no tool may output, and the key that seals secret references.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_agents::chat::PROVIDERS;
use windlass_core::plan::Plan;
use windlass_runtime::secure_inputs;
use windlass_tools::{Credential, Credentials, SealOutcome, Secret, SecretBoundary, SecretSealer};

use crate::agents;
use crate::config::{CliSettings, ConfiguredTarget};
use crate::credentials::{self, credentials};
use crate::failure::CliFailure;
use crate::tools::variable;

/// The variable that holds the key in hexadecimal, for workers on other machines, which have no store.
const KEY_VARIABLE: &str = "WINDLASS_SEAL_KEY";
/// The key's file, in the store's folder.
const KEY_FILE: &str = "seal.key";

/// The redaction and secret handling around all tools of this process.
pub(crate) fn edge(settings: &CliSettings) -> Result<SecretBoundary, CliFailure> {
    if variable(KEY_VARIABLE).is_some_and(|text| from_hex(&text).is_none()) {
        let failure = CliFailure::usage(format!("{KEY_VARIABLE} is not a valid key: it must be 64 hexadecimal digits"));
        return Err(failure.hint(format!("it is the text of the file {KEY_FILE} in the server's store")));
    }
    let credentials: Arc<dyn Credentials> = Arc::new(credentials(settings));
    // A worker only opens references and seals none: it has no store to keep a key in.
    let known = settings.vault.known_secrets().clone();
    known.configure(&known_secrets(settings)?);
    crate::log::redact(&known);
    Ok(SecretBoundary::new(with_key(settings, read_key), credentials, known))
}

/// Seals secret references. The key is created with the first reference.
pub(crate) fn sealer(settings: &CliSettings) -> SecretSealer {
    with_key(settings, load_or_create_key)
}

/// Replaces the defaults of a plan's secure parameters by secret references. Literal secrets stay as they are and are
/// returned with their problem.
pub(crate) fn seal_defaults(seals: &SecretSealer, plan: &mut Plan) -> Vec<(Arc<str>, SealOutcome)> {
    let mut literal = Vec::new();
    for input in secure_inputs(plan) {
        match seals.seal_default(&input) {
            None => {}
            Some(SealOutcome::Sealed(sealed)) => {
                let parameter = plan.parameters.iter_mut().find(|parameter| parameter.name == input.name);
                parameter.into_iter().for_each(|parameter| parameter.default = Some(sealed.clone()));
            }
            Some(other) => literal.push((input.name, other)),
        }
    }
    literal
}

fn with_key(settings: &CliSettings, load_key: fn(&Path) -> std::io::Result<[u8; 32]>) -> SecretSealer {
    let store = settings.store.clone();
    SecretSealer::new(move || match variable(KEY_VARIABLE) {
        Some(text) => from_hex(&text),
        None => store.as_deref().and_then(|store| load_key(store).ok()),
    })
}

/// Returns all values known to be secret in this process, whatever their use.
fn known_secrets(settings: &CliSettings) -> Result<Vec<Secret>, CliFailure> {
    let mut known = agents::secrets(settings);
    let keys = PROVIDERS.iter().flat_map(|provider| provider.key_variables).copied();
    known.extend(keys.filter_map(variable).map(Secret::new));
    let prefix = windlass_tools::auth_variable("");
    let variables = std::env::vars().filter(|(name, _)| name.starts_with(&prefix)).map(|(_, value)| value);
    let aliases =
        settings.auth.aliases().filter_map(|alias| settings.auth.variable_value(&windlass_tools::auth_variable(alias)));
    for text in variables.chain(aliases) {
        // A problem with a credential is reported where it is used.
        known.extend(Credential::from_text(&text).into_iter().flat_map(|credential| credential.secrets()));
    }
    for activity in &settings.activities {
        let ConfiguredTarget::Endpoint { headers, .. } = &activity.target else { continue };
        known.extend(headers.iter().filter_map(|(name, value)| value.to_secret(name).ok()));
    }
    known.extend(settings.mcp.iter().flat_map(|server| server.secrets()));
    known.extend([KEY_VARIABLE, credentials::KEY_VARIABLE].into_iter().filter_map(variable).map(Secret::new));
    Ok(known)
}

pub(crate) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let text = text.trim();
    let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok());
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// Returns the key of a store, and creates it first if needed. Processes that create it concurrently get the same
/// one.
fn load_or_create_key(store: &Path) -> std::io::Result<[u8; 32]> {
    let path = store.join(KEY_FILE);
    if !path.exists() {
        create_key(store, &path)?;
    }
    read_key(store)
}

fn read_key(store: &Path) -> std::io::Result<[u8; 32]> {
    let text = std::fs::read_to_string(store.join(KEY_FILE))?;
    from_hex(&text).ok_or_else(|| std::io::Error::other("the key file holds no valid key"))
}

/// Creates a key file in a store's folder, unless it exists.
pub(crate) fn create_key(store: &Path, path: &Path) -> std::io::Result<()> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| std::io::Error::other(error.to_string()))?;
    std::fs::create_dir_all(store)?;
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = path.with_extension(format!("key.{}.{number}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    // The link appears complete or not at all, and the first one stays.
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => std::fs::File::open(store)?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_store_has_one_key_that_only_its_owner_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("store");
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..4).map(|_| scope.spawn(|| load_or_create_key(&store).expect("a key"))).collect();
            makers.into_iter().map(|maker| maker.join().expect("a key")).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]) && keys[0] != [0; 32]);
        let about = std::fs::metadata(store.join(KEY_FILE)).expect("the file");
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        let (first, none) = (CliSettings { store: Some(store), ..CliSettings::default() }, CliSettings::default());
        assert_eq!(sealer(&first).seal("r", "a", "b"), sealer(&first).seal("r", "a", "b"));
        assert!(sealer(&first).seal("r", "a", "b").is_some() && sealer(&none).seal("r", "a", "b").is_none());
        assert_eq!(from_hex("0g"), None);
        // Opening references creates no key.
        let elsewhere = folder.path().join("elsewhere");
        let (worker, server) = (
            with_key(&CliSettings { store: Some(elsewhere.clone()), ..CliSettings::default() }, read_key),
            with_key(&CliSettings { store: Some(elsewhere.clone()), ..CliSettings::default() }, load_or_create_key),
        );
        assert!(worker.seal("r", "a", "b").is_none() && !elsewhere.exists());
        assert_eq!(server.seal("r", "a", "b"), worker.seal("r", "a", "b"), "the key was created meanwhile");
    }
}
