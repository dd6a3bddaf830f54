//! A Postgres server for tests, made from the system's packages in its own folder and removed on drop.

mod programs;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use programs::{INSTALL, programs};

/// Runs the server until its input is closed, by a drop or by the death of the tests, however they die. Then the
/// server stops immediately and its folder is removed.
const WATCH_SCRIPT: &str =
    r#"exec 3<&0; "$@" 3<&- & server=$!; (read -r _ <&3; kill -QUIT $server) & wait $server; rm -rf "$0""#;
const MAX_START_TIME: Duration = Duration::from_secs(120);
const MAX_START_ATTEMPTS: usize = 3;

/// A running server. It listens on loopback and on a socket, with the user `windlass` and the password `tests`.
pub struct PostgresServer {
    folder: PathBuf,
    port: u16,
    server: Child,
}

impl PostgresServer {
    /// Creates a cluster and starts its server. The error tells the developer what to do.
    pub fn start() -> Result<PostgresServer, String> {
        let programs = programs().ok_or(INSTALL)?;
        let mut started = Err(String::new());
        // Another program may take the free port before the server binds it.
        for _ in 0..MAX_START_ATTEMPTS {
            let folder = new_folder().map_err(|error| format!("could not create a folder for Postgres: {error}"))?;
            started = PostgresServer::start_in(&programs, &folder);
            if started.is_ok() {
                break;
            }
            let _ = fs::remove_dir_all(&folder);
        }
        started
    }

    fn start_in(programs: &Path, folder: &Path) -> Result<PostgresServer, String> {
        let describe = |what: &str, error: String| format!("{what} failed: {error}");
        make_cluster(programs, folder).map_err(|error| describe("initdb", error))?;
        let port = free_port().map_err(|error| describe("finding a free port", error.to_string()))?;
        let log =
            fs::File::create(folder.join("log")).map_err(|error| describe("making the log", error.to_string()))?;
        let socket = format!("unix_socket_directories={}", folder.display());
        let mut postgres = as_other_user(programs.join("postgres"));
        postgres.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string(), "-h", "127.0.0.1"]);
        // Tests need no durability against power loss.
        for setting in [socket.as_str(), "fsync=off", "full_page_writes=off", "synchronous_commit=off"] {
            postgres.args(["-c", setting]);
        }
        let mut command = Command::new("sh");
        command.args(["-c", WATCH_SCRIPT]).arg(folder).arg(postgres.get_program()).args(postgres.get_args());
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let server = command.spawn().map_err(|error| describe("starting postgres", error.to_string()))?;
        let mut server = PostgresServer { folder: folder.to_owned(), port, server };
        server.wait_until_ready(programs)?;
        Ok(server)
    }

    /// Polls until the server is ready: before that there is nothing to subscribe to.
    fn wait_until_ready(&mut self, programs: &Path) -> Result<(), String> {
        let begin = Instant::now();
        while begin.elapsed() < MAX_START_TIME {
            let mut ready = Command::new(programs.join("pg_isready"));
            ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
            if ready.status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.server.try_wait() {
                return Err(format!("postgres exited immediately ({status}): {}", self.log()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("postgres did not answer within {MAX_START_TIME:?}: {}", self.log()))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL for a credential.
    pub fn url(&self) -> String {
        format!("postgres://windlass:tests@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn new_folder() -> std::io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("windlass-pg-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    if let Some(user) = other_user() {
        Command::new("chown").arg(user).arg(&folder).status()?;
    }
    Ok(folder)
}

/// Returns an unprivileged user if the tests run as root, because Postgres refuses to run as root.
fn other_user() -> Option<&'static str> {
    let id = Command::new("id").arg("-u").output().ok()?;
    if String::from_utf8_lossy(&id.stdout).trim() != "0" {
        return None;
    }
    let exists = |user: &&str| Command::new("id").arg(user).output().is_ok_and(|output| output.status.success());
    ["postgres", "nobody"].into_iter().find(exists)
}

fn as_other_user(program: PathBuf) -> Command {
    let Some(user) = other_user() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--clear-groups", "--"]).arg(program);
    command
}

fn make_cluster(programs: &Path, folder: &Path) -> Result<(), String> {
    let password = folder.join("password");
    let written = fs::File::create(&password).and_then(|mut file| file.write_all(b"tests\n"));
    written.map_err(|error| error.to_string())?;
    let mut command = as_other_user(programs.join("initdb"));
    command.arg("-D").arg(folder.join("data")).args(["-U", "windlass", "-A", "scram-sha-256", "-E", "UTF8"]);
    command.arg("--pwfile").arg(&password).args(["--locale", "C", "--no-sync"]).current_dir(folder);
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
