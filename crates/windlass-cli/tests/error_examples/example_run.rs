//! Runs the steps of an example in one folder.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use windlass_testing::test_postgres::PostgresServer;

use super::page::{ExampleStep, PageExample};
use super::request::ServerAccess;
use super::shell::{ShellCommand, ShellLine};
use crate::support::server::{CapturedProcess, TestServer, wait_until};
use crate::support::{CommandOutput, TestDir, start_command};

/// The services that several examples use. Each starts when an example first needs it.
#[derive(Default)]
pub(super) struct SharedServices {
    server: OnceLock<(Arc<TestDir>, TestServer)>,
    postgres: OnceLock<PostgresServer>,
}

impl SharedServices {
    /// Returns a server and its folder.
    fn server(&self) -> &(Arc<TestDir>, TestServer) {
        self.server.get_or_init(|| {
            let place = Arc::new(TestDir::new());
            let server = TestServer::start(&place, &[], &[]);
            (place, server)
        })
    }

    fn postgres_url(&self) -> String {
        let start = || PostgresServer::start().unwrap_or_else(|problem| panic!("{problem}"));
        self.postgres.get_or_init(start).url()
    }
}

/// An example while it runs.
pub(super) struct ExampleRun<'s> {
    services: &'s SharedServices,
    place: Arc<TestDir>,
    files: &'s [(String, String)],
    /// Texts of the page and what stands for them here: `127.0.0.1:7117` for a port that was free, `$NAME` for the
    /// value of a variable.
    replacements: Vec<(String, String)>,
    background: Vec<CapturedProcess>,
    /// A background run has started. The next command may be too early to meet it.
    is_racing: bool,
    server: Option<ServerAccess>,
    file_limit: Option<String>,
    /// The outputs of all steps.
    log: String,
}

/// The outcome of an example.
pub(super) struct ExampleOutcome {
    /// The output of the last step.
    pub shown: String,
    /// The outputs of all steps.
    pub log: String,
}

