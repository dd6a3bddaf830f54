//! Files beside a workflow: what is read, and what is refused, with files in memory and on a disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_syntax::{Diagnostics, Source};
use windlass_zenflow::{Checked, Disk, FileProblem, Files, NoFiles, Options, Problems, check, read};

/// Files and links by their paths.
#[derive(Default)]
struct Memory {
    files: BTreeMap<PathBuf, Vec<u8>>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Memory {
    fn of(files: &[(&str, &str)]) -> Memory {
        let files = files.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect();
        Memory { files, links: BTreeMap::new() }
    }

    fn link(mut self, from: &str, to: &str) -> Memory {
        self.links.insert(from.into(), to.into());
        self
    }
}

impl Files for Memory {
    fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileProblem> {
        let bytes = self.files.get(path).ok_or(FileProblem::Missing)?;
        match bytes.len() as u64 > max_bytes {
            true => Err(FileProblem::TooLarge { max_bytes: most: max_bytes }),
            false => Ok(bytes.clone()),
        }
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf, FileProblem> {
        let path = self.links.get(path).map_or(path, PathBuf::as_path);
        let is_folder = || self.files.keys().any(|file| file.starts_with(path));
        match self.files.contains_key(path) || is_folder() {
            true => Ok(path.to_owned()),
            false => Err(FileProblem::Missing),
        }
    }

    fn size(&self, path: &Path) -> Result<u64, FileProblem> {
        self.files.get(path).map(|bytes| bytes.len() as u64).ok_or(FileProblem::NotAFile)
    }
}

fn options(files: impl Files + 'static) -> Options {
    Options { folder: Some(PathBuf::from("/flows")), files: Arc::new(files), ..Options::default() }
}

fn checked(text: &str, options: &Options) -> Result<Checked, Problems> {
    let source = Source::new("/flows/main.yaml", text);
    let mut found = Diagnostics::new();
    let tree = read(&source, &options.limits, &mut found).unwrap();
    check(&source, &tree, found, options)
}

/// What is said of the file itself.
fn said(result: Result<Checked, Problems>) -> Vec<String> {
    let own = result.map_or_else(|problems| problems.own, |checked| checked.warnings);
    own.iter().map(|problem| problem.message.clone()).collect()
}

fn refers_to(path: &str, files: Memory) -> Result<String, String> {
    let text = format!("name: a\nsteps:\n  - {{id: a, instructions: '@{path}'}}\n");
    match checked(&text, &options(files)) {
        Ok(checked) => Ok(checked.document.steps[0].instructions.as_ref().unwrap().value.clone()),
        Err(problems) => Err(said(Err(problems)).join("; ")),
    }
}

#[test]
fn links_do_not_lead_out() {
    let files = || Memory::of(&[("/flows/in.md", "inside"), ("/flowsome/out.md", "outside"), ("/etc/out.yaml", "")]);
    let linked = files().link("/flows/link.md", "/flowsome/out.md");
    assert!(refers_to("link.md", linked).unwrap_err().contains("leads out of"));
    assert_eq!(refers_to("link.md", files().link("/flows/link.md", "/flows/in.md")).unwrap(), "inside");
    let linked = files().link("/flows/link.yaml", "/etc/out.yaml");
    let found = said(checked("name: a\nsteps:\n  - {id: a, include: link.yaml}\n", &options(linked)));
    assert!(found[0].contains("leads out of"), "{found:?}");
    let linked = files().link("/flows/link.png", "/flowsome/out.md");
    let flow = "name: a\nsteps:\n  - {id: a, instructions: Work., contextFiles: [link.png]}\nx-windlass: {contextFiles: lenient}\n";
    let found = said(checked(flow, &options(linked)));
    assert!(found[0].contains("leads out of"), "{found:?}");
}

#[test]
fn a_chain_of_references_ends() {
    let chain = |length: usize| {
        let mut files = Memory::default();
        for number in 1..length {
            let next = format!("@{}.md\r\n", number + 1);
            files.files.insert(format!("/flows/{number}.md").into(), next.into_bytes());
        }
        files.files.insert(format!("/flows/{length}.md").into(), b"the end".to_vec());
        files
    };
    assert_eq!(refers_to("1.md", chain(20)).unwrap(), "the end");
    assert!(refers_to("1.md", chain(21)).unwrap_err().contains("more than 20 files"));
}

#[test]
fn what_is_too_large_is_refused() {
    let large = |path: &str, bytes: usize| {
        let mut files = Memory::default();
        files.files.insert(path.into(), vec![b'a'; bytes]);
        files
    };
    assert_eq!(refers_to("a.md", large("/flows/a.md", 1 << 20)).unwrap().len(), 1 << 20);
    assert!(refers_to("a.md", large("/flows/a.md", (1 << 20) + 1)).unwrap_err().contains("more than 1048576 bytes"));
    let context = "name: a\nsteps:\n  - {id: a, instructions: Work., contextFiles: [a.pdf]}\n";
    assert!(said(checked(context, &options(large("/flows/a.pdf", 10 << 20)))).is_empty());
    let found = said(checked(context, &options(large("/flows/a.pdf", (10 << 20) + 1))));
    assert!(found[0].contains("has 10485761 bytes"), "{found:?}");
    let include = "name: a\nsteps:\n  - {id: a, include: a.yaml}\n";
    let found = said(checked(include, &options(large("/flows/a.yaml", (1 << 20) + 1))));
    assert!(found[0].contains("more than 1048576 bytes"), "{found:?}");
}

/// A text that begins with `@` but has more lines is a text.
#[test]
fn a_file_that_begins_with_a_sign_is_a_text() {
    let files = Memory::of(&[("/flows/a.md", "@everyone\nread this\n")]);
    assert_eq!(refers_to("a.md", files).unwrap(), "@everyone\nread this\n");
}

const NEEDS_FILES: &str = "name: a
steps:
  - {id: a, instructions: '@a.md', contextFiles: [b.md]}
  - {id: b, include: c.yaml}
";

#[test]
fn without_a_folder_nothing_is_looked_at() {
    for strict_files in [true, false] {
        for options in [
            Options { strict_files, ..Options::default() },
            Options { strict_files, folder: Some("/flows".into()), files: Arc::new(NoFiles), ..Options::default() },
        ] {
            let result = checked(NEEDS_FILES, &options);
            assert_eq!(result.is_ok(), !strict_files);
            let found = said(result);
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found.iter().all(|message| message.contains("cannot be")), "{found:?}");
        }
    }
    // What is written is looked at all the same.
    let outside = "name: a\nsteps:\n  - {id: a, instructions: '@../a.md', contextFiles: [/b.md]}\n  - {id: b, include: ../c.yaml}\n";
    let found = said(checked(outside, &Options { strict_files: false, ..Options::default() }));
    assert_eq!(found.len(), 3, "{found:?}");
}

/// Many files that include the same ones are read once each, and what they amount to is counted.
#[test]
fn includes_do_not_multiply() {
    let mut files = Memory::default();
    for level in 1..=5 {
        let steps: String = (0..50)
            .map(|step| match level {
                5 => format!("  - {{id: s{step}, instructions: Work.}}\n"),
                _ => format!("  - {{id: s{step}, include: {}.yaml}}\n", level + 1),
            })
            .collect();
        files.files.insert(format!("/flows/{level}.yaml").into(), format!("name: l{level}\nsteps:\n{steps}").into());
    }
    let problems = checked("name: a\nsteps:\n  - {id: a, include: 1.yaml}\n", &options(files)).unwrap_err();
    let all = problems.others.iter().flat_map(|(_, found)| found.iter());
    assert!(all.into_iter().any(|problem| problem.message.contains("more than 10000 steps")));
}

#[test]
fn problems_are_told_with_the_files_that_have_them() {
    let files = Memory::of(&[
        (
            "/flows/sub/b.yaml",
            "name: b\nsteps:\n  - {id: x, include: c.yaml}\n  - {id: y, instructions: 'See {{this}}.'}\n",
        ),
        ("/flows/sub/c.yaml", "name: c\nsteps:\n  - {id: X, instructions: Work.}\n"),
    ]);
    let text = "name: a\nsteps:\n  - {id: a, include: sub/b.yaml}\n";
    let source = Source::new("shown/main.yaml", text);
    let mut found = Diagnostics::new();
    let tree = read(&source, &Options::default().limits, &mut found).unwrap();
    let problems = check(&source, &tree, found, &options(files)).unwrap_err();
    let told: Vec<(String, usize, &str)> = problems
        .others
        .iter()
        .flat_map(|(source, found)| found.reports(source))
        .map(|report| (report.file, report.line, report.code))
        .collect();
    assert_eq!(
        told,
        [
            ("shown/sub/b.yaml".to_owned(), 3, "validation"),
            ("shown/sub/b.yaml".to_owned(), 4, "template"),
            ("shown/sub/c.yaml".to_owned(), 3, "invalid_step_id"),
        ]
    );
    assert_eq!(problems.own.len(), 1);
}

#[cfg(unix)]
#[test]
fn links_on_a_disk_do_not_lead_out() {
    let base = std::env::temp_dir().join(format!("windlass-beside-{}", std::process::id()));
    let folder = base.join("flows");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(base.join("secret.md"), "secret").unwrap();
    std::fs::write(folder.join("open.md"), "open").unwrap();
    let _ = std::os::unix::fs::symlink(base.join("secret.md"), folder.join("link.md"));
    let _ = std::os::unix::fs::symlink(folder.join("open.md"), folder.join("fine.md"));
    let text = "name: a\nsteps:\n  - {id: a, instructions: '@link.md'}\n  - {id: b, instructions: '@fine.md'}\n";
    let options = Options { folder: Some(folder.clone()), files: Arc::new(Disk), ..Options::default() };
    let found = said(checked(text, &options));
    std::fs::remove_dir_all(&base).unwrap();
    assert_eq!(found, ["`instructions` refers to `link.md`, a link that leads out of the workflow's folder"]);
}
