//! The secret boundary around every tool of a worker.
//!
//! On the way in, it replaces references to secrets by the secrets, so that a run and its journal never contain more
//! than the reference. On the way out, it redacts secrets: those opened for this call and all configured ones. It
//! also breaks text from outside that looks like a reference, so that no outside party can have one opened.

mod sealer;

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::{ErrorInfo, NextCall, TaskOutcome};
use windlass_runtime::{
    SECRET_REFERENCE_PREFIX, Tool, ToolCall, ToolFuture, Tools, has_secret_reference, neutralize_references,
};
use windlass_value::{Map, Value};

use crate::credentials::{Credentials, credential_names};
use crate::http::pages::{page_fact, secret_in_link, with_page_fact};
use crate::known_secrets::KnownSecrets;
use crate::sealed::credential_field;
use crate::secret::Redactor;
use sealer::TextSegment;
pub use sealer::{SealOutcome, SecretSealer};

/// Opens secret references in the inputs of tools and redacts secrets from their outcomes.
#[derive(Clone)]
pub struct SecretBoundary(Arc<Inner>);

struct Inner {
    seals: SecretSealer,
    credentials: Arc<dyn Credentials>,
    /// Secrets that no outcome may contain, whichever tool produces it.
    known: KnownSecrets,
}

impl SecretBoundary {
    pub fn new(seals: SecretSealer, credentials: Arc<dyn Credentials>, known: KnownSecrets) -> SecretBoundary {
        SecretBoundary(Arc::new(Inner { seals, credentials, known }))
    }

    /// Returns the secrets of this process, whichever tool they belong to.
    pub fn known_secrets(&self) -> &KnownSecrets {
        &self.0.known
    }

    /// Returns the names of the credentials that a task refers to: in its input, and by references of this run tree.
    pub fn credential_names(&self, tool: &str, input: &Value, run_tree: &str) -> BTreeSet<String> {
        let mut names = credential_names(tool, input);
        if has_secret_reference(input) {
            self.0.add_references(input, run_tree, &mut names);
        }
        names
    }

    /// Wraps all tools. A remote tool receives references unopened; the remote worker opens them.
    pub fn wrap(&self, tools: Tools) -> Tools {
        tools.wrap_each(|tool| GuardedTool { tool, edge: self.clone() })
    }
}

struct GuardedTool {
    tool: Arc<dyn Tool>,
    edge: SecretBoundary,
}

impl Tool for GuardedTool {
    fn runs_remotely(&self, call: &ToolCall) -> bool {
        self.tool.runs_remotely(call)
    }

    fn call(&self, mut call: ToolCall) -> ToolFuture {
        let inner = self.edge.0.clone();
        let mut opened = OpenedSecrets::default();
        if has_secret_reference(&call.input) {
            let prepared = match self.tool.runs_remotely(&call) {
                true => {
                    call.sealed_by = inner.fingerprint_if_sealed(&call.input, &call.run_tree);
                    Ok(call.input.clone())
                }
                false => inner
                    .can_open(call.sealed_by.as_deref())
                    .and_then(|()| inner.open(&call.input, &call.run_tree, &mut opened)),
            };
            match prepared {
                Ok(input) => call.input = input,
                Err(error) => return Box::pin(std::future::ready(TaskOutcome::failure(error))),
            }
        }
        let given = opened.redaction();
        let redactors = (inner.clone(), given.clone());
        call.publish = call.publish.with_transform(move |data| redactors.0.redact(&data, &redactors.1));
        let redactors = (inner.clone(), given.clone());
        call.log =
            call.log.with_transform(move |line| redactors.0.configured().redact_text(&redactors.1.redact_text(&line)));
        let running = self.tool.call(call);
        // Tools that truncate text must redact secrets before they cut.
        #[cfg(feature = "process")]
        let running = given.clone().merged_with(&inner.configured()).scope(running);
        Box::pin(async move {
            let outcome = running.await;
            // The call itself may have opened a stored credential.
            let configured = inner.configured();
            let again = outcome.next_call.clone().map(|again| NextCall { input: opened.reseal(&again.input), ..again });
            let (side_outputs, suspension) = (outcome.side_outputs.clone(), outcome.suspension.clone());
            let page = page_fact(&outcome.facts).cloned().map(neutralize_references).map(|page| opened.reseal(&page));
            let redacted = configured.redact_outcome(given.redact_outcome(TaskOutcome { next_call: None, ..outcome }));
            let again = again.map(|again| NextCall { input: configured.redact_value(&again.input), ..again });
            let (output, meta, facts) = (
                neutralize_references(redacted.output),
                neutralize_references(redacted.meta),
                neutralize_references(redacted.facts),
            );
            // Private state must stay as it is. It comes back as an input, so it must contain no reference either.
            let private = match neutralize_references(redacted.private.clone()) == redacted.private {
                true => redacted.private,
                false => Value::Null,
            };
            let outcome =
                TaskOutcome { output, meta, facts, private, next_call: again, side_outputs, suspension, ..redacted };
            match page {
                Some(page) => inner.with_resealed_page(outcome, page, &given),
                None => outcome,
            }
        })
    }
}

/// The references opened for one call, each with its secret.
#[derive(Default)]
struct OpenedSecrets(Vec<(String, String)>);

