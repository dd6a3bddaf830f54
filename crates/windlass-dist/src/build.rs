//! Compiles the static programs that packages carry.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dependencies::RELEASE_FEATURES;
use crate::error::DistError;
use crate::target::PackageTarget;

/// The linker and C compiler for all targets, with a cargo command for them. Both are Python packages with programs.
const TOOLS: [&str; 2] = ["cargo-zigbuild==0.24.0", "ziglang==0.15.2"];

/// The version of the C library that is a part of this linker.
pub(crate) const MUSL_VERSION: &str = "1.2.5";

/// Builds the program for a target, and returns its path. Installs the standard library of the target and the linker
/// first, if they are missing.
pub fn build_program(root: &Path, target: PackageTarget, commit: Option<&str>) -> Result<PathBuf, DistError> {
    let folder = target_folder(root);
    let tools = install_tools(&folder.join("dist-tools"))?;
    let name = target.rust_target();
    run(Command::new("rustup").args(["target", "add", &name]).current_dir(root))?;
    let output = folder.join("dist");
    let mut build = Command::new(tools.join("cargo-zigbuild"));
    build.args(["zigbuild", "--locked", "--release", "--package", "windlass-cli", "--bin", "windlass"]);
    build.args(["--features", &RELEASE_FEATURES.join(","), "--target", &name, "--target-dir"]).arg(&output);
    let path = std::env::var("PATH").unwrap_or_default();
    build.current_dir(root).env("PATH", format!("{}:{path}", tools.display()));
    build.env("CARGO_ENCODED_RUSTFLAGS", remapped_paths(root, &folder).join("\u{1f}"));
    if let Some(commit) = commit {
        build.env("WINDLASS_COMMIT", commit);
    }
    run(&mut build)?;
    Ok(output.join(name).join("release/windlass"))
}

/// The folder for everything that is built.
pub fn target_folder(root: &Path) -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty());
    let folder = given.map_or_else(|| root.join("target"), PathBuf::from);
    std::path::absolute(&folder).unwrap_or(folder)
}

/// Options of the compiler that replace the paths of this machine: the program must not show them, and the same source
/// must give the same program in every folder.
fn remapped_paths(root: &Path, target_folder: &Path) -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let remap = |path: &Path, name: &str| format!("--remap-path-prefix={}={name}", path.display());
    vec![remap(root, "windlass"), remap(target_folder, "windlass/target"), remap(&cargo, "cargo")]
}

/// Installs the tools in an environment of their own, once, and returns the folder with their programs.
fn install_tools(folder: &Path) -> Result<PathBuf, DistError> {
    let (programs, installed) = (folder.join("bin"), folder.join("installed"));
    let wanted = TOOLS.join("\n");
    if std::fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(programs);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    run(Command::new(programs.join("pip")).args(["install", "--quiet", "--disable-pip-version-check"]).args(TOOLS))?;
    std::fs::write(&installed, wanted).map_err(DistError::file(&installed))?;
    Ok(programs)
}

fn run(command: &mut Command) -> Result<(), DistError> {
    let shown = format!("{command:?}");
    let program = command.get_program().to_owned();
    println!("> {shown}");
    let status = command.status().map_err(DistError::file(program))?;
    match status.success() {
        true => Ok(()),
        false => Err(DistError::failed(format!("{shown} did not succeed"))),
    }
}
