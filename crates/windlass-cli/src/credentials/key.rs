//! The key of the store's credentials: from the environment, from the file of the settings, or from the store's folder.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use windlass_tools::{KeyAccess, KeyProblem, VaultKey};

use crate::secrets;
use crate::tools::variable;

/// The variable that holds the key in hexadecimal.
pub(crate) const KEY_VARIABLE: &str = "WINDLASS_SECRET_KEY";
/// The key's file, in the store's folder.
const KEY_FILE: &str = "credentials.key";

const FORM: &str = "a key has 64 hexadecimal digits: `openssl rand -hex 32` prints a new one";

pub(super) fn provide(
    configured: Option<&Path>,
    store: Option<&Path>,
    access: KeyAccess,
) -> Result<VaultKey, KeyProblem> {
    if let Some(text) = variable(KEY_VARIABLE) {
        return secrets::from_hex(&text).ok_or_else(|| problem(format!("{KEY_VARIABLE} is not a valid key"), FORM));
    }
    if let Some(file) = configured {
        return read(file, "create it, or restore it; `credentials.key_file` of windlass.toml names it");
    }
    let folder = store.ok_or_else(|| problem("there is no store to keep a key in".to_owned(), "name a store"))?;
    let file = folder.join(KEY_FILE);
    if access == KeyAccess::CreateIfMissing && !file.exists() {
        secrets::create_key(folder, &file).map_err(|error| {
            let message = format!("the key file {} cannot be created: {error}", file.display());
            problem(message, "check the permissions of the folder")
        })?;
    }
    read(&file, "restore it from a backup; or remove the stored credentials and set them again")
}

/// Reads a key file, which must be of its owner alone.
fn read(file: &Path, if_missing: &str) -> Result<VaultKey, KeyProblem> {
    let shown = file.display();
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => problem(format!("the key file {shown} is missing"), if_missing),
        _ => problem(format!("the key file {shown} cannot be read: {error}"), "check its owner and its permissions"),
    };
    let mode = std::fs::metadata(file).map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let hint = format!("`chmod 600 {shown}`; if others may have read it, change the credentials as well");
        return Err(problem(format!("the key file {shown} is open to others (mode {mode:03o})"), &hint));
    }
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    secrets::from_hex(&text).ok_or_else(|| problem(format!("the key file {shown} holds no valid key"), FORM))
}

fn problem(message: String, hint: &str) -> KeyProblem {
    KeyProblem { message, hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_created_on_request_only_and_belongs_to_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("store");
        let of_store = |access| provide(None, Some(&store), access);
        assert!(of_store(KeyAccess::Existing).is_err_and(|error| error.message.contains("is missing")));
        assert!(!store.exists(), "nothing is created");
        let key = of_store(KeyAccess::CreateIfMissing).expect("a new key");
        assert_eq!(of_store(KeyAccess::Existing), Ok(key));
        assert_eq!(of_store(KeyAccess::CreateIfMissing), Ok(key));
        let file = store.join(KEY_FILE);
        let set_mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("changed");
        assert_eq!(std::fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);
        for mode in [0o640, 0o604, 0o644] {
            set_mode(mode);
            let error = of_store(KeyAccess::CreateIfMissing).expect_err("it is open");
            assert!(error.message.contains("open to others") && error.hint.contains("chmod 600"), "{error:?}");
        }
        set_mode(0o400);
        assert_eq!(of_store(KeyAccess::Existing), Ok(key));
        set_mode(0o600);
        std::fs::write(&file, "short").expect("written");
        assert!(of_store(KeyAccess::Existing).is_err_and(|error| error.message.contains("no valid key")));
        // A file of the settings is never created: a folder that is not mounted would get a new key.
        let elsewhere = folder.path().join("elsewhere.key");
        let named = provide(Some(&elsewhere), Some(&store), KeyAccess::CreateIfMissing);
        assert!(named.is_err_and(|error| error.message.contains("is missing")) && !elsewhere.exists());
    }
}
