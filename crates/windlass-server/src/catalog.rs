//! Registered definitions and their versions.
//!
//! The store keeps them as records; the data needed to start runs is cached in memory. A run is pinned to its plan,
//! so nothing here affects runs that have started.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use windlass_core::Program;
use windlass_core::plan::{Plan, Trigger};
use windlass_runtime::{CallerDefinition, RuntimeEngine, RuntimeError, real_now};
use windlass_store::{RecordChange, RecordRow, Store, StoreError, StoreErrorKind};
use windlass_syntax::DiagnosticReport;
use windlass_value::{BlobHash, Map, Timestamp, Value};

use crate::triggers::settings;
use crate::{CompiledDraft, DefinitionCatalog, DefinitionCompiler, DefinitionDraft, RegisteredVersion};

mod file_sources;
mod records;
mod servable;

pub use file_sources::{FileConflict, FileSources};
pub use records::parse_hash;
use records::{each_record, to_json_bytes, unreadable, version_key};
use servable::check_servable;

pub(crate) const DEFINITION: &str = "definition";
pub(crate) const VERSION: &str = "version";
pub const PLAN: &str = "plan";

/// Number of attempts of a registration that conflicts with concurrent changes.
const MAX_TRIES: usize = 20;

/// A definition with the version used by new runs.
#[derive(Clone, Debug)]
pub struct Definition {
    pub name: Arc<str>,
    pub current: Version,
    /// Number of versions.
    pub versions: u64,
    /// Whether its triggers may start runs.
    pub enabled: bool,
    /// Time of the newest re-enabling.
    pub enabled_at: Option<Timestamp>,
    pub triggers: Vec<(Arc<str>, Arc<str>)>,
    trigger_starts: TriggerStarts,
    /// Time of its removal. A removed definition starts no runs; its versions stay for the runs that use them.
    pub removed_at: Option<Timestamp>,
    revision: u64,
}

/// The time since which each trigger has been unchanged, across versions. Keyed by the lower-case name.
type TriggerStarts = BTreeMap<String, Timestamp>;

impl Definition {
    /// Returns the time since which a trigger has been unchanged; times due before that are ignored.
    pub(crate) fn trigger_start(&self, trigger: &str) -> Timestamp {
        self.trigger_starts.get(&trigger.to_lowercase()).copied().unwrap_or(self.current.registered_at)
    }
}

/// One version of a definition, as it was registered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Version {
    pub version: u64,
    /// The hash of its plan.
    pub hash: String,
    pub dialect: Arc<str>,
    pub registered_at: Timestamp,
    /// Name of the token that registered it.
    pub by: Arc<str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Version {
    pub fn plan(&self) -> BlobHash {
        parse_hash(&self.hash).unwrap_or(BlobHash([0; 32]))
    }
}

/// A record of the kind [`DEFINITION`].
#[derive(Serialize, Deserialize)]
struct DefinitionRecord {
    current: u64,
    versions: u64,
    enabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    enabled_at: Option<Timestamp>,
    /// Names and kinds.
    triggers: Vec<(Arc<str>, Arc<str>)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    begun: TriggerStarts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removed_at: Option<Timestamp>,
}

impl DefinitionRecord {
    fn from_definition(definition: &Definition) -> DefinitionRecord {
        DefinitionRecord {
            current: definition.current.version,
            versions: definition.versions,
            enabled: definition.enabled,
            enabled_at: definition.enabled_at,
            triggers: definition.triggers.clone(),
            begun: definition.trigger_starts.clone(),
            removed_at: definition.removed_at,
        }
    }
}

/// A record of the kind [`PLAN`].
#[derive(Serialize, Deserialize)]
struct PlanRecord {
    name: Arc<str>,
    version: u64,
}

/// The result of a registration.
pub struct RegistrationResult {
    pub definition: Definition,
    pub program: Arc<Program>,
    pub warnings: Vec<DiagnosticReport>,
    /// The version differs from the one that new runs used before.
    pub is_new: bool,
}

/// The reason why a definition could not be registered.
pub enum RegistrationError {
    /// The definition has these problems.
    Invalid(Vec<DiagnosticReport>),
    /// The definition comes from a file.
    FromFile(FileConflict),
    Refused(RuntimeError),
}

impl<E: Into<RuntimeError>> From<E> for RegistrationError {
    fn from(error: E) -> RegistrationError {
        RegistrationError::Refused(error.into())
    }
}

