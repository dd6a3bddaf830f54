//! Recordings of the real program: the shim is compiled once and preloaded.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::disk::{Disk, Image};
use crate::image;
use crate::log::{Record, encode_outputs, parse};
use crate::loss::Loss;

/// The name of the database in a store.
pub(crate) const DATABASE: &str = "windlass.db";

/// The compiled shim, and the folder of everything that a scenario needs.
pub(crate) struct Shim {
    library: PathBuf,
    log: PathBuf,
    root: PathBuf,
    /// The number of the recorded database's file. A store may know it, and distrust a copy of itself.
    database: Cell<Option<u64>>,
    folder: tempfile::TempDir,
}

/// A recorded life of the program.
pub(crate) struct Recording {
    /// The disk at the beginning.
    pub(crate) start: Image,
    /// The output of the program's lives before this one.
    pub(crate) earlier: Vec<Record>,
    pub(crate) records: Vec<Record>,
    log: Vec<u8>,
}

impl Shim {
    pub(crate) fn compile() -> Shim {
        let folder = tempfile::tempdir().expect("a folder");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power/shim.c");
        let library = folder.path().join("shim.so");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&library).arg(source);
        let status = command.args(["-ldl", "-lpthread"]).status().expect("a C compiler, as SQLite needs it");
        assert!(status.success(), "the shim does not compile: {status}");
        let root = folder.path().join("disk");
        fs::create_dir(&root).expect("a folder");
        Shim { library, log: folder.path().join("log"), root, database: Cell::new(None), folder }
    }

    /// The directory that is recorded. The store is in it.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    fn database_number(&self) -> Option<u64> {
        fs::metadata(self.store().join(DATABASE)).ok().map(|found| found.ino())
    }

    /// Makes the disk what an image says. The database stays the same file, if it exists.
    pub(crate) fn restore(&self, image: &Image) {
        let kept = self.folder.path().join("kept");
        fs::create_dir_all(&kept).expect("a folder");
        if self.database.get().is_some() && self.database_number() == self.database.get() {
            fs::rename(self.store().join(DATABASE), kept.join(DATABASE)).expect("it can be moved");
        }
        image::write(&self.root, image, Some(&kept));
    }

    /// A directory for copies.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.path().join("scratch")
    }

    /// The variables of a process that is recorded.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 3] {
        [("LD_PRELOAD", &self.library), ("POWER_ROOT", &self.root), ("POWER_LOG", &self.log)]
    }

    /// Records what `life` does: it starts the program with [`Shim::environment`] and waits for its end.
    pub(crate) fn record(&self, earlier: Vec<Record>, life: impl FnOnce()) -> Recording {
        let _ = fs::remove_file(&self.log);
        let start = image::read(&self.root);
        life();
        let log = fs::read(&self.log).unwrap_or_default();
        self.database.set(self.database_number());
        let records = parse(&log).unwrap_or_else(|problem| panic!("{problem}"));
        assert!(!records.is_empty(), "nothing was recorded: is the program statically linked?");
        Recording { start, earlier, records, log }
    }
}

impl Recording {
    /// Asserts that the recording explains every byte of the store, now that the program has ended.
    pub(crate) fn assert_complete(&self, root: &Path) {
        let mut disk = Disk::new(&self.start, None);
        for record in &self.records {
            disk.apply(record).unwrap_or_else(|problem| panic!("{problem}"));
        }
        let store =
            |image: Image| -> Image { image.into_iter().filter(|(path, _)| path.starts_with("store")).collect() };
        let (rebuilt, real) = (store(disk.after(&Loss::nothing())), store(image::read(root)));
        let names = |image: &Image| image.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&rebuilt), names(&real), "the shim has missed a change of a name");
        // Nothing reads the content of reserved space, and its size is set by a system call that no library sees.
        let is_reserve =
            |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("space."));
        for (path, content) in real.iter().filter(|(path, _)| !is_reserve(path)) {
            assert!(rebuilt[path] == *content, "the shim has missed a change of {}", path.display());
        }
    }

    /// Returns the numbers of records after which a file was synced.
    pub(crate) fn syncs(&self, path: &str) -> Vec<usize> {
        let created = self.records.iter().find_map(|record| match record {
            Record::Created { path: created, inode } if created == path => Some(*inode),
            _ => None,
        });
        let is_sync = |record: &Record| matches!(record, Record::Synced { inode } if Some(*inode) == created);
        (1..=self.records.len()).filter(|number| is_sync(&self.records[number - 1])).collect()
    }

    /// Returns the number of the record with which SQLite's log starts over for the last time.
    pub(crate) fn last_log_header(&self) -> usize {
        const HEADER_BYTES: usize = 32;
        let is_header =
            |record: &Record| matches!(record, Record::Written { offset: 0, data, .. } if data.len() == HEADER_BYTES);
        self.records.iter().rposition(is_header).expect("there is a log") + 1
    }

    /// Returns what had left the program when the power failed after `at` records.
    pub(crate) fn outputs(&self, at: usize) -> impl Iterator<Item = &str> {
        self.earlier.iter().chain(&self.records[..at]).filter_map(|record| match record {
            Record::Output { text } => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns what a recording of the next life needs of this one, if the power failed after `at` records.
    pub(crate) fn outputs_before(&self, at: usize) -> Vec<Record> {
        let records = self.earlier.iter().chain(&self.records[..at]);
        records.filter(|record| matches!(record, Record::Output { .. })).cloned().collect()
    }

    /// Saves the recording, so that [`Recording::load`] gives it back.
    pub(crate) fn save(&self, folder: &Path) {
        image::write(&folder.join("start"), &self.start, None);
        fs::write(folder.join("log"), &self.log).expect("it can be written");
        fs::write(folder.join("earlier"), encode_outputs(&self.earlier)).expect("it can be written");
    }

    pub(crate) fn load(folder: &Path) -> Recording {
        let read = |name: &str| fs::read(folder.join(name)).expect("a saved recording");
        let parsed = |log: &[u8]| parse(log).unwrap_or_else(|problem| panic!("{problem}"));
        let log = read("log");
        let (records, earlier) = (parsed(&log), parsed(&read("earlier")));
        Recording { start: image::read(&folder.join("start")), earlier, records, log }
    }
}
