//! `cargo xtask dist`

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use windlass_dist::{
    CHECKSUMS, DistError, PackageFile, PackageInput, PackageTarget, PackagedProgram, ProgramPages, Release,
    bill_of_materials, build, check, checksums, licence_texts, linked_libraries, missing_to_build, missing_to_check,
    missing_to_package, packages, toolchain_libraries,
};

/// Build the packages of the program: archive, Debian package, wheel, npm package and container image
#[derive(Parser)]
#[command(name = "cargo xtask dist")]
struct DistArgs {
    /// Architecture to build for; may be repeated [default: all]
    #[arg(long, value_name = "ARCHITECTURE")]
    target: Vec<PackageTarget>,
    /// Package this program instead of building one
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    program: Option<PathBuf>,
    /// Take completions and manual pages from this program, if no packaged program runs on this machine
    #[arg(long, value_name = "FILE")]
    pages: Option<PathBuf>,
    /// Folder for the packages
    #[arg(long, value_name = "FOLDER", default_value = "dist")]
    out: PathBuf,
    /// Install each package in a fresh root and try it there
    #[arg(long)]
    check: bool,
    /// Fail also if this machine cannot do a part of the check
    #[arg(long, requires = "check")]
    complete: bool,
    /// Only list what this machine lacks to build the packages and to check them
    #[arg(long)]
    needs: bool,
}

fn main() -> ExitCode {
    match run(&DistArgs::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &DistArgs) -> Result<bool, DistError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
    let targets = if args.target.is_empty() { &PackageTarget::ALL[..] } else { &args.target };
    if !report_missing(root, args, targets) {
        return Ok(false);
    }
    if args.needs {
        return Ok(true);
    }
    // A missing network must be reported before a long build, too.
    install_web_ui_packages(root)?;
    let paths = programs(root, args, targets)?;
    let programs: Vec<PackagedProgram> =
        paths.iter().map(|path| PackagedProgram::read(path)).collect::<Result<_, _>>()?;
    let release = Release::read(root, pages(args, &paths, &programs)?)?;
    let mut files = Vec::new();
    for program in &programs {
        let mut libraries = linked_libraries(root, program.target)?;
        libraries.extend(toolchain_libraries(root, program.is_static)?);
        let sbom = bill_of_materials(&release, program.target, &libraries)?;
        let third_party = licence_texts(&libraries)?;
        files.extend(packages(&PackageInput { release: &release, program: program.clone(), sbom, third_party })?);
        if !program.is_static {
            println!("no container image for {}: the program is not static", program.target.machine());
        }
    }
    files.push(checksums(&files));
    let out = root.join(&args.out);
    write(&out, &files)?;
    if !args.check {
        return Ok(true);
    }
    let report = check::check_packages(&out, &release, &programs, args.program.is_none())?;
    report.print();
    Ok(report.succeeded(args.complete))
}

/// Lists what this machine lacks. Reports whether the command can do its work all the same: a check leaves out what it
/// cannot do, unless it must be complete.
fn report_missing(root: &Path, args: &DistArgs, targets: &[PackageTarget]) -> bool {
    let build = if args.program.is_some() { Vec::new() } else { missing_to_build() };
    let required = [build, missing_to_package(root)].concat();
    let check = if args.check || args.needs { missing_to_check(targets) } else { Vec::new() };
    required.iter().for_each(|one| println!("missing: {one}"));
    check.iter().filter(|one| !required.contains(one)).for_each(|one| println!("missing for the check: {one}"));
    required.is_empty() && (check.is_empty() || !(args.complete || args.needs))
}

fn programs(root: &Path, args: &DistArgs, targets: &[PackageTarget]) -> Result<Vec<PathBuf>, DistError> {
    if let Some(program) = &args.program {
        return Ok(vec![program.clone()]);
    }
    let commit = windlass_dist::packaged_commit(root);
    targets.iter().map(|target| build::build_program(root, *target, commit.as_deref())).collect()
}

/// Takes completions and manual pages from the first program that this machine can run.
fn pages(args: &DistArgs, paths: &[PathBuf], programs: &[PackagedProgram]) -> Result<ProgramPages, DistError> {
    if let Some(program) = &args.pages {
        return ProgramPages::from_program(program, &[]);
    }
    let runnable = paths.iter().zip(programs).find_map(|(path, program)| Some((path, check::runner(program.target)?)));
    let Some((path, runner)) = runnable else {
        let hint = "install qemu-user, or name a program of the same version with --pages FILE";
        return Err(DistError::Failed(format!("this machine cannot run the program for its manual pages: {hint}")));
    };
    ProgramPages::from_program(path, &runner)
}

/// Installs the packages that the web UI is bundled with, for their licences.
fn install_web_ui_packages(root: &Path) -> Result<(), DistError> {
    let folder = root.join("ui");
    if folder.join("node_modules/react").is_dir() {
        return Ok(());
    }
    let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"];
    let status = Command::new("npm").args(arguments).current_dir(&folder).status();
    match status.is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err(DistError::Failed(format!("`npm {}` failed in {}", arguments.join(" "), folder.display()))),
    }
}

/// Writes the packages, and removes those that an earlier call has written, as its list of checksums names them.
fn write(out: &Path, files: &[PackageFile]) -> Result<(), DistError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| DistError::File { path, source }
    };
    std::fs::create_dir_all(out).map_err(failed(out))?;
    let list = std::fs::read_to_string(out.join(CHECKSUMS)).unwrap_or_default();
    for name in list.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name) {
        let path = out.join(name);
        if !name.contains('/') && path.is_file() {
            std::fs::remove_file(&path).map_err(failed(&path))?;
        }
    }
    for file in files {
        let path = out.join(&file.name);
        std::fs::write(&path, &file.bytes).map_err(failed(&path))?;
        println!("{:>9} {}", format!("{:.1} MB", file.bytes.len() as f64 / 1e6), path.display());
    }
    Ok(())
}
