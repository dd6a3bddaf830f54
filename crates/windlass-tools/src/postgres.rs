//! The tool `postgres`: runs statements with values, which the server types, and returns rows as data.
//!
//! The text of a statement never contains a value. A credential is used to connect and appears neither in an outcome
//! nor in an error.

mod bind;
mod connect;
mod failure;
mod pool;
mod rows;

use std::sync::Arc;

use tokio_postgres::types::Type;
use windlass_core::{ErrorInfo, ProcessLimits, TaskOutcome};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_value::{Duration, Value};

use crate::credentials::{Credential, Credentials, DATABASE_ALIAS, resolve};
use crate::info::{ToolInfo, field, required};
use crate::input::{ToolInput, run_with_limit};
use crate::outbound::Outbound;
use crate::registry::ToolRegistration;
use crate::secret::Redactor;
use crate::sql::script::{self, ScriptStatement};
use crate::sql::{self, OUTPUTS, StatementResult, is_sole_in_operand};
use failure::PgFailure;
use pool::{BusyConnection, PendingCancel, PgConnection, PgPools};

pub(crate) const INFO: ToolInfo = ToolInfo {
    name: "postgres",
    description: "Runs SQL statements over a Postgres database, all of a call in one transaction.",
    inputs: &[
        field("auth", "text | object", "the alias of a credential: `postgres` if not given"),
        required("statements", "array", "{sql, params}; params are the values of $1, $2, …, typed by the statement"),
        field("numbered", "boolean", "also return command_0, command_1, …"),
        field("timeout", "number | text", "seconds or PT30S; then a cancel request is sent to the server"),
    ],
    outputs: OUTPUTS,
    errors: &[
        ("pg", "the server refused: the code is the SQLSTATE; facts.pg has code, message, detail"),
        ("connection", "the server cannot be reached, or the connection was lost"),
        ("timeout", "it took too long"),
        ("auth", "the alias is unknown here"),
        ("input", "a value does not fit the type of its parameter"),
    ],
};

pub(crate) const REGISTRATION: ToolRegistration = ToolRegistration {
    info: &INFO,
    build: |setup| {
        let options =
            PostgresOptions { outbound: setup.outbound.clone(), ..PostgresOptions::from_limits(setup.limits) };
        setup.with_sealed_inputs(PostgresTool::new(setup.credentials.clone(), options))
    },
};

/// Limits and rules of the statements of one engine.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Per credential.
    pub max_connections: usize,
    pub connect_timeout: Duration,
    pub default_timeout: Duration,
    /// Maximum number of row bytes that one statement may return.
    pub max_result_bytes: usize,
    /// Rules for servers that a definition names. Servers of a configured credential are trusted unless they are
    /// denied.
    pub outbound: Outbound,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions::from_limits(&ProcessLimits::default())
    }
}

impl PostgresOptions {
    /// Any address, with these limits.
    pub fn from_limits(limits: &ProcessLimits) -> PostgresOptions {
        PostgresOptions {
            max_connections: limits.max_sql_connections,
            connect_timeout: limits.max_connect_time,
            default_timeout: limits.default_tool_time,
            max_result_bytes: limits.max_sql_result_bytes,
            outbound: Outbound::open(),
        }
    }
}

/// Runs statements over Postgres databases. Clones share their connections.
#[derive(Clone)]
pub struct PostgresTool(Arc<Inner>);

struct Inner {
    credentials: Arc<dyn Credentials>,
    options: PostgresOptions,
    pools: PgPools,
}

impl PostgresTool {
    pub fn new(credentials: Arc<dyn Credentials>, options: PostgresOptions) -> PostgresTool {
        PostgresTool(Arc::new(Inner { credentials, options, pools: PgPools::default() }))
    }
}

impl Tool for PostgresTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let inner = self.0.clone();
        Box::pin(async move { inner.run(&call).await })
    }
}

impl Inner {
    async fn run(&self, call: &ToolCall) -> TaskOutcome {
        let done = async {
            let input = ToolInput::parse("postgres", &call.input)?;
            let default = Value::from(DATABASE_ALIAS);
            let facts = resolve(input.get("auth").unwrap_or(&default), &*self.credentials)?;
            self.run_with(call, &input, &facts).await.map_err(|failure| failure.redacted(&facts.redaction()))
        };
        match done.await {
            Ok(result) => failure::success_with_facts(TaskOutcome::success(result)),
            Err(failure) => failure.outcome(),
        }
    }

