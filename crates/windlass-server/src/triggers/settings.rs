//! Stored settings and progress of triggers. Secrets are referenced by name, never stored.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_runtime::real_now;
use windlass_store::{RecordChange, RecordRow, Store, StoreError, StoreErrorKind};
use windlass_value::{Timestamp, Value};

use super::CatchUp;
use super::signature::SignatureScheme;
use crate::credentials::ServerCredentials;

/// Record kinds.
pub(crate) const TRIGGER: &str = "trigger";
pub(crate) const FIRING: &str = "firing";
/// The reply of a polled service, until all its runs are created: the service sends it only once.
const POLL_REPLY: &str = "poll_reply";

/// All record kinds of triggers.
const KINDS: [&str; 3] = [TRIGGER, FIRING, POLL_REPLY];

const RECORD_PAGE_SIZE: u32 = 500;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StoredTriggerSettings {
    /// `env:NAME`, or the alias of a credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The signature scheme of deliveries.
    pub scheme: SignatureScheme,
    /// Accepts unsigned calls without a token.
    pub insecure: bool,
    pub enabled: bool,
    /// Overrides the rule of the definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUp>,
    /// A schedule in addition to the definition, for dialects without schedules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<CronSettings>,
    /// Time of the last enabling or change of the schedule: times due before are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// A schedule as a cron expression.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CronSettings {
    /// Five fields, or six with seconds first.
    pub cron: String,
    /// Such as `Europe/Berlin`; the default is UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

impl Default for StoredTriggerSettings {
    fn default() -> StoredTriggerSettings {
        StoredTriggerSettings {
            secret: None,
            scheme: SignatureScheme::Standard,
            insecure: false,
            enabled: true,
            catch_up: None,
            schedule: None,
            since: None,
        }
    }
}

/// The progress of a trigger.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TriggerProgress {
    /// The newest due time that is handled.
    pub due: Option<Timestamp>,
    /// Time of the last start.
    pub last_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The newest due time that started nothing, and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<(Timestamp, String)>,
    /// The polled service has asked not to be polled earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The number of times that the clock was set back behind firings of this trigger. It is part of the names of later
    /// deliveries: the same times come again, and are not repetitions.
    #[serde(skip_serializing_if = "is_zero")]
    pub clock_resets: u32,
    /// The address that it has asked to be polled at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_at: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

pub(crate) fn record_key(definition: &str, trigger: &str) -> String {
    format!("{definition}\0{}", trigger.to_lowercase())
}

pub(crate) fn read<T: DeserializeOwned + Default>(
    store: &dyn Store,
    kind: &str,
    definition: &str,
    trigger: &str,
) -> Result<T, StoreError> {
    store.record(kind, &record_key(definition, trigger))?.map_or_else(|| Ok(T::default()), |row| decode(&row))
}

fn decode<T: DeserializeOwned>(row: &RecordRow) -> Result<T, StoreError> {
    serde_json::from_slice(&row.body).map_err(|error| {
        let what = format!("the {} `{}` cannot be read: {error}", row.kind, row.key.replace('\0', " "));
        StoreError::new(StoreErrorKind::Damaged, what)
    })
}

/// Changes the current settings, retrying on concurrent changes.
pub(crate) fn change(
    store: &dyn Store,
    definition: &str,
    trigger: &str,
    change: impl Fn(&mut StoredTriggerSettings),
) -> Result<StoredTriggerSettings, StoreError> {
    let key = record_key(definition, trigger);
    loop {
        let row = store.record(TRIGGER, &key)?;
        let mut settings: StoredTriggerSettings =
            row.as_ref().map_or_else(|| Ok(StoredTriggerSettings::default()), decode)?;
        change(&mut settings);
        let body = serde_json::to_vec(&settings).unwrap_or_default();
        let revision = row.map_or(0, |row| row.revision);
        if store
            .change_records(vec![RecordChange::put(TRIGGER, &key, body, real_now()).with_expected_revision(revision)])?
        {
            return Ok(settings);
        }
    }
}

/// The reply to a poll, and the time for which it was sent.
pub(crate) struct PollReply {
    pub due: Timestamp,
    pub body: Value,
    pub trigger_metadata: Value,
}

pub(crate) fn store_reply(
    store: &dyn Store,
    definition: &str,
    trigger: &str,
    reply: &PollReply,
) -> Result<(), StoreError> {
    let PollReply { due, body, trigger_metadata } = reply;
    let encoded = Value::list(vec![Value::from(due.0), body.clone(), trigger_metadata.clone()]);
    let change =
        RecordChange::put(POLL_REPLY, &record_key(definition, trigger), windlass_value::encode(&encoded), real_now());
    store.change_records(vec![change]).map(drop)
}

/// Reads a reply that a stop or a crash has left.
pub(crate) fn read_reply(store: &dyn Store, definition: &str, trigger: &str) -> Result<Option<PollReply>, StoreError> {
    let Some(row) = store.record(POLL_REPLY, &record_key(definition, trigger))? else { return Ok(None) };
    let decoded_value = windlass_value::decode(&row.body).ok();
    match decoded_value.as_ref().and_then(Value::as_list) {
        Some([due, body, trigger_metadata]) => {
            let due = Timestamp(due.as_int().unwrap_or_default());
            Ok(Some(PollReply { due, body: body.clone(), trigger_metadata: trigger_metadata.clone() }))
        }
        _ => {
            let what = format!("the poll reply of the trigger `{trigger}` of `{definition}` cannot be read");
            Err(StoreError::new(StoreErrorKind::Damaged, what))
        }
    }
}

/// Stores the progress and deletes the reply, after all its runs were created.
pub(crate) fn store_progress_and_forget_reply(
    store: &dyn Store,
    definition: &str,
    trigger: &str,
    firing: &TriggerProgress,
) -> Result<(), StoreError> {
    let (key, now) = (record_key(definition, trigger), real_now());
    let body = serde_json::to_vec(firing).unwrap_or_default();
    let changes = vec![RecordChange::put(FIRING, &key, body, now), RecordChange::remove(POLL_REPLY, &key, now)];
    store.change_records(changes).map(drop)
}

/// Deletes all records of the trigger.
pub(crate) fn forget(store: &dyn Store, definition: &str, trigger: &str) -> Result<(), StoreError> {
    let (key, now) = (record_key(definition, trigger), real_now());
    let changes = KINDS.map(|kind| RecordChange::remove(kind, &key, now));
    store.change_records(changes.into()).map(drop)
}

/// Returns the changes that delete all records of a definition's triggers.
pub(crate) fn removals_for_definition(store: &dyn Store, definition: &str) -> Result<Vec<RecordChange>, StoreError> {
    let (prefix, now) = (record_key(definition, ""), real_now());
    let mut changes = Vec::new();
    for kind in KINDS {
        let mut after = prefix.clone();
        loop {
            // Damaged records as well.
            let mut page = store.record_keys(kind, &after, RECORD_PAGE_SIZE)?;
            page.retain(|key| key.starts_with(&prefix));
            let Some(last) = page.last() else { break };
            after.clone_from(last);
            changes.extend(page.iter().map(|key| RecordChange::remove(kind, key, now)));
        }
    }
    Ok(changes)
}

pub(crate) fn store_progress(
    store: &dyn Store,
    definition: &str,
    trigger: &str,
    firing: &TriggerProgress,
) -> Result<(), StoreError> {
    let body = serde_json::to_vec(firing).unwrap_or_default();
    store.change_records(vec![RecordChange::put(FIRING, &record_key(definition, trigger), body, real_now())]).map(drop)
}

/// Lists schedules defined in trigger settings, with the names of definition and trigger.
pub(crate) fn added_schedules(store: &dyn Store) -> Result<Vec<(String, String, StoredTriggerSettings)>, StoreError> {
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let page = store.records(TRIGGER, &after, RECORD_PAGE_SIZE)?;
        let Some(last) = page.last() else { return Ok(found) };
        after = last.key.clone();
        for row in &page {
            // A trigger whose settings are damaged does not fire; the others do.
            let Ok(settings) = decode::<StoredTriggerSettings>(row) else { continue };
            if let (Some(_), Some((definition, trigger))) = (&settings.schedule, row.key.split_once('\0')) {
                found.push((definition.to_owned(), trigger.to_owned(), settings));
            }
        }
    }
}

