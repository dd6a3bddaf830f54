//! Tokens for single definitions. Every route with a run or a definition in its path is checked here; a route without
//! them is refused unless its handler selects by content ([`Selecting`](super::Selecting)).

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::StatusCode;
use axum::http::request::Parts;
use windlass_store::RunFilter;

use super::keys::TokenIdentity;
use crate::api::extract::{DefinitionName, RunId};
use crate::problem::codes;
use crate::{ApiProblem, App};

impl TokenIdentity {
    /// Returns whether the token is for single definitions.
    pub(crate) fn is_for_single_definitions(&self) -> bool {
        !self.definitions.is_empty()
    }

    /// Returns whether the token is for this definition.
    pub(crate) fn is_for(&self, definition: &str) -> bool {
        self.definitions.is_empty() || self.definitions.iter().any(|own| own == definition)
    }

    /// Rejects a definition that the token is not for.
    pub(crate) fn check_definition(&self, definition: &str) -> Result<(), ApiProblem> {
        match self.is_for(definition) {
            true => Ok(()),
            false => Err(self.refusal(&format!("not for the definition `{definition}`"))),
        }
    }

    fn refusal(&self, detail: &str) -> ApiProblem {
        let own = self.definitions.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        ApiProblem::new(StatusCode::FORBIDDEN, codes::FORBIDDEN, format!("the token `{}` is {detail}", self.name))
            .hint(format!("it is for {own}; `windlass token create NAME --scope … --definition …` creates another"))
    }

    /// Splits a filter into filters that select only runs this token may see.
    pub(crate) fn permitted_filters(&self, filter: RunFilter) -> Result<Vec<RunFilter>, ApiProblem> {
        match &filter.definition {
            Some(definition) => self.check_definition(definition).map(|()| vec![filter]),
            None if !self.is_for_single_definitions() => Ok(vec![filter]),
            None => {
                let one = |name: &String| RunFilter { definition: Some(name.clone()), ..filter.clone() };
                Ok(self.definitions.iter().map(one).collect())
            }
        }
    }
}

/// Rejects a path with a run or a definition that the token is not for, and paths with neither.
pub(super) async fn check_path(parts: &mut Parts, app: &App, identity: &TokenIdentity) -> Result<(), ApiProblem> {
    let route = parts.extensions.get::<MatchedPath>().map_or_else(String::new, |path| path.as_str().to_owned());
    if route.starts_with("/api/v1/runs/{run}") {
        let RunId(run) = RunId::from_request_parts(parts, app).await?;
        let row = app.read_store(move |app| Ok(app.store.run(&run)?)).await?;
        // The handler reports a run that does not exist.
        return row.map_or(Ok(()), |row| identity.check_definition(&row.definition));
    }
    if route.starts_with("/api/v1/definitions/{name}") {
        let DefinitionName(name) = DefinitionName::from_request_parts(parts, app).await?;
        return identity.check_definition(&name);
    }
    Err(identity.refusal("for single definitions, and this route is about all of them"))
}