/// The registered definitions, in the store and in memory.
pub struct Definitions {
    index: RwLock<DefinitionIndex>,
    changed: watch::Sender<u64>,
    /// Problems in the files of definitions, in development mode, where definitions are files.
    problems: RwLock<BTreeMap<Arc<str>, Vec<DiagnosticReport>>>,
    pub files: FileSources,
}

#[derive(Default)]
struct DefinitionIndex {
    definitions: BTreeMap<Arc<str>, Arc<Definition>>,
    /// Removed definitions, which start no more runs.
    removed: BTreeMap<Arc<str>, Arc<Definition>>,
    plans: BTreeMap<BlobHash, (Arc<str>, u64)>,
}

impl DefinitionIndex {
    /// Adds a definition unless a newer revision is known: of concurrent writers, the last one to arrive here need not
    /// be the last one that wrote.
    fn insert(&mut self, definition: Definition) {
        let name = definition.name.clone();
        let previous = self.definitions.get(&name).or_else(|| self.removed.get(&name));
        if previous.is_some_and(|known| known.revision > definition.revision) {
            return;
        }
        let (to, from) = match definition.removed_at {
            Some(_) => (&mut self.removed, &mut self.definitions),
            None => (&mut self.definitions, &mut self.removed),
        };
        from.remove(&name);
        to.insert(name, Arc::new(definition));
    }
}

impl Default for Definitions {
    fn default() -> Definitions {
        let (index, changed, problems) = (RwLock::default(), watch::Sender::new(0), RwLock::default());
        Definitions { index, changed, problems, files: FileSources::default() }
    }
}

impl Definitions {
    /// Loads all definitions of the store. Plans are loaded on demand.
    pub fn load(engine: &RuntimeEngine) -> Result<Definitions, StoreError> {
        let store = engine.store().as_ref();
        let definitions = Definitions::default();
        let mut index = DefinitionIndex::default();
        each_record(store, PLAN, |record| {
            if let (Some(hash), Ok(plan_record)) =
                (parse_hash(&record.key), serde_json::from_slice::<PlanRecord>(&record.body))
            {
                index.plans.insert(hash, (plan_record.name, plan_record.version));
            }
            Ok(())
        })?;
        each_record(store, DEFINITION, |record| {
            let definition = match decode_definition(store, &record) {
                // The others are served without it.
                Err(error) if error.kind == StoreErrorKind::Damaged => {
                    tracing::error!(definition = record.key, reason = error.message, "damaged definition");
                    return Ok(());
                }
                decoded => decoded?,
            };
            if definition.removed_at.is_none() {
                engine.name_plan(&definition.name, definition.current.plan());
            }
            index.insert(definition);
            Ok(())
        })?;
        *definitions.index.write().unwrap_or_else(PoisonError::into_inner) = index;
        Ok(definitions)
    }

