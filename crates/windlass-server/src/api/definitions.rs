//! Definitions: register, read, check.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::Program;
use windlass_syntax::{DiagnosticReport, did_you_mean};
use windlass_value::Value;

use super::extract::{self, DefinitionName, Json, Query, is_definition_name, page_size};
use super::models::{ListPage, ParameterInfo, TriggerInfo, TriggerSummary};
use crate::auth::{Admin, Allowed, Control, Read, Selecting};
use crate::catalog::{Definition, FileConflict, RegistrationError, RegistrationResult, Version};
use crate::problem::codes;
use crate::{ApiProblem, App, DefinitionDraft};

/// Default and maximum number of definitions per page.
const DEFAULT_PAGE_SIZE: u32 = 100;
const MAX_PAGE_SIZE: u32 = 1_000;

/// Maximum length of a label.
const MAX_LABEL_BYTES: usize = 256;

/// A definition to be registered.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegisterRequest {
    /// The text of the definition.
    pub source: String,
    /// Name of the definition. It overrides the name in the text; one of the two is required.
    pub name: Option<String>,
    /// loom, noetl or zenflow, if the text does not determine it.
    pub dialect: Option<String>,
    /// Labels that a worker must all have to run its tasks. They are part of the version.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A definition to be checked without registering it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckRequest {
    /// The text of the definition.
    pub source: String,
    /// Name of the definition, if the text has none.
    pub name: Option<String>,
    /// loom, noetl or zenflow, if the text does not determine it.
    pub dialect: Option<String>,
}

/// The result of a registration.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RegisterResponse {
    /// Name of the definition.
    pub name: String,
    /// The version, counted from 1.
    pub version: u64,
    /// Hash of the plan: the same text with the same referenced definitions has the same hash.
    pub hash: String,
    /// Name of the dialect.
    pub dialect: String,
    /// RFC 3339
    pub registered_at: String,
    /// The version differs from the one that new runs used before.
    pub is_new: bool,
    /// As in `windlass check --json`.
    #[schema(value_type = Vec<Object>)]
    pub warnings: Vec<DiagnosticReport>,
    /// The triggers of the definition.
    pub triggers: Vec<TriggerSummary>,
}

/// The result of a check.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckResponse {
    /// Whether there are no errors; there may be warnings.
    pub valid: bool,
    /// Name of the definition, as far as it can be read.
    pub name: Option<String>,
    /// Name of the dialect, if it was recognized.
    pub dialect: Option<String>,
    /// As in `windlass check --json`.
    #[schema(value_type = Vec<Object>)]
    pub problems: Vec<DiagnosticReport>,
    /// Nodes and edges, if it is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub graph: Option<Value>,
}

/// A definition in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DefinitionSummary {
    /// Name of the definition.
    pub name: String,
    /// The current version; 0 for a file that was never valid.
    pub version: u64,
    /// Name of the dialect.
    pub dialect: String,
    /// Hash of the plan.
    pub hash: String,
    /// Time of the current version's registration, RFC 3339.
    pub registered_at: String,
    /// Name of the token that registered it.
    pub by: String,
    /// Whether its triggers may start runs.
    pub enabled: bool,
    /// The triggers of the definition.
    pub triggers: Vec<TriggerSummary>,
    /// Problems of its file in development mode (`windlass dev`); the last valid version stays registered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub problems: Vec<DiagnosticReport>,
}

impl DefinitionSummary {
    /// Describes a file that was never registered.
    fn broken(name: &str, problems: Vec<DiagnosticReport>) -> DefinitionSummary {
        DefinitionSummary {
            name: name.to_owned(),
            version: 0,
            dialect: String::new(),
            hash: String::new(),
            registered_at: String::new(),
            by: String::new(),
            enabled: false,
            triggers: Vec::new(),
            problems,
        }
    }
}

/// One version of a definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DefinitionDetail {
    /// Name of the definition.
    pub name: String,
    /// The version that is described.
    pub version: u64,
    /// Number of versions.
    pub versions: u64,
    /// Name of the dialect.
    pub dialect: String,
    /// Hash of the plan.
    pub hash: String,
    /// The text of the definition.
    pub source: String,
    /// RFC 3339
    pub registered_at: String,
    /// Name of the token that registered it.
    pub by: String,
    /// Whether its triggers may start runs.
    pub enabled: bool,
    /// Time of its removal; nothing starts it since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<String>,
    /// Labels that a worker must all have to run its tasks.
    pub labels: BTreeMap<String, String>,
    /// The inputs that it declares.
    pub parameters: Vec<ParameterInfo>,
    /// Its triggers.
    pub triggers: Vec<TriggerInfo>,
    /// Tools that it needs.
    pub tools: Vec<String>,
}

