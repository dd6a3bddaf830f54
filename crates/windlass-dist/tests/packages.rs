//! The structure of each package, with a program that consists of a header alone.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use serde_json::Value as Json;
use windlass_dist::*;

/// The files of an archive: permissions, owner and content by path.
type Files = BTreeMap<String, (u32, u64, Vec<u8>)>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// An ELF file with a header and one entry of the program header table, of this type.
fn program(target: PackageTarget, entry: u8) -> PackagedProgram {
    let mut bytes = vec![0; 64 + 56];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18..20].copy_from_slice(&target.elf_machine().to_le_bytes());
    (bytes[32], bytes[54], bytes[56], bytes[64]) = (64, 56, 1, entry);
    PackagedProgram::from_bytes(bytes).unwrap()
}

const LOAD: u8 = 1;
const INTERPRETER: u8 = 3;

fn release() -> Release {
    let pages = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), name.as_bytes().to_vec())).collect();
    let pages = ProgramPages {
        completions: pages(&["windlass.bash", "_windlass", "windlass.fish", "_windlass.ps1"]),
        manual: pages(&["windlass.1", "windlass-run.1"]),
    };
    Release::read(root(), pages).unwrap()
}

fn build(release: &Release, program: PackagedProgram) -> Vec<PackageFile> {
    let (sbom, third_party) = ("{}".to_owned(), "texts".to_owned());
    packages(&PackageInput { release, program, sbom, third_party }).unwrap()
}

/// A release with its packages for a target, built once for all tests that only read them.
fn shared(target: PackageTarget) -> (&'static Release, &'static [PackageFile]) {
    static RELEASE: LazyLock<Release> = LazyLock::new(release);
    static FILES: LazyLock<Vec<Vec<PackageFile>>> =
        LazyLock::new(|| PackageTarget::ALL.iter().map(|target| build(&RELEASE, program(*target, LOAD))).collect());
    (&RELEASE, &FILES[target as usize])
}

fn package<'a>(files: &'a [PackageFile], ending: &str) -> &'a [u8] {
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    &files.iter().find(|file| file.name.ends_with(ending)).unwrap_or_else(|| panic!("no {ending}: {names:?}")).bytes
}

fn unpack(tar: &[u8], time: u64) -> Files {
    let mut files = Files::new();
    let mut last = String::new();
    for entry in tar::Archive::new(tar).entries().unwrap() {
        let mut entry = entry.unwrap();
        let (path, header) = (entry.path().unwrap().display().to_string(), entry.header().clone());
        let path = path.trim_end_matches('/').to_owned();
        assert_eq!(header.mtime().unwrap(), time, "{path}");
        assert!(path > last, "{path} follows {last}");
        last = path.clone();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        files.insert(path, (header.mode().unwrap(), header.uid().unwrap(), content));
    }
    files
}

fn unzip(gz: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(gz).read_to_end(&mut bytes).unwrap();
    bytes
}

fn text(files: &Files, path: &str) -> String {
    let (_, _, content) = files.get(path).unwrap_or_else(|| panic!("no {path} in {:?}", files.keys()));
    String::from_utf8(content.clone()).unwrap()
}

/// The members of an `ar` file.
fn members(mut archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    archive = archive.strip_prefix(b"!<arch>\n").unwrap();
    let mut members = Vec::new();
    while !archive.is_empty() {
        let (header, rest) = archive.split_at(60);
        assert_eq!(&header[58..], b"`\n");
        let field = |from: usize, to: usize| String::from_utf8_lossy(&header[from..to]).trim().to_owned();
        let size: usize = field(48, 58).parse().unwrap();
        members.push((field(0, 16), rest[..size].to_vec()));
        archive = &rest[size.next_multiple_of(2)..];
    }
    members
}

