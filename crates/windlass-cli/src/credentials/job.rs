//! The credentials that came with a job to this worker. They exist for the duration of its task.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_server::workers::JobCredential;
use windlass_tools::{Credential, KnownSecrets, UnopenedCredential, auth_variable};

tokio::task_local! {
    static JOB: Arc<BTreeMap<String, JobCredential>>;
}

/// Runs a task with the credentials of its job. Their secrets are redacted from everything that this worker reports.
pub(crate) async fn with_credentials<T>(
    credentials: &BTreeMap<String, JobCredential>,
    known: &KnownSecrets,
    task: impl Future<Output = T>,
) -> T {
    for (name, credential) in credentials {
        let credential = credential.value.as_deref().and_then(|text| Credential::from_text(text).ok());
        known.learn(&auth_variable(name), credential.map(|found| found.secrets()).unwrap_or_default());
    }
    let by_variable = credentials.iter().map(|(name, credential)| (auth_variable(name), credential.clone()));
    JOB.scope(Arc::new(by_variable.collect()), task).await
}

/// Returns the value that came with the job of the running task; `None` outside of jobs.
pub(super) fn text(variable: &str) -> Option<Result<Option<String>, UnopenedCredential>> {
    let found = JOB.try_with(|job| job.get(variable).cloned()).ok()?;
    Some(match found {
        None => Ok(None),
        Some(JobCredential { value: Some(value), .. }) => Ok(Some(value)),
        Some(JobCredential { problem, hint, .. }) => Err(UnopenedCredential {
            reason: problem.unwrap_or_else(|| "it came without a value".to_owned()),
            hint: hint.unwrap_or_else(|| "set it at the server again".to_owned()),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn credentials_end_with_their_task() {
        let of = |value: Option<&str>, problem: Option<&str>| JobCredential {
            value: value.map(str::to_owned),
            problem: problem.map(str::to_owned),
            hint: None,
        };
        let credentials = BTreeMap::from([
            ("pg-main".to_owned(), of(Some("canary-of-pg"), None)),
            ("lost".to_owned(), of(None, Some("it is damaged"))),
        ]);
        let known = KnownSecrets::default();
        let task = async {
            assert_eq!(text("WINDLASS_AUTH_PG_MAIN"), Some(Ok(Some("canary-of-pg".to_owned()))));
            assert_eq!(
                text("WINDLASS_AUTH_LOST").and_then(Result::err).map(|error| error.reason).as_deref(),
                Some("it is damaged")
            );
            assert_eq!(text("WINDLASS_AUTH_OTHER"), Some(Ok(None)), "it does not fall back to a store of the worker");
        };
        with_credentials(&credentials, &known, task).await;
        assert_eq!(text("WINDLASS_AUTH_PG_MAIN"), None);
        assert_eq!(known.redactor().redact_text("canary-of-pg"), "***");
    }
}