impl OpenedSecrets {
    fn redaction(&self) -> Redactor {
        Redactor::new(self.0.iter().map(|(_, text)| text.clone()))
    }

    /// Replaces secrets by their references, so that an operation that continues later opens them again.
    fn reseal(&self, value: &Value) -> Value {
        match value {
            _ if self.0.is_empty() => value.clone(),
            Value::Str(text) => {
                let put_back = |text: String, (seal, secret): &(String, String)| text.replace(secret.as_str(), seal);
                Value::from(self.0.iter().fold(text.to_string(), put_back))
            }
            Value::List(items) => Value::list(items.iter().map(|item| self.reseal(item)).collect()),
            Value::Map(map) => {
                Value::map(map.iter().map(|(key, inner)| (key.clone(), self.reseal(inner))).collect::<Map>())
            }
            other => other.clone(),
        }
    }
}

impl Inner {
    /// Keeps the next link of a page callable: its secrets are references, which are opened again. A secret in another
    /// form, as percent-encoded, cannot become a reference and fails the call.
    fn with_resealed_page(&self, outcome: TaskOutcome, page: Value, given: &Redactor) -> TaskOutcome {
        let configured = self.configured();
        match any_text(&page, &|text| given.is_contained_in(text) || configured.is_contained_in(text)) {
            true => TaskOutcome { error: Some(outcome.error.unwrap_or_else(secret_in_link)), ..outcome },
            false => TaskOutcome { facts: with_page_fact(outcome.facts, page), ..outcome },
        }
    }

    fn redact(&self, value: &Value, given: &Redactor) -> Value {
        neutralize_references(self.configured().redact_value(&given.redact_value(value)))
    }

    fn configured(&self) -> Redactor {
        self.known.redactor()
    }

    fn add_references(&self, value: &Value, run_tree: &str, names: &mut BTreeSet<String>) {
        match value {
            Value::Str(text) if text.contains(SECRET_REFERENCE_PREFIX) => {
                let sealed = self.seals.segments(run_tree, text).into_iter().filter_map(|segment| match segment {
                    TextSegment::Sealed { alias, .. } => Some(alias),
                    TextSegment::Plain(_) => None,
                });
                names.extend(sealed);
            }
            Value::List(items) => items.iter().for_each(|item| self.add_references(item, run_tree, names)),
            Value::Map(map) => map.iter().for_each(|(_, inner)| self.add_references(inner, run_tree, names)),
            _ => {}
        }
    }

    /// Returns the fingerprint of the key if the value contains a reference that belongs to this run tree.
    fn fingerprint_if_sealed(&self, value: &Value, run_tree: &str) -> Option<Arc<str>> {
        let own = |text: &str| {
            self.seals.segments(run_tree, text).iter().any(|piece| matches!(piece, TextSegment::Sealed { .. }))
        };
        any_text(value, &own).then(|| self.seals.key_fingerprint())?.map(Arc::from)
    }

    /// Checks that this worker has the key of the server that sealed the call's references.
    ///
    /// Without the key the references would be sent to a service as plain text.
    fn can_open(&self, sealed_by: Option<&str>) -> Result<(), ErrorInfo> {
        let (Some(theirs), own) = (sealed_by, self.seals.key_fingerprint()) else { return Ok(()) };
        let hint = "WINDLASS_SEAL_KEY of the worker must be the content of the file seal.key in the server's store";
        let message = match own.as_deref() {
            Some(own) if own == theirs => return Ok(()),
            Some(_) => "the input has secret references, but this worker's seal key differs from the server's",
            None => "the input has secret references, but this worker has no seal key to open them",
        };
        Err(ErrorInfo::new("NoSealKey", "auth", message).hint(hint))
    }

    /// Opens every reference that was made here for this run tree. Any other reference remains text.
    fn open(&self, value: &Value, run_tree: &str, opened: &mut OpenedSecrets) -> Result<Value, ErrorInfo> {
        Ok(match value {
            Value::Str(text) if text.contains(SECRET_REFERENCE_PREFIX) => {
                Value::from(self.open_text(text, run_tree, opened)?)
            }
            Value::List(items) => Value::list(
                items.iter().map(|item| self.open(item, run_tree, opened)).collect::<Result<_, ErrorInfo>>()?,
            ),
            Value::Map(map) => {
                let inner = map.iter().map(|(key, inner)| Ok((key.clone(), self.open(inner, run_tree, opened)?)));
                Value::map(inner.collect::<Result<Map, ErrorInfo>>()?)
            }
            other => other.clone(),
        })
    }

    fn open_text(&self, text: &str, run_tree: &str, opened: &mut OpenedSecrets) -> Result<String, ErrorInfo> {
        let mut whole = String::with_capacity(text.len());
        for piece in self.seals.segments(run_tree, text) {
            match piece {
                TextSegment::Plain(text) => whole.push_str(text),
                TextSegment::Sealed { seal, alias, field } => {
                    let secret = credential_field(&alias, &field, &*self.credentials)?;
                    whole.push_str(&secret);
                    opened.0.push((seal.to_owned(), secret));
                }
            }
        }
        Ok(whole)
    }
}

fn any_text(value: &Value, fits: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::Str(text) => fits(text),
        Value::List(items) => items.iter().any(|item| any_text(item, fits)),
        Value::Map(map) => map.iter().any(|(_, inner)| any_text(inner, fits)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
