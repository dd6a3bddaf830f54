//! A disk that knows what is durable and what only the system's cache has.
//!
//! The model is that of POSIX, not that of one file system. A write is durable once its file is synced, a name once its
//! directory is. Until then a power loss keeps any subset: of the sectors of each write, each sector in any of its
//! versions since the last sync; of the names, in their order for each name. The size of a file may be kept without its
//! data, which reads as zeros. Only the truncation of a file is a barrier: what was written after it is not kept without
//! it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::log::Record;
use crate::loss::{Loss, Piece};

pub(crate) const SECTOR_BYTES: u64 = 512;

/// The content of a disk: its files, and its directories as `None`.
pub(crate) type Image = BTreeMap<PathBuf, Option<Vec<u8>>>;

const ROOT: usize = 0;

/// A fault of the program that the checks must find: syncs that do not happen.
#[derive(Clone, Copy)]
pub(crate) struct Omission {
    /// The path of the file or directory.
    pub(crate) path: &'static str,
    /// The number of the only sync that is left out, from 1; all if there is none.
    pub(crate) only: Option<u64>,
}

pub(crate) struct Disk {
    nodes: Vec<Node>,
    inodes: HashMap<u64, usize>,
    /// The number of records applied.
    at: u64,
    omission: Option<Omission>,
    /// The number of syncs that the omission has met.
    met: u64,
}

struct Node {
    /// The last name that it was given.
    path: String,
    content: Content,
}

enum Content {
    File(File),
    Directory(Directory),
}

#[derive(Default)]
struct File {
    durable: Vec<u8>,
    size: u64,
    pending: Vec<Pending>,
}

struct Pending {
    at: u64,
    change: Change,
}

enum Change {
    Write { offset: u64, data: Arc<[u8]> },
    Shrink(u64),
    Grow(u64),
}

#[derive(Default)]
struct Directory {
    durable: BTreeMap<String, usize>,
    current: BTreeMap<String, usize>,
    pending: Vec<PendingNames>,
}

/// Names that change together, and the node that each has afterwards.
struct PendingNames {
    at: u64,
    names: Vec<(String, Option<usize>)>,
}