/// A version of a definition in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionSummary {
    /// The version, counted from 1.
    pub version: u64,
    /// Hash of the plan.
    pub hash: String,
    /// Name of the dialect.
    pub dialect: String,
    /// RFC 3339
    pub registered_at: String,
    /// Name of the token that registered it.
    pub by: String,
    /// Labels that a worker must all have to run its tasks.
    pub labels: BTreeMap<String, String>,
    /// Whether new runs use this version. False for all versions of a removed definition.
    pub current: bool,
    /// Time of the definition's removal; nothing starts it since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<String>,
}

/// The result of enabling or disabling a definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnabledResponse {
    /// Name of the definition.
    pub name: String,
    /// Whether its triggers may start runs.
    pub enabled: bool,
}

/// The filter and the page of a list of definitions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DefinitionListQuery {
    /// Part of the name.
    search: Option<String>,
    /// Maximum number of entries; 100 by default, at most 1,000.
    limit: Option<u32>,
    /// The last name of the previous page.
    after: Option<String>,
}

/// The page of a list of versions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct VersionsQuery {
    /// Maximum number of entries; 100 by default, at most 1,000.
    limit: Option<u32>,
    /// The last version of the previous page.
    before: Option<u64>,
}

/// The version of a definition.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GraphQuery {
    /// The version; the current one by default.
    version: Option<u64>,
}

/// Registers a definition.
///
/// It is compiled against the registered definitions: calls and includes never come from a disk. The same text with
/// the same labels again is the same version; different labels make a new one. Running runs keep their version.
#[utoipa::path(post, path = "/api/v1/definitions", tag = "definitions", request_body = RegisterRequest,
    responses((status = 201, description = "registered", body = RegisterResponse), (status = 200, description = "the same version already exists", body = RegisterResponse),
        (status = 409, description = "the definition comes from a file of `windlass dev`", body = ApiProblem),
        (status = 422, description = "the definition has problems; `problems` lists them", body = ApiProblem)))]
pub(crate) async fn register(
    allowed: Allowed<Admin>,
    State(app): State<App>,
    Json(body): Json<RegisterRequest>,
) -> Result<Response, ApiProblem> {
    let RegisterRequest { source, name, dialect, labels } = body;
    check_labels(&labels, app.options.limits.max_labels)?;
    let draft = parse_draft(&app, source, name, dialect)?;
    let by = allowed.identity.name.clone();
    let registration = app
        .compute(move |app| {
            app.definitions.register(&app.engine, &*app.compiler, &draft, labels, &by).map_err(ApiProblem::from)
        })
        .await?;
    let status = if registration.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(register_response(registration))).into_response())
}

/// Checks a definition without registering it.
#[utoipa::path(post, path = "/api/v1/definitions/check", tag = "definitions", request_body = CheckRequest,
    responses((status = 200, description = "its problems, and its graph if there are none", body = CheckResponse)))]
pub(crate) async fn check(
    _: Allowed<Read>,
    State(app): State<App>,
    Json(body): Json<CheckRequest>,
) -> Result<axum::Json<CheckResponse>, ApiProblem> {
    let draft = parse_draft(&app, body.source, body.name, body.dialect)?;
    let checked = app.compute(move |app| {
        let catalog = app.definitions.catalog(&app.engine);
        Ok(match app.compiler.compile(&draft, &catalog) {
            Ok(compiled) => CheckResponse {
                valid: true,
                name: Some(compiled.plan.name.to_string()),
                dialect: Some(compiled.plan.dialect.to_string()),
                graph: Some(windlass_draw::plan(&compiled.plan).to_value()),
                problems: compiled.warnings,
            },
            Err(problems) => {
                CheckResponse { valid: false, name: draft.name, dialect: draft.dialect, problems, graph: None }
            }
        })
    });
    checked.await.map(axum::Json)
}

/// Lists all definitions by name.
#[utoipa::path(get, path = "/api/v1/definitions", tag = "definitions", params(DefinitionListQuery),
    responses((status = 200, description = "a page; `next` is the name for `after`", body = ListPage<DefinitionSummary>)))]
