//! A small file system for tests of a full disk.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Tells the test in the other process where its file system is.
const VARIABLE: &str = "WINDLASS_TEST_SMALL_DISK";

/// Runs the body of a test on an empty file system of this size.
///
/// The test program starts itself again in a mount namespace of its own, where it has a `tmpfs`, and only there runs
/// the body. `test` is the full name of the calling test. The file system is gone when that process ends.
///
/// # Panics
///
/// If the body fails, or if this machine permits no mount namespaces: such a test is not skipped.
pub fn on_small_disk(test: &str, bytes: u64, body: impl FnOnce(&SmallDisk)) {
    if let Some(directory) = std::env::var_os(VARIABLE) {
        return body(&SmallDisk { directory: directory.into() });
    }
    let directory = std::env::temp_dir().join(format!("windlass-small-disk-{}-{bytes}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a mount point");
    let script = format!("mount -t tmpfs -o size={bytes} none \"$0\" && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(namespace_options()).args(["sh", "-c", &script]).arg(&directory);
    command.arg(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(VARIABLE, &directory);
    let output = command.output().expect("`unshare` of util-linux is installed");
    let _ = std::fs::remove_dir(&directory);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the test failed on the small disk, or there is none:\n{out}\n{err}");
    assert!(out.contains("1 passed"), "no test is called `{test}`:\n{out}");
}

/// A mount needs privileges: those of root, or of a user namespace.
fn namespace_options() -> &'static [&'static str] {
    let mut probe = Command::new("unshare");
    let has_user_namespaces = probe.args(["-rm", "true"]).status().is_ok_and(|status| status.success());
    if has_user_namespaces { &["-rm"] } else { &["-m"] }
}

/// The file system of [`on_small_disk`].
pub struct SmallDisk {
    directory: PathBuf,
}

impl SmallDisk {
    /// Returns its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn ballast(&self) -> PathBuf {
        self.directory.join("ballast")
    }

    /// Fills the disk to its last byte.
    pub fn fill(&self) {
        use std::io::Write;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(self.ballast());
        let mut file = file.expect("a file");
        for size in [1 << 20, 4_096, 1] {
            let block = vec![1u8; size];
            while file.write_all(&block).is_ok() {}
        }
    }

    /// Makes room again.
    pub fn free(&self) {
        std::fs::remove_file(self.ballast()).expect("removed");
    }
}
