//! Known vulnerabilities of the dependencies. The database changes from day to day and comes over a network: where it
//! cannot be had, that is said, and a change is not held up by it.

use std::process::Command;
use std::time::{Duration, Instant};

/// Time to get the database. A network that answers nothing must not hold up the tests.
const MAX_FETCH_TIME: Duration = Duration::from_secs(120);

/// Checks the dependencies against the database, which must be had.
pub(crate) fn check() -> bool {
    crate::cargo(&["deny", "--all-features", "check", "advisories"])
}

/// Checks the dependencies against the database if it can be had, and says clearly if not.
pub(crate) fn check_if_available() -> bool {
    check_after(fetch, || crate::cargo(&["deny", "--all-features", "--offline", "check", "advisories"]))
}

fn check_after(fetch: impl FnOnce() -> Result<(), String>, check: impl FnOnce() -> bool) -> bool {
    match fetch() {
        Ok(()) => check(),
        Err(reason) => {
            println!(
                "> ADVISORIES WERE NOT CHECKED: the database could not be had ({reason}).\n> `cargo xtask deny \
                 --advisories` checks them where github.com can be reached."
            );
            true
        }
    }
}

fn fetch() -> Result<(), String> {
    println!("> cargo deny fetch db");
    let mut command = Command::new(env!("CARGO"));
    // A question would never be answered.
    command.args(["deny", "--log-level", "error", "fetch", "db"]).env("GIT_TERMINAL_PROMPT", "0");
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err("see the error above".to_owned()),
            None if begun.elapsed() > MAX_FETCH_TIME => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {} s", MAX_FETCH_TIME.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check_after;

    #[test]
    fn a_missing_database_fails_nothing_and_an_advisory_does() {
        assert!(check_after(|| Err("no network".to_owned()), || panic!("there is nothing to check with")));
        assert!(check_after(|| Ok(()), || true));
        assert!(!check_after(|| Ok(()), || false));
    }
}
