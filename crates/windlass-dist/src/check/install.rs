//! One function for each kind of package: installs it, and tries the program as it was installed.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

use super::{CheckProblem, CheckedTarget, InstalledProgram};
use super::{is_installed, is_root, output, try_first_commands, try_version};
use crate::error::{DistError, read_text};
use crate::{CHECKSUMS, image};

/// The release of Debian that the package is installed in.
const DEBIAN: &str = "bookworm";

/// The variable that names the server of Debian's packages.
const DEBIAN_MIRROR: &str = "WINDLASS_DEBIAN_MIRROR";

/// The variable PATH inside of a root.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The checks of files for which this machine may lack a program: the program, its arguments, and the file.
const OPTIONAL_TOOLS: [(&str, &[&str], &str); 3] = [
    ("zsh", &["-n"], "completions/_windlass"),
    ("fish", &["--no-execute"], "completions/windlass.fish"),
    ("groff", &["-man", "-ww", "-z"], "man/man1/windlass.1"),
];

type Checked = Result<String, CheckProblem>;

/// Compares all packages with their checksums.
pub(super) fn checksums(out: &Path) -> Checked {
    output(Command::new("sha256sum").args(["--check", "--strict", "--quiet", CHECKSUMS]).current_dir(out))?;
    Ok("all packages have theirs".to_owned())
}

impl CheckedTarget<'_> {
    /// Finds the package with this ending.
    fn package(&self, ending: &str) -> Result<PathBuf, CheckProblem> {
        let names = fs::read_dir(self.out).map_err(DistError::file(self.out))?.flatten();
        let mut paths = names.map(|entry| entry.path());
        let found = paths.find(|path| path.to_string_lossy().ends_with(ending));
        found.ok_or_else(|| CheckProblem::Failed(format!("there is no package {ending}")))
    }

    fn is_native(&self) -> bool {
        self.runner.is_empty()
    }

    /// A program that is started as it is, or in an emulator.
    fn installed(&self, program: &Path, work: PathBuf) -> Result<InstalledProgram, CheckProblem> {
        fs::create_dir_all(&work).map_err(DistError::file(&work))?;
        let runner = self.runner.iter().map(|word| (*word).to_owned());
        let command = runner.chain([program.display().to_string()]).collect();
        let inside = work.display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let variables = vec![("PATH".to_owned(), path), ("HOME".to_owned(), inside.clone())];
        Ok(InstalledProgram { command, variables, inside, outside: work, serve: serve(), bind: LOOPBACK })
    }

    /// Tries a program. An emulator is slow: there the archive alone runs all commands.
    fn try_program(&self, program: &InstalledProgram, is_archive: bool) -> Checked {
        try_version(program, &self.version)?;
        if self.is_native() || is_archive {
            try_first_commands(program)?;
        }
        let emulator = self.runner.first().map(|name| format!(" in {name}")).unwrap_or_default();
        Ok(format!("installed, and tried{emulator}"))
    }
}