pub(crate) async fn list(
    selecting: Selecting<Read>,
    State(app): State<App>,
    Query(query): Query<DefinitionListQuery>,
) -> Result<axum::Json<ListPage<DefinitionSummary>>, ApiProblem> {
    let limit = page_size(query.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)? as usize;
    let search = query.search.unwrap_or_default().to_lowercase();
    let is_listed = |name: &str| name.to_lowercase().contains(&search) && selecting.identity.is_for(name);
    let fits = |definition: &Definition| is_listed(&definition.name);
    let mut found = app.definitions.after(&query.after.unwrap_or_default(), fits, limit + 1);
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| Value::from(last.name.clone()));
    let mut items: Vec<DefinitionSummary> = found.iter().map(|one| summary(one)).collect();
    let mut problems = app.definitions.problems();
    for item in &mut items {
        item.problems = problems.remove(item.name.as_str()).unwrap_or_default();
    }
    if !more {
        // Files that were never valid: they cannot be started, but their problems are shown.
        problems.retain(|name, _| app.definitions.get(name).is_none() && is_listed(name));
        items.extend(problems.into_iter().map(|(name, problems)| DefinitionSummary::broken(&name, problems)));
    }
    Ok(axum::Json(ListPage { items, next }))
}

/// Returns the current version of a definition.
#[utoipa::path(get, path = "/api/v1/definitions/{name}", tag = "definitions",
    params(("name" = String, Path, description = "encode a `/` in the name as `%2F`")),
    responses((status = 200, description = "its current version", body = DefinitionDetail), (status = 404, description = "there is no such definition or version", body = ApiProblem)))]
pub(crate) async fn get(
    _: Allowed<Read>,
    State(app): State<App>,
    DefinitionName(name): DefinitionName,
) -> Result<axum::Json<DefinitionDetail>, ApiProblem> {
    app.read_store(move |app| detail(app, &name, None)).await.map(axum::Json)
}

/// Lists the versions of a definition, newest first.
#[utoipa::path(get, path = "/api/v1/definitions/{name}/versions", tag = "definitions", params(("name" = String, Path), VersionsQuery),
    responses((status = 200, description = "a page; `next` is the number for `before`", body = ListPage<VersionSummary>), (status = 404, description = "there is no such definition", body = ApiProblem)))]
pub(crate) async fn versions(
    _: Allowed<Read>,
    State(app): State<App>,
    DefinitionName(name): DefinitionName,
    Query(query): Query<VersionsQuery>,
) -> Result<axum::Json<ListPage<VersionSummary>>, ApiProblem> {
    let limit = page_size(query.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
    app.read_store(move |app| {
        let definition = find_any(app, &name)?;
        let before = query.before.unwrap_or(u64::MAX);
        let mut found = app.definitions.versions(app.store.as_ref(), &name, before, limit + 1)?;
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let next = found.last().filter(|_| more).map(|last| Value::from(last.version));
        let one = |version: Version| VersionSummary {
            current: definition.removed_at.is_none() && version.version == definition.current.version,
            removed_at: definition.removed_at.map(|at| at.to_string()),
            version: version.version,
            hash: version.hash,
            dialect: version.dialect.to_string(),
            registered_at: version.registered_at.to_string(),
            by: version.by.to_string(),
            labels: version.labels,
        };
        Ok(axum::Json(ListPage { items: found.into_iter().map(one).collect(), next }))
    })
    .await
}

/// Returns one version of a definition.
#[utoipa::path(get, path = "/api/v1/definitions/{name}/versions/{version}", tag = "definitions",
    params(("name" = String, Path), ("version" = u64, Path)),
    responses((status = 200, description = "as it was registered", body = DefinitionDetail), (status = 404, description = "there is no such definition or version", body = ApiProblem)))]
pub(crate) async fn version(
    _: Allowed<Read>,
    State(app): State<App>,
    DefinitionName(name): DefinitionName,
    VersionNumber(number): VersionNumber,
) -> Result<axum::Json<DefinitionDetail>, ApiProblem> {
    app.read_store(move |app| detail(app, &name, Some(number))).await.map(axum::Json)
}

/// Returns the graph of a definition.
#[utoipa::path(get, path = "/api/v1/definitions/{name}/graph", tag = "definitions", params(("name" = String, Path), GraphQuery),
    responses((status = 200, description = "nodes and edges", body = Object), (status = 404, description = "there is no such definition or version", body = ApiProblem)))]
pub(crate) async fn graph(
    _: Allowed<Read>,
    State(app): State<App>,
    DefinitionName(name): DefinitionName,
    Query(query): Query<GraphQuery>,
) -> Result<axum::Json<Value>, ApiProblem> {
    app.read_store(move |app| {
        let (_, _, program) = find_version(app, &name, query.version)?;
        Ok(axum::Json(windlass_draw::plan(&program.plan).to_value()))
    })
    .await
}

