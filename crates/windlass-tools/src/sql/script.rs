//! Splits a script into its statements by the rules for quotes and comments that Postgres and DuckDB share.

use std::borrow::Cow;
use std::ops::Range;

use windlass_core::ErrorInfo;
use windlass_value::Value;

use crate::input::bad_input;

/// One statement with the values of its parameters.
#[derive(Debug)]
pub(crate) struct ScriptStatement<'a> {
    pub(crate) sql: Cow<'a, str>,
    pub(crate) params: Vec<Value>,
    /// The original number of each parameter in the script.
    numbers: Vec<usize>,
    words: [String; 2],
}

impl ScriptStatement<'_> {
    pub(crate) fn original_number(&self, index: usize) -> usize {
        self.numbers.get(index).copied().unwrap_or(index + 1)
    }

    pub(crate) fn begins_with(&self, words: &[&str]) -> bool {
        words.contains(&self.words[0].as_str())
    }

    /// Returns true if the statement manages transactions itself, or cannot run inside one.
    pub(crate) fn runs_outside_transaction(&self) -> bool {
        let control = ["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "vacuum"];
        let databases = ["create", "drop", "alter"];
        let whole = ["database", "tablespace", "system"];
        self.begins_with(&control) || self.begins_with(&databases) && whole.contains(&self.words[1].as_str())
    }

    /// Returns true if the effect of the statement stays with the connection.
    pub(crate) fn changes_session_state(&self) -> bool {
        let session = ["set", "reset", "listen", "load", "prepare", "declare", "lock", "discard"];
        let temporary = ["temp", "temporary"];
        self.runs_outside_transaction()
            || self.begins_with(&session)
            || self.begins_with(&["create"]) && temporary.contains(&self.words[1].as_str())
            || self.sql.contains("set_config")
            || self.sql.contains("pg_advisory_lock")
    }

    /// Returns true if its plan can be reused.
    pub(crate) fn has_cacheable_plan(&self) -> bool {
        self.begins_with(&["select", "insert", "update", "delete", "with", "values", "merge"])
    }
}

/// Splits a script. A single statement keeps the numbers of its parameters.
pub(crate) fn split_statements<'a>(sql: &'a str, params: &[Value]) -> Result<Vec<ScriptStatement<'a>>, ErrorInfo> {
    let parts = split(sql);
    let alone = parts.len() == 1;
    parts.into_iter().map(|part| build_statement(sql, part, params, alone)).collect()
}

/// Splits a script and renumbers the parameters of every statement without gaps.
#[cfg(feature = "duckdb")]
pub(crate) fn split_renumbered<'a>(sql: &'a str, params: &[Value]) -> Result<Vec<ScriptStatement<'a>>, ErrorInfo> {
    split(sql).into_iter().map(|part| build_statement(sql, part, params, false)).collect()
}

/// Returns true if a statement begins with one of the words.
#[cfg(feature = "duckdb")]
pub(crate) fn any_begins_with(sql: &str, words: &[&str]) -> bool {
    split(sql).iter().any(|part| words.contains(&part.words[0].as_str()))
}

/// Returns the words outside of quotes and comments.
#[cfg(feature = "duckdb")]
pub(crate) fn words(sql: &str) -> impl Iterator<Item = &str> {
    let (bytes, mut at) = (sql.as_bytes(), 0);
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let (start, next) = (at, token_end(bytes, at));
            at = next;
            if is_word(bytes[start]) {
                return sql.get(start..next);
            }
        }
        None
    })
}

fn build_statement<'a>(
    sql: &'a str,
    part: StatementPart,
    params: &[Value],
    alone: bool,
) -> Result<ScriptStatement<'a>, ErrorInfo> {
    let text = &sql[part.range.clone()];
    let words = part.words;
    if alone {
        let numbers = (1..=params.len()).collect();
        return Ok(ScriptStatement { sql: text.into(), params: params.to_vec(), numbers, words });
    }
    // Each of several statements has its own parameters, so they are renumbered.
    let (mut own, mut numbers, mut values, mut at) = (String::new(), Vec::new(), Vec::new(), part.range.start);
    for place in part.parameters {
        let number: usize = sql[place.start + 1..place.end].parse().unwrap_or(0);
        let value = number.checked_sub(1).and_then(|index| params.get(index));
        let value = value.ok_or_else(|| {
            bad_input(format!("there is no value for parameter ${number}: the statements have {} values", params.len()))
        })?;
        let index = numbers.iter().position(|known| *known == number).unwrap_or_else(|| {
            numbers.push(number);
            values.push(value.clone());
            numbers.len() - 1
        });
        own.push_str(&sql[at..place.start]);
        own.push_str(&format!("${}", index + 1));
        at = place.end;
    }
    let sql = if numbers.is_empty() { text.into() } else { Cow::Owned(own + &sql[at..part.range.end]) };
    Ok(ScriptStatement { sql, params: values, numbers, words })
}

struct StatementPart {
    range: Range<usize>,
    /// The ranges of its parameters.
    parameters: Vec<Range<usize>>,
    words: [String; 2],
}

