//! Files next to a workflow: the ones that are read and the ones that are refused, in memory and on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_syntax::{Diagnostics, SourceText};
use windlass_zenflow::{
    CheckedWorkflow, CompileProblems, DiskFiles, FileReadProblem, FileReader, NoFiles, ZenflowOptions, check, read,
};

/// Files and links by their paths.
#[derive(Default)]
struct MemoryFiles {
    files: BTreeMap<PathBuf, Vec<u8>>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl MemoryFiles {
    fn new(files: &[(&str, &str)]) -> MemoryFiles {
        let files = files.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect();
        MemoryFiles { files, links: BTreeMap::new() }
    }

    fn link(mut self, from: &str, to: &str) -> MemoryFiles {
        self.links.insert(from.into(), to.into());
        self
    }
}

impl FileReader for MemoryFiles {
    fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileReadProblem> {
        let bytes = self.files.get(path).ok_or(FileReadProblem::Missing)?;
        match bytes.len() as u64 > max_bytes {
            true => Err(FileReadProblem::TooLarge { max_bytes }),
            false => Ok(bytes.clone()),
        }
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf, FileReadProblem> {
        let path = self.links.get(path).map_or(path, PathBuf::as_path);
        let is_folder = || self.files.keys().any(|file| file.starts_with(path));
        match self.files.contains_key(path) || is_folder() {
            true => Ok(path.to_owned()),
            false => Err(FileReadProblem::Missing),
        }
    }

    fn size(&self, path: &Path) -> Result<u64, FileReadProblem> {
        self.files.get(path).map(|bytes| bytes.len() as u64).ok_or(FileReadProblem::NotAFile)
    }
}

fn options(files: impl FileReader + 'static) -> ZenflowOptions {
    ZenflowOptions { folder: Some(PathBuf::from("/flows")), files: Arc::new(files), ..ZenflowOptions::default() }
}

fn checked(text: &str, options: &ZenflowOptions) -> Result<CheckedWorkflow, CompileProblems> {
    let source = SourceText::new("/flows/main.yaml", text);
    let mut found = Diagnostics::new();
    let tree = read(&source, &options.limits, &mut found).unwrap();
    check(&source, &tree, found, options)
}

/// Returns the problems of the main file.
fn messages(result: Result<CheckedWorkflow, CompileProblems>) -> Vec<String> {
    let own = result.map_or_else(|problems| problems.own, |checked| checked.warnings);
    own.iter().map(|problem| problem.message.clone()).collect()
}

fn resolve_reference(path: &str, files: MemoryFiles) -> Result<String, String> {
    let text = format!("name: a\nsteps:\n  - {{id: a, instructions: '@{path}'}}\n");
    match checked(&text, &options(files)) {
        Ok(checked) => Ok(checked.document.steps[0].instructions.as_ref().unwrap().value.clone()),
        Err(problems) => Err(messages(Err(problems)).join("; ")),
    }
}

#[test]
fn links_out_of_the_folder_are_refused() {
    let files =
        || MemoryFiles::new(&[("/flows/in.md", "inside"), ("/flowsome/out.md", "outside"), ("/etc/out.yaml", "")]);
    let linked = files().link("/flows/link.md", "/flowsome/out.md");
    assert!(resolve_reference("link.md", linked).unwrap_err().contains("leads out of"));
    assert_eq!(resolve_reference("link.md", files().link("/flows/link.md", "/flows/in.md")).unwrap(), "inside");
    let linked = files().link("/flows/link.yaml", "/etc/out.yaml");
    let found = messages(checked("name: a\nsteps:\n  - {id: a, include: link.yaml}\n", &options(linked)));
    assert!(found[0].contains("leads out of"), "{found:?}");
    let linked = files().link("/flows/link.png", "/flowsome/out.md");
    let flow = "name: a\nsteps:\n  - {id: a, instructions: Work., contextFiles: [link.png]}\nx-windlass: {contextFiles: lenient}\n";
    let found = messages(checked(flow, &options(linked)));
    assert!(found[0].contains("leads out of"), "{found:?}");
}

#[test]
fn reference_chains_are_limited() {
    let chain = |length: usize| {
        let mut files = MemoryFiles::default();
        for number in 1..length {
            let next = format!("@{}.md\r\n", number + 1);
            files.files.insert(format!("/flows/{number}.md").into(), next.into_bytes());
        }
        files.files.insert(format!("/flows/{length}.md").into(), b"the end".to_vec());
        files
    };
    assert_eq!(resolve_reference("1.md", chain(20)).unwrap(), "the end");
    assert!(resolve_reference("1.md", chain(21)).unwrap_err().contains("more than 20 files"));
}

#[test]
fn too_large_files_are_refused() {
    let large = |path: &str, bytes: usize| {
        let mut files = MemoryFiles::default();
        files.files.insert(path.into(), vec![b'a'; bytes]);
        files
    };
    assert_eq!(resolve_reference("a.md", large("/flows/a.md", 1 << 20)).unwrap().len(), 1 << 20);
    assert!(
        resolve_reference("a.md", large("/flows/a.md", (1 << 20) + 1)).unwrap_err().contains("more than 1048576 bytes")
    );
    let context = "name: a\nsteps:\n  - {id: a, instructions: Work., contextFiles: [a.pdf]}\n";
    assert!(messages(checked(context, &options(large("/flows/a.pdf", 10 << 20)))).is_empty());
    let found = messages(checked(context, &options(large("/flows/a.pdf", (10 << 20) + 1))));
    assert!(found[0].contains("has 10485761 bytes"), "{found:?}");
    let include = "name: a\nsteps:\n  - {id: a, include: a.yaml}\n";
    let found = messages(checked(include, &options(large("/flows/a.yaml", (1 << 20) + 1))));
    assert!(found[0].contains("more than 1048576 bytes"), "{found:?}");
}

/// A text that begins with `@` but has more lines is plain text.
#[test]
fn a_multi_line_file_that_begins_with_an_at_sign_is_text() {
    let files = MemoryFiles::new(&[("/flows/a.md", "@everyone\nread this\n")]);
    assert_eq!(resolve_reference("a.md", files).unwrap(), "@everyone\nread this\n");
}

const NEEDS_FILES: &str = "name: a
steps:
  - {id: a, instructions: '@a.md', contextFiles: [b.md]}
  - {id: b, include: c.yaml}
";

#[test]
fn files_are_not_read_without_a_folder() {
    for strict_files in [true, false] {
        for options in [
            ZenflowOptions { strict_files, ..ZenflowOptions::default() },
            ZenflowOptions {
                strict_files,
                folder: Some("/flows".into()),
                files: Arc::new(NoFiles),
                ..ZenflowOptions::default()
            },
        ] {
            let result = checked(NEEDS_FILES, &options);
            assert_eq!(result.is_ok(), !strict_files);
            let found = messages(result);
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found.iter().all(|message| message.contains("cannot be")), "{found:?}");
        }
    }
    // Paths as written are still checked.
    let outside = "name: a\nsteps:\n  - {id: a, instructions: '@../a.md', contextFiles: [/b.md]}\n  - {id: b, include: ../c.yaml}\n";
    let found = messages(checked(outside, &ZenflowOptions { strict_files: false, ..ZenflowOptions::default() }));
    assert_eq!(found.len(), 3, "{found:?}");
}

/// Files included by many others are read once each, and their total size is limited.
#[test]
fn included_steps_are_limited() {
    let mut files = MemoryFiles::default();
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
    let all = problems.included_files.iter().flat_map(|(_, found)| found.iter());
    assert!(all.into_iter().any(|problem| problem.message.contains("more than 10000 steps")));
}

#[test]
fn problems_are_reported_with_their_file() {
    let files = MemoryFiles::new(&[
        (
            "/flows/sub/b.yaml",
            "name: b\nsteps:\n  - {id: x, include: c.yaml}\n  - {id: y, instructions: 'See {{this}}.'}\n",
        ),
        ("/flows/sub/c.yaml", "name: c\nsteps:\n  - {id: X, instructions: Work.}\n"),
    ]);
    let text = "name: a\nsteps:\n  - {id: a, include: sub/b.yaml}\n";
    let source = SourceText::new("shown/main.yaml", text);
    let mut found = Diagnostics::new();
    let tree = read(&source, &ZenflowOptions::default().limits, &mut found).unwrap();
    let problems = check(&source, &tree, found, &options(files)).unwrap_err();
    let reported: Vec<(String, usize, &str)> = problems
        .included_files
        .iter()
        .flat_map(|(source, found)| found.reports(source))
        .map(|report| (report.file, report.line, report.name.unwrap_or_default()))
        .collect();
    assert_eq!(
        reported,
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
fn links_on_disk_out_of_the_folder_are_refused() {
    let base = std::env::temp_dir().join(format!("windlass-beside-{}", std::process::id()));
    let folder = base.join("flows");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(base.join("secret.md"), "secret").unwrap();
    std::fs::write(folder.join("open.md"), "open").unwrap();
    let _ = std::os::unix::fs::symlink(base.join("secret.md"), folder.join("link.md"));
    let _ = std::os::unix::fs::symlink(folder.join("open.md"), folder.join("fine.md"));
    let text = "name: a\nsteps:\n  - {id: a, instructions: '@link.md'}\n  - {id: b, instructions: '@fine.md'}\n";
    let options =
        ZenflowOptions { folder: Some(folder.clone()), files: Arc::new(DiskFiles), ..ZenflowOptions::default() };
    let found = messages(checked(text, &options));
    std::fs::remove_dir_all(&base).unwrap();
    assert_eq!(found, ["`instructions` refers to `link.md`, a link that leads out of the workflow's folder"]);
}
