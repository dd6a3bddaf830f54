//! The Rust examples of the error pages return the errors that their pages describe.
//!
//! `error_examples/generated` has copies of the examples; `windlass-errors/tests/rust_examples.rs` writes them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use windlass::Error;
use windlass_errors::{ErrorCode, all, lookup};
use windlass_runtime::RuntimeError;

#[rustfmt::skip]
mod generated;

/// The code of a page and its example.
type Example = (&'static str, fn() -> Pin<Box<dyn Future<Output = Error>>>);

/// An example that takes longer waits for an event that never comes.
const MAX_DURATION: Duration = Duration::from_secs(60);

/// Examples with definitions of other dialects, and whether the dialect is part of this build.
const DIALECT_EXAMPLES: [(&str, bool); 2] =
    [("WND-2329", cfg!(feature = "noetl")), ("WND-2336", cfg!(feature = "loom"))];

/// Describes an error that is not the one of its page.
fn mismatch(entry: &ErrorCode, error: &Error) -> Option<String> {
    let is_expected = |name: &str| match entry.names {
        // The name is the author's own: no code has it.
        [] => lookup(name).is_empty(),
        names => names.contains(&name),
    };
    let names: Vec<String> = match error {
        Error::Build(error) => error.problems.iter().map(|problem| problem.code.to_owned()).collect(),
        Error::Engine(error) => vec![variant_name(error)],
        error => vec![error.code().to_owned()],
    };
    let fits = !names.is_empty() && names.iter().all(|name| is_expected(name));
    (!fits).then(|| format!("{} ({:?}) has the example of {names:?}: {error}", entry.code, entry.names))
}

/// Returns the name of an engine error, which [`Error::code`] gives only for some of them.
fn variant_name(error: &RuntimeError) -> String {
    format!("{error:?}").chars().take_while(|letter| letter.is_alphanumeric()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_returns_the_error_of_its_page() {
    let mut mismatches = Vec::new();
    for (code, call) in generated::EXAMPLES.iter().copied().flatten() {
        if DIALECT_EXAMPLES.contains(&(*code, false)) {
            continue;
        }
        let entry = all().iter().find(|entry| entry.code == *code).unwrap();
        match tokio::time::timeout(MAX_DURATION, call()).await {
            Ok(error) => mismatches.extend(mismatch(entry, &error)),
            Err(_) => mismatches.push(format!("{code}: the example does not end")),
        }
        // Some examples open a store in this folder.
        let folder = code.replace("WND-", "windlass-");
        let _ = std::fs::remove_dir_all(std::env::temp_dir().join(format!("{folder}-{}", std::process::id())));
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}
