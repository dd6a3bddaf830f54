//! Patterns that select calls: `bash`, `github__*`, `bash(git *)`.

use std::fmt;
use std::str::FromStr;

use windlass_value::Value;

use super::PermissionRequest;
use crate::address::{Address, normalize_authority};

/// A tool name in which `*` matches anything, and in parentheses a pattern for its primary argument: the command of
/// `bash`, the path of file tools, the URL of `http`.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPattern {
    tool: String,
    argument: Option<String>,
}

/// The error for a pattern that cannot be parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` does not name a tool; examples: `bash`, `github__*` or `bash(git *)`", self.0)
    }
}

impl std::error::Error for PatternError {}

impl FromStr for CallPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<CallPattern, PatternError> {
        let text = text.trim();
        let (tool, argument) = match text.split_once('(') {
            Some((tool, rest)) => {
                (tool, Some(rest.strip_suffix(')').ok_or_else(|| PatternError(text.to_owned()))?.trim()))
            }
            None => (text, None),
        };
        let tool = tool.trim();
        let usable = |one: char| one.is_ascii_alphanumeric() || "_-.*".contains(one);
        if tool.is_empty() || !tool.chars().all(usable) {
            return Err(PatternError(text.to_owned()));
        }
        Ok(CallPattern { tool: tool.to_owned(), argument: argument.map(str::to_owned) })
    }
}

/// The primary argument of a tool: the first of these that it has.
const PRIMARY_ARGUMENTS: [&str; 4] = ["command", "path", "url", "pattern"];

/// Texts that join shell commands or hide one in another.
const SHELL_SEPARATORS: [&str; 9] = ["&", "|", ";", "\n", "`", "$(", "<(", ">", "\r"];

impl CallPattern {
    /// The tool name, in which `*` matches anything.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns whether the pattern allows a call. Only single shell commands match: `git status; rm -r x` does not match
    /// `git *`.
    pub(crate) fn allows(&self, request: &PermissionRequest<'_>) -> bool {
        glob_matches(&self.tool, request.tool)
            && match (&self.argument, primary_argument(request.arguments)) {
                (None, _) => true,
                (Some(pattern), Some((name, given))) => {
                    let joined = name == "command" && SHELL_SEPARATORS.iter().any(|join| given.contains(join));
                    match name {
                        // The resolved path counts, not its spelling.
                        "path" if !request.resolved_paths.is_empty() => {
                            request.resolved_paths.iter().any(|path| glob_matches(pattern, path))
                        }
                        // A path with `..` may lead elsewhere than it seems.
                        "path" => !given.split('/').any(|part| part == "..") && glob_matches(pattern, given.trim()),
                        "url" => Address::parse(given)
                            .is_ok_and(|address| address.has_no_dot_segments && url_matches(pattern, &address, true)),
                        _ => !joined && glob_matches(pattern, given.trim()),
                    }
                }
                (Some(_), None) => false,
            }
    }

    /// Returns whether the pattern denies a call: one matching command in a shell text is enough.
    pub(crate) fn denies(&self, request: &PermissionRequest<'_>) -> bool {
        glob_matches(&self.tool, request.tool)
            && match (&self.argument, primary_argument(request.arguments)) {
                (None, _) => true,
                (Some(pattern), Some(("command", given))) => {
                    let parts = given.split(['&', '|', ';', '\n', '\r', '`', '(', ')', '{', '}']);
                    parts.chain([given]).any(|part| glob_matches(pattern, part.trim().trim_start_matches('$').trim()))
                }
                (Some(pattern), Some(("path", given))) => {
                    // Some file systems ignore case.
                    let pattern = pattern.to_lowercase();
                    let fits = |path: &str| glob_matches(&pattern, &path.to_lowercase());
                    fits(given.trim()) || request.resolved_paths.iter().any(|path| fits(path))
                }
                (Some(pattern), Some(("url", given))) => {
                    glob_matches(pattern, given.trim())
                        || Address::parse(given).is_ok_and(|address| url_matches(pattern, &address, false))
                }
                (Some(pattern), Some((_, given))) => glob_matches(pattern, given.trim()),
                (Some(_), None) => false,
            }
    }
}

fn primary_argument(arguments: &Value) -> Option<(&'static str, &str)> {
    PRIMARY_ARGUMENTS.iter().find_map(|name| Some((*name, arguments.get(name)?.as_str()?)))
}

/// Returns whether a URL matches a pattern. A `*` in the host does not extend beyond it. `https://example.com*`
/// allows only that host, with any path; `example.com.evil.test` has the same beginning and is not allowed.
fn url_matches(pattern: &str, address: &Address, allows: bool) -> bool {
    let Some((scheme, rest)) = pattern.split_once("://") else { return glob_matches(pattern, &address.to_url()) };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (scheme, is_whole) = (scheme.to_ascii_lowercase(), !path.is_empty());
    let open = authority
        .strip_suffix('*')
        .filter(|host| !is_whole && host.ends_with(|one: char| one != '.' && one != ':' && one != '*'));
    let path_fits = match (is_whole, authority.ends_with('*')) {
        (true, _) if path.starts_with('?') => glob_matches(&format!("/{path}"), &address.path),
        (true, _) => glob_matches(path, &address.path),
        (false, true) => true,
        (false, false) => address.path == "/",
    };
    let authority = normalize_authority(&scheme, open.filter(|_| allows).unwrap_or(authority));
    glob_matches(&scheme, &address.scheme) && glob_matches(&authority, &address.authority) && path_fits
}

