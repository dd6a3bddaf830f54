//! The secrets that a process knows, for redaction. It learns more of them while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::secret::{Redactor, Secret};

/// The secrets to redact from everything that tools and workers report. Clones share them.
#[derive(Clone, Default)]
pub struct KnownSecrets(Arc<RwLock<KnownState>>);

#[derive(Default)]
struct KnownState {
    configured: Redactor,
    learned: BTreeMap<String, LearnedSecrets>,
    all: Redactor,
}

/// The secrets of a credential. Work that began with the value before a change may still repeat that one.
#[derive(Default)]
struct LearnedSecrets {
    current: Vec<Secret>,
    previous: Vec<Secret>,
}

impl KnownSecrets {
    /// Creates a set that contains the secrets of the settings.
    pub fn new<'a>(configured: impl IntoIterator<Item = &'a Secret>) -> KnownSecrets {
        let known = KnownSecrets::default();
        known.configure(configured);
        known
    }

    /// Replaces the secrets of the settings; learned ones stay.
    pub fn configure<'a>(&self, configured: impl IntoIterator<Item = &'a Secret>) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        state.configured = Redactor::from_secrets(configured);
        state.refresh();
    }

    /// Adds the secrets of a credential. They stay known until two later values have replaced them.
    pub fn learn(&self, credential: &str, secrets: Vec<Secret>) {
        let is_known = |state: &KnownState| {
            state.learned.get(credential).map_or(secrets.is_empty(), |learned| learned.current == secrets)
        };
        // Every call of a tool gets here, and almost none has news.
        if is_known(&self.0.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let learned = state.learned.entry(credential.to_owned()).or_default();
        learned.previous = std::mem::replace(&mut learned.current, secrets);
        state.refresh();
    }

    /// Returns the redaction of all secrets that are known now.
    pub fn redactor(&self) -> Redactor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).all.clone()
    }
}

impl KnownState {
    fn refresh(&mut self) {
        let learned = self.learned.values().flat_map(|learned| learned.current.iter().chain(&learned.previous));
        self.all = self.configured.merged_with(&Redactor::from_secrets(learned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_before_a_change_is_redacted_as_well() {
        let known = KnownSecrets::new(&[Secret::new("configured-1")]);
        let text = "configured-1 first-value second-value third-value";
        for (value, expected) in [
            ("first-value", "*** *** second-value third-value"),
            ("second-value", "*** *** *** third-value"),
            ("third-value", "*** first-value *** ***"),
        ] {
            let before = known.clone();
            known.learn("shop", vec![Secret::new(value)]);
            known.learn("shop", vec![Secret::new(value)]);
            assert_eq!(before.redactor().redact_text(text), expected);
        }
    }
}