/// Returns whether the text may be a reference to a secret; a secret itself does not look like one.
pub(crate) fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix("env:").unwrap_or(text);
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    !name.is_empty() && name.len() <= 64 && name.chars().all(plain) && !text.starts_with("whsec_")
}

/// The reason why a secret is unavailable. It names nothing: a supposed name may be the secret itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SecretUnavailable {
    Unset,
    Invalid(&'static str),
}

impl SecretUnavailable {
    /// Returns the reason in words, for this kind of reference.
    pub(crate) fn reason(self, reference: &str) -> &'static str {
        match self {
            SecretUnavailable::Unset if reference.starts_with("env:") => "the server has no such environment variable",
            SecretUnavailable::Unset => "the server has no credential with this alias",
            SecretUnavailable::Invalid(why) => why,
        }
    }
}

/// Resolves a secret reference to its current value.
pub(crate) fn resolve_secret(credentials: &ServerCredentials, reference: &str) -> Result<String, SecretUnavailable> {
    if let Some(name) = reference.strip_prefix("env:") {
        return std::env::var(name).ok().filter(|text| !text.is_empty()).ok_or(SecretUnavailable::Unset);
    }
    let unopened = SecretUnavailable::Invalid("the credential with this alias cannot be opened");
    let text = credentials.text(reference).map_err(|_| unopened)?.ok_or(SecretUnavailable::Unset)?;
    if !text.trim_start().starts_with('{') {
        return Ok(text);
    }
    let facts: serde_json::Value = serde_json::from_str(&text)
        .map_err(|_| SecretUnavailable::Invalid("the credential with this alias is not valid JSON"))?;
    let names = ["secret", "signing_secret", "token", "password"];
    let found = names.iter().find_map(|name| facts.get(name)?.as_str());
    found.map(str::to_owned).ok_or(SecretUnavailable::Invalid("the credential with this alias has no `secret`"))
}
