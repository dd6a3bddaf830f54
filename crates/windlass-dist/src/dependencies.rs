//! The libraries that are part of the program: crates that are linked in, npm packages of the web UI, and the libraries of
//! the compiler and the linker.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use crate::build::MUSL_VERSION;
use crate::error::{DistError, read_text};
use crate::target::PackageTarget;

/// The features of packages besides the default ones. DuckDB takes long to compile and doubles the program.
pub const RELEASE_FEATURES: [&str; 1] = ["otel"];

const PROGRAM_CRATE: &str = "windlass-cli";

/// The registry that a library comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LibraryKind {
    Cargo,
    Npm,
    /// No registry: the library comes with the compiler or the linker.
    Toolchain,
}

/// A library that is part of the program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkedLibrary {
    pub kind: LibraryKind,
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub licence: Option<String>,
    /// The algorithm and the hexadecimal digits of the checksum in the registry.
    pub checksum: Option<(&'static str, String)>,
    /// The libraries that this one uses, as package URLs.
    pub uses: Vec<String>,
    /// The folder with its source.
    pub folder: PathBuf,
}

impl LinkedLibrary {
    /// Returns the package URL, which identifies the library.
    pub fn purl(&self) -> String {
        purl(self.kind, &self.name, &self.version)
    }

    /// Whether the library is part of this repository.
    pub fn is_own(&self) -> bool {
        self.kind == LibraryKind::Cargo && self.checksum.is_none()
    }
}

fn purl(kind: LibraryKind, name: &str, version: &str) -> String {
    match kind {
        LibraryKind::Cargo => format!("pkg:cargo/{name}@{version}"),
        LibraryKind::Toolchain => format!("pkg:generic/{name}@{version}"),
        // The `@` of a scope is escaped.
        LibraryKind::Npm => format!("pkg:npm/{}@{version}", name.replacen('@', "%40", 1)),
    }
}

/// Lists the libraries of the program for a target, sorted. The first crate is the program itself.
pub fn linked_libraries(root: &Path, target: PackageTarget) -> Result<Vec<LinkedLibrary>, DistError> {
    let (features, target) = (RELEASE_FEATURES.join(","), target.rust_target());
    let tree = [
        "tree",
        "--locked",
        "--package",
        PROGRAM_CRATE,
        "--features",
        &features,
        "--target",
        &target,
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ];
    let linked = parse_tree(&cargo(root, &tree)?);
    let manifest = format!("crates/{PROGRAM_CRATE}/Cargo.toml");
    let metadata = [
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--features",
        &features,
        "--filter-platform",
        &target,
        "--manifest-path",
        &manifest,
    ];
    let metadata = parse_json(&cargo(root, &metadata)?, "cargo metadata")?;
    let checksums = parse_checksums(&read_text(&root.join("Cargo.lock"))?);
    let lock = parse_json(&read_text(&root.join("ui/package-lock.json"))?, "ui/package-lock.json")?;
    let mut libraries = crates(&metadata, &linked, &checksums);
    libraries.extend(npm_packages(&lock, &root.join("ui")));
    libraries.sort();
    Ok(libraries)
}

