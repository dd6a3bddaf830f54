//! Passes the commit and the target of a build to the program, for `windlass --version`.

#![allow(clippy::disallowed_macros, reason = "a build script prints its results")]

mod commit;

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-env-changed={}", commit::VARIABLE);
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo:rustc-env=WINDLASS_BUILD_TARGET={}", variable("TARGET"));
    // The commit of a debug build would change with every commit, and each would compile this crate again.
    let root = (variable("PROFILE") == "release").then(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    if let Some(root) = &root {
        let watched = commit::watched_files(root);
        watched.iter().for_each(|file| println!("cargo:rerun-if-changed={}", file.display()));
    }
    let found = commit::find(&variable(commit::VARIABLE), root.as_deref(), include_str!("archive_commit.txt"));
    println!("cargo:rustc-env=WINDLASS_BUILD_COMMIT={}", found.unwrap_or_default());
}
