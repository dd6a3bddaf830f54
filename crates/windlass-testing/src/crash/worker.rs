//! The program as a worker.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::crash::server::wait_until;

/// A worker process, killed on drop.
pub struct WorkerProcess {
    child: Child,
    log: PathBuf,
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl WorkerProcess {
    /// Starts a worker and returns when it is connected to the server.
    pub fn start(folder: &Path, name: &str, url: &str, token: &str, args: &[&str]) -> WorkerProcess {
        let home = folder.join(format!("worker-{name}"));
        std::fs::create_dir_all(&home).expect("a folder");
        let log = home.join("log");
        let file = std::fs::File::create(&log).expect("a log");
        let mut command = Command::new(crate::crash::program());
        command.args(["worker", "--server", url, "--name", name]).args(args);
        command.current_dir(&home).env("WINDLASS_TOKEN", token);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let worker = WorkerProcess { child: command.spawn().expect("the program can be started"), log };
        wait_until(|| worker.has_logged("connected"));
        worker
    }

    /// Returns true if the log contains the text.
    pub(crate) fn has_logged(&self, part: &str) -> bool {
        self.log().contains(part)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal: TERM, STOP or CONT.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("`kill` runs");
        assert!(status.success(), "kill -{name}");
    }

    /// Kills the process without a shutdown.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }

    /// Waits until the process exits.
    pub fn wait_for_exit(mut self) -> (ExitStatus, String) {
        let mut status = None;
        wait_until(|| {
            status = self.child.try_wait().expect("it can be waited for");
            status.is_some()
        });
        (status.expect("it has ended"), self.log())
    }
}