/// Matches a text against a pattern in which `*` stands for any characters, also none. Takes at most O(n·m) time.
fn glob_matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(part) = last.replace(part) {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use windlass_value::parse_json;

    use super::*;

    #[test]
    fn patterns_allow_and_deny_calls() {
        // The pattern, the tool, its arguments; whether the pattern allows the call, whether it denies it.
        for (pattern, tool, arguments, allows, denies) in [
            ("bash", "bash", r#"{"command": "ls"}"#, true, true),
            ("bash", "bash2", "{}", false, false),
            ("*", "anything", "{}", true, true),
            ("github__*", "github__issue", "{}", true, true),
            ("github__*", "gitlab__issue", "{}", false, false),
            ("bash(git *)", "bash", r#"{"command": "git status"}"#, true, true),
            ("bash(git *)", "bash", r#"{"command": "  git log -1 "}"#, true, true),
            ("bash(git *)", "bash", r#"{"command": "github"}"#, false, false),
            ("bash(git *)", "bash", r#"{"command": "git status; rm -r x"}"#, false, true),
            ("bash(git *)", "bash", r#"{"command": "git log $(rm x)"}"#, false, true),
            ("bash(git *)", "bash", r#"{"command": "git log > x"}"#, false, true),
            ("bash(git *)", "bash", "{\"command\": \"git log\\nrm x\"}", false, true),
            ("bash(rm *)", "bash", r#"{"command": "ls; rm -r x"}"#, false, true),
            ("bash(rm *)", "bash", r#"{"command": "ls && (rm -r x)"}"#, false, true),
            ("bash(rm *)", "bash", r#"{"command": "echo $(rm -r x)"}"#, false, true),
            ("write(src/*)", "write", r#"{"path": "src/a/b.rs", "content": ""}"#, true, true),
            ("write(src/*)", "write", r#"{"path": "src/../b.rs", "content": ""}"#, false, true),
            ("write(src/*.rs)", "write", r#"{"path": "src/b.md", "content": ""}"#, false, false),
            ("http(https://example.com/*)", "http", r#"{"url": "https://example.com/x"}"#, true, true),
            ("http(https://example.com/*)", "http", r#"{"url": "https://example.com.evil/x"}"#, false, false),
            ("http(https://example.com*)", "http", r#"{"url": "https://example.com/x?y"}"#, true, true),
            ("http(https://example.com*)", "http", r#"{"url": "https://example.com@evil.test/"}"#, false, true),
            ("http(https://example.com*)", "http", r#"{"url": "https://example.com\\@evil.test/"}"#, false, true),
            ("http(https://example.com*)", "http", r#"{"url": "https://example.com.evil.test/"}"#, false, true),
            ("http(https://example.com/*)", "http", r#"{"url": "HTTPS://EXAMPLE.com:443/x"}"#, true, true),
            ("http(https://Example.com/*)", "http", r#"{"url": "https://example.com./x"}"#, true, true),
            ("http(https://example.com)", "http", r#"{"url": "https://example.com/"}"#, true, true),
            ("http(https://example.com)", "http", r#"{"url": "https://example.com/x"}"#, false, false),
            ("http(https://example.com/*)", "http", r#"{"url": "https://example.com:8443/x"}"#, false, false),
            ("http(https://*.example.com/*)", "http", r#"{"url": "https://a.example.com/x"}"#, true, true),
            ("http(https://*.example.com/*)", "http", r#"{"url": "https://evil.test/x.example.com/"}"#, false, true),
            ("http(*://evil.test/*)", "http", r#"{"url": "http://Evil.TEST/"}"#, true, true),
            ("http(https://x.test/pub/*)", "http", r#"{"url": "https://x.test/pub/../private"}"#, false, true),
            ("http(https://x.test/priv*)", "http", r#"{"url": "https://x.test/pub/%2e%2e/%70rivate"}"#, false, true),
            ("http(https://*)", "http", r#"{"url": "https://example.com/x"}"#, true, true),
            ("http(https://*)", "http", r#"{"url": "http://example.com/x"}"#, false, false),
            ("http(*)", "http", r#"{"url": "http://example.com/x"}"#, true, true),
            ("own(x)", "own", r#"{"y": "x"}"#, false, false),
        ] {
            let pattern: CallPattern = pattern.parse().unwrap();
            let arguments = parse_json(arguments).unwrap();
            let request = PermissionRequest { tool, step: "s", arguments: &arguments, resolved_paths: &[] };
            assert_eq!(
                (pattern.allows(&request), pattern.denies(&request)),
                (allows, denies),
                "{pattern:?} {arguments:?}"
            );
        }
        for wrong in ["", "  ", "a b", "bash(git", "(x)"] {
            assert!(wrong.parse::<CallPattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_star_matches_any_characters() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "a", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("a*b*c", "aXbYbZc", true),
            ("ab*ba", "aba", false),
            ("**", "x", true),
        ] {
            assert_eq!(glob_matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
