//! The tool `duckdb`: runs statements over a database file or in memory, on a blocking thread.

mod cells;
mod files;

use ::duckdb::arrow::array::Array;
use ::duckdb::types::{Decimal, Value as Cell};
use ::duckdb::{Connection, Error, Statement};
use windlass_core::{ErrorInfo, ProcessLimits, TaskOutcome};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_value::{Map, Value, to_json};

use crate::info::{ToolInfo, field, required};
use crate::input::bad_input;
use crate::registry::ToolRegistration;
use crate::sql::blocking::{self, SqlSession, StopSignal};
use crate::sql::script::{self, ScriptStatement};
use crate::sql::{OUTPUTS, SqlEntry, SqlLimits, StatementResult, in_statement, too_large, unreadable};
use cells::Column;

pub(crate) const INFO: ToolInfo = ToolInfo {
    name: "duckdb",
    description: "Runs SQL statements over a DuckDB database, all of a call in one transaction.",
    inputs: &[
        required(
            "database",
            "text",
            "the path of the file, created if missing, or :memory: for a database of this call only",
        ),
        required("statements", "array", "{sql, params}; params are the values of $1, $2, … or of each ?"),
        field("numbered", "boolean", "also return command_0, command_1, …"),
        field("timeout", "number | text", "seconds or PT30S; then the statement is interrupted"),
    ],
    outputs: OUTPUTS,
    errors: &[
        ("duckdb", "the statement failed: the code is DuckDB's, such as ConstraintError, CatalogError, IOError"),
        ("limit", "the rows have too many bytes"),
        ("timeout", ""),
        ("input", ""),
    ],
};

pub(crate) const REGISTRATION: ToolRegistration =
    ToolRegistration { info: &INFO, build: |setup| setup.with_sealed_inputs(DuckdbTool::with_limits(setup.limits)) };

/// Runs statements over DuckDB databases. Concurrent calls over one file share the open database.
#[derive(Clone)]
pub struct DuckdbTool(SqlLimits);

impl Default for DuckdbTool {
    fn default() -> DuckdbTool {
        DuckdbTool::with_limits(&ProcessLimits::default())
    }
}

impl DuckdbTool {
    pub fn new() -> DuckdbTool {
        DuckdbTool::default()
    }

    /// Creates the tool with these limits.
    pub fn with_limits(limits: &ProcessLimits) -> DuckdbTool {
        DuckdbTool(SqlLimits::from_limits(limits))
    }
}

impl Tool for DuckdbTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let bounds = self.0;
        let work = move |database: &str, entries: &[SqlEntry<'_>], stop: &StopSignal| {
            files::with_connection(database, stop, bounds.lock_wait, |connection| {
                let interrupt = connection.interrupt_handle();
                stop.set_interrupt(move || interrupt.interrupt());
                blocking::transaction(connection, entries, stop, bounds.max_result_bytes)
            })
        };
        Box::pin(async move {
            blocking::run_call("duckdb", &call, bounds.timeout, work).await.unwrap_or_else(TaskOutcome::failure)
        })
    }
}

impl SqlSession for Connection {
    fn runs_outside_transaction(entry: &SqlEntry<'_>) -> bool {
        let control = ["begin", "start", "commit", "end", "rollback", "abort"];
        let whole = ["attach", "detach", "checkpoint", "force", "vacuum"];
        script::any_begins_with(entry.sql, &control) || script::any_begins_with(entry.sql, &whole)
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
        let mut next = &entry.params[..];
        // A script is split into statements here because the library would return only the rows of the last one.
        for piece in script::split_renumbered(entry.sql, &entry.params)? {
            stop.check()?;
            let to_error = |error: Error| error_info(&error, Some(&piece.sql));
            let mut statement = self.prepare(&piece.sql).map_err(to_error)?;
            match piece.params.is_empty() {
                // A placeholder without a number takes the next value.
                true => next = bind_values(&mut statement, next)?,
                false => drop(bind_values(&mut statement, &piece.params)?),
            }
            let changed = statement.raw_execute().map_err(to_error)?;
            tables.push(read_table(&statement, &piece, changed as u64, max_result_bytes)?);
        }
        Ok(())
    }
}

/// Binds the parameters and returns the remaining values.
fn bind_values<'v>(statement: &mut Statement<'_>, values: &'v [Value]) -> Result<&'v [Value], ErrorInfo> {
    let count = statement.parameter_count();
    for position in 1..=count {
        let name = statement.parameter_name(position).unwrap_or_default();
        let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let value = number.and_then(|number| values.get(number)).ok_or_else(|| {
            bad_input(format!("there is no value for `${name}`: the statement has {} values", values.len()))
        })?;
        let problem = |error: Error| bad_input(format!("parameter {position}: {error}"));
        statement.raw_bind_parameter(position, to_cell(value)).map_err(problem)?;
    }
    Ok(values.get(count..).unwrap_or_default())
}

