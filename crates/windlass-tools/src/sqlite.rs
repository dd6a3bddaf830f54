//! The tool `sqlite`: runs statements over a database file on a blocking thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::{ToSqlOutput, Value as Cell, ValueRef};
use rusqlite::{Batch, Connection, Error, Statement};
use windlass_core::{ErrorInfo, ProcessLimits, TaskOutcome};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_value::{Map, Value, to_json};

use crate::info::{ToolInfo, field, required};
use crate::input::bad_input;
use crate::registry::ToolRegistration;
use crate::sql::blocking::{self, SqlSession, StopSignal};
use crate::sql::{OUTPUTS, SqlEntry, SqlLimits, StatementResult, in_statement, is_sole_in_operand, too_large};

pub(crate) const INFO: ToolInfo = ToolInfo {
    name: "sqlite",
    description: "Runs SQL statements over an SQLite database, all of a call in one transaction.",
    inputs: &[
        required(
            "database",
            "text",
            "the path of the file, created if missing, or :memory: for a database of this call only",
        ),
        required("statements", "array", "{sql, params}; params for $1, ?1 or ?; without params several statements"),
        field("numbered", "boolean", "also return command_0, command_1, …"),
        field("timeout", "number | text", "seconds or PT30S; then the statement is interrupted"),
    ],
    outputs: OUTPUTS,
    errors: &[
        ("sqlite", "the statement failed: SQLITE_CONSTRAINT…"),
        ("limit", "the rows have too many bytes"),
        ("timeout", "no complete reply in time"),
        ("input", ""),
    ],
};

pub(crate) const REGISTRATION: ToolRegistration =
    ToolRegistration { info: &INFO, build: |setup| setup.with_sealed_inputs(SqliteTool::with_limits(setup.limits)) };

const MAX_IDLE: usize = 4;
const MEMORY: &str = ":memory:";

/// Runs statements over SQLite databases. Clones share their connections.
#[derive(Clone)]
pub struct SqliteTool(Arc<IdleConnections>);

struct IdleConnections {
    connections: Mutex<BTreeMap<String, Vec<Connection>>>,
    bounds: SqlLimits,
}

impl Default for SqliteTool {
    fn default() -> SqliteTool {
        SqliteTool::with_limits(&ProcessLimits::default())
    }
}

impl SqliteTool {
    pub fn new() -> SqliteTool {
        SqliteTool::default()
    }

    /// Creates the tool with these limits.
    pub fn with_limits(limits: &ProcessLimits) -> SqliteTool {
        SqliteTool(Arc::new(IdleConnections { connections: Mutex::default(), bounds: SqlLimits::from_limits(limits) }))
    }
}

impl Tool for SqliteTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let idle = self.0.clone();
        Box::pin(async move { run(idle, &call).await.unwrap_or_else(TaskOutcome::failure) })
    }
}

async fn run(idle: Arc<IdleConnections>, call: &ToolCall) -> Result<TaskOutcome, ErrorInfo> {
    let bounds = idle.bounds;
    let work = move |database: &str, entries: &[SqlEntry<'_>], stop: &StopSignal| {
        let connection = idle.take(database)?;
        let interrupt = connection.get_interrupt_handle();
        stop.set_interrupt(move || interrupt.interrupt());
        let tables = blocking::transaction(&connection, entries, stop, bounds.max_result_bytes)?;
        stop.clear_interrupt();
        idle.put(database, connection);
        Ok(tables)
    };
    blocking::run_call("sqlite", call, bounds.timeout, work).await
}

impl IdleConnections {
    fn take(&self, database: &str) -> Result<Connection, ErrorInfo> {
        let mut idle = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(database).and_then(Vec::pop);
        drop(idle);
        if let Some(connection) = kept {
            return Ok(connection);
        }
        let connection = Connection::open(database).map_err(|error| error_info(&error, None))?;
        connection.busy_timeout(self.bounds.lock_wait).map_err(|error| error_info(&error, None))?;
        Ok(connection)
    }

    /// Returns a connection to the pool. An in-memory database belongs to its call and is not kept.
    fn put(&self, database: &str, connection: Connection) {
        let mut idle = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(database.to_owned()).or_default();
        if database != MEMORY && kept.len() < MAX_IDLE && connection.is_autocommit() {
            kept.push(connection);
        }
    }
}

impl SqlSession for Connection {
    fn runs_outside_transaction(entry: &SqlEntry<'_>) -> bool {
        let word = entry.sql.split_whitespace().next().unwrap_or_default().trim_end_matches(';').to_ascii_lowercase();
        ["begin", "commit", "rollback", "savepoint", "end", "pragma", "vacuum", "attach", "detach"].contains(&&*word)
    }

    fn execute_command(&self, sql: &str) -> Result<(), ErrorInfo> {
        self.execute_batch(sql).map_err(|error| error_info(&error, None))
    }