/// A program inside another root folder, with that folder's user. Nothing of this machine is visible to it.
fn in_root(root: &Path, program: &str, work: &str, user: (u64, u64)) -> InstalledProgram {
    let (uid, gid) = user;
    let command = [
        "unshare".to_owned(),
        format!("--root={}", root.display()),
        format!("--wd={work}"),
        format!("--setgid={gid}"),
        format!("--setuid={uid}"),
        program.to_owned(),
    ];
    let outside = root.join(work.trim_start_matches('/'));
    let variables = [("PATH", PATH), ("HOME", work)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    InstalledProgram {
        command: command.into(),
        variables: variables.into(),
        outside,
        inside: work.to_owned(),
        serve: serve(),
        bind: LOOPBACK,
    }
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn serve() -> Vec<String> {
    vec!["serve".to_owned()]
}

fn not_root(result: Checked) -> Checked {
    result.map(|done| format!("{done}, but not in a root of its own: that needs the user root"))
}

/// Unpacks the archive as the only contents of a root, and checks its files.
pub(super) fn archive(target: &CheckedTarget<'_>, root: &Path) -> Checked {
    let machine = target.program.target.machine();
    let linkage = if target.program.is_static { "musl" } else { "gnu" };
    let package = target.package(&format!("{machine}-unknown-linux-{linkage}.tar.gz"))?;
    output(Command::new("tar").args(["--no-same-owner", "-xzf"]).arg(&package).arg("-C").arg(root))?;
    let name = package.file_name().unwrap_or_default().to_string_lossy().replace(".tar.gz", "");
    let folder = root.join(&name);
    output(Command::new("sha256sum").args(["--check", "--strict", "--quiet", CHECKSUMS]).current_dir(&folder))?;
    output(Command::new("bash").args(["-n", "completions/windlass.bash"]).current_dir(&folder))?;
    for (tool, arguments, file) in OPTIONAL_TOOLS.into_iter().filter(|(tool, ..)| is_installed(tool)) {
        output(Command::new(tool).args(arguments).arg(file).current_dir(&folder))?;
    }
    verify_unit(&folder.join("systemd/windlass.service"), &folder.join("windlass"))?;
    if !target.program.is_static || !target.is_native() {
        return target.try_program(&target.installed(&folder.join("windlass"), root.join("work"))?, true);
    }
    if !is_root() {
        return not_root(target.try_program(&target.installed(&folder.join("windlass"), root.join("work"))?, true));
    }
    let work = root.join("work");
    fs::create_dir(&work).map_err(DistError::file(&work))?;
    target.try_program(&in_root(root, &format!("/{name}/windlass"), "/work", (0, 0)), true)
}

/// Checks the unit with systemd, where it is installed. The program is where the archive is, not where it will be.
fn verify_unit(unit: &Path, program: &Path) -> Result<(), CheckProblem> {
    if !is_installed("systemd-analyze") {
        return Ok(());
    }
    let text = read_text(unit)?.replace("/usr/local/bin/windlass", &program.display().to_string());
    // Users and groups are created later.
    let text: String = text
        .lines()
        .filter(|line| !line.starts_with("User=") && !line.starts_with("Group="))
        .fold(String::new(), |text, line| text + line + "\n");
    let folder = tempfile::tempdir().map_err(DistError::file(std::env::temp_dir()))?;
    let copy = folder.path().join("windlass.service");
    fs::write(&copy, text).map_err(DistError::file(&copy))?;
    output(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy))?;
    Ok(())
}

/// Installs the package in a fresh Debian, tries it as its own user, and removes it.
pub(super) fn debian_package(target: &CheckedTarget<'_>, root: &Path) -> Checked {
    let package = target.package(&format!("_{}.deb", target.program.target.debian()))?;
    if !target.is_native() {
        if !is_installed("dpkg-deb") {
            return Err(CheckProblem::NotChecked("it needs dpkg-deb: `apt-get install dpkg`".to_owned()));
        }
        output(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(root))?;
        return target.try_program(&target.installed(&root.join("usr/bin/windlass"), root.join("work"))?, false);
    }
    if !is_root() || !is_installed("debootstrap") {
        let hint = "it needs the user root and debootstrap: `apt-get install debootstrap`";
        return Err(CheckProblem::NotChecked(hint.to_owned()));
    }
    install_debian(root)?;
    let copy = root.join("windlass.deb");
    fs::copy(&package, &copy).map_err(DistError::file(&copy))?;
    chroot(root, &["dpkg", "--install", "/windlass.deb"])?;
    let mut program = in_root(root, "/usr/bin/windlass", "/var/lib/windlass", user_of(root, "windlass")?);
    program.serve = service_arguments(&read_text(&root.join("usr/lib/systemd/system/windlass.service"))?)?;
    let done = target.try_program(&program, false)?;
    chroot(root, &["dpkg", "--verify", "windlass"])?;
    chroot(root, &["dpkg", "--purge", "windlass"])?;
    for file in ["usr/bin/windlass", "etc/windlass", "usr/lib/systemd/system/windlass.service"] {
        if root.join(file).exists() {
            return Err(CheckProblem::Failed(format!("the package left /{file} when it was purged")));
        }
    }
    match root.join("var/lib/windlass/.windlass").exists() {
        true => Ok(format!("{done}, then removed")),
        false => Err(CheckProblem::Failed("removing the package removed the runs".to_owned())),
    }
}

/// Installs the smallest Debian.
fn install_debian(root: &Path) -> Result<(), CheckProblem> {
    let mut bootstrap = Command::new("debootstrap");
    bootstrap.args(["--variant=minbase", DEBIAN]).arg(root).args(debian_mirror());
    let done = bootstrap.output().map_err(|error| CheckProblem::NotChecked(format!("debootstrap: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&done.stdout);
    let last = log.lines().last().unwrap_or_default();
    let hint = format!("{DEBIAN_MIRROR} may name another server of Debian's packages");
    Err(CheckProblem::NotChecked(format!("debootstrap could not install Debian: {last} ({hint})")))
}

/// Returns the server of Debian's packages: as given, else the one that this machine installs its own packages from.
/// If it has another system or release, debootstrap chooses.
fn debian_mirror() -> Option<String> {
    let given = std::env::var(DEBIAN_MIRROR).ok().filter(|mirror| !mirror.is_empty());
    let filters = ["Created-By: Packages", "Origin: Debian", "Component: main"];
    let suite = format!("Release: {DEBIAN}");
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)"]).args(filters).arg(suite);
    let configured = || output(&mut targets).ok()?.lines().next().map(str::to_owned);
    given.or_else(configured)
}

fn chroot(root: &Path, command: &[&str]) -> Result<String, String> {
    output(Command::new("chroot").arg(root).args(command).env("PATH", PATH).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Reads the arguments that the service starts the program with.
fn service_arguments(unit: &str) -> Result<Vec<String>, CheckProblem> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
    let line = line.ok_or_else(|| CheckProblem::Failed("the unit starts no program".to_owned()))?;
    // systemd replaces `%S` by the folder of all state.
    Ok(line.replace("%S", "/var/lib").split_whitespace().skip(1).map(str::to_owned).collect())
}

/// Reads the numbers of a user and its group in a root.
fn user_of(root: &Path, name: &str) -> Result<(u64, u64), CheckProblem> {
    let users = read_text(&root.join("etc/passwd"))?;
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = fields
        .filter(|fields| fields.first() == Some(&name))
        .find_map(|fields| Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?)));
    found.ok_or_else(|| CheckProblem::Failed(format!("the user {name} does not exist")))
}

/// Installs the wheel in a fresh environment, or in a folder if it is for another architecture.
pub(super) fn wheel(target: &CheckedTarget<'_>, root: &Path) -> Checked {
    let machine = target.program.target.machine();
    let package = target.package(&format!("{machine}.whl"))?;
    let environment = root.join("environment");
    output(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let mut install = Command::new(environment.join("bin/pip"));
    install.args(["install", "--no-index", "--no-deps", "--disable-pip-version-check"]);
    let program = match target.is_native() {
        true => environment.join("bin/windlass"),
        false => {
            let folder = root.join("other");
            let platform = format!("--platform=manylinux2014_{machine}");
            install.args([platform.as_str(), "--only-binary=:all:", "--target"]).arg(&folder);
            folder.join("bin/windlass")
        }
    };
    output(install.arg(&package))?;
    target.try_program(&target.installed(&program, root.join("work"))?, false)
}

/// Installs the npm package below an empty folder.
pub(super) fn npm_package(target: &CheckedTarget<'_>, root: &Path) -> Checked {
    let cpu = target.program.target.node();
    let package = target.package(&format!("windlass-linux-{cpu}-{}.tgz", target.release.version))?;
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--offline", "--prefix"]).arg(root);
    if !target.is_native() {
        install.arg("--force");
    }
    output(install.arg(&package))?;
    target.try_program(&target.installed(&root.join("node_modules/.bin/windlass"), root.join("work"))?, false)
}

/// Unpacks the layers of the image as its manifest lists them, and runs the program as its configuration says.
pub(super) fn image(target: &CheckedTarget<'_>, root: &Path) -> Checked {
    let package = target.package(&format!("-linux-{}.oci.tar", target.program.target.debian()))?;
    let (layout, files) = (root.join("layout"), root.join("files"));
    for folder in [&layout, &files] {
        fs::create_dir(folder).map_err(DistError::file(folder))?;
    }
    output(Command::new("tar").arg("-xf").arg(&package).arg("-C").arg(&layout))?;
    let manifest = blob(&layout, &json(&layout.join("index.json"))?["manifests"][0])?;
    let config = blob(&layout, &manifest["config"])?;
    for layer in manifest["layers"].as_array().into_iter().flatten() {
        let owner = if is_root() { "--same-owner" } else { "--no-same-owner" };
        output(Command::new("tar").args([owner, "-xzf"]).arg(blob_path(&layout, layer)?).arg("-C").arg(&files))?;
    }
    let settings = &config["config"];
    let program = text(&settings["Entrypoint"][0])?;
    if !target.is_native() {
        return target.try_program(&target.installed(&files.join(&program[1..]), root.join("work"))?, false);
    }
    if !is_root() {
        return not_root(target.try_program(&target.installed(&files.join(&program[1..]), root.join("work"))?, false));
    }
    target.try_program(&container(&files, settings)?, false)
}

/// The program as a container starts it: with the user, the folder, the variables and the command of the image.
fn container(files: &Path, settings: &Json) -> Result<InstalledProgram, CheckProblem> {
    let (program, folder) = (text(&settings["Entrypoint"][0])?, text(&settings["WorkingDir"])?);
    let health = texts(&settings["Healthcheck"]["Test"]);
    if health != ["CMD", program, "health"] {
        return Err(CheckProblem::Failed(format!("the health check is not one that is tried: {health:?}")));
    }
    let user = text(&settings["User"])?
        .split_once(':')
        .and_then(|(user, group)| Some((user.parse().ok()?, group.parse().ok()?)));
    let user: (u64, u64) =
        user.filter(|user| *user == (image::USER, image::USER)).ok_or("the image has another user".to_owned())?;
    let mut installed = in_root(files, program, folder, user);
    let variables = texts(&settings["Env"]).into_iter().filter_map(|variable| variable.split_once('='));
    installed.variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    // The port may be in use on this machine, so the server gets a free one.
    let command = texts(&settings["Cmd"]);
    let ([arguments @ .., "--bind", address], Some(port)) = (&command[..], settings["ExposedPorts"].as_object()) else {
        return Err(CheckProblem::Failed(format!(
            "the command of the image does not end with an address: {command:?}"
        )));
    };
    let address: SocketAddr = address.parse().map_err(|_| format!("{address} is no address with a port"))?;
    if !port.contains_key(&format!("{}/tcp", address.port())) {
        return Err(CheckProblem::Failed(format!("the image does not expose the port of {address}")));
    }
    installed.serve = arguments.iter().map(|&argument| argument.to_owned()).collect();
    installed.bind = address.ip();
    Ok(installed)
}

fn texts(list: &Json) -> Vec<&str> {
    list.as_array().into_iter().flatten().flat_map(Json::as_str).collect()
}

fn json(file: &Path) -> Result<Json, CheckProblem> {
    let text = read_text(file)?;
    serde_json::from_str(&text).map_err(|error| CheckProblem::Failed(format!("{}: {error}", file.display())))
}

fn text(value: &Json) -> Result<&str, CheckProblem> {
    value
        .as_str()
        .ok_or_else(|| CheckProblem::Failed(format!("the image's configuration has {value} instead of a text")))
}

/// Returns the file of a blob, after comparing its contents with its name.
fn blob_path(layout: &Path, descriptor: &Json) -> Result<PathBuf, CheckProblem> {
    let digest = text(&descriptor["digest"])?.trim_start_matches("sha256:").to_owned();
    let path = layout.join("blobs/sha256").join(&digest);
    let found = crate::checksums::sha256_hex(&crate::error::read(&path)?);
    match found == digest {
        true => Ok(path),
        false => Err(CheckProblem::Failed(format!("the blob {digest} has the checksum {found}"))),
    }
}

fn blob(layout: &Path, descriptor: &Json) -> Result<Json, CheckProblem> {
    json(&blob_path(layout, descriptor)?)
}
