//! Input and output shared by the SQL tools.

#[cfg(any(feature = "sqlite", feature = "duckdb"))]
pub(crate) mod blocking;
#[cfg(any(feature = "postgres", feature = "duckdb"))]
pub(crate) mod cells;
#[cfg(any(feature = "postgres", feature = "duckdb"))]
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "what only a server needs"))]
pub(crate) mod script;

use std::borrow::Cow;

use windlass_core::ErrorInfo;
use windlass_value::{Map, Value, parse_json};

use crate::info::{ToolField, field};
use crate::input::{ToolInput, bad_input};

/// One entry of `statements`: a text and the values of its parameters. Without values it may contain several
/// statements.
pub(crate) struct SqlEntry<'a> {
    pub(crate) sql: &'a str,
    pub(crate) params: Cow<'a, [Value]>,
}

pub(crate) const OUTPUTS: &[ToolField] = &[
    field("rows", "array of objects", "the rows of the last statement"),
    field("rowcount", "number", "the number of rows that the last statement returned or changed; also `row_count`"),
    field("affected_rows", "number", "the same, for a statement that returns no columns"),
    field("columns", "array of text", "the names of its columns"),
    field("commands", "array of objects", "with several statements: rows, rowcount and columns of each"),
    field("command_0", "object", "with `numbered`: those of the first; command_1 those of the second"),
];

pub(crate) fn entries<'a>(input: &ToolInput<'a>) -> Result<Vec<SqlEntry<'a>>, ErrorInfo> {
    let hint = "give `statements`: [{\"sql\": \"select $1\", \"params\": [1]}]";
    let list = input.list("statements")?.ok_or_else(|| bad_input("there are no `statements`").hint(hint))?;
    let mut entries: Vec<SqlEntry<'a>> = Vec::new();
    for entry in list {
        if entry.get("each").is_some() {
            entries.extend(expand_each(entry)?);
            continue;
        }
        let one = (|| {
            let sql = entry.as_str().or_else(|| entry.get("sql").and_then(Value::as_str));
            let sql = sql.ok_or_else(|| bad_input("a statement has no `sql`").hint(hint))?;
            let params = match entry.get("params") {
                None | Some(Value::Null) => Cow::Borrowed(&[][..]),
                Some(Value::List(params)) => Cow::Borrowed(params.as_slice()),
                Some(other) => return Err(bad_input(format!("`params` is {}, not an array", other.kind())).hint(hint)),
            };
            Ok(SqlEntry { sql, params })
        })();
        entries.push(one?);
    }
    let loops = list.iter().any(|entry| entry.get("each").is_some());
    if !loops && entries.iter().all(|entry| entry.sql.trim().is_empty()) {
        return Err(bad_input("there is no statement to run").hint(hint));
    }
    Ok(entries)
}

/// Expands `{sqls, each}`: the statements once per item of `each`, which contains the values of each statement.
/// `each` may be JSON text.
fn expand_each(entry: &Value) -> Result<Vec<SqlEntry<'_>>, ErrorInfo> {
    let wrong = || bad_input("`each` is not an array with an array of values for each of `sqls`");
    let parsed = match entry.get("each") {
        Some(Value::Str(text)) => parse_json(text).map_err(|_| wrong())?,
        Some(value) => value.clone(),
        None => return Err(wrong()),
    };
    let sqls = entry.get("sqls").and_then(Value::as_list).ok_or_else(wrong)?;
    let mut entries = Vec::new();
    for item in parsed.as_list().ok_or_else(wrong)? {
        let values = item.as_list().filter(|values| values.len() == sqls.len()).ok_or_else(wrong)?;
        for (sql, params) in sqls.iter().zip(values) {
            let (sql, params) = (sql.as_str().ok_or_else(wrong)?, params.as_list().ok_or_else(wrong)?);
            entries.push(SqlEntry { sql, params: Cow::Owned(params.to_vec()) });
        }
    }
    Ok(entries)
}

/// The result of one statement.
#[derive(Default)]
pub(crate) struct StatementResult {
    pub(crate) columns: Vec<Value>,
    pub(crate) rows: Vec<Value>,
    pub(crate) count: u64,
}