/// Enables the triggers of a definition.
#[utoipa::path(post, path = "/api/v1/definitions/{name}/enable", tag = "definitions", params(("name" = String, Path)),
    responses((status = 200, description = "its triggers may start runs", body = EnabledResponse), (status = 404, description = "there is no such definition or version", body = ApiProblem)))]
pub(crate) async fn enable(
    _: Allowed<Control>,
    State(app): State<App>,
    DefinitionName(name): DefinitionName,
) -> Result<axum::Json<EnabledResponse>, ApiProblem> {
    set_enabled(app, name, true).await
}

/// Disables the triggers of a definition.
#[utoipa::path(post, path = "/api/v1/definitions/{name}/disable", tag = "definitions", params(("name" = String, Path)),
    responses((status = 200, description = "its triggers may not start runs", body = EnabledResponse), (status = 404, description = "there is no such definition or version", body = ApiProblem)))]
pub(crate) async fn disable(
    _: Allowed<Control>,
    State(app): State<App>,
    DefinitionName(name): DefinitionName,
) -> Result<axum::Json<EnabledResponse>, ApiProblem> {
    set_enabled(app, name, false).await
}

async fn set_enabled(app: App, name: String, enabled: bool) -> Result<axum::Json<EnabledResponse>, ApiProblem> {
    app.write_store(move |app| match app.definitions.enable(app.store.as_ref(), &name, enabled)? {
        Some(definition) => Ok(axum::Json(EnabledResponse { name, enabled: definition.enabled })),
        None => Err(unknown_definition(app, &name)),
    })
    .await
}

/// `{version}` of the path.
pub(crate) struct VersionNumber(u64);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for VersionNumber {
    type Rejection = ApiProblem;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &S,
    ) -> Result<VersionNumber, ApiProblem> {
        let text = extract::path_parameter(parts, state, "version").await?;
        let number = text.parse().map_err(|_| ApiProblem::not_found(format!("`{text}` is not a version number")))?;
        Ok(VersionNumber(number))
    }
}

fn parse_draft(
    app: &App,
    text: String,
    name: Option<String>,
    dialect: Option<String>,
) -> Result<DefinitionDraft, ApiProblem> {
    let max_bytes = app.limits.max_definition_bytes;
    if text.len() > max_bytes {
        let detail = format!("the definition has {} bytes; at most {max_bytes} are allowed", text.len());
        return Err(ApiProblem::new(StatusCode::PAYLOAD_TOO_LARGE, codes::TOO_LARGE, detail)
            .hint("raise `max_definition_bytes`, or split the definition"));
    }
    if let Some(name) = name.as_ref().filter(|name| !is_definition_name(name)) {
        return Err(ApiProblem::bad_request(format!("`{}` cannot be the name of a definition", name.escape_debug()))
            .hint("up to 256 bytes without control characters"));
    }
    Ok(DefinitionDraft { name, dialect, text })
}

fn check_labels(labels: &BTreeMap<String, String>, max_labels: usize) -> Result<(), ApiProblem> {
    let long = labels.iter().find(|(key, value)| key.is_empty() || key.len().max(value.len()) > MAX_LABEL_BYTES);
    match long {
        Some((key, _)) => {
            Err(ApiProblem::bad_request(format!("the label `{}` is empty or too long", key.escape_debug())))
        }
        None if labels.len() > max_labels => Err(ApiProblem::bad_request(format!("more than {max_labels} labels"))
            .hint("the operator can raise `server.max_labels` in windlass.toml")),
        None => Ok(()),
    }
}

fn register_response(registration: RegistrationResult) -> RegisterResponse {
    let RegistrationResult { definition, warnings, is_new: new, .. } = registration;
    RegisterResponse {
        name: definition.name.to_string(),
        version: definition.current.version,
        hash: definition.current.hash.clone(),
        dialect: definition.current.dialect.to_string(),
        registered_at: definition.current.registered_at.to_string(),
        is_new: new,
        warnings,
        triggers: trigger_summaries(&definition),
    }
}

fn trigger_summaries(definition: &Definition) -> Vec<TriggerSummary> {
    let one = |(name, kind): &(Arc<str>, Arc<str>)| TriggerSummary { name: name.to_string(), kind: kind.to_string() };
    definition.triggers.iter().map(one).collect()
}

