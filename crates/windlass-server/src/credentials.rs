//! Stored credentials, and those that the jobs of remote workers refer to.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_tools::{CredentialVault, UnopenedCredential, auth_variable, credential_names};

use crate::App;
use crate::workers::{JobCredential, LeasedJob};

type JobNames = dyn Fn(&LeasedJob) -> BTreeSet<String> + Send + Sync;
type TextLookup = dyn Fn(&str) -> Result<Option<String>, UnopenedCredential> + Send + Sync;

/// The credentials of a server. The program around it knows the other sources, and what jobs refer to.
#[derive(Clone)]
pub struct ServerCredentials {
    pub vault: CredentialVault,
    names: Arc<JobNames>,
    lookup: Arc<TextLookup>,
}

impl Default for ServerCredentials {
    fn default() -> ServerCredentials {
        ServerCredentials {
            vault: CredentialVault::default(),
            names: Arc::new(|job| credential_names(&job.tool, &job.input)),
            lookup: Arc::new(|variable| Ok(std::env::var(variable).ok())),
        }
    }
}

impl ServerCredentials {
    /// `names` returns the credentials that a job refers to. `lookup` returns the text of a variable such as
    /// `WINDLASS_AUTH_PG_MAIN` from the first source that has it.
    pub fn new(
        vault: CredentialVault,
        names: impl Fn(&LeasedJob) -> BTreeSet<String> + Send + Sync + 'static,
        lookup: impl Fn(&str) -> Result<Option<String>, UnopenedCredential> + Send + Sync + 'static,
    ) -> ServerCredentials {
        ServerCredentials { vault, names: Arc::new(names), lookup: Arc::new(lookup) }
    }

    /// Returns the text of a credential from the first source that has it.
    pub(crate) fn text(&self, alias: &str) -> Result<Option<String>, UnopenedCredential> {
        Ok((self.lookup)(&auth_variable(alias))?.filter(|text| !text.trim().is_empty()))
    }

    /// Opens a stored credential for a job. Credentials of the settings and of the environment are of this process.
    fn for_job(&self, name: &str) -> Option<JobCredential> {
        match self.vault.open(&auth_variable(name)) {
            Ok(value) => value.map(|value| JobCredential { value: Some(value), problem: None, hint: None }),
            Err(UnopenedCredential { reason, hint }) => {
                Some(JobCredential { value: None, problem: Some(reason), hint: Some(hint) })
            }
        }
    }
}

impl App {
    /// Adds the stored credentials that jobs refer to. The jobs are leased already: a credential that cannot be opened
    /// fails the task that uses it, not the request.
    pub(crate) async fn with_credentials(&self, mut jobs: Vec<LeasedJob>) -> Vec<LeasedJob> {
        for job in &mut jobs {
            let names = (self.credentials.names)(job);
            if names.is_empty() {
                continue;
            }
            let wanted = names.clone();
            let opened = self.read_store(move |app| {
                Ok(wanted.into_iter().filter_map(|name| Some((app.credentials.for_job(&name)?, name))).collect())
            });
            let opened: Result<Vec<(JobCredential, String)>, _> = opened.await;
            job.credentials = match opened {
                Ok(opened) => opened.into_iter().map(|(credential, name)| (name, credential)).collect(),
                Err(_) => names.into_iter().map(|name| (name, unread())).collect(),
            };
        }
        jobs
    }
}

fn unread() -> JobCredential {
    let problem = Some("the server could not read it".to_owned());
    JobCredential { value: None, problem, hint: Some("retry the task".to_owned()) }
}
