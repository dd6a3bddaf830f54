//! Tokens in the keyring of the system, through the programs that come with it: `secret-tool` of libsecret (GNOME
//! Keyring, KWallet) on Linux, `security` on macOS. No library is linked, and the token is no argument of a program.

use std::io::Write;
use std::process::{Command, Stdio};

use windlass_tools::Secret;

use crate::failure::{CliFailure, codes};

/// The name of this program's entries.
const SERVICE: &str = "windlass";

const IS_MAC: bool = cfg!(target_os = "macos");

fn program() -> &'static str {
    if IS_MAC { "security" } else { "secret-tool" }
}

/// Reads the token of a context.
pub(super) fn read(context: &str) -> Result<Secret, CliFailure> {
    let arguments = match IS_MAC {
        true => ["find-generic-password", "-w", "-s", SERVICE, "-a", context].to_vec(),
        false => ["lookup", "service", SERVICE, "context", context].to_vec(),
    };
    let done =
        Command::new(program()).args(arguments).stdin(Stdio::null()).output().map_err(|error| missing(&error))?;
    match String::from_utf8(done.stdout).map(|text| text.trim().to_owned()) {
        Ok(token) if done.status.success() && !token.is_empty() => Ok(Secret::new(token)),
        _ => Err(CliFailure::usage("the keyring has no token for this context, or is locked")
            .code(codes::NO_TOKEN)
            .hint(format!("store it again: windlass context add {context} --keyring --server URL < FILE"))),
    }
}

/// Stores the token of a context, in place of an earlier one.
pub(crate) fn write(context: &str, token: &Secret) -> Result<(), CliFailure> {
    let label = format!("Windlass token of {context}");
    let arguments = match IS_MAC {
        // Reads the password twice from standard input, as a user would type it.
        true => ["add-generic-password", "-U", "-s", SERVICE, "-a", context, "-w"].to_vec(),
        false => ["store", "--label", &label, "service", SERVICE, "context", context].to_vec(),
    };
    let typed = if IS_MAC { format!("{0}\n{0}\n", token.reveal()) } else { token.reveal().to_owned() };
    let mut child =
        Command::new(program()).args(arguments).stdin(Stdio::piped()).spawn().map_err(|error| missing(&error))?;
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(typed.as_bytes()));
    match (written, child.wait()) {
        (Ok(()), Ok(status)) if status.success() => Ok(()),
        _ => Err(CliFailure::usage(format!("`{}` could not store the token", program()))
            .code(codes::NO_TOKEN)
            .hint("is the keyring unlocked? --token-file and --token-command need none")),
    }
}

/// Removes the token of a context, if there is one.
pub(crate) fn remove(context: &str) {
    let arguments = match IS_MAC {
        true => ["delete-generic-password", "-s", SERVICE, "-a", context].to_vec(),
        false => ["clear", "service", SERVICE, "context", context].to_vec(),
    };
    // Without the program there is no entry either.
    let _ = Command::new(program()).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status();
}

fn missing(error: &std::io::Error) -> CliFailure {
    let install = if IS_MAC { "it is part of macOS" } else { "install libsecret-tools" };
    CliFailure::usage(format!("the keyring of this system cannot be used: `{}`: {error}", program()))
        .code(codes::NO_TOKEN)
        .hint(format!("{install}, or use --token-file or --token-command"))
}
