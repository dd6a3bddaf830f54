//! `windlass --version`, and the commit that a build finds.

use std::path::Path;
use std::process::Command;

use crate::support::TestDir;

// The build script of this crate.
#[path = "../build/commit.rs"]
mod commit;

const NOT_ARCHIVED: &str = "$Format:%H$\n";

#[test]
fn the_version_has_features_and_target() {
    let place = TestDir::new();
    let (short, long) = (place.windlass(&["-V"]).out, place.windlass(&["--version"]).out);
    let first = format!("windlass {} (", env!("CARGO_PKG_VERSION"));
    assert!(short.starts_with(&first) && short.trim_end().ends_with(')'), "{short}");
    assert_eq!(short.lines().count(), 1, "{short}");
    let [version, features, target] = long.lines().collect::<Vec<_>>()[..] else { panic!("{long}") };
    assert_eq!(version, short.trim_end());
    for (name, enabled) in [
        ("duckdb", cfg!(feature = "duckdb")),
        ("otel", cfg!(feature = "otel")),
        ("postgres", cfg!(feature = "postgres")),
        ("sqlite", cfg!(feature = "sqlite")),
    ] {
        assert_eq!(
            features.strip_prefix("features: ").unwrap().split(' ').any(|one| one == name),
            enabled,
            "{features}"
        );
    }
    assert!(target.starts_with("target: ") && target.contains(std::env::consts::ARCH), "{target}");
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository with one commit.
fn repository() -> (TestDir, String) {
    let place = TestDir::new();
    let folder = place.path("");
    place.write("archive_commit.txt", NOT_ARCHIVED);
    place.write(".gitattributes", "archive_commit.txt export-subst\n");
    git(&folder, &["init", "--quiet"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "--message", "first"]);
    let commit = git(&folder, &["rev-parse", "HEAD"]);
    (place, commit)
}

#[test]
fn a_build_finds_the_commit_of_its_repository() {
    let (place, commit) = repository();
    let root = place.path("");
    assert_eq!(commit::find("", Some(&root), NOT_ARCHIVED).as_deref(), Some(&commit[..12]));
    let watched = commit::watched_files(&root);
    assert!(watched.iter().any(|file| file.ends_with("HEAD")), "{watched:?}");
    assert!(watched.iter().all(|file| file.exists()), "{watched:?}");
}

#[test]
fn a_given_commit_comes_first() {
    let (place, _) = repository();
    assert_eq!(commit::find("abc-dirty", Some(&place.path("")), NOT_ARCHIVED).as_deref(), Some("abc-dirty"));
    assert!(include_str!("../../../docs/install.md").contains(&format!("`{}`", commit::VARIABLE)));
}

#[test]
fn an_archive_of_git_knows_its_commit() {
    let (place, commit) = repository();
    let tar = place.path("a.tar");
    git(&place.path(""), &["archive", "--output", &tar.display().to_string(), "HEAD"]);
    let unpacked = TestDir::new();
    let status = Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(unpacked.path("")).status().unwrap();
    assert!(status.success());
    let archived = std::fs::read_to_string(unpacked.path("archive_commit.txt")).unwrap();
    assert_eq!(commit::find("", Some(&unpacked.path("")), &archived).as_deref(), Some(&commit[..12]));
}

/// Sources that lie inside another project's repository do not have its commit.
#[test]
fn sources_outside_of_a_repository_have_no_commit() {
    let (place, _) = repository();
    let inner = place.path("vendor/windlass");
    std::fs::create_dir_all(&inner).unwrap();
    assert_eq!(commit::find("", Some(&inner), NOT_ARCHIVED), None);
    assert_eq!(commit::watched_files(&inner), Vec::<std::path::PathBuf>::new());
    assert_eq!(commit::find("", None, NOT_ARCHIVED), None);
}

#[test]
fn the_repository_substitutes_the_commit_in_archives() {
    let attributes = include_str!("../../../.gitattributes");
    assert!(attributes.contains("crates/windlass-cli/build/archive_commit.txt export-subst"));
    assert!(include_str!("../build/archive_commit.txt").trim().len() >= "$Format:%H$".len());
}