    fn run(
        &self,
        entry: &SqlEntry<'_>,
        stop: &StopSignal,
        max_result_bytes: usize,
        tables: &mut Vec<StatementResult>,
    ) -> Result<(), ErrorInfo> {
        let to_error = |error: Error| error_info(&error, Some(entry.sql));
        if !entry.params.is_empty() {
            let mut statement = self.prepare_cached(entry.sql).map_err(to_error)?;
            bind_values(&mut statement, entry)?;
            tables.push(read_table(self, &mut statement, max_result_bytes).map_err(to_error)??);
            return Ok(());
        }
        let mut batch = Batch::new(self, entry.sql);
        while let Some(mut statement) = batch.next().map_err(to_error)? {
            stop.check()?;
            tables.push(read_table(self, &mut statement, max_result_bytes).map_err(to_error)??);
        }
        Ok(())
    }
}

/// Binds the parameters: `$2` and `?2` are the second value wherever they occur; a bare `?` is the next.
fn bind_values(statement: &mut Statement<'_>, entry: &SqlEntry<'_>) -> Result<(), ErrorInfo> {
    for position in 1..=statement.parameter_count() {
        let name = statement.parameter_name(position).map(str::to_owned);
        let number = match &name {
            Some(name) => name[1..].parse::<usize>().ok().filter(|number| *number > 0),
            None => Some(position),
        };
        let given = number.and_then(|number| entry.params.get(number - 1)).ok_or_else(|| {
            let name = name.clone().unwrap_or_else(|| format!("?{position}"));
            bad_input(format!("there is no value for `{name}`: the statement has {} values", entry.params.len()))
        })?;
        let shown = name.as_deref().unwrap_or("?");
        if matches!(given, Value::List(_)) && is_sole_in_operand(entry.sql, shown) {
            let message = format!("the value of `{shown}` is an array, which `IN ({shown})` would treat as one text");
            return Err(bad_input(message).hint("write `IN (SELECT value FROM json_each({{ … }}))`"));
        }
        let problem = |error: Error| bad_input(format!("parameter {position}: {error}"));
        statement.raw_bind_parameter(position, ToSqlOutput::Owned(to_cell(given))).map_err(problem)?;
    }
    Ok(())
}

fn to_cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(flag) => Cell::Integer(i64::from(*flag)),
        Value::Int(number) => Cell::Integer(*number),
        Value::Float(number) => Cell::Real(*number),
        Value::Str(text) => Cell::Text(text.to_string()),
        other => Cell::Text(to_json(other)),
    }
}

/// Reads the rows. The inner error is a result that is too large.
fn read_table(
    connection: &Connection,
    statement: &mut Statement<'_>,
    max_bytes: usize,
) -> Result<Result<StatementResult, ErrorInfo>, Error> {
    let names: Vec<Arc<str>> = statement.column_names().map(Arc::from).collect();
    let (before, mut table, mut bytes) = (connection.total_changes(), StatementResult::default(), 0usize);
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let mut map = Map::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let cell = row.get_ref(index)?;
            bytes = bytes.saturating_add(size(cell));
            map.insert(name.clone(), from_cell(cell));
        }
        if bytes > max_bytes {
            return Ok(Err(too_large(max_bytes)));
        }
        table.rows.push(Value::map(map));
    }
    table.count = match names.is_empty() {
        true => connection.total_changes() - before,
        false => table.rows.len() as u64,
    };
    table.columns = names.into_iter().map(Value::from).collect();
    Ok(Ok(table))
}

fn size(cell: ValueRef<'_>) -> usize {
    match cell {
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
    }
}

fn from_cell(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::float(number).unwrap_or_else(|| number.to_string().into()),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
        ValueRef::Blob(bytes) => BASE64.encode(bytes).into(),
    }
}

fn error_info(error: &Error, sql: Option<&str>) -> ErrorInfo {
    let (code, message) = match error {
        Error::SqliteFailure(failure, message) => {
            (error_name(failure.extended_code), message.clone().unwrap_or_else(|| failure.to_string()))
        }
        Error::SqlInputError { msg, .. } => ("SQLITE_ERROR", msg.clone()),
        other => ("SQLITE_ERROR", other.to_string()),
    };
    let location = sql.map(in_statement).unwrap_or_default();
    ErrorInfo::new(code, "sqlite", format!("{message}{location}")).replied()
}

/// Returns SQLite's name of an error code, for the errors that a definition can react to.
fn error_name(code: i32) -> &'static str {
    match code & 0xff {
        3 => "SQLITE_PERM",
        5 => "SQLITE_BUSY",
        6 => "SQLITE_LOCKED",
        7 => "SQLITE_NOMEM",
        8 => "SQLITE_READONLY",
        9 => "SQLITE_INTERRUPT",
        10 => "SQLITE_IOERR",
        11 => "SQLITE_CORRUPT",
        13 => "SQLITE_FULL",
        14 => "SQLITE_CANTOPEN",
        18 => "SQLITE_TOOBIG",
        19 => "SQLITE_CONSTRAINT",
        20 => "SQLITE_MISMATCH",
        26 => "SQLITE_NOTADB",
        _ => "SQLITE_ERROR",
    }
}