fn summary(definition: &Definition) -> DefinitionSummary {
    DefinitionSummary {
        name: definition.name.to_string(),
        version: definition.current.version,
        dialect: definition.current.dialect.to_string(),
        hash: definition.current.hash.clone(),
        registered_at: definition.current.registered_at.to_string(),
        by: definition.current.by.to_string(),
        enabled: definition.enabled,
        problems: Vec::new(),
        triggers: trigger_summaries(definition),
    }
}

fn detail(app: &App, name: &str, number: Option<u64>) -> Result<DefinitionDetail, ApiProblem> {
    let (definition, version, program) = find_version(app, name, number)?;
    let plan = &program.plan;
    let mut tools: Vec<String> = plan.missing_tools(|_| false).into_iter().map(str::to_owned).collect();
    tools.sort_unstable();
    tools.dedup();
    let trigger = |trigger: &windlass_core::plan::Trigger| TriggerInfo {
        name: trigger.name.to_string(),
        kind: trigger.kind.to_string(),
        settings: trigger.settings.clone(),
    };
    Ok(DefinitionDetail {
        name: definition.name.to_string(),
        version: version.version,
        versions: definition.versions,
        dialect: version.dialect.to_string(),
        hash: version.hash,
        source: plan.source.to_string(),
        registered_at: version.registered_at.to_string(),
        by: version.by.to_string(),
        enabled: definition.enabled,
        removed_at: definition.removed_at.map(|at| at.to_string()),
        labels: version.labels,
        parameters: ParameterInfo::from_plan(plan),
        triggers: plan.triggers.iter().map(trigger).collect(),
        tools,
    })
}

/// Finds a definition by name, or returns a not-found problem.
pub(crate) fn find(app: &App, name: &str) -> Result<Arc<Definition>, ApiProblem> {
    app.definitions.get(name).ok_or_else(|| unknown_definition(app, name))
}

/// Finds a definition, including a removed one, which may still have runs.
fn find_any(app: &App, name: &str) -> Result<Arc<Definition>, ApiProblem> {
    app.definitions.get(name).or_else(|| app.definitions.removed(name)).ok_or_else(|| unknown_definition(app, name))
}

pub(crate) fn unknown_definition(app: &App, name: &str) -> ApiProblem {
    if let Some(at) = app.definitions.removed(name).and_then(|definition| definition.removed_at) {
        let problem = ApiProblem::not_found(format!("the definition `{name}` was removed at {at}"));
        return problem.hint("POST /api/v1/definitions registers it again; its versions stay readable");
    }
    let names = app.definitions.names();
    let problem = ApiProblem::not_found(format!("there is no definition `{name}`"));
    match did_you_mean(name, names.iter().map(String::as_str)) {
        Some(hint) => problem.hint(hint),
        None => problem.hint("POST /api/v1/definitions registers one"),
    }
}

/// Finds a version of a definition with its program; the current version by default.
pub(crate) fn find_version(
    app: &App,
    name: &str,
    number: Option<u64>,
) -> Result<(Arc<Definition>, Version, Arc<Program>), ApiProblem> {
    let definition = if number.is_some() { find_any(app, name) } else { find(app, name) }?;
    let number = number.unwrap_or(definition.current.version);
    let version = app.definitions.version(app.store.as_ref(), name, number)?.ok_or_else(|| {
        ApiProblem::not_found(format!("`{name}` has no version {number}"))
            .hint(format!("it has 1 to {}", definition.versions))
    })?;
    let program = app.engine.program(&version.plan())?;
    Ok((definition, version, program))
}

impl From<RegistrationError> for ApiProblem {
    fn from(why: RegistrationError) -> ApiProblem {
        match why {
            RegistrationError::Refused(error) => error.into(),
            RegistrationError::FromFile(conflict) => conflict.into(),
            RegistrationError::Invalid(problems) => {
                let count = problems.iter().filter(|one| one.severity == windlass_syntax::Severity::Error).count();
                let detail = match (count, problems.first()) {
                    (1, Some(first)) => format!("the definition cannot run: {}", first.message),
                    _ => format!("the definition has {count} problems"),
                };
                ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_DEFINITION, detail).problems(&problems)
            }
        }
    }
}

impl From<FileConflict> for ApiProblem {
    fn from(conflict: FileConflict) -> ApiProblem {
        match conflict {
            FileConflict::File { name, file } => {
                let detail = format!("`{name}` comes from {file}: the next scan of the files would undo this change");
                ApiProblem::conflict(detail).hint(format!("edit {file}; `windlass dev` registers it when it is saved"))
            }
            FileConflict::NotScanned => {
                ApiProblem::unavailable("`windlass dev` has not read its files yet").retry_after(1)
            }
        }
    }
}
