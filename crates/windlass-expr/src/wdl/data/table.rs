//! Renders a list of objects as a table: CSV (RFC 4180) or HTML.

use std::sync::Arc;

use windlass_value::{EvalError, EvalScope, Expression, Meter, PathPart, Value};

use super::{OperationParts, at_item, body, entries, for_item, items};
use crate::wdl::compile::WdlCompiler;
use crate::wdl::node::{WdlNode, eval};
use crate::wdl::values::{MissingBlobs, WdlContext, describe, to_text, type_error};

pub(super) fn table(parts: &mut OperationParts) -> Option<Box<dyn Expression>> {
    let from = parts.list();
    let format = parts.part("format", |compiler, source| {
        let node = compiler.tree(source);
        if let WdlNode::Constant(value) = &node
            && compiler.errors.is_empty()
            && let Err(error) = TableFormat::from_value(value)
        {
            let length = source.as_str().map_or(0, str::len);
            compiler.error(error.message, error.hint, 0..length);
        }
        node
    });
    let columns = parts.part("columns", columns);
    Some(Box::new(Table { from: from?, format: format?, columns: columns.flatten() }))
}

struct Column {
    header: WdlNode,
    value: WdlNode,
}

fn columns(compiler: &mut WdlCompiler, source: &Value) -> Option<Vec<Column>> {
    let Value::List(list) = source else {
        let hint = Some("such as [{\"header\": \"Name\", \"value\": \"@item()?['name']\"}]".to_owned());
        compiler.error(format!("`columns` must be an array, got {}", describe(source)), hint, 0..0);
        return None;
    };
    let each = list.iter().enumerate();
    let made: Vec<Column> =
        each.filter_map(|(index, one)| compiler.inside(PathPart::Index(index), |c| column(c, one))).collect();
    // An empty list of columns means the same as no `columns`.
    (!made.is_empty()).then_some(made)
}

fn column(compiler: &mut WdlCompiler, source: &Value) -> Option<Column> {
    let Value::Map(map) = source else {
        compiler.error(
            format!("a column is an object with `header` and `value`, got {}", describe(source)),
            None,
            0..0,
        );
        return None;
    };
    let found = entries(compiler, map, &["header", "value"]);
    let mut node = |name: &str| {
        let (_, key, value) = found.iter().find(|(known, _, _)| *known == name)?;
        Some(compiler.inside(PathPart::Key(Arc::clone(key)), |compiler| compiler.tree(value)))
    };
    let (header, value) = (node("header"), node("value"));
    if value.is_none() {
        compiler.error("`value` is missing", None, 0..0);
    }
    Some(Column { header: header.unwrap_or_else(|| WdlNode::Constant(Value::from(""))), value: value? })
}

#[derive(Clone, Copy)]
enum TableFormat {
    Csv,
    Html,
}

impl TableFormat {
    fn from_value(value: &Value) -> Result<TableFormat, EvalError> {
        match value.as_str() {
            Some(text) if text.eq_ignore_ascii_case("csv") => Ok(TableFormat::Csv),
            Some(text) if text.eq_ignore_ascii_case("html") => Ok(TableFormat::Html),
            _ => Err(type_error(format!("`format` must be CSV or HTML, got {}", describe(value)))),
        }
    }
}

struct Table {
    from: WdlNode,
    format: WdlNode,
    columns: Option<Vec<Column>>,
}

impl Expression for Table {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let mut context = WdlContext::new(scope, meter);
        let list = items(&mut context, &self.from)?;
        let list = list.as_list().unwrap_or_default();
        let format = TableFormat::from_value(&eval(&self.format, &mut context)?)?;
        let mut writer = Writer { format, out: String::new() };
        match &self.columns {
            Some(columns) => write_columns(&mut context, &mut writer, list, columns)?,
            None => write_keyed(&mut context, &mut writer, list)?,
        }
        body(&context, Value::from(writer.out))
    }
}