impl<'s> ExampleRun<'s> {
    /// Writes the files of an example into an empty folder. Examples with requests and without a server of their own
    /// share one.
    pub(super) fn new(example: &'s PageExample, services: &'s SharedServices) -> ExampleRun<'s> {
        let (mut place, mut server) = (None, None);
        if example.has_requests() && !example.has_command("windlass serve") {
            assert!(example.files.is_empty(), "the folder of the shared server has no files of examples");
            let (folder, shared) = services.server();
            place = Some(folder.clone());
            server = Some(ServerAccess { address: shared.address.clone(), token: shared.token.clone() });
        }
        let run = ExampleRun {
            services,
            place: place.unwrap_or_else(|| Arc::new(TestDir::new())),
            files: &example.files,
            replacements: Vec::new(),
            background: Vec::new(),
            is_racing: false,
            server,
            file_limit: None,
            log: String::new(),
        };
        run.write_files();
        run
    }

    fn write_files(&self) {
        for (name, content) in self.files {
            let path = self.place.path(name);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a folder");
            self.place.write(name, self.replaced(content));
        }
    }

    fn replaced(&self, text: &str) -> String {
        self.replacements.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// Runs all steps.
    pub(super) fn run(mut self, steps: &[ExampleStep]) -> ExampleOutcome {
        let mut shown = String::new();
        for (number, step) in steps.iter().enumerate() {
            let is_last = number + 1 == steps.len();
            shown = match step {
                ExampleStep::Command(line) => self.run_line(&self.replaced(line), is_last),
                ExampleStep::Request(block) => self.send(&self.replaced(block), is_last),
            };
            self.log.push_str(&shown);
        }
        if self.is_racing {
            // The background run ends the programs that it has started.
            self.background.drain(..).for_each(|process| drop(process.stop()));
        }
        ExampleOutcome { shown, log: self.log }
    }

    fn send(&self, block: &str, is_last: bool) -> String {
        let server = self.server.as_ref().expect("a server");
        let (status, response) = server.send(block);
        assert!(is_last || status < 400, "an earlier request fails:\n{block}\n{response}");
        response
    }

    fn run_line(&mut self, line: &str, is_last: bool) -> String {
        match ShellLine::parse(line) {
            ShellLine::FileLimit(blocks) => {
                self.file_limit = Some(blocks);
                String::new()
            }
            ShellLine::Capture(name, command) => {
                let done = self.finish(&command);
                self.replacements.push((format!("${name}"), done.out.trim().to_owned()));
                String::new()
            }
            ShellLine::Background(command) => {
                self.start_in_background(command);
                String::new()
            }
            ShellLine::Foreground(mut command) => {
                if is_last {
                    command.arguments.push("--json".to_owned());
                }
                let mut done = self.finish(&command);
                if is_last && self.is_racing {
                    wait_until("the command meets the background run", || {
                        let has_met = done.code != Some(0);
                        if !has_met {
                            done = self.finish(&command);
                        }
                        has_met
                    });
                }
                format!("{}\n{}\n", done.out, done.err)
            }
        }
    }

    /// Runs a command to its end. It is killed if it hangs.
    fn finish(&self, command: &ShellCommand) -> CommandOutput {
        start_command(self.command(command)).finish()
    }

    fn command(&self, command: &ShellCommand) -> Command {
        let arguments: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
        let mut process = self.place.command(&arguments);
        for (name, value) in &command.variables {
            let is_database = value.starts_with("postgres://");
            let value = if is_database { self.services.postgres_url() } else { value.clone() };
            process.env(name, value);
        }
        match &self.file_limit {
            Some(blocks) => limited_command(&process, blocks),
            None => process,
        }
    }

    /// Starts a command, on a free port if the page names one, and waits until it listens.
    fn start_in_background(&mut self, mut command: ShellCommand) {
        let is_server = command.name() == "serve";
        let listens = is_server || command.name() == "mock";
        let port = if listens { take_port(&mut command) } else { String::new() };
        let mut process = CapturedProcess::start(self.command(&command));
        self.is_racing |= command.name() == "run";
        if listens {
            let mut address = None;
            wait_until("it listens", || {
                assert!(!process.has_ended(), "{}{}", process.out(), process.err());
                address = listening_address(&process.out());
                address.is_some()
            });
            let address = address.expect("an address");
            self.replacements.push((format!("127.0.0.1:{port}"), address.clone()));
            self.write_files();
            if is_server {
                let token = std::fs::read_to_string(self.place.path(".windlass/token")).expect("the token");
                self.server = Some(ServerAccess { address, token: token.trim().to_owned() });
            }
        }
        self.background.push(process);
    }
}

/// Replaces the port of `--port PORT` or `--bind 127.0.0.1:PORT` by 0, which means any free port, and returns it.
fn take_port(command: &mut ShellCommand) -> String {
    let option = command.arguments.iter().position(|word| word == "--port" || word == "--bind");
    let value = option.and_then(|at| command.arguments.get_mut(at + 1)).expect("a port");
    let port = value.rsplit(':').next().unwrap_or_default().to_owned();
    *value = format!("{}0", value.strip_suffix(&port).unwrap_or_default());
    port
}

/// Finds host and port in the first line of a server.
fn listening_address(output: &str) -> Option<String> {
    let (line, _) = output.split_once('\n')?;
    let (_, address) = line.split_once("http://")?;
    Some(address.trim_end_matches('/').to_owned())
}

/// Runs a command under a limit for the size of files, in blocks of the shell.
fn limited_command(process: &Command, blocks: &str) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f \"$0\"; exec \"$@\"", blocks]).arg(process.get_program()).args(process.get_args());
    for (name, value) in process.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.current_dir(process.get_current_dir().expect("a folder")).stdin(std::process::Stdio::null());
    limited
}
