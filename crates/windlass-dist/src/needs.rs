//! Requirements of packages and of their check on this machine, found before anything is built.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::check::{EMULATOR_PACKAGE, is_installed, is_root, runner};
use crate::target::PackageTarget;

const RUSTUP: &str = "rustup, which installs the standard libraries of the targets (rustup.rs)";
const PYTHON: &str = "python3 with venv, which installs the linker: `apt-get install python3-venv`";
const NPM: &str = "npm, for the web UI's licences and the check of its package: `apt-get install npm`";
const ROOT: &str = "the user root, for root folders of their own: `sudo env \"PATH=$PATH\" cargo xtask dist --check`";
const DEBOOTSTRAP: &str = "debootstrap, for a fresh Debian: `apt-get install debootstrap`";
const UNSHARE: &str = "unshare, for root folders of their own: `apt-get install util-linux`";

/// Lists what building the programs needs and this machine lacks, with the way to install it.
pub fn missing_to_build() -> Vec<String> {
    let python = works("python3", &["-c", "import venv, ensurepip"]);
    missing([(works("rustup", &["--version"]), RUSTUP), (python, PYTHON)])
}

/// Lists what packaging a program needs: the licences of the web UI's packages are read from their folders.
pub fn missing_to_package(root: &Path) -> Vec<String> {
    missing([(root.join("ui/node_modules/react").is_dir() || is_installed("npm"), NPM)])
}

/// Lists what the check of the packages of these targets needs and this machine lacks.
pub fn missing_to_check(targets: &[PackageTarget]) -> Vec<String> {
    let mut found = missing([
        (is_root(), ROOT),
        (is_installed("debootstrap"), DEBOOTSTRAP),
        (is_installed("unshare"), UNSHARE),
        (is_installed("npm"), NPM),
        (works("python3", &["-c", "import venv, ensurepip"]), PYTHON),
    ]);
    for target in targets.iter().filter(|target| runner(**target).is_none()) {
        found.push(format!("an emulator for {}: `apt-get install {EMULATOR_PACKAGE}`", target.machine()));
    }
    found
}

fn missing<const COUNT: usize>(needs: [(bool, &str); COUNT]) -> Vec<String> {
    needs.into_iter().filter(|(is_there, _)| !is_there).map(|(_, need)| need.to_owned()).collect()
}

/// Whether a command ends successfully.
fn works(name: &str, arguments: &[&str]) -> bool {
    let status = Command::new(name).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
