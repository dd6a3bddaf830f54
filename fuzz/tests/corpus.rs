//! Replays the corpora: every input that has found something, and a few that reach far.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_fuzz::TARGETS;

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[test]
fn every_corpus_holds() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let inputs = files(&corpora.join(target.name));
        assert!(inputs.len() > 1, "{} has no corpus", target.name);
        for input in inputs {
            println!("{}", input.display());
            (target.run)(&fs::read(&input).unwrap_or_default());
        }
        (target.run)(b"");
    }
    assert_eq!(files(&corpora).len(), TARGETS.len(), "a corpus without a target");
}