/// Writes the declared columns.
fn write_columns(
    context: &mut WdlContext,
    writer: &mut Writer,
    list: &[Value],
    columns: &[Column],
) -> Result<(), EvalError> {
    let mut headers = Vec::with_capacity(columns.len());
    for column in columns {
        let header = eval(&column.header, context)?;
        headers.push(to_text(context, &header)?);
    }
    writer.start(context, &headers)?;
    let mut gathering = MissingBlobs::default();
    for (index, item) in list.iter().enumerate() {
        let mut cells = Vec::with_capacity(columns.len());
        for column in columns {
            let value = gathering.defer(for_item(context, &column.value, index, item))?;
            cells.push(to_text(context, &value)?);
        }
        writer.row(context, &cells)?;
    }
    gathering.finish()?;
    writer.end();
    Ok(())
}

/// Writes a column for each key of the first item; a missing value is an empty cell.
fn write_keyed(context: &mut WdlContext, writer: &mut Writer, list: &[Value]) -> Result<(), EvalError> {
    let mut headers: Vec<Arc<str>> = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let item = context.content(item.clone())?;
        let Value::Map(map) = &item else {
            let error = type_error(format!("a row must be an object, got {}", describe(&item)));
            return Err(at_item(error.with_hint("give `columns` with a `value` such as @item()"), index));
        };
        if index == 0 {
            headers = map.keys().cloned().collect();
            writer.start(context, &headers)?;
        }
        let mut cells = Vec::with_capacity(headers.len());
        for header in &headers {
            cells.push(to_text(context, map.get(header).unwrap_or(&Value::Null))?);
        }
        writer.row(context, &cells)?;
    }
    if list.is_empty() {
        writer.start(context, &headers)?;
    }
    writer.end();
    Ok(())
}

struct Writer {
    format: TableFormat,
    out: String,
}

impl Writer {
    /// Writes the header row; it is omitted when all headers are empty.
    fn start(&mut self, context: &mut WdlContext, headers: &[Arc<str>]) -> Result<(), EvalError> {
        let named = headers.iter().any(|header| !header.is_empty());
        match self.format {
            TableFormat::Csv if named => self.row(context, headers)?,
            TableFormat::Csv => {}
            TableFormat::Html => {
                self.out.push_str("<table>");
                if named {
                    self.out.push_str("<thead>");
                    self.cells(context, headers, "th")?;
                    self.out.push_str("</thead>");
                }
                self.out.push_str("<tbody>");
            }
        }
        Ok(())
    }

    fn row(&mut self, context: &mut WdlContext, cells: &[Arc<str>]) -> Result<(), EvalError> {
        match self.format {
            TableFormat::Html => self.cells(context, cells, "td"),
            TableFormat::Csv => {
                self.reserve(context, cells)?;
                for (index, cell) in cells.iter().enumerate() {
                    self.out.push_str(if index > 0 { "," } else { "" });
                    push_csv(&mut self.out, cell);
                }
                self.out.push_str("\r\n");
                Ok(())
            }
        }
    }

    fn cells(&mut self, context: &mut WdlContext, cells: &[Arc<str>], tag: &str) -> Result<(), EvalError> {
        self.reserve(context, cells)?;
        self.out.push_str("<tr>");
        for cell in cells {
            self.out.extend(["<", tag, ">"]);
            push_html(&mut self.out, cell);
            self.out.extend(["</", tag, ">"]);
        }
        self.out.push_str("</tr>");
        Ok(())
    }

    fn reserve(&mut self, context: &mut WdlContext, cells: &[Arc<str>]) -> Result<(), EvalError> {
        let more: usize = cells.iter().map(|cell| cell.len() + 9).sum();
        context.charge_items(1 + cells.len())?;
        context.charge_bytes(more)?;
        context.meter.check_size(self.out.len() + more)
    }

    fn end(&mut self) {
        if let TableFormat::Html = self.format {
            self.out.push_str("</tbody></table>");
        }
    }
}

fn push_csv(out: &mut String, cell: &str) {
    match cell.contains(['"', ',', '\r', '\n']) {
        false => out.push_str(cell),
        true => {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        }
    }
}

fn push_html(out: &mut String, cell: &str) {
    for c in cell.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}
