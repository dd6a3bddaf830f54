//! Checks arguments against the schema of a result, draft 2020-12.

use windlass_core::ErrorInfo;
use windlass_value::Value;

use windlass_tools::schema::{CompiledSchema as Compiled, Draft};

/// The maximum number of problems reported to a model.
const MAX_SHOWN_PROBLEMS: usize = 20;

pub(super) struct ResultSchema(Compiled);

impl ResultSchema {
    pub(super) fn compile(schema: &Value) -> Result<ResultSchema, ErrorInfo> {
        Compiled::compile(schema, Some(Draft::Draft202012)).map(ResultSchema).map_err(|problem| {
            ErrorInfo::new("BadResultSchema", "input", format!("the schema of the result is not valid: {problem}"))
                .hint("it is a JSON Schema of draft 2020-12")
        })
    }

    /// Returns all problems as one text.
    pub(super) async fn check(&self, arguments: &Value) -> Option<String> {
        let problems = self.0.problems(arguments, MAX_SHOWN_PROBLEMS).await?;
        Some(format!("the arguments do not match the schema: {problems}"))
    }
}
