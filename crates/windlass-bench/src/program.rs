//! The program as a user starts it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::disk::BenchFolder;

const DEFINITION: &str = r#"{"type": "compose", "name": "hello", "inputs": "hello"}"#;

pub(crate) fn cold_start() -> Vec<String> {
    let program: PathBuf =
        std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("windlass"))).unwrap_or_default();
    if !program.exists() {
        return vec![format!("{} is not built: cargo build --release", program.display())];
    }
    let folder = BenchFolder::new("cold");
    let file = folder.path().join("hello.json");
    std::fs::write(&file, DEFINITION).expect("a file can be written");
    let mut best = f64::MAX;
    for round in 0..20 {
        let store = folder.path().join(format!("store-{round}"));
        let begun = Instant::now();
        let output = Command::new(&program).arg("run").arg(&file).arg("--json").arg("--store").arg(&store).output();
        let took = begun.elapsed().as_secs_f64() * 1e3;
        match output {
            Ok(output) if output.status.success() => best = best.min(took),
            Ok(output) => return vec![format!("failed: {}", String::from_utf8_lossy(&output.stderr))],
            Err(error) => return vec![format!("failed: {error}")],
        }
    }
    vec![format!("{best:.1} ms with a new store (best of 20)")]
}
