//! The Rust examples of the error pages return the errors that their pages describe.
//!
//! `error_examples/generated` has copies of the examples; `windlass-errors/tests/rust_examples.rs` writes them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use windlass::{Error, Problem};

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
fn mismatch(code: &str, error: &Error) -> Option<String> {
    let codes: Vec<&str> = match error {
        Error::Build(error) => error.problems.iter().map(Problem::reference).collect(),
        error => vec![error.reference()],
    };
    let fits = !codes.is_empty() && codes.iter().all(|found| *found == code);
    (!fits).then(|| format!("{code} has the example of {codes:?}: {error}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_returns_the_error_of_its_page() {
    let mut mismatches = Vec::new();
    for (code, call) in generated::EXAMPLES.iter().copied().flatten() {
        if DIALECT_EXAMPLES.contains(&(*code, false)) {
            continue;
        }
        match tokio::time::timeout(MAX_DURATION, call()).await {
            Ok(error) => mismatches.extend(mismatch(code, &error)),
            Err(_) => mismatches.push(format!("{code}: the example does not end")),
        }
        // Some examples open a store in this folder.
        let folder = code.replace("WND-", "windlass-");
        let _ = std::fs::remove_dir_all(std::env::temp_dir().join(format!("{folder}-{}", std::process::id())));
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}