impl Disk {
    /// A disk on which all of this is durable.
    pub(crate) fn new(image: &Image, omission: Option<Omission>) -> Disk {
        let root = Node { path: String::new(), content: Content::Directory(Directory::default()) };
        let mut disk = Disk { nodes: vec![root], inodes: HashMap::new(), at: 0, omission, met: 0 };
        for (path, content) in image {
            let path = path.to_string_lossy();
            let content = match content {
                Some(bytes) => {
                    Content::File(File { durable: bytes.clone(), size: bytes.len() as u64, pending: Vec::new() })
                }
                None => Content::Directory(Directory::default()),
            };
            disk.add(&path, content).expect("an image lists a directory before its files");
        }
        for node in &mut disk.nodes {
            if let Content::Directory(directory) = &mut node.content {
                directory.pending.clear();
                directory.durable = directory.current.clone();
            }
        }
        disk
    }

    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), String> {
        self.at += 1;
        match record {
            Record::Opened { path, inode } => {
                // Settings were there before, and are only read.
                if let Ok(node) = self.find(path) {
                    self.inodes.insert(*inode, node);
                }
            }
            Record::Created { path, inode } => {
                let node = self.add(path, Content::File(File::default()))?;
                self.inodes.insert(*inode, node);
            }
            Record::MadeDirectory { path, inode } => {
                let node = self.add(path, Content::Directory(Directory::default()))?;
                self.inodes.insert(*inode, node);
            }
            Record::Written { inode, offset, data } => {
                let at = self.at;
                let file = self.file(*inode)?;
                file.size = file.size.max(offset + data.len() as u64);
                file.pending.push(Pending { at, change: Change::Write { offset: *offset, data: data.clone() } });
            }
            Record::Resized { inode, size } => {
                let at = self.at;
                let file = self.file(*inode)?;
                let change = if *size < file.size { Change::Shrink(*size) } else { Change::Grow(*size) };
                file.size = *size;
                file.pending.push(Pending { at, change });
            }
            Record::Synced { inode } => self.sync(*inode)?,
            Record::Renamed { from, to } => self.rename(from, to)?,
            Record::Unlinked { path } => self.set_names(vec![(path, None)])?,
            Record::Linked { from, to } => {
                let node = self.find(from)?;
                self.set_names(vec![(to, Some(node))])?;
            }
            Record::Output { .. } => {}
        }
        Ok(())
    }

    /// Returns whether a power loss now could lose anything.
    pub(crate) fn has_pending(&self) -> bool {
        self.nodes.iter().any(|node| match &node.content {
            Content::File(file) => !file.pending.is_empty(),
            Content::Directory(directory) => !directory.pending.is_empty(),
        })
    }

    /// Returns whether a file whose name has this ending has unsynced writes.
    pub(crate) fn has_pending_file(&self, ending: &str) -> bool {
        self.nodes.iter().any(|node| match &node.content {
            Content::File(file) => node.path.ends_with(ending) && !file.pending.is_empty(),
            Content::Directory(_) => false,
        })
    }

    /// Returns what is on the disk after the power has failed now.
    pub(crate) fn after(&self, loss: &Loss) -> Image {
        let mut image = Image::new();
        self.add_directory(ROOT, Path::new(""), loss, &mut image);
        image
    }

    fn add_directory(&self, node: usize, path: &Path, loss: &Loss, image: &mut Image) {
        let Content::Directory(directory) = &self.nodes[node].content else { return };
        for (name, node) in directory.after(loss) {
            let path = path.join(name);
            match &self.nodes[node].content {
                Content::File(file) => {
                    image.insert(path, Some(file.after(node as u64, loss)));
                }
                Content::Directory(_) => {
                    image.insert(path.clone(), None);
                    self.add_directory(node, &path, loss, image);
                }
            }
        }
    }

    fn find(&self, path: &str) -> Result<usize, String> {
        let mut node = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let found = match &self.nodes[node].content {
                Content::Directory(directory) => directory.current.get(name),
                Content::File(_) => None,
            };
            node = *found.ok_or_else(|| format!("{path} is used and was never made"))?;
        }
        Ok(node)
    }

    fn file(&mut self, inode: u64) -> Result<&mut File, String> {
        let node = self.inodes.get(&inode).ok_or_else(|| format!("inode {inode} was never opened"))?;
        match &mut self.nodes[*node].content {
            Content::File(file) => Ok(file),
            Content::Directory(_) => Err(format!("inode {inode} is a directory")),
        }
    }

    fn add(&mut self, path: &str, content: Content) -> Result<usize, String> {
        self.nodes.push(Node { path: path.to_owned(), content });
        let node = self.nodes.len() - 1;
        self.set_names(vec![(path, Some(node))])?;
        Ok(node)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), String> {
        let node = self.find(from)?;
        to.clone_into(&mut self.nodes[node].path);
        self.set_names(vec![(from, None), (to, Some(node))])
    }

    /// Changes names at once; those of different directories become durable separately.
    fn set_names(&mut self, names: Vec<(&str, Option<usize>)>) -> Result<(), String> {
        let mut by_directory: BTreeMap<usize, Vec<(String, Option<usize>)>> = BTreeMap::new();
        for (path, node) in names {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            by_directory.entry(self.find(parent)?).or_default().push((name.to_owned(), node));
        }
        let at = self.at;
        for (parent, names) in by_directory {
            let Content::Directory(directory) = &mut self.nodes[parent].content else {
                return Err(format!("{} is no directory", self.nodes[parent].path));
            };
            set_all(&mut directory.current, &names);
            directory.pending.push(PendingNames { at, names });
        }
        Ok(())
    }

    fn sync(&mut self, inode: u64) -> Result<(), String> {
        let node = *self.inodes.get(&inode).ok_or_else(|| format!("inode {inode} was never opened"))?;
        if let Some(omission) = self.omission.filter(|omission| omission.path == self.nodes[node].path) {
            self.met += 1;
            if omission.only.is_none_or(|only| only == self.met) {
                return Ok(());
            }
        }
        match &mut self.nodes[node].content {
            Content::File(file) => file.sync(),
            Content::Directory(directory) => {
                directory.durable = directory.current.clone();
                directory.pending.clear();
            }
        }
        Ok(())
    }
}