/// Splits a script into statements, without those that are only blanks and comments.
fn split(sql: &str) -> Vec<StatementPart> {
    let bytes = sql.as_bytes();
    let (mut parts, mut start, mut depth, mut at) = (Vec::new(), 0, 0_usize, 0);
    let (mut parameters, mut words, mut is_empty) = (Vec::new(), Vec::<String>::new(), true);
    let mut end = |range: Range<usize>, places: Vec<Range<usize>>, words: Vec<String>, is_empty: bool| {
        let mut words = words.into_iter();
        let words = [words.next().unwrap_or_default(), words.next().unwrap_or_default()];
        if !is_empty {
            parts.push(StatementPart { range, parameters: places, words });
        }
    };
    while at < bytes.len() {
        let next = token_end(bytes, at);
        match bytes[at] {
            b';' if depth == 0 => {
                end(start..at, std::mem::take(&mut parameters), std::mem::take(&mut words), is_empty);
                (start, is_empty) = (next, true);
            }
            b'-' | b'/' if next > at + 1 => {}
            byte if byte.is_ascii_whitespace() => {}
            byte => {
                is_empty = false;
                match byte {
                    b'(' => depth += 1,
                    b')' => depth = depth.saturating_sub(1),
                    b'$' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => parameters.push(at..next),
                    byte if is_word(byte) && words.len() < 2 => words.push(sql[at..next].to_ascii_lowercase()),
                    _ => {}
                }
            }
        }
        at = next;
    }
    end(start..bytes.len(), parameters, words, is_empty);
    parts
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Returns the end of the token at `at`. An unclosed token extends to the end; the server reports it.
fn token_end(sql: &[u8], at: usize) -> usize {
    let rest = &sql[at..];
    match rest[0] {
        b'\'' => quote_end(sql, at + 1, b'\'', false),
        b'"' => quote_end(sql, at + 1, b'"', false),
        b'-' if rest.starts_with(b"--") => at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        b'/' if rest.starts_with(b"/*") => comment_end(sql, at),
        b'$' => dollar_end(sql, at),
        b'e' | b'E' if rest.get(1) == Some(&b'\'') => quote_end(sql, at + 2, b'\'', true),
        byte if is_word(byte) => {
            at + rest.iter().position(|byte| !is_word(*byte) && *byte != b'$').unwrap_or(rest.len())
        }
        _ => at + 1,
    }
}

fn quote_end(sql: &[u8], from: usize, quote: u8, escapes: bool) -> usize {
    let mut at = from;
    while at < sql.len() {
        match sql[at] {
            b'\\' if escapes => at += 2,
            byte if byte == quote && sql.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    sql.len()
}

/// Returns the end of a block comment. Block comments nest.
fn comment_end(sql: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while at < sql.len() {
        if sql[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if sql[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    sql.len()
}

/// Returns the end of `$1` (a parameter) or `$tag$ … $tag$` (a text).
fn dollar_end(sql: &[u8], at: usize) -> usize {
    let word = sql[at + 1..].iter().position(|byte| !is_word(*byte)).map_or(sql.len(), |length| at + 1 + length);
    if sql.get(at + 1).is_some_and(u8::is_ascii_digit) || sql.get(word) != Some(&b'$') {
        return word.max(at + 1);
    }
    let tag = &sql[at..=word];
    let body = &sql[word + 1..];
    let close = body.windows(tag.len()).position(|window| window == tag);
    close.map_or(sql.len(), |position| word + 1 + position + tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(sql: &str, params: &[i64]) -> Vec<String> {
        let params: Vec<Value> = params.iter().copied().map(Value::from).collect();
        let pieces = split_statements(sql, &params).unwrap();
        pieces.iter().map(|piece| format!("{} {:?} {}", piece.sql.trim(), piece.params, piece.words[0])).collect()
    }

    #[test]
    fn a_script_is_split_at_statement_ends() {
        let table: [(&str, &[&str]); 8] = [
            ("select 1", &["select 1 [] select"]),
            (
                "select 1; ; -- no; more\n select ';'';' ;",
                &["select 1 [] select", "-- no; more\n select ';'';' [] select"],
            ),
            (r"select E'\';' ; select 2", &[r"select E'\';' [] select", "select 2 [] select"]),
            ("do $x$ begin; $1 end; $x$; table t", &["do $x$ begin; $1 end; $x$ [] do", "table t [] table"]),
            ("/* a /* b; */ c; */ select \"a;\"\"b\"", &["/* a /* b; */ c; */ select \"a;\"\"b\" [] select"]),
            (
                "create rule r as on insert to t do (a; b); x",
                &["create rule r as on insert to t do (a; b) [] create", "x [] x"],
            ),
            ("select 'never closed; select 2", &["select 'never closed; select 2 [] select"]),
            ("-- nothing;\n", &[]),
        ];
        for (sql, expected) in table {
            assert_eq!(describe(sql, &[]), expected, "{sql}");
        }
    }

    #[test]
    fn parameters_go_with_their_statement() {
        assert_eq!(describe("select $2, '$1'", &[7, 8]), ["select $2, '$1' [7, 8] select"]);
        assert_eq!(
            describe("update t set a=$2, b=$3, c=$2; delete from t where x=$1", &[7, 8, 9]),
            ["update t set a=$1, b=$2, c=$1 [8, 9] update", "delete from t where x=$1 [7] delete"]
        );
        let error = split_statements("select 1; select $3", &[]).unwrap_err();
        assert!(error.message.contains("$3"));
    }
}
