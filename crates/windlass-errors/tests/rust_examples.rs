//! The Rust examples of the pages are part of the tests of the crate `windlass`, which run them.
//!
//! They are copied word for word, so that the compiler sees what readers see. The copies are written here and not in
//! the program that runs them: an example that does not compile must not prevent its own correction.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use windlass_errors::{ErrorCode, all};

/// The folder of the copies.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../windlass/tests/error_examples");

/// The file that lists the others.
const LIST: &str = "generated.rs";

const HEAD: &str = "//! Generated from the pages of `windlass-errors`: `UPDATE=1 cargo test -p windlass-errors`.\n";

const BUILD_SIGNATURE: &str = "fn example() -> BuildError {\n";
const RUN_SIGNATURE: &str = "async fn example() -> windlass::Error {\n";

/// Returns the Rust example of a page. Blocks marked `rust,ignore` are parts of a program and do not count.
fn rust_block(entry: &ErrorCode) -> Option<&'static str> {
    let mut blocks = entry.page.split("\n```rust\n").skip(1);
    let block = blocks.next()?.split_inclusive("\n```\n").next().unwrap();
    assert!(blocks.next().is_none(), "{} has several Rust examples", entry.code);
    Some(block.strip_suffix("```\n").unwrap())
}

/// Returns the module of an example: its text and a function that calls it.
fn render_module(entry: &ErrorCode, block: &str) -> String {
    let has = |signature: &str| block.lines().any(|line| line == signature.trim_end());
    let call = match (has(BUILD_SIGNATURE), has(RUN_SIGNATURE)) {
        (true, false) => "example().into()",
        (false, true) => "example().await",
        _ => panic!("{}: an example has the signature {BUILD_SIGNATURE:?} or {RUN_SIGNATURE:?}", entry.code),
    };
    let name = module_name(entry.code);
    format!("\nmod {name} {{\n{block}\npub(super) async fn call() -> windlass::Error {{\n    {call}\n}}\n}}\n")
}

fn module_name(code: &str) -> String {
    code.to_lowercase().replace('-', "_")
}

/// Returns the copies by their path in [`FOLDER`]: one file for each hundred codes, and a list of these.
fn render_files() -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, (String, String)> = BTreeMap::new();
    for entry in all() {
        let Some(block) = rust_block(entry) else { continue };
        let name = module_name(entry.code);
        let (table, modules) = files.entry(format!("{}xx", &name[..name.len() - 2])).or_default();
        let _ = writeln!(table, "    (\"{}\", || Box::pin({name}::call())),", entry.code);
        modules.push_str(&render_module(entry, block));
    }
    let (mut declared, mut listed) = (String::new(), String::new());
    for file in files.keys() {
        let _ = writeln!(declared, "mod {file};");
        let _ = writeln!(listed, "    {file}::EXAMPLES,");
    }
    let list = format!(
        "{HEAD}\nuse super::Example;\n\n{declared}\n\
         pub(super) const EXAMPLES: &[&[Example]] = &[\n{listed}];\n"
    );
    let files = files.into_iter().map(|(file, (table, modules))| {
        let table = format!("pub(super) const EXAMPLES: &[super::Example] = &[\n{table}];\n");
        (format!("generated/{file}.rs"), format!("{HEAD}\n{table}{modules}"))
    });
    files.chain([(LIST.to_owned(), list)]).collect()
}

fn read_files() -> BTreeMap<String, String> {
    let folder = Path::new(FOLDER);
    let names = std::fs::read_dir(folder.join("generated")).into_iter().flatten();
    let names = names.map(|file| format!("generated/{}", file.unwrap().file_name().to_string_lossy()));
    let names = names.chain([LIST.to_owned()]);
    names.map(|name| (name.clone(), std::fs::read_to_string(folder.join(&name)).unwrap_or_default())).collect()
}

/// `UPDATE=1 cargo test -p windlass-errors` writes the copies.
#[test]
fn the_copies_have_the_examples_of_all_pages() {
    let (folder, now) = (Path::new(FOLDER), render_files());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(folder.join("generated")).unwrap();
        let kept = read_files();
        let outdated = kept.keys().filter(|name| !now.contains_key(*name));
        outdated.for_each(|name| std::fs::remove_file(folder.join(name)).unwrap());
        now.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
    }
    let kept = read_files();
    let names = kept.keys().chain(now.keys());
    let differing: Vec<&String> = names.filter(|name| kept.get(*name) != now.get(*name)).collect();
    assert!(differing.is_empty(), "{FOLDER} is outdated: UPDATE=1 cargo test -p windlass-errors; {differing:?}");
}