    fn index(&self) -> RwLockReadGuard<'_, DefinitionIndex> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, name: &str) -> Option<Arc<Definition>> {
        self.index().definitions.get(name).cloned()
    }

    /// Returns a removed definition that has not been registered again since.
    pub(crate) fn removed(&self, name: &str) -> Option<Arc<Definition>> {
        self.index().removed.get(name).cloned()
    }

    /// Returns definitions in order of their names, beginning after a name.
    pub(crate) fn after(&self, after: &str, fits: impl Fn(&Definition) -> bool, limit: usize) -> Vec<Arc<Definition>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let index = self.index();
        let rest = index.definitions.range::<str, _>((Excluded(after), Unbounded));
        rest.map(|(_, definition)| definition).filter(|definition| fits(definition)).take(limit).cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Definition>> {
        self.index().definitions.values().cloned().collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.index().definitions.keys().map(ToString::to_string).collect()
    }

    /// Returns the definition and version of a plan.
    pub(crate) fn version_of_plan(&self, plan: &BlobHash) -> Option<(Arc<str>, u64)> {
        self.index().plans.get(plan).cloned()
    }

    /// Sets or clears the problems of a definition's file. The registered version stays.
    pub fn set_problems(&self, name: &Arc<str>, problems: Vec<DiagnosticReport>) {
        let mut stored = self.problems.write().unwrap_or_else(PoisonError::into_inner);
        match problems.is_empty() {
            true => drop(stored.remove(name)),
            false => drop(stored.insert(name.clone(), problems)),
        }
    }

    /// Returns the problems of definition files, including definitions that were never registered.
    pub(crate) fn problems(&self) -> BTreeMap<Arc<str>, Vec<DiagnosticReport>> {
        self.problems.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a counter that increases with every change, so that trigger listeners reload.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Reads one version from the store.
    pub(crate) fn version(&self, store: &dyn Store, name: &str, version: u64) -> Result<Option<Version>, StoreError> {
        match self.get(name).filter(|definition| definition.current.version == version) {
            Some(definition) => Ok(Some(definition.current.clone())),
            None => read_version(store, name, version),
        }
    }

    /// Returns versions of a definition below a number, newest first.
    pub(crate) fn versions(
        &self,
        store: &dyn Store,
        name: &str,
        before: u64,
        limit: u32,
    ) -> Result<Vec<Version>, StoreError> {
        let newest = self.get(name).or_else(|| self.removed(name)).map_or(0, |definition| definition.versions);
        let below = newest.min(before.saturating_sub(1));
        let numbers = (1..=below).rev().take(limit as usize);
        let read = |number| match read_version(store, name, number) {
            // Its damage does not hide the other versions.
            Err(error) if error.kind == StoreErrorKind::Damaged => None,
            read => read.transpose(),
        };
        numbers.filter_map(read).collect()
    }

    /// Compiles a draft and registers the result. Blocking: compiles and writes.
    ///
    /// Labels are part of the plan: runs inherit them, and different labels make a new version. They are added to the
    /// labels of the text itself.
    pub fn register(
        &self,
        engine: &RuntimeEngine,
        compiler: &dyn DefinitionCompiler,
        draft: &DefinitionDraft,
        labels: BTreeMap<String, String>,
        by: &str,
    ) -> Result<RegistrationResult, RegistrationError> {
        let view = CompilerView { definitions: self, engine };
        let compiled = compiler.compile(draft, &view).map_err(RegistrationError::Invalid)?;
        let name = compiled.plan.name.clone();
        let registered = self.files.change(&name, || self.register_compiled(engine, compiled, labels, by));
        registered.map_err(RegistrationError::FromFile)?
    }

    /// Registers a definition that was compiled from a file.
    pub fn register_compiled(
        &self,
        engine: &RuntimeEngine,
        compiled: CompiledDraft,
        labels: BTreeMap<String, String>,
        by: &str,
    ) -> Result<RegistrationResult, RegistrationError> {
        let problems = check_servable(&compiled.plan);
        if !problems.is_empty() {
            return Err(RegistrationError::Invalid(problems));
        }
        let (hash, program) = engine.add_plan(with_labels(compiled.plan, labels))?;
        let stored = self.store_version(engine, &program.plan, hash, by);
        // Calls by name must use the same version as starts, even after concurrent registrations and after a failed
        // one.
        match self.get(&program.plan.name) {
            Some(newest) => engine.name_plan(&newest.name, newest.current.plan()),
            None => engine.forget_name(&program.plan.name),
        }
        let (definition, new) = stored?;
        Ok(RegistrationResult { definition, program, warnings: compiled.warnings, is_new: new })
    }

    /// Makes a plan the current version of its name. Registering the same plan again yields the same version.
    fn store_version(
        &self,
        engine: &RuntimeEngine,
        plan: &Plan,
        hash: BlobHash,
        by: &str,
    ) -> Result<(Definition, bool), StoreError> {
        let store = engine.store().as_ref();
        let labels = CallerDefinition::from_plan(plan).labels;
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        for _ in 0..MAX_TRIES {
            let now = real_now();
            let record = store.record(DEFINITION, &plan.name)?;
            let before = match record.as_ref().map(|record| decode_definition(store, record)).transpose() {
                // Its current version is damaged or was removed as damaged: a new one replaces it.
                Err(error) if error.kind == StoreErrorKind::Damaged => None,
                before => before?,
            };
            // A removed definition continues its version numbers, but otherwise counts as new.
            let active = before.as_ref().filter(|before| before.removed_at.is_none());
            let plan_record = store.record(PLAN, &hash.to_string())?;
            let plan_record: Option<PlanRecord> =
                plan_record.and_then(|record| serde_json::from_slice(&record.body).ok());
            if let Some(same) = active.filter(|before| before.current.hash == hash.to_string()) {
                self.index_definition(same.clone());
                return Ok((same.clone(), false));
            }
            let versions = record.as_ref().map_or(0, count_versions);
            let mut changes = Vec::new();
            let version = match &plan_record {
                // A plan that was registered before becomes that version again.
                Some(known) => match read_version(store, &plan.name, known.version) {
                    Err(error) if error.kind == StoreErrorKind::Damaged => None,
                    version => version?,
                },
                None => None,
            };
            let version = match version {
                Some(version) => version,
                None => {
                    let version = Version {
                        version: versions + 1,
                        hash: hash.to_string(),
                        dialect: plan.dialect.clone(),
                        registered_at: now,
                        by: by.into(),
                        labels: labels.clone(),
                    };
                    let plan_record = PlanRecord { name: plan.name.clone(), version: version.version };
                    let key = version_key(&plan.name, version.version);
                    changes
                        .push(RecordChange::put(VERSION, &key, to_json_bytes(&version), now).with_expected_revision(0));
                    changes.push(RecordChange::put(PLAN, &hash.to_string(), to_json_bytes(&plan_record), now));
                    version
                }
            };
            let triggers: Vec<_> = plan.triggers.iter().map(|one| (one.name.clone(), one.kind.clone())).collect();
            let stored = DefinitionRecord {
                current: version.version,
                versions: versions.max(version.version),
                enabled: active.is_none_or(|before| before.enabled),
                enabled_at: active.and_then(|before| before.enabled_at),
                triggers,
                begun: trigger_starts(engine, active, plan, now),
                removed_at: None,
            };
            let expected = record.as_ref().map_or(0, |record| record.revision);
            changes.push(
                RecordChange::put(DEFINITION, &plan.name, to_json_bytes(&stored), now).with_expected_revision(expected),
            );
            if store.change_records(changes)? {
                self.reload_definition(store, &plan.name)?;
                // The caller does not need the revision; another version may have been registered since.
                return Ok((build_definition(plan.name.clone(), version, stored, 0), true));
            }
        }
        let why = format!("`{}` was changed concurrently {MAX_TRIES} times", plan.name);
        Err(StoreError::new(StoreErrorKind::Busy, why))
    }

    /// Enables or disables the triggers of a definition. Returns None if there is no such definition.
    pub fn enable(&self, store: &dyn Store, name: &str, enabled: bool) -> Result<Option<Definition>, StoreError> {
        for _ in 0..MAX_TRIES {
            let Some(record) = store.record(DEFINITION, name)? else { return Ok(None) };
            let mut definition = decode_definition(store, &record)?;
            if definition.removed_at.is_some() {
                return Ok(None);
            }
            if definition.enabled != enabled {
                definition.enabled = enabled;
                let now = real_now();
                definition.enabled_at = Some(now).filter(|_| enabled).or(definition.enabled_at);
                let change = RecordChange::put(
                    DEFINITION,
                    name,
                    to_json_bytes(&DefinitionRecord::from_definition(&definition)),
                    now,
                );
                if !store.change_records(vec![change.with_expected_revision(record.revision)])? {
                    continue;
                }
            }
            self.reload_definition(store, name)?;
            return Ok(Some(definition));
        }
        Err(StoreError::new(StoreErrorKind::Busy, format!("`{name}` was changed concurrently {MAX_TRIES} times")))
    }

    /// Removes a definition so that nothing starts it, together with its trigger settings. Returns None if there is
    /// none.
    pub(crate) fn remove(&self, engine: &RuntimeEngine, name: &str) -> Result<Option<Definition>, StoreError> {
        let store = engine.store().as_ref();
        for _ in 0..MAX_TRIES {
            let Some(record) = store.record(DEFINITION, name)? else { return Ok(None) };
            let mut definition = decode_definition(store, &record)?;
            if definition.removed_at.is_some() {
                return Ok(None);
            }
            let now = real_now();
            definition.removed_at = Some(now);
            let change = RecordChange::put(
                DEFINITION,
                name,
                to_json_bytes(&DefinitionRecord::from_definition(&definition)),
                now,
            );
            let mut changes = vec![change.with_expected_revision(record.revision)];
            changes.extend(settings::removals_for_definition(store, name)?);
            if store.change_records(changes)? {
                engine.forget_name(name);
                self.reload_definition(store, name)?;
                return Ok(Some(definition));
            }
        }
        Err(StoreError::new(StoreErrorKind::Busy, format!("`{name}` was changed concurrently {MAX_TRIES} times")))
    }

    /// Reloads a definition from the store.
    fn reload_definition(&self, store: &dyn Store, name: &str) -> Result<(), StoreError> {
        if let Some(record) = store.record(DEFINITION, name)? {
            self.index_definition(decode_definition(store, &record)?);
        }
        Ok(())
    }

    fn index_definition(&self, definition: Definition) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let plan = definition.current.plan();
        index.plans.insert(plan, (definition.name.clone(), definition.current.version));
        index.insert(definition);
        drop(index);
        self.changed.send_modify(|number| *number += 1);
    }

    /// Notifies trigger listeners that the settings of a trigger have changed.
    pub(crate) fn wake(&self) {
        self.changed.send_modify(|number| *number += 1);
    }

    /// Returns the view of the catalog that compilers use.
    pub(crate) fn catalog<'a>(&'a self, engine: &'a RuntimeEngine) -> impl DefinitionCatalog + 'a {
        CompilerView { definitions: self, engine }
    }
}

