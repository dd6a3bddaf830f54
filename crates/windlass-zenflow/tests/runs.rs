//! Runs every case of `tests/runs` through the engine: a document, a script, and expectations. `CASE=name` runs one
//! and prints its events.

use crate::world;

use world::Case;
use world::expect::check;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_ends_as_expected() {
    let only = std::env::var("CASE").ok();
    let mut wrong = Vec::new();
    for case in Case::all("runs").into_iter().filter(|case| only.as_ref().is_none_or(|only| *only == case.name)) {
        let name = case.name.clone();
        let ran = tokio::spawn(async move { (case.run().await, case.expect) }).await;
        let Ok((ran, expect)) = ran else {
            wrong.push(format!("{name} did not run; see above"));
            continue;
        };
        if only.is_some() {
            eprintln!("{}\n{:?}", ran.event_lines(), ran.report);
        }
        let error = ran.report.error.as_ref().map(|error| format!(" ({}: {})", error.code, error.message));
        let error = error.unwrap_or_default();
        wrong.extend(check(&ran, &expect).into_iter().map(|found| format!("{name}{error}: {found}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