fn to_cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(flag) => Cell::Boolean(*flag),
        Value::Int(number) => Cell::BigInt(*number),
        Value::Float(number) => Cell::Double(*number),
        Value::Big(text) => exact_number(text).unwrap_or_else(|| Cell::Text(text.to_string())),
        Value::Str(text) => Cell::Text(text.to_string()),
        other => Cell::Text(to_json(other)),
    }
}

/// Returns the exact DuckDB value of a number, or `None` if no type can hold it.
fn exact_number(text: &str) -> Option<Cell> {
    let huge = || text.parse().map(Cell::HugeInt).or_else(|_| text.parse().map(Cell::UHugeInt)).ok();
    let Some((whole, after)) = text.split_once('.') else { return huge() };
    let digits = format!("{whole}{after}");
    let value: i128 = digits.parse().ok()?;
    Decimal::new(Decimal::MAX_WIDTH, u8::try_from(after.len()).ok()?, value).ok().map(Cell::Decimal)
}

fn read_table(
    statement: &Statement<'_>,
    piece: &ScriptStatement<'_>,
    changed: u64,
    max_bytes: usize,
) -> Result<StatementResult, ErrorInfo> {
    let to_error = |error: Error| error_info(&error, Some(&piece.sql));
    if writes(piece) {
        return Ok(StatementResult { count: changed, ..StatementResult::default() });
    }
    let schema = statement.schema();
    let columns = schema.fields().iter().enumerate();
    let columns: Vec<Column> =
        columns.map(|(index, field)| Column::new(field.name(), &statement.column_logical_type(index))).collect();
    let (mut table, mut bytes) = (StatementResult::default(), 0);
    while let Some(batch) = statement.step().map_err(to_error)? {
        bytes += batch.get_array_memory_size();
        if bytes > max_bytes {
            return Err(too_large(max_bytes));
        }
        for row in 0..batch.len() {
            let mut map = Map::with_capacity(columns.len());
            for (column, array) in columns.iter().zip(batch.columns()) {
                let value = column.value(array, row);
                let problem = || unreadable("duckdb", &column.name, &array.data_type().to_string());
                map.insert(column.name.clone(), value.ok_or_else(problem)?);
            }
            table.rows.push(Value::map(map));
        }
    }
    table.count = table.rows.len() as u64;
    table.columns = columns.into_iter().map(|column| Value::from(column.name)).collect();
    Ok(table)
}

/// Returns true if the statement returns no rows. DuckDB reports the number of changed rows as a table.
fn writes(piece: &ScriptStatement<'_>) -> bool {
    let has =
        |words: &[&str]| script::words(&piece.sql).any(|word| words.iter().any(|one| word.eq_ignore_ascii_case(one)));
    let changes = ["insert", "update", "delete", "merge"];
    let reads = [
        "call",
        "desc",
        "describe",
        "execute",
        "explain",
        "from",
        "pivot",
        "pragma",
        "select",
        "show",
        "summarize",
        "table",
        "unpivot",
        "values",
    ];
    match piece.begins_with(&["with"]) || piece.begins_with(&changes) {
        true => has(&changes) && !has(&["returning"]),
        false => !piece.begins_with(&reads),
    }
}

/// Converts an error. The code is the class that DuckDB's message begins with: `Constraint Error: …`.
fn error_info(error: &Error, sql: Option<&str>) -> ErrorInfo {
    let whole = error.to_string();
    let (class, rest) = match whole.split_once(": ") {
        Some((class, rest)) if class.ends_with(" Error") && class.len() < 40 => (class, rest),
        _ => ("Error", whole.as_str()),
    };
    let code: String = class.split_whitespace().collect();
    // Below the sentence DuckDB lists suggestions and the position in the statement.
    let mut lines =
        rest.lines().map(str::trim).take_while(|line| !line.starts_with("LINE ")).filter(|line| !line.is_empty());
    let message = lines.next().unwrap_or(rest);
    let hint = lines.collect::<Vec<_>>().join(" ");
    let location = sql.map(in_statement).unwrap_or_default();
    let info = ErrorInfo::new(code, "duckdb", format!("{message}{location}")).replied();
    if hint.is_empty() { info } else { info.hint(hint) }
}
