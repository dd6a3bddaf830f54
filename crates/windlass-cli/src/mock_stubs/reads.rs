//! The places of values that expressions read, found in their text.

use windlass_value::{Value, parse_json};

use super::shape::ShapeKey;

/// One place that an expression reads.
#[derive(Debug)]
pub(super) struct ReadPlace {
    /// The function, or the first name.
    pub head: String,
    /// The literal argument of the function.
    pub argument: Option<String>,
    pub path: Vec<ShapeKey>,
    /// A literal that the value is compared with.
    pub compared: Option<Value>,
    /// A literal that the text is searched for.
    pub contains: Option<String>,
    /// The whole text is this one expression.
    pub is_whole: bool,
    /// The value is the argument of a function that takes lists.
    pub is_list: bool,
}

/// Functions whose arguments are lists and nothing else.
const LIST_FUNCTIONS: [&str; 6] = ["union", "intersection", "join", "sort", "reverse", "chunk"];

/// Returns the reads of functions such as `body('x')?['a']` in a text of a Logic Apps definition.
pub(super) fn function_reads(text: &str) -> Vec<ReadPlace> {
    let is_whole = text.starts_with('@') && !text.starts_with("@{") && !text.starts_with("@@");
    let expressions = if is_whole { vec![&text[1..]] } else { embedded(text, "@{", "}") };
    expressions.into_iter().flat_map(|expression| calls(expression, is_whole)).collect()
}

fn calls(expression: &str, is_alone: bool) -> Vec<ReadPlace> {
    let mut found = Vec::new();
    for (start, name) in names(expression) {
        let Some(inside) = expression[start + name.len()..].strip_prefix('(') else { continue };
        let (argument, rest) = match inside.strip_prefix(')') {
            Some(rest) => (None, rest),
            None => match literal_argument(inside) {
                Some((argument, rest)) => (Some(argument), rest),
                None => continue,
            },
        };
        let (path, rest) = path(rest);
        let before = expression[..start].trim();
        let is_compared = before.to_lowercase().ends_with("equals(");
        let compared = rest.trim_start().strip_prefix(',').filter(|_| is_compared).and_then(literal);
        let is_whole = is_alone && before.is_empty() && rest.trim().is_empty();
        let is_list = enclosing_function(before).is_some_and(|name| LIST_FUNCTIONS.contains(&name.as_str()));
        let head = name.to_lowercase();
        found.push(ReadPlace { head, argument, path, compared, contains: None, is_whole, is_list });
    }
    found
}

/// Returns the reads of names such as `fetch.data.items` in templates and other expressions.
pub(super) fn name_reads(text: &str) -> Vec<ReadPlace> {
    let expressions = match text.contains("{{") || text.contains("{%") {
        true => [embedded(text, "{{", "}}"), embedded(text, "{%", "%}")].concat(),
        false => vec![text],
    };
    expressions.into_iter().flat_map(paths).collect()
}

fn paths(expression: &str) -> Vec<ReadPlace> {
    let mut found = Vec::new();
    for (start, name) in names(expression) {
        let (mut path, rest) = path(&expression[start + name.len()..]);
        let compared = rest.trim_start().strip_prefix("==").and_then(literal);
        let method = rest.starts_with('(').then(|| path.pop()).flatten();
        let is_search = method == Some(ShapeKey::Field("contains".to_owned()));
        let searched = rest.strip_prefix('(').filter(|_| is_search).and_then(literal);
        let contains = searched.as_ref().and_then(Value::as_str).map(str::to_owned);
        let is_whole = start == 0 && rest.is_empty();
        let head = name.to_owned();
        found.push(ReadPlace { head, argument: None, path, compared, contains, is_whole, is_list: false });
    }
    found
}

/// Returns the name of the function, in lower case, whose arguments a text ends with.
fn enclosing_function(before: &str) -> Option<String> {
    let mut depth = 0;
    let open = before.char_indices().rev().find_map(|(at, c)| {
        depth += i32::from(c == ')') - i32::from(c == '(');
        (depth < 0).then_some(at)
    })?;
    let name = before[..open].rsplit(|c: char| !c.is_ascii_alphanumeric()).next()?;
    Some(name.to_lowercase())
}

/// Returns the expressions between these marks.
fn embedded<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let parts = text.split(open).skip(1);
    parts.filter_map(|part| part.split_once(close)).map(|(expression, _)| expression.trim()).collect()
}

/// Returns the names of a text that do not follow another name or a dot, with their positions, outside of quotes.
fn names(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut quoted: Option<char> = None;
    while let Some(c) = text[at..].chars().next() {
        if let Some(quote) = quoted {
            quoted = Some(quote).filter(|quote| *quote != c);
            at += c.len_utf8();
            continue;
        }
        if c == '\'' || c == '"' {
            quoted = Some(c);
        }
        if c.is_ascii_alphabetic() || c == '_' {
            let end = text[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
            let end = end.map_or(text.len(), |end| at + end);
            if !text[..at].ends_with(['.', '-']) {
                found.push((at, &text[at..end]));
            }
            at = end;
            continue;
        }
        at += c.len_utf8();
    }
    found
}

/// Parses `'x')` and returns the text and the rest.
fn literal_argument(text: &str) -> Option<(String, &str)> {
    let inside = text.trim_start().strip_prefix('\'')?;
    let (argument, rest) = inside.split_once('\'')?;
    Some((argument.to_owned(), rest.trim_start().strip_prefix(')')?))
}

/// Parses `.a`, `?.a`, `['a']`, `?['a']`, `[0]` as often as they occur.
fn path(text: &str) -> (Vec<ShapeKey>, &str) {
    let (mut path, mut rest) = (Vec::new(), text);
    loop {
        let next = rest.strip_prefix('?').unwrap_or(rest);
        if let Some(after) = next.strip_prefix('[') {
            let Some((inside, after)) = after.split_once(']') else { return (path, rest) };
            let inside = inside.trim();
            let quoted = inside.trim_matches(['\'', '"']);
            match (quoted.len() < inside.len(), inside.parse::<i64>()) {
                (true, _) => path.push(ShapeKey::Field(quoted.to_owned())),
                (false, Ok(_)) => path.push(ShapeKey::Element),
                (false, Err(_)) => return (path, rest),
            }
            rest = after;
            continue;
        }
        let Some(after) = next.strip_prefix('.') else { return (path, rest) };
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(after.len());
        match &after[..end] {
            "" => return (path, rest),
            number if number.parse::<u64>().is_ok() => path.push(ShapeKey::Element),
            name => path.push(ShapeKey::Field(name.to_owned())),
        }
        rest = &after[end..];
    }
}

/// Parses the literal that a text begins with: a quoted text, a number, true, false or null.
fn literal(text: &str) -> Option<Value> {
    let text = text.trim_start();
    if let Some(quote @ ('\'' | '"')) = text.chars().next() {
        return text[1..].split_once(quote).map(|(inside, _)| Value::from(inside));
    }
    let end = text.find([',', ')', ' ', '}', '|', '&']).unwrap_or(text.len());
    let word = text[..end].to_lowercase();
    parse_json(&word)
        .ok()
        .filter(|value| matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Null))
}

/// Calls this for every text in a value, at any depth.
pub(super) fn each_text(value: &Value, visit: &mut dyn FnMut(&str)) {
    match value {
        Value::Str(text) => visit(text),
        Value::List(items) => items.iter().for_each(|item| each_text(item, visit)),
        Value::Map(map) => map.iter().for_each(|(_, inner)| each_text(inner, visit)),
        _ => {}
    }
}