#[test]
fn a_static_program_has_all_packages_with_the_names_of_its_target() {
    for (target, expected) in [
        (
            PackageTarget::X86_64,
            [
                "windlass-0.1.0-x86_64-unknown-linux-musl.tar.gz",
                "windlass_0.1.0_amd64.deb",
                "windlass-0.1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl",
                "windlass-linux-x64-0.1.0.tgz",
                "windlass-0.1.0-linux-amd64.oci.tar",
                "windlass-0.1.0-x86_64-unknown-linux-musl.cdx.json",
            ],
        ),
        (
            PackageTarget::Aarch64,
            [
                "windlass-0.1.0-aarch64-unknown-linux-musl.tar.gz",
                "windlass_0.1.0_arm64.deb",
                "windlass-0.1.0-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl",
                "windlass-linux-arm64-0.1.0.tgz",
                "windlass-0.1.0-linux-arm64.oci.tar",
                "windlass-0.1.0-aarch64-unknown-linux-musl.cdx.json",
            ],
        ),
    ] {
        let (release, files) = shared(target);
        let expected = expected.map(|name| name.replace("0.1.0", &release.version));
        assert_eq!(files.iter().map(|file| file.name.clone()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_dynamic_program_claims_no_platform_that_it_may_not_run_on() {
    let release = release();
    let files = build(&release, program(PackageTarget::X86_64, INTERPRETER));
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert!(names.iter().any(|name| name.ends_with("-py3-none-linux_x86_64.whl")), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with("-gnu.tar.gz")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("oci")), "{names:?}");
    let members = members(package(&files, ".deb"));
    let control = text(&unpack(&unzip(&members[1].1), release.time), "control");
    assert!(control.contains("\nDepends: libc6, passwd\n"), "{control}");
}

/// A program of this machine, which is linked with the GNU C library.
#[test]
fn the_texts_beside_a_dynamic_program_name_what_it_needs() {
    let release = release();
    let own = PackagedProgram::read(&std::env::current_exe().unwrap()).unwrap();
    assert!(own.libraries.iter().any(|name| name == "libc.so.6"), "{:?}", own.libraries);
    // The program of a test is large.
    let libraries = vec!["libgcc_s.so.1".to_owned(), "libc.so.6".to_owned()];
    let with_gcc = PackagedProgram { libraries, ..program(PackageTarget::X86_64, INTERPRETER) };
    let files = build(&release, with_gcc);
    let members = members(package(&files, ".deb"));
    let control = text(&unpack(&unzip(&members[1].1), release.time), "control");
    assert!(control.contains("\nDepends: libc6, libgcc-s1, passwd\n"), "{control}");
    let archive = unpack(&unzip(package(&files, "-gnu.tar.gz")), release.time);
    for page in ["README.md", "docs/install.md"] {
        let path = archive.keys().find(|path| path.ends_with(&format!("-gnu/{page}"))).unwrap();
        let text = text(&archive, path);
        assert!(text.contains("it needs libgcc_s.so.1, libc.so.6, no older than"), "{page}: {text}");
        assert!(!text.contains("one static program"), "{page}: {text}");
    }
    let (release, files) = shared(PackageTarget::X86_64);
    let archive = unpack(&unzip(package(files, "-musl.tar.gz")), release.time);
    let path = archive.keys().find(|path| path.ends_with("/docs/install.md")).unwrap();
    assert!(text(&archive, path).contains("one static program without dependencies"));
    // A link to a file that no package has is only a text.
    let path = archive.keys().find(|path| path.ends_with("/docs/web-ui.md")).unwrap();
    assert!(!text(&archive, path).contains("(../ui/README.md)"));
}

#[test]
fn a_file_that_is_no_program_is_rejected() {
    let wrong = |bytes: &[u8]| PackagedProgram::from_bytes(bytes.to_vec()).unwrap_err().to_string();
    assert!(wrong(b"#!/bin/sh\n").contains("not a 64-bit Linux program"));
    let mut other = program(PackageTarget::X86_64, LOAD).bytes.to_vec();
    other[18] = 3;
    assert!(wrong(&other).contains("no packages for its architecture"));
    assert!(wrong(&other[..20]).contains("architecture"));
}

#[test]
fn the_same_program_gives_the_same_packages() {
    for target in PackageTarget::ALL {
        let (first, second) = (shared(target).1, build(&release(), program(target, LOAD)));
        assert_eq!(first.len(), second.len());
        for (one, other) in first.iter().zip(&second) {
            assert!(one == other, "{} differs between two runs", one.name);
        }
        assert_eq!(checksums(first), checksums(&second));
    }
}

#[test]
fn the_archive_has_the_program_with_everything_that_belongs_to_it() {
    let (release, files) = shared(PackageTarget::X86_64);
    let files = unpack(&unzip(package(files, ".tar.gz")), release.time);
    let folder = format!("windlass-{}-x86_64-unknown-linux-musl", release.version);
    let path = |name: &str| format!("{folder}/{name}");
    assert_eq!(files[&path("windlass")].0, 0o755);
    assert_eq!(files[&path("windlass")].2, *program(PackageTarget::X86_64, LOAD).bytes);
    for name in [
        "README.md",
        "LICENSE",
        "THIRD-PARTY-LICENSES.txt",
        "sbom.cdx.json",
        "completions/windlass.bash",
        "completions/_windlass",
        "completions/windlass.fish",
        "completions/_windlass.ps1",
        "man/man1/windlass.1",
        "man/man1/windlass-run.1",
        "systemd/windlass.sysusers",
        "systemd/windlass.toml",
        "examples/loom/counting.json",
        "docs/install.md",
    ] {
        assert_eq!(files.get(&path(name)).map(|(mode, ..)| *mode), Some(0o644), "{name}");
    }
    let unit = text(&files, &path("systemd/windlass.service"));
    assert!(unit.contains("\nExecStart=/usr/local/bin/windlass serve "), "{unit}");
    // One line for the program and for each plain file except the list itself; folders have none.
    let sums = text(&files, &path("SHA256SUMS"));
    assert_eq!(sums.lines().count(), files.values().filter(|(mode, ..)| *mode != 0o755).count());
}

/// Reading the README in the archive must not end at a missing file.
#[test]
fn links_of_the_readme_lead_to_files_of_the_archive() {
    let (release, files) = shared(PackageTarget::X86_64);
    let files = unpack(&unzip(package(files, ".tar.gz")), release.time);
    let folder = format!("windlass-{}-x86_64-unknown-linux-musl", release.version);
    for page in ["README.md", "docs/README.md", "docs/install.md"] {
        let text = text(&files, &format!("{folder}/{page}"));
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let above = Path::new(page).parent().unwrap();
        for link in links.filter(|link| !link.is_empty() && !link.contains("://")) {
            let (base, link) = match link.strip_prefix("../") {
                Some(link) => (Path::new(""), link),
                None => (above, link),
            };
            let path = format!("{folder}/{}", base.join(link).display());
            assert!(
                files.contains_key(path.trim_end_matches('/')),
                "{page} links to {link}, which the archive does not have"
            );
        }
    }
}

/// Users of a package have the program, and no Rust.
#[test]
fn the_readme_of_a_package_begins_with_its_program() {
    let (release, files) = shared(PackageTarget::X86_64);
    let archive = unpack(&unzip(package(files, ".tar.gz")), release.time);
    let archive = text(&archive, &format!("windlass-{}-x86_64-unknown-linux-musl/README.md", release.version));
    let debian = unpack(&unzip(&members(package(files, ".deb"))[2].1), release.time);
    let debian = text(&debian, "usr/share/doc/windlass/README.md");
    let npm = text(&unpack(&unzip(package(files, ".tgz")), release.time), "package/README.md");
    for (readme, command) in
        [(&archive, "\n./windlass demo "), (&debian, "\nwindlass demo "), (&npm, "\nwindlass demo ")]
    {
        assert!(readme.contains(command), "{command:?} is missing in {readme}");
        assert!(!readme.contains("\ncargo "), "{readme}");
        assert!(!readme.contains("\n\n\n") && !readme.contains("<!--"), "{readme}");
    }
    assert!(!npm.contains("]("), "a link leads out of the package: {npm}");
}

#[test]
fn the_debian_package_has_its_members_in_order() {
    let (release, files) = shared(PackageTarget::Aarch64);
    let members = members(package(files, ".deb"));
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
    assert_eq!(members[0].1, b"2.0\n");
    let control = unpack(&unzip(&members[1].1), release.time);
    let description = text(&control, "control");
    for line in ["Package: windlass\n", "\nArchitecture: arm64\n", "\nDepends: passwd\n", "\nDescription: Durable"] {
        assert!(description.contains(line), "{line:?} is missing in {description}");
    }
    let maintainer = description.lines().find_map(|line| line.strip_prefix("Maintainer: ")).unwrap();
    let (name, address) = maintainer.strip_suffix('>').unwrap().split_once(" <").unwrap();
    assert!(!name.contains(['.', ',', '<', '"']), "{maintainer}");
    assert!(address.split_once('@').is_some_and(|(_, host)| host.contains('.')), "{maintainer}");
    assert_eq!(text(&control, "conffiles"), "/etc/windlass/windlass.toml\n");
    let data = unpack(&unzip(&members[2].1), release.time);
    // Everything but the settings has a checksum.
    let sums = text(&control, "md5sums");
    let files = data.iter().filter(|(path, (mode, ..))| *mode == 0o644 || path.as_str() == "usr/bin/windlass");
    assert_eq!(sums.lines().count(), files.count() - 1);
    assert!(sums.lines().all(|line| line.as_bytes()[32..34] == *b"  " && data.contains_key(&line[34..])), "{sums}");
    for script in ["postinst", "prerm", "postrm"] {
        assert_eq!(control[script].0, 0o755);
        assert!(text(&control, script).starts_with("#!/bin/sh\nset -e\n"));
    }
    assert_eq!(data["usr/bin/windlass"].0, 0o755);
    assert!(data.values().all(|(_, owner, _)| *owner == 0));
    for path in [
        "etc/windlass/windlass.toml",
        "usr/share/man/man1/windlass-run.1.gz",
        "usr/share/bash-completion/completions/windlass",
        "usr/share/zsh/vendor-completions/_windlass",
        "usr/share/fish/vendor_completions.d/windlass.fish",
        "usr/share/doc/windlass/copyright",
        "usr/share/doc/windlass/changelog.gz",
    ] {
        assert!(data.contains_key(path), "{path}");
    }
    let unit = text(&data, "usr/lib/systemd/system/windlass.service");
    assert!(unit.contains("\nExecStart=/usr/bin/windlass serve "), "{unit}");
}

#[test]
fn the_wheel_records_every_file() {
    use base64::Engine as _;
    let (release, files) = shared(PackageTarget::X86_64);
    let mut wheel = zip::ZipArchive::new(Cursor::new(package(files, ".whl"))).unwrap();
    let mut contents = BTreeMap::new();
    for index in 0..wheel.len() {
        let mut file = wheel.by_index(index).unwrap();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        contents.insert(file.name().unwrap().into_owned(), (file.unix_mode().unwrap(), content));
    }
    let info = format!("windlass-{}.dist-info", release.version);
    let record = String::from_utf8(contents[&format!("{info}/RECORD")].1.clone()).unwrap();
    assert_eq!(record.lines().count(), contents.len());
    for line in record.lines() {
        let [path, hash, size] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let content = &contents[path].1;
        if path.ends_with("/RECORD") {
            continue;
        }
        let digest = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .encode(<sha2::Sha256 as sha2::Digest>::digest(content.as_slice()));
        assert_eq!((hash, size), (&*format!("sha256={digest}"), &*content.len().to_string()), "{path}");
    }
    let script = &contents[&format!("windlass-{}.data/scripts/windlass", release.version)];
    assert_eq!(script.0 & 0o777, 0o755);
    let about = String::from_utf8(contents[&format!("{info}/WHEEL")].1.clone()).unwrap();
    assert!(about.contains("Root-Is-Purelib: false\nTag: py3-none-manylinux_2_17_x86_64\n"), "{about}");
    let metadata = String::from_utf8(contents[&format!("{info}/METADATA")].1.clone()).unwrap();
    assert!(metadata.starts_with("Metadata-Version: 2.4\nName: windlass\n"), "{metadata}");
}

#[test]
fn the_npm_package_names_its_command_and_its_platform() {
    let (release, files) = shared(PackageTarget::Aarch64);
    let files = unpack(&unzip(package(files, ".tgz")), release.time);
    let manifest: Json = serde_json::from_str(&text(&files, "package/package.json")).unwrap();
    assert_eq!((&manifest["os"][0], &manifest["cpu"][0]), (&Json::from("linux"), &Json::from("arm64")));
    let command = manifest["bin"]["windlass"].as_str().unwrap();
    assert_eq!(files[&format!("package/{command}")].0, 0o755);
    for page in manifest["man"].as_array().unwrap() {
        assert!(files.contains_key(&page.as_str().unwrap().replace("./", "package/")), "{page}");
    }
}

#[test]
fn the_image_is_a_layout_with_a_user_and_a_health_check() {
    use sha2::Digest as _;
    let (release, files) = shared(PackageTarget::X86_64);
    let layout = unpack(package(files, ".oci.tar"), release.time);
    let hex = |bytes: &[u8]| sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parse = |bytes: &[u8]| serde_json::from_slice::<Json>(bytes).unwrap();
    let blob = |descriptor: &Json| {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let content = layout[&format!("blobs/sha256/{digest}")].2.clone();
        assert_eq!((hex(&content).as_str(), descriptor["size"].as_u64()), (digest, Some(content.len() as u64)));
        content
    };
    assert_eq!(text(&layout, "oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#);
    let manifest = parse(&blob(&parse(text(&layout, "index.json").as_bytes())["manifests"][0]));
    let config = parse(&blob(&manifest["config"]));
    let layer = unzip(&blob(&manifest["layers"][0]));
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", hex(&layer)));
    assert_eq!((&config["architecture"], &config["os"]), (&Json::from("amd64"), &Json::from("linux")));
    let settings = &config["config"];
    assert_eq!(settings["User"], "65532:65532");
    assert_eq!(settings["Entrypoint"], serde_json::json!(["/usr/bin/windlass"]));
    assert_eq!(settings["Healthcheck"]["Test"], serde_json::json!(["CMD", "/usr/bin/windlass", "health"]));
    let root = unpack(&layer, release.time);
    assert_eq!(root["usr/bin/windlass"].0, 0o755);
    let (mode, owner, _) = root["var/lib/windlass"];
    assert_eq!((mode, owner), (0o750, 65532));
    let docker: Json = serde_json::from_str(&text(&layout, "manifest.json")).unwrap();
    for path in [&docker[0]["Config"], &docker[0]["Layers"][0]] {
        assert!(layout.contains_key(path.as_str().unwrap()), "{path}");
    }
}

#[test]
fn the_bill_of_materials_lists_what_is_part_of_the_program() {
    let mut libraries = linked_libraries(root(), PackageTarget::X86_64).unwrap();
    libraries.extend(toolchain_libraries(root(), true).unwrap());
    let document = bill_of_materials(&release(), PackageTarget::X86_64, &libraries).unwrap();
    let document: Json = serde_json::from_str(&document).unwrap();
    assert_eq!((&document["bomFormat"], &document["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let serial = document["serialNumber"].as_str().unwrap();
    assert_eq!(
        serial.strip_prefix("urn:uuid:").unwrap().split('-').map(str::len).collect::<Vec<_>>(),
        [8, 4, 4, 4, 12]
    );
    let components = document["components"].as_array().unwrap();
    let names: Vec<&str> = components.iter().map(|component| component["name"].as_str().unwrap()).collect();
    for name in ["windlass-core", "tokio", "libsqlite3-sys", "mimalloc", "opentelemetry", "react", "musl", "rust-std"] {
        assert!(names.contains(&name), "{name} is missing");
    }
    for name in ["duckdb", "tempfile", "syn", "vite", "@types/react"] {
        assert!(!names.contains(&name), "{name} is no part of the program");
    }
    let mut known = vec!["windlass"];
    for component in components {
        assert!(component["licenses"][0]["expression"].is_string(), "{component}");
        let reference = component["bom-ref"].as_str().unwrap();
        assert!(!known.contains(&reference), "{reference} is listed twice");
        known.push(reference);
    }
    for dependency in document["dependencies"].as_array().unwrap() {
        let used = dependency["dependsOn"].as_array().unwrap().iter().chain([&dependency["ref"]]);
        used.for_each(|used| assert!(known.contains(&used.as_str().unwrap()), "{used} is not listed"));
    }
}

#[test]
fn licences_are_collected_once_per_text() {
    let libraries = linked_libraries(root(), PackageTarget::X86_64).unwrap();
    let libraries = libraries.into_iter().chain(toolchain_libraries(root(), true).unwrap());
    let crates: Vec<LinkedLibrary> = libraries.filter(|library| library.kind != LibraryKind::Npm).collect();
    let texts = licence_texts(&crates).unwrap();
    for library in crates.iter().filter(|library| !library.is_own()) {
        assert!(texts.contains(&format!("\n{} {}: ", library.name, library.version)), "{}", library.name);
    }
    assert!(!texts.contains("\nwindlass-core "));
    assert!(texts.contains("Permission is hereby granted, free of charge"));
    // Libraries that are not Rust's: their sources are in a folder of a crate, or come with the linker.
    for text in ["musl as a whole is licensed", "Daan Leijen", "\nmusl 1.", "The Rust Project Contributors"] {
        assert!(texts.contains(text), "{text} is missing");
    }
    assert!(toolchain_libraries(root(), false).unwrap().iter().all(|library| library.name != "musl"));
}
