//! Standard output and standard error, with colours only on a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write};

use windlass_value::{Value, to_json_pretty};

use crate::failure::{CliExit, CliFailure};

/// Prints a line on stdout. A reader that has gone ends the command silently.
pub(crate) fn print(text: &str) -> Result<(), CliFailure> {
    let mut stdout = std::io::stdout().lock();
    let text = escape_terminal_controls(text);
    let written =
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => CliFailure::silent(CliExit::Failed),
        _ => CliFailure::usage(format!("could not write to standard output: {error}")),
    })
}

pub(crate) fn print_json(value: &Value) -> Result<(), CliFailure> {
    print(&to_json_pretty(value))
}

/// Prints a line on stderr, apart from the result on stdout. A failure to write does not matter.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", escape_terminal_controls(text));
}

/// Escapes DEL and the C1 control characters (U+0080 to U+009F), which terminals interpret like escape sequences. They
/// become visible as `\u009b`, and JSON that contains them keeps its meaning.
pub(crate) fn escape_terminal_controls(text: &str) -> Cow<'_, str> {
    let is_command = |letter: char| matches!(letter, '\u{7f}'..='\u{9f}');
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_command(letter) {
            // Writing to a string cannot fail.
            true => drop(write!(shown, "\\u{:04x}", u32::from(letter))),
            false => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// Whether to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn stdout(no_color: bool) -> Paint {
        Paint { on: colours_allowed(no_color) && std::io::stdout().is_terminal() }
    }

    pub(crate) fn stderr(no_color: bool) -> Paint {
        Paint { on: colours_allowed(no_color) && std::io::stderr().is_terminal() }
    }

    pub(crate) fn syntax(self) -> windlass_syntax::Colour {
        if self.on { windlass_syntax::Colour::Always } else { windlass_syntax::Colour::Never }
    }

    /// Colours a status word. `text` must already be padded, since escape codes would count towards the width.
    pub(crate) fn status(self, status: &str, text: &str) -> String {
        match status {
            "succeeded" => self.with("32", text),
            "failed" | "timed_out" | "quarantined" => self.with("31", text),
            "cancelled" | "paused" | "interrupted" | "retrying" | "cancelling" => self.with("33", text),
            "running" | "waiting" => self.with("36", text),
            _ => self.with("2", text),
        }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn colours_allowed(no_color: bool) -> bool {
    !no_color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        let json = "{\"a\":\"x\u{9b}31m\u{80}\u{7f}ü\u{a0}\"}";
        let shown = escape_terminal_controls(json);
        assert_eq!(shown, "{\"a\":\"x\\u009b31m\\u0080\\u007fü\u{a0}\"}");
        assert_eq!(windlass_value::parse_json(&shown).ok(), windlass_value::parse_json(json).ok());
    }
}
