//! Reads and writes the content of a directory.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::disk::Image;

/// Reads everything below a directory, except the mapped index of SQLite's log.
pub(crate) fn read(root: &Path) -> Image {
    let mut image = Image::new();
    read_into(root, Path::new(""), &mut image);
    image
}

fn read_into(root: &Path, below: &Path, image: &mut Image) {
    for entry in fs::read_dir(root.join(below)).expect("a directory").flatten() {
        let path = below.join(entry.file_name());
        if entry.path().is_dir() {
            image.insert(path.clone(), None);
            read_into(root, &path, image);
        } else if !path.to_string_lossy().ends_with("-shm") {
            image.insert(path, Some(fs::read(entry.path()).expect("a file")));
        }
    }
}

/// Replaces everything below a directory. A file of `kept` is used for the path of the same name, so that it stays the
/// same file with another content.
pub(crate) fn write(root: &Path, image: &Image, kept: Option<&Path>) {
    if root.exists() {
        fs::remove_dir_all(root).expect("it can be removed");
    }
    fs::create_dir_all(root).expect("it can be made");
    for (path, content) in image {
        let kept = kept.map(|kept| kept.join(path.file_name().unwrap_or_default())).filter(|kept| kept.is_file());
        let path = root.join(path);
        match content {
            None => {
                fs::create_dir(&path).expect("it can be made");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it is ours");
            }
            Some(bytes) => {
                if let Some(kept) = kept {
                    fs::rename(kept, &path).expect("it can be moved");
                }
                let mut options = fs::OpenOptions::new();
                let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
                file.and_then(|mut file| file.write_all(bytes)).expect("it can be written");
            }
        }
    }
}