fn set_all(entries: &mut BTreeMap<String, usize>, names: &[(String, Option<usize>)]) {
    for (name, node) in names {
        match node {
            Some(node) => entries.insert(name.clone(), *node),
            None => entries.remove(name),
        };
    }
}

impl Directory {
    /// A name keeps its changes in order: a later one is not kept without the earlier ones.
    fn after(&self, loss: &Loss) -> BTreeMap<String, usize> {
        let mut entries = self.durable.clone();
        let mut lost: Vec<&str> = Vec::new();
        for change in &self.pending {
            let names = change.names.iter().map(|(name, _)| name.as_str());
            if names.clone().any(|name| lost.contains(&name)) || !loss.keeps_name(change.at) {
                lost.extend(names);
            } else {
                set_all(&mut entries, &change.names);
            }
        }
        entries
    }
}

impl File {
    fn sync(&mut self) {
        for pending in self.pending.drain(..) {
            match pending.change {
                Change::Shrink(size) | Change::Grow(size) => self.durable.resize(size as usize, 0),
                Change::Write { offset, data } => put(&mut self.durable, offset as usize, &data),
            }
        }
    }

    fn after(&self, file: u64, loss: &Loss) -> Vec<u8> {
        let lost_shrink = |pending: &Pending| {
            matches!(pending.change, Change::Shrink(_)) && !loss.keeps(Piece { file, at: pending.at, sector: None })
        };
        let possible = &self.pending[..self.pending.iter().position(lost_shrink).unwrap_or(self.pending.len())];
        let newest = newest_versions(possible, file, loss);
        let mut data = self.durable.clone();
        for pending in possible {
            match &pending.change {
                Change::Shrink(size) => data.truncate(*size as usize),
                Change::Grow(size) if loss.keeps(Piece { file, at: pending.at, sector: None }) => {
                    data.resize((*size as usize).max(data.len()), 0);
                }
                Change::Grow(_) => {}
                Change::Write { offset, data: written } => {
                    for (sector, from, to) in sectors(*offset, written.len() as u64) {
                        if newest.get(&sector).is_some_and(|newest| pending.at <= *newest) {
                            let bytes = &written[(from - offset) as usize..(to - offset) as usize];
                            put(&mut data, from as usize, bytes);
                        } else if loss.keeps_sizes(file) {
                            put(&mut data, to as usize, &[]);
                        }
                    }
                }
            }
        }
        data
    }
}

/// Returns the newest write that each sector keeps. A sector is written as a whole, with all writes before that one.
fn newest_versions(pending: &[Pending], file: u64, loss: &Loss) -> HashMap<u64, u64> {
    let mut newest = HashMap::new();
    for Pending { at, change } in pending {
        if let Change::Write { offset, data } = change {
            for (sector, ..) in sectors(*offset, data.len() as u64) {
                if loss.keeps(Piece { file, at: *at, sector: Some(sector) }) {
                    newest.insert(sector, *at);
                }
            }
        }
    }
    newest
}

/// Returns the sectors of a range, each with the part of the range that is in it.
fn sectors(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = offset + bytes;
    (offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES)).map(move |sector| {
        let start = sector * SECTOR_BYTES;
        (sector, start.max(offset), (start + SECTOR_BYTES).min(end))
    })
}

fn put(data: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if data.len() < at + bytes.len() {
        data.resize(at + bytes.len(), 0);
    }
    data[at..at + bytes.len()].copy_from_slice(bytes);
}
