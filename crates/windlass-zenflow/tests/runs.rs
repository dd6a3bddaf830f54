//! Every case of `tests/runs` through the engine: a document, a script, and what is to come of it. `CASE=name` runs one and
//! shows its events.

mod world;

use world::{Case, check};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases() {
    let only = std::env::var("CASE").ok();
    let mut wrong = Vec::new();
    for case in Case::all("runs").into_iter().filter(|case| only.as_ref().is_none_or(|only| *only == case.name)) {
        let ran = case.run().await;
        let found = check(&ran, &case.expect);
        if only.is_some() {
            eprintln!("{}\n{:?}", ran.told(), ran.report);
        }
        let error = ran.report.error.as_ref().map(|error| format!(" ({}: {})", error.code, error.message));
        wrong.extend(found.into_iter().map(|found| format!("{}{}: {found}", case.name, error.clone().unwrap_or_default())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