/// Lists the libraries that the compiler and the linker add to a program: Rust's, and to a static one C's.
pub fn toolchain_libraries(root: &Path, is_static: bool) -> Result<Vec<LinkedLibrary>, DistError> {
    let output = Command::new("rustc").arg("--version").current_dir(root).output().map_err(DistError::file("rustc"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let rust = printed.split(' ').nth(1).ok_or_else(|| DistError::failed("`rustc --version` printed no version"))?;
    let library = |name: &str, version: &str, licence: &str| LinkedLibrary {
        kind: LibraryKind::Toolchain,
        name: name.to_owned(),
        version: version.to_owned(),
        licence: Some(licence.to_owned()),
        checksum: None,
        uses: Vec::new(),
        folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/licences").join(name),
    };
    let musl = is_static.then(|| library("musl", MUSL_VERSION, "MIT"));
    Ok(musl.into_iter().chain([library("rust-std", rust, "MIT OR Apache-2.0")]).collect())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String, DistError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(root).output().map_err(DistError::file("cargo"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(DistError::failed(format!("`cargo {}` failed: {}", arguments.join(" "), errors.trim_end())))
        }
    }
}

fn parse_json(text: &str, what: &str) -> Result<Json, DistError> {
    serde_json::from_str(text).map_err(|error| DistError::failed(format!("{what}: {error}")))
}

/// A crate's name and version.
type CrateKey = (String, String);

/// Reads lines such as `bytes v1.11.0 (*)`.
fn parse_tree(text: &str) -> BTreeSet<CrateKey> {
    let parse = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    text.lines().filter_map(parse).collect()
}

/// Reads the checksums of Cargo.lock. Crates of this repository have none.
fn parse_checksums(lock: &str) -> BTreeMap<CrateKey, String> {
    let parse = |entry: &str| {
        let field = |name: &str| {
            let line = entry.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
            Some(line.trim_end_matches('"').to_owned())
        };
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    lock.split("[[package]]").filter_map(parse).collect()
}

fn text<'a>(value: &'a Json, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn entries<'a>(value: &'a Json, key: &str) -> impl Iterator<Item = &'a Json> {
    value[key].as_array().into_iter().flatten()
}

fn crates(metadata: &Json, linked: &BTreeSet<CrateKey>, checksums: &BTreeMap<CrateKey, String>) -> Vec<LinkedLibrary> {
    let key = |package: &Json| (text(package, "name").to_owned(), text(package, "version").to_owned());
    let keys: BTreeMap<&str, CrateKey> =
        entries(metadata, "packages").map(|package| (text(package, "id"), key(package))).collect();
    let nodes: BTreeMap<&str, &Json> =
        entries(&metadata["resolve"], "nodes").map(|node| (text(node, "id"), node)).collect();
    let uses = |id: &str| -> Vec<String> {
        let node = nodes.get(id).copied().unwrap_or(&Json::Null);
        let normal = entries(node, "deps")
            .filter(|dependency| entries(dependency, "dep_kinds").any(|kind| kind["kind"].is_null()));
        let used = normal.filter_map(|dependency| keys.get(text(dependency, "pkg")));
        let used = used.filter(|used| linked.contains(used));
        let sorted: BTreeSet<String> = used.map(|(name, version)| purl(LibraryKind::Cargo, name, version)).collect();
        sorted.into_iter().collect()
    };
    let is_linked = |package: &&Json| linked.contains(&key(package));
    let found = entries(metadata, "packages").filter(is_linked).map(|package| {
        let (name, version) = key(package);
        let manifest = Path::new(text(package, "manifest_path"));
        LinkedLibrary {
            kind: LibraryKind::Cargo,
            // Older crates separate alternatives by a slash.
            licence: package["license"].as_str().map(|licence| licence.replace('/', " OR ")),
            checksum: checksums.get(&(name.clone(), version.clone())).map(|sum| ("SHA-256", sum.clone())),
            uses: uses(text(package, "id")),
            folder: manifest.parent().unwrap_or(Path::new("")).to_owned(),
            name,
            version,
        }
    });
    found.collect()
}

/// The npm packages that the web UI is bundled with. Types leave nothing in the bundle.
fn npm_packages(lock: &Json, folder: &Path) -> Vec<LinkedLibrary> {
    let packages = lock["packages"].as_object().into_iter().flatten();
    let bundled = packages.filter(|(path, package)| {
        let is_tool = ["dev", "optional", "devOptional", "peer"].iter().any(|flag| package[flag] == true);
        !path.is_empty() && !is_tool && !path.contains("node_modules/@types/")
    });
    let found = bundled.map(|(path, package)| LinkedLibrary {
        kind: LibraryKind::Npm,
        name: path.rsplit("node_modules/").next().unwrap_or_default().to_owned(),
        version: text(package, "version").to_owned(),
        licence: package["license"].as_str().map(str::to_owned),
        checksum: sha512(text(package, "integrity")),
        uses: Vec::new(),
        folder: folder.join(path),
    });
    found.collect()
}

fn sha512(integrity: &str) -> Option<(&'static str, String)> {
    let bytes = STANDARD.decode(integrity.strip_prefix("sha512-")?).ok()?;
    Some(("SHA-512", bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_of_the_tree_are_read() {
        let tree = "windlass-cli v0.1.0 (/w/crates/windlass-cli)\nbytes v1.11.0\nbytes v1.11.0 (*)\n\n";
        let expected = [("bytes", "1.11.0"), ("windlass-cli", "0.1.0")];
        assert_eq!(parse_tree(tree), expected.map(|(name, version)| (name.to_owned(), version.to_owned())).into());
    }

    #[test]
    fn tools_and_types_are_not_part_of_the_web_ui() {
        let lock = json!({ "packages": {
            "": { "version": "0.0.0" },
            "node_modules/@xyflow/react": { "version": "12.0.0", "license": "MIT", "integrity": "sha512-AQI=" },
            "node_modules/@types/d3-zoom": { "version": "3.0.0" },
            "node_modules/vite": { "version": "8.0.0", "dev": true },
        } });
        let [react] = &npm_packages(&lock, Path::new("ui"))[..] else { panic!("not one package") };
        assert_eq!(react.purl(), "pkg:npm/%40xyflow/react@12.0.0");
        assert_eq!(react.checksum, Some(("SHA-512", "0102".to_owned())));
    }

    #[test]
    fn only_linked_crates_are_listed_with_what_they_use() {
        let package = |name: &str, licence: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": licence, "manifest_path": "/c/Cargo.toml" });
        let metadata = json!({
            "packages": [package("a", "MIT/Apache-2.0"), package("b", "MIT"), package("cc", "MIT")],
            "resolve": { "nodes": [{ "id": "a", "deps": [
                { "pkg": "b", "dep_kinds": [{ "kind": null }] },
                { "pkg": "cc", "dep_kinds": [{ "kind": "build" }] },
            ] }] },
        });
        let key = |name: &str| (name.to_owned(), "1.0.0".to_owned());
        let checksums = parse_checksums("[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n");
        let found = crates(&metadata, &[key("a"), key("b")].into(), &checksums);
        let [a, b] = &found[..] else { panic!("{found:?}") };
        assert_eq!((a.licence.as_deref(), a.is_own(), &a.uses[..]), (Some("MIT OR Apache-2.0"), true, &[b.purl()][..]));
        assert_eq!(b.checksum, Some(("SHA-256", "ab".to_owned())));
    }
}