struct CompilerView<'a> {
    definitions: &'a Definitions,
    engine: &'a RuntimeEngine,
}

impl DefinitionCatalog for CompilerView<'_> {
    fn newest(&self, name: &str) -> Option<RegisteredVersion> {
        let definition = self.definitions.get(name)?;
        let plan = definition.current.plan();
        let program = self.engine.program(&plan).ok()?;
        Some(RegisteredVersion {
            name: definition.name.clone(),
            version: definition.current.version,
            dialect: definition.current.dialect.clone(),
            plan,
            source: program.plan.source.clone(),
        })
    }

    fn names(&self) -> Vec<String> {
        self.definitions.names()
    }
}

fn decode_definition(store: &dyn Store, record: &RecordRow) -> Result<Definition, StoreError> {
    let stored: DefinitionRecord =
        serde_json::from_slice(&record.body).map_err(|error| unreadable(record, &error.to_string()))?;
    let current = read_version(store, &record.key, stored.current)?
        .ok_or_else(|| unreadable(record, &format!("its version {} is missing", stored.current)))?;
    Ok(build_definition(record.key.as_str().into(), current, stored, record.revision))
}

/// Returns the number of versions that a definition had, whether they can be read or not.
fn count_versions(record: &RecordRow) -> u64 {
    serde_json::from_slice::<DefinitionRecord>(&record.body).map_or(0, |stored| stored.versions)
}