/// Builds the output of a call. The result of a single statement appears only once, because large results are
/// persisted in this form; with `numbered` it also appears under its number.
pub(crate) fn build_output(tables: Vec<StatementResult>, numbered: bool) -> Value {
    let mut commands: Vec<Map> = tables.into_iter().map(StatementResult::into_map).collect();
    if commands.is_empty() {
        commands.push(StatementResult::default().into_map());
    }
    let mut output = commands.last().cloned().unwrap_or_default();
    if numbered {
        for (number, command) in commands.iter().enumerate() {
            output.insert(format!("command_{number}"), Value::map(command.clone()));
        }
    }
    if commands.len() > 1 {
        output.insert("commands", Value::list(commands.into_iter().map(Value::map).collect()));
    }
    Value::map(output)
}

impl StatementResult {
    /// The count has every name that playbooks read it by. A missing one would not be noticed: they write
    /// `row_count | default(0)`.
    fn into_map(self) -> Map {
        let mut map = Map::with_capacity(5);
        map.insert("rows", Value::list(self.rows));
        map.insert("rowcount", self.count);
        map.insert("row_count", self.count);
        if self.columns.is_empty() {
            map.insert("affected_rows", self.count);
        }
        map.insert("columns", Value::list(self.columns));
        map
    }
}

/// Returns true if the placeholder is the sole operand of `IN ($1)`: a list there would be compared as a single text.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn is_sole_in_operand(sql: &str, placeholder: &str) -> bool {
    sql.match_indices(placeholder).any(|(at, _)| {
        let before = sql[..at].trim_end().strip_suffix('(').map(str::trim_end);
        let word = before.and_then(|before| before.get(before.len().checked_sub(2)?..));
        let parted = before.is_some_and(|before| {
            let rest = &before[..before.len().saturating_sub(2)];
            !rest.ends_with(|last: char| last.is_alphanumeric() || last == '_')
        });
        parted
            && word.is_some_and(|word| word.eq_ignore_ascii_case("in"))
            && sql[at + placeholder.len()..].trim_start().starts_with(')')
    })
}

pub(crate) fn wants_numbered(input: &ToolInput<'_>) -> bool {
    input.get("numbered").and_then(Value::as_bool) == Some(true)
}

/// Limits of one call of an embedded database.
#[cfg(any(feature = "sqlite", feature = "duckdb"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SqlLimits {
    /// Timeout of calls that specify none.
    pub(crate) timeout: windlass_value::Duration,
    /// Per statement.
    pub(crate) max_result_bytes: usize,
    pub(crate) lock_wait: std::time::Duration,
}

#[cfg(any(feature = "sqlite", feature = "duckdb"))]
impl SqlLimits {
    pub(crate) fn from_limits(limits: &windlass_core::ProcessLimits) -> SqlLimits {
        SqlLimits {
            timeout: limits.default_tool_time,
            max_result_bytes: limits.max_sql_result_bytes,
            lock_wait: limits.max_sql_lock_wait.to_std(),
        }
    }
}

pub(crate) fn too_large(max_bytes: usize) -> ErrorInfo {
    let message = format!("the statement returns more than {max_bytes} bytes of rows");
    ErrorInfo::new("ResultTooLarge", "limit", message)
        .hint("ask for less: a page, fewer columns; or raise `limits.max_sql_result_bytes` in windlass.toml")
}

#[cfg(any(feature = "postgres", feature = "duckdb"))]
pub(crate) fn unreadable(kind: &'static str, column: &str, type_name: &str) -> ErrorInfo {
    let message = format!("the column `{column}` has a value of type {type_name} that cannot be read");
    ErrorInfo::new("UnreadableValue", kind, message).hint("cast it in the statement: `column::text`")
}

/// Describes a failed statement by its beginning, on one line.
#[cfg(any(feature = "sqlite", feature = "duckdb"))]
pub(crate) fn in_statement(sql: &str) -> String {
    let line = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(" in `{}`", line.chars().take(80).collect::<String>())
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::is_sole_in_operand;

    #[test]
    fn a_single_value_in_an_in_list_is_detected() {
        let table = [
            ("select 1 where a in ($1)", true),
            ("select 1 where a NOT IN(\n $1 )", true),
            ("where a in ($12)", false),
            ("where a in ($1, $2)", false),
            ("where a in (1, $1)", false),
            ("select min($1)", false),
            ("select ($1)", false),
            ("ß($1)", false),
        ];
        for (sql, expected) in table {
            assert_eq!(is_sole_in_operand(sql, "$1"), expected, "{sql}");
        }
    }
}
