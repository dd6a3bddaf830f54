//! Questions at the terminal: a secret that is not shown, and a confirmation.

use std::io::{self, BufRead, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::{CliExit, CliFailure};

/// Control characters of a terminal.
const INTERRUPT: u8 = 3;
const END_OF_INPUT: u8 = 4;
const DELETE_LINE: u8 = 21;
const BACKSPACES: [u8; 2] = [8, 127];

/// The terminal without echo. It shows its input again when this ends, also after an interrupt.
struct HiddenInput(Termios);

impl HiddenInput {
    fn begin() -> io::Result<HiddenInput> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        // Characters arrive one by one: Ctrl-C must not leave a terminal without echo.
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(HiddenInput(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Asks for one line that the terminal does not show.
pub(crate) fn hidden_line(question: &str) -> Result<String, CliFailure> {
    let failed = |error: io::Error| CliFailure::usage(format!("could not read from the terminal: {error}"));
    let mut stderr = io::stderr();
    let line = {
        // Hidden before the question: the answer may follow at once.
        let _hidden = HiddenInput::begin().map_err(failed)?;
        write!(stderr, "{question}: ").and_then(|()| stderr.flush()).map_err(failed)?;
        read_line(io::stdin().lock()).map_err(failed)
    };
    writeln!(stderr).map_err(failed)?;
    line?.ok_or_else(|| CliFailure::silent(CliExit::Interrupted))
}

/// Reads characters up to the end of the line; `None` after Ctrl-C.
fn read_line(input: impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    for byte in input.bytes() {
        match byte? {
            b'\r' | b'\n' | END_OF_INPUT => break,
            INTERRUPT => return Ok(None),
            DELETE_LINE => line.clear(),
            byte if BACKSPACES.contains(&byte) => {
                // All bytes of a character.
                while line.pop().is_some_and(|last: u8| last & 0b1100_0000 == 0b1000_0000) {}
            }
            byte => line.push(byte),
        }
    }
    String::from_utf8(line).map(Some).map_err(|_| io::Error::other("it is not UTF-8"))
}

/// Asks a question that is answered with yes or no.
pub(crate) fn confirm(question: &str) -> Result<bool, CliFailure> {
    let failed = |error: io::Error| CliFailure::usage(format!("could not read from the terminal: {error}"));
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).map_err(failed)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_line_can_be_corrected_and_interrupted() {
        for (typed, expected) in [
            ("abc\rmore", Some("abc")),
            ("abé\u{7f}c\n", Some("abc")),
            ("wrong\u{15}right\n", Some("right")),
            ("\u{7f}a\u{4}", Some("a")),
            ("abc\u{3}", None),
        ] {
            assert_eq!(read_line(typed.as_bytes()).expect("read").as_deref(), expected, "{typed:?}");
        }
    }
}