    async fn run_with(&self, call: &ToolCall, input: &ToolInput<'_>, facts: &Credential) -> Result<Value, PgFailure> {
        let limit = input.time_limit(call, self.options.default_timeout)?;
        let mut pieces = Vec::new();
        for entry in sql::entries(input)? {
            pieces.extend(script::split_statements(entry.sql, &entry.params)?);
        }
        let pool = self.pools.pool_for(facts, &self.options)?;
        let cancelling = PendingCancel::default();
        let tables = run_with_limit(call, limit, async {
            let mut busy = pool.take(&cancelling).await?;
            let mut done = run_statements(&mut busy, &pieces, self.options.max_result_bytes).await;
            // After a lost stale connection or a stale plan nothing has been executed, so a second attempt is safe.
            let lost = done.as_ref().is_err_and(PgFailure::is_lost) && busy.is_stale();
            if lost {
                busy = pool.reconnect(busy).await?;
            }
            if lost || done.as_ref().is_err_and(PgFailure::is_stale_plan) && !runs_outside_transaction(&pieces) {
                done = run_statements(&mut busy, &pieces, self.options.max_result_bytes).await;
            }
            let usable = done.as_ref().err().is_none_or(PgFailure::leaves_connection_usable);
            busy.finish(usable && !pieces.iter().any(ScriptStatement::changes_session_state));
            done
        });
        let tables = match tables.await {
            Ok(tables) => tables?,
            Err(stopped) => {
                cancelling.wait_sent().await;
                return Err(stopped.error("the statement").into());
            }
        };
        Ok(sql::build_output(tables, sql::wants_numbered(input)))
    }
}

/// Returns true if a statement begins or ends transactions itself, or cannot run inside one.
fn runs_outside_transaction(pieces: &[ScriptStatement<'_>]) -> bool {
    pieces.iter().any(ScriptStatement::runs_outside_transaction)
}

/// Runs several statements as one transaction, unless they manage their own.
async fn run_statements(
    busy: &mut BusyConnection,
    pieces: &[ScriptStatement<'_>],
    max_bytes: usize,
) -> Result<Vec<StatementResult>, PgFailure> {
    let connection = busy.running()?;
    let together = pieces.len() > 1 && !runs_outside_transaction(pieces);
    if together {
        connection.client.batch_execute("BEGIN").await?;
    }
    let mut tables = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match run_statement(connection, piece, together, max_bytes).await {
            Ok(table) => tables.push(table),
            Err(failure) => {
                if together {
                    // The server also rolls back when the connection ends.
                    let _ = connection.client.batch_execute("ROLLBACK").await;
                }
                return Err(failure);
            }
        }
    }
    if together {
        connection.client.batch_execute("COMMIT").await?;
    }
    Ok(tables)
}

async fn run_statement(
    connection: &mut PgConnection,
    piece: &ScriptStatement<'_>,
    together: bool,
    max_bytes: usize,
) -> Result<StatementResult, PgFailure> {
    // A statement that cannot be prepared aborts the transaction unless there is a savepoint.
    let guarded = together && !piece.params.is_empty() && !connection.has_prepared(&piece.sql);
    if guarded {
        connection.client.batch_execute(&format!("SAVEPOINT {SAVEPOINT}")).await?;
    }
    let prepared = match connection.prepare(&piece.sql, piece.has_cacheable_plan()).await {
        Err(failure) if failure.has_code("42P18") => typed_by_values(connection, piece, failure, guarded).await?,
        prepared => prepared?,
    };
    if guarded {
        connection.client.batch_execute(&format!("RELEASE SAVEPOINT {SAVEPOINT}")).await?;
    }
    let types = prepared.statement.params();
    if types.len() != piece.params.len() {
        let message = format!("the statement has {} parameters, but {} values", types.len(), piece.params.len());
        return Err(crate::input::bad_input(message).into());
    }
    let values = piece.params.iter().zip(types).enumerate();
    let bound = values.map(|(index, (value, kind))| {
        let alone = matches!(value, Value::List(_)) && is_sole_in_operand(&piece.sql, &format!("${}", index + 1));
        bind::bind(value, kind, piece.original_number(index), alone)
    });
    let bound = bound.collect::<Result<Vec<_>, ErrorInfo>>()?;
    connection.has_run = true;
    let rows = connection.client.query_raw(&prepared.statement, bound).await;
    let table = match rows {
        Ok(rows) => rows::read_rows(rows, &prepared, max_bytes).await,
        Err(error) => Err(error.into()),
    };
    if table.as_ref().is_err_and(PgFailure::is_stale_plan) {
        connection.forget(&piece.sql);
    }
    table
}

/// The savepoint to which a transaction rolls back if parameter types cannot be inferred.
const SAVEPOINT: &str = "windlass_untyped";

/// Prepares the statement again, giving each parameter whose type is ambiguous the type of its value.
async fn typed_by_values(
    connection: &mut PgConnection,
    piece: &ScriptStatement<'_>,
    failure: PgFailure,
    guarded: bool,
) -> Result<Arc<pool::PreparedStatement>, PgFailure> {
    let mut types = vec![Type::UNKNOWN; piece.params.len()];
    let mut failure = failure;
    for _ in 0..piece.params.len() {
        let number = failure.parameter_in_message().filter(|number| *number <= types.len());
        let Some(index) = number.and_then(|number| number.checked_sub(1)) else { break };
        types[index] = bind::natural_type(&piece.params[index]);
        if guarded {
            connection.client.batch_execute(&format!("ROLLBACK TO SAVEPOINT {SAVEPOINT}")).await?;
        }
        match connection.prepare_typed(&piece.sql, &types).await {
            Err(next) if next.has_code("42P18") => failure = next,
            prepared => return prepared,
        }
    }
    Err(failure)
}

impl PgFailure {
    fn redacted(self, secrets: &Redactor) -> PgFailure {
        self.map_text(|text| secrets.redact_text(text))
    }
}
