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
use crate::input::bad;
use crate::registry::Registration;
use crate::sql::blocking::{self, Session, Stop};
use crate::sql::script::{self, Piece};
use crate::sql::{Bounds, Entry, OUTPUTS, Table, in_statement, too_large, unreadable};
use cells::Column;

pub(crate) const INFO: ToolInfo = ToolInfo {
    name: "duckdb",
    what: "Runs SQL statements over a DuckDB database, all of a call in one transaction.",
    inputs: &[
        required("database", "text", "the path of the file, made if it is not there, or :memory: for this call alone"),
        required("statements", "array", "{sql, params}; params are the values of $1, $2, … or of each ?"),
        field("numbered", "boolean", "also give command_0, command_1, …"),
        field("timeout", "number | text", "seconds or PT30S; then the statement is interrupted"),
    ],
    outputs: OUTPUTS,
    errors: &[
        ("duckdb", "the statement failed: the code is DuckDB's, such as ConstraintError, CatalogError, IOError"),
        ("limit", "the rows are too many bytes"),
        ("timeout", ""),
        ("input", ""),
    ],
};

pub(crate) const REGISTRATION: Registration =
    Registration { info: &INFO, build: |setup| setup.opening(DuckdbTool::within(setup.limits)) };

/// Runs statements over DuckDB databases. Concurrent calls over one file share the open database.
#[derive(Clone)]
pub struct DuckdbTool(Bounds);

impl Default for DuckdbTool {
    fn default() -> DuckdbTool {
        DuckdbTool::within(&ProcessLimits::default())
    }
}

impl DuckdbTool {
    pub fn new() -> DuckdbTool {
        DuckdbTool::default()
    }

    /// Creates the tool with these limits.
    pub fn within(limits: &ProcessLimits) -> DuckdbTool {
        DuckdbTool(Bounds::of(limits))
    }
}

impl Tool for DuckdbTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let bounds = self.0;
        let work = move |database: &str, entries: &[Entry<'_>], stop: &Stop| {
            files::with(database, stop, bounds.lock_wait, |connection| {
                let interrupt = connection.interrupt_handle();
                stop.with(move || interrupt.interrupt());
                blocking::transaction(connection, entries, stop, bounds.rows_bytes_max)
            })
        };
        Box::pin(async move {
            blocking::call("duckdb", &call, bounds.timeout, work).await.unwrap_or_else(TaskOutcome::failure)
        })
    }
}

impl Session for Connection {
    fn is_alone(entry: &Entry<'_>) -> bool {
        let control = ["begin", "start", "commit", "end", "rollback", "abort"];
        let whole = ["attach", "detach", "checkpoint", "force", "vacuum"];
        script::begin(entry.sql, &control) || script::begin(entry.sql, &whole)
    }

    fn command(&self, sql: &str) -> Result<(), ErrorInfo> {
        self.execute_batch(sql).map_err(|error| failed(&error, None))
    }

    fn run(
        &self,
        entry: &Entry<'_>,
        stop: &Stop,
        rows_bytes_max: usize,
        tables: &mut Vec<Table>,
    ) -> Result<(), ErrorInfo> {
        let mut next = &entry.params[..];
        // A script is split into statements here because the library would return only the rows of the last one.
        for piece in script::numbered_pieces(entry.sql, &entry.params)? {
            stop.check()?;
            let told = |error: Error| failed(&error, Some(&piece.sql));
            let mut statement = self.prepare(&piece.sql).map_err(told)?;
            match piece.params.is_empty() {
                // A placeholder without a number takes the next value.
                true => next = bind(&mut statement, next)?,
                false => drop(bind(&mut statement, &piece.params)?),
            }
            let changed = statement.raw_execute().map_err(told)?;
            tables.push(table(&statement, &piece, changed as u64, rows_bytes_max)?);
        }
        Ok(())
    }
}

/// Binds the parameters and returns the remaining values.
fn bind<'v>(statement: &mut Statement<'_>, values: &'v [Value]) -> Result<&'v [Value], ErrorInfo> {
    let count = statement.parameter_count();
    for place in 1..=count {
        let name = statement.parameter_name(place).unwrap_or_default();
        let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let value = number.and_then(|number| values.get(number)).ok_or_else(|| {
            bad(format!("there is no value for `${name}`: the statement has {} values", values.len()))
        })?;
        let problem = |error: Error| bad(format!("parameter {place}: {error}"));
        statement.raw_bind_parameter(place, cell(value)).map_err(problem)?;
    }
    Ok(values.get(count..).unwrap_or_default())
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(flag) => Cell::Boolean(*flag),
        Value::Int(number) => Cell::BigInt(*number),
        Value::Float(number) => Cell::Double(*number),
        Value::Big(text) => big(text).unwrap_or_else(|| Cell::Text(text.to_string())),
        Value::Str(text) => Cell::Text(text.to_string()),
        other => Cell::Text(to_json(other)),
    }
}

/// Returns the exact DuckDB value of a number, or `None` if no type can hold it.
fn big(text: &str) -> Option<Cell> {
    let huge = || text.parse().map(Cell::HugeInt).or_else(|_| text.parse().map(Cell::UHugeInt)).ok();
    let Some((whole, after)) = text.split_once('.') else { return huge() };
    let digits = format!("{whole}{after}");
    let value: i128 = digits.parse().ok()?;
    Decimal::new(Decimal::MAX_WIDTH, u8::try_from(after.len()).ok()?, value).ok().map(Cell::Decimal)
}

fn table(statement: &Statement<'_>, piece: &Piece<'_>, changed: u64, bytes_max: usize) -> Result<Table, ErrorInfo> {
    let told = |error: Error| failed(&error, Some(&piece.sql));
    if writes(piece) {
        return Ok(Table { count: changed, ..Table::default() });
    }
    let schema = statement.schema();
    let columns = schema.fields().iter().enumerate();
    let columns: Vec<Column> =
        columns.map(|(index, field)| Column::new(field.name(), &statement.column_logical_type(index))).collect();
    let (mut table, mut bytes) = (Table::default(), 0);
    while let Some(batch) = statement.step().map_err(told)? {
        bytes += batch.get_array_memory_size();
        if bytes > bytes_max {
            return Err(too_large(bytes_max));
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
fn writes(piece: &Piece<'_>) -> bool {
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
    match piece.begins(&["with"]) || piece.begins(&changes) {
        true => has(&changes) && !has(&["returning"]),
        false => !piece.begins(&reads),
    }
}

/// Converts an error. The code is the class that DuckDB's message begins with: `Constraint Error: …`.
fn failed(error: &Error, sql: Option<&str>) -> ErrorInfo {
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
    let place = sql.map(in_statement).unwrap_or_default();
    let info = ErrorInfo::new(code, "duckdb", format!("{message}{place}")).replied();
    if hint.is_empty() { info } else { info.hint(hint) }
}