fn build_definition(name: Arc<str>, current: Version, stored: DefinitionRecord, revision: u64) -> Definition {
    let DefinitionRecord { versions, enabled, enabled_at, triggers, begun, removed_at, .. } = stored;
    Definition { name, current, versions, enabled, enabled_at, triggers, trigger_starts: begun, removed_at, revision }
}

/// Returns the start times of a plan's triggers.
///
/// A trigger that the previous version already had unchanged keeps its start time: frequent registrations must not
/// keep it from firing, and missed times are caught up. Any other trigger starts now, also one that an older version
/// had.
fn trigger_starts(engine: &RuntimeEngine, before: Option<&Definition>, plan: &Plan, now: Timestamp) -> TriggerStarts {
    let old = before.and_then(|before| engine.program(&before.current.plan()).ok());
    let same = |trigger: &Trigger| {
        let old = old.as_ref()?.plan.triggers.iter().find(|old| old.name.eq_ignore_ascii_case(&trigger.name))?;
        let times =
            |trigger: &Trigger| ["recurrence", "cron", "timeZone"].map(|name| trigger.settings.get(name).cloned());
        let is_same = old.kind == trigger.kind && times(old) == times(trigger);
        // A clock that was set back may have registered it in the future.
        Some(before?.trigger_start(&trigger.name)).filter(|since| is_same && *since <= now)
    };
    let one = |trigger: &Trigger| (trigger.name.to_lowercase(), same(trigger).unwrap_or(now));
    plan.triggers.iter().map(one).collect()
}

fn read_version(store: &dyn Store, name: &str, version: u64) -> Result<Option<Version>, StoreError> {
    let Some(record) = store.record(VERSION, &version_key(name, version))? else { return Ok(None) };
    serde_json::from_slice(&record.body).map(Some).map_err(|error| unreadable(&record, &error.to_string()))
}

/// Adds labels to the plan's metadata, where tools and workers read them.
fn with_labels(mut plan: Plan, labels: BTreeMap<String, String>) -> Plan {
    if labels.is_empty() {
        return plan;
    }
    let mut facts = plan.metadata.as_map().cloned().unwrap_or_default();
    let mut all: Map = facts.get("labels").and_then(Value::as_map).cloned().unwrap_or_default();
    for (name, value) in labels {
        all.insert(name.as_str(), value);
    }
    facts.insert("labels", Value::map(all));
    plan.metadata = Value::map(facts);
    plan
}
