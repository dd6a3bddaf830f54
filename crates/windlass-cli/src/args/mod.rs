//! Command-line arguments.

mod backup;
mod command_lines;
mod credentials;
mod examples;
mod listing;
mod mocks;
mod server;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

pub(crate) use backup::*;
pub(crate) use credentials::*;
pub(crate) use examples::parse;
pub(crate) use listing::*;
pub(crate) use mocks::*;
pub(crate) use server::*;

use crate::dialects;

#[derive(Parser)]
#[command(name = "windlass", about = "Durable workflows: run, watch and steer them", max_term_width = 110)]
#[command(version = crate::version::short(), long_version = crate::version::long())]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: CliCommand,
}

#[derive(ClapArgs, Clone, Default)]
pub(crate) struct GlobalArgs {
    /// Directory that stores the runs [default: .windlass]
    #[arg(long, global = true, value_name = "PATH", env = "WINDLASS_STORE", hide_env_values = true)]
    pub store: Option<PathBuf>,
    /// Settings file [default: windlass.toml next to the store, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print machine-readable JSON, and nothing else, on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Disable colours (same as NO_COLOR)
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Use the runs of a server instead of a store: its URL, or the name of a context
    #[arg(long, global = true, value_name = "URL", env = "WINDLASS_SERVER", hide_env_values = true)]
    #[arg(help_heading = "Server")]
    pub server: Option<String>,
    /// File with a token of the server [default: that of the context, else WINDLASS_TOKEN]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub token_file: Option<PathBuf>,
    /// Send the token over plain HTTP to another machine
    #[arg(long, global = true, help_heading = "Server")]
    pub insecure: bool,
    /// PEM file with the certificate authority of the server, in addition to those that this machine trusts
    #[arg(long, global = true, value_name = "FILE", env = "WINDLASS_CA", hide_env_values = true)]
    #[arg(help_heading = "Server")]
    pub ca: Option<PathBuf>,
    /// The options of this command that the commands which resume, retry or restart its run need again, as they are
    /// written, each with a leading space.
    #[arg(skip)]
    pub host_options: String,
}

#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Compile a definition and run it to its end
    Run(Box<RunArgs>),
    /// Check definitions for problems without running them
    Check(CheckArgs),
    /// List the runs of the store, newest first
    List(ListArgs),
    /// Show the state of a run
    Status(StatusArgs),
    /// Show the iterations of a run's loops
    Iterations(IterationsArgs),
    /// Show the events of a run in order
    Events(EventsArgs),
    /// Show the output of a run's programs and code, and the log lines of its workers
    Logs(LogsArgs),
    /// Resume a run after a crash, an interruption or a pause
    Resume(ResumeArgs),
    /// Restart a run from a step or a loop iteration, as a new run
    Restart(RestartArgs),
    /// Retry what failed in a run, as a new run
    Retry(RetryArgs),
    /// Pause a run between two tasks
    Pause(RunRequestArgs),
    /// Cancel a run
    Cancel(CancelArgs),
    /// Send a signal to a waiting run
    Signal(SignalArgs),
    /// List the open approval requests of runs
    Approvals(ApprovalsArgs),
    /// Answer an approval request of a run
    Approve(ApproveArgs),
    /// Rebuild a run's state from its journal and verify it
    Replay(ReplayArgs),
    /// Draw a definition or the history of a run
    Graph(GraphArgs),
    /// Serve definitions and runs over HTTP, with a web UI
    Serve(Box<ServeArgs>),
    /// Serve the definitions of a folder while they are edited; a client with its token is trusted like the files
    Dev(Box<DevArgs>),
    /// Try it out: five definitions with their own service and model, without a network or a key
    Demo(DemoArgs),
    /// Write a new project that runs offline: a definition, its mocks, settings and checks
    Init(InitArgs),
    /// Start a run of a definition registered with a server, and follow it
    Start(StartArgs),
    /// Register definitions with a server
    Register(RegisterArgs),
    /// List, show or remove the definitions of a server
    Definitions(DefinitionsArgs),
    /// Store credentials that definitions refer to, encrypted
    Credentials(CredentialsArgs),
    /// Name servers, and choose one for all commands
    Context(ContextArgs),
    /// Answer HTTP requests and models on this machine from a mock file, or write one for a definition
    Mock(MockArgs),
    /// Run jobs for a server on another machine with the tools of this machine
    Worker(WorkerArgs),
    /// List the tools that tasks can call, with their inputs and results
    Tools(ToolsArgs),
    /// Print the JSON Schema of events or of a dialect's files
    Schema(SchemaArgs),
    /// Explain an error code: its cause, an example and the fix
    Explain(ExplainArgs),
    /// List all limits with their values
    Limits,
    /// Manage the access tokens of this store's server
    Token(TokenArgs),
    /// Find stuck runs and damage in the store
    Doctor(DoctorArgs),
    /// Repair a store whose files have lost something, and list what is saved and what is lost
    Repair(RepairArgs),
    /// Check that a server is alive, for containers and scripts
    Health(HealthArgs),
    /// Copy the store into a backup directory, also while a server uses it
    Backup(BackupArgs),
    /// Make a backup the store, after verifying it
    Restore(RestoreArgs),
    /// Remove runs that ended long ago and the data only they reference, or damaged rows
    Clean(CleanArgs),
    #[command(hide = true)]
    Workflow(WorkflowArgs),
    /// Print the completions of a shell
    #[command(hide = true)]
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man(ManArgs),
}

#[derive(ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// Shell
    pub shell: clap_complete::Shell,
}

#[derive(ClapArgs)]
pub(crate) struct ManArgs {
    /// Folder that exists
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

#[derive(ClapArgs)]
pub(crate) struct WorkflowArgs {
    #[command(subcommand)]
    pub command: WorkflowCommand,
}

#[derive(Subcommand)]
pub(crate) enum WorkflowCommand {
    /// Show the state of a run
    Status(StatusArgs),
}

#[derive(ClapArgs)]
pub(crate) struct SourceArgs {
    /// Definition file, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Dialect of the definition [default: detected from its content]
    #[arg(long, value_parser = dialects::dialect_values())]
    pub dialect: Option<String>,
}

/// The input of a new run.
#[derive(ClapArgs)]
pub(crate) struct InputArgs {
    /// Set one input; the value is parsed as JSON if possible, else taken as text. KEY may be a path: base.b.c
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Set the input as JSON, or `-` for standard input
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// Read the input from a JSON file, or `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub input_file: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub input: InputArgs,
    /// Run id; repeating an id refers to the same run
    #[arg(long, value_name = "RUN")]
    pub id: Option<String>,
    /// Label of the run, by which `windlass list --label` finds it; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// Trigger that receives the input, if there are several
    #[arg(long, value_name = "NAME")]
    pub trigger: Option<String>,
    /// Keep the run in memory only
    #[arg(long)]
    pub ephemeral: bool,
    /// Skip waiting: advance time to the next timer when nothing else is left to do
    #[arg(long)]
    pub virtual_time: bool,
    /// Print no progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub agents: AgentArgs,
    #[command(flatten)]
    pub permissions: PermissionArgs,
    #[command(flatten)]
    pub mocking: MockingArgs,
    #[command(flatten)]
    pub testing: TestingArgs,
}

/// Options for workflows of agents.
#[derive(ClapArgs, Clone, Default)]
#[command(next_help_heading = "Workflows of agents")]
pub(crate) struct AgentArgs {
    /// Use this model everywhere, overriding the file: `provider/model`, or `scripted:FILE`
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Context of this run, passed to every agent
    #[arg(long, value_name = "TEXT")]
    pub context: Option<String>,
    /// Work directory of agents; their files stay inside it [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// Run a coordinator that forwards messages [default: if the file mentions send_message]
    #[arg(long, value_name = "WHEN")]
    pub coordinator: Option<CoordinatorArg>,
    /// Maximum number of concurrent steps, if the file sets none [default: 5]
    #[arg(long, value_name = "N")]
    pub max_concurrency: Option<u64>,
    /// Publish model output while it is generated, as `agent.output` events
    #[arg(long)]
    pub stream: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CoordinatorArg {
    Auto,
    On,
    Off,
}

/// Tools that agents may use without approval. Others need approval at the terminal and are denied without one.
#[derive(ClapArgs, Clone, Default)]
#[command(next_help_heading = "Permissions of agents")]
pub(crate) struct PermissionArgs {
    /// Allow every tool
    #[arg(long)]
    pub yolo: bool,
    /// Allow only the file tools inside the work directory: read, write, glob, grep
    #[arg(long, conflicts_with = "yolo")]
    pub sandbox: bool,
    /// Allow this tool, such as `bash` or `server__tool`; may be repeated
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Deny this tool, whatever else is allowed; may be repeated
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub deny: Vec<String>,
}

/// Options for tests and benchmarks of the program itself.
#[derive(ClapArgs)]
pub(crate) struct TestingArgs {
    /// Crash as if by kill -9 around the N-th commit: before:N or after:N
    #[arg(long, hide = true, value_name = "MOMENT:N")]
    pub crash_at: Option<String>,
    #[arg(long, hide = true)]
    pub bench_durability: Option<BenchDurability>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchDurability {
    Full,
    Off,
}

#[derive(ClapArgs)]
pub(crate) struct ServeArgs {
    /// Listen on this address; port 0 picks a free one [default: 127.0.0.1:7117]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub bind: Option<std::net::SocketAddr>,
    /// Listen on this port of 127.0.0.1, or of the address in the settings; 0 picks a free one
    #[arg(long, value_name = "PORT", conflicts_with = "bind")]
    pub port: Option<u16>,
    /// Require no token; only on a loopback address
    #[arg(long)]
    pub no_auth: bool,
    /// Accept this host name in addition to the address; may be repeated
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Accept TLS connections only, with the certificate in this PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Accept unencrypted connections of other machines: a proxy in front of the server has TLS
    #[arg(long)]
    pub behind_proxy: bool,
    /// Time that running work may take to finish on shutdown [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub drain: Option<u64>,
    /// Format of log lines on stderr
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub log: LogFormat,
    /// Log level: error, warn, info, debug or trace; windlass_server=debug sets one crate
    #[arg(long, value_name = "LEVEL", env = "WINDLASS_LOG", hide_env_values = true, default_value = "info")]
    pub log_level: String,
    #[arg(long, hide = true)]
    pub virtual_time: bool,
    #[command(flatten)]
    pub testing: TestingArgs,
}

#[derive(ClapArgs)]
pub(crate) struct DevArgs {
    /// Folder, or definition files [default: the current folder]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Open the web UI
    #[arg(long)]
    pub open: bool,
    /// Listen on this port of 127.0.0.1; 0 picks a free one [default: 7117]
    #[arg(long)]
    pub port: Option<u16>,
    /// Require a token, on a machine that others use as well
    #[arg(long, conflicts_with = "ephemeral")]
    pub auth: bool,
    /// Keep runs in memory only
    #[arg(long)]
    pub ephemeral: bool,
    /// Time that running work may take to finish on shutdown
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    pub drain: u64,
    /// Format of log lines on stderr
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub log: LogFormat,
    /// Log level: error, warn, info, debug or trace; windlass_server=debug sets one crate
    #[arg(long, value_name = "LEVEL", env = "WINDLASS_LOG", hide_env_values = true, default_value = "info")]
    pub log_level: String,
    #[command(flatten)]
    pub agents: AgentArgs,
    #[command(flatten)]
    pub permissions: PermissionArgs,
    /// Call real tools and models, although the settings name a mock file under [dev]
    #[arg(long, conflicts_with = "static_file", help_heading = "Mocks")]
    pub no_mocks: bool,
    #[command(flatten)]
    pub mocking: MockingArgs,
    #[command(flatten)]
    pub testing: TestingArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

#[derive(ClapArgs)]
pub(crate) struct CheckArgs {
    /// Definition files, or `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Dialect of the definitions [default: detected from their content]
    #[arg(long, value_parser = dialects::dialect_values())]
    pub dialect: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct SchemaArgs {
    /// Dialect, or `events` for the events of runs
    #[arg(value_name = "SUBJECT", value_parser = clap::builder::PossibleValuesParser::new(crate::commands::schema::subjects()))]
    pub subject: String,
}

#[derive(ClapArgs)]
pub(crate) struct ExplainArgs {
    /// Code such as `WND-2001` or `2001`, or another name such as `LoopCountExceeded`; without it, all are listed
    pub code: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct ResumeArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: String,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// Print no progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
    /// Publish model output while it is generated, as `agent.output` events
    #[arg(long)]
    pub stream: bool,
    #[command(flatten)]
    pub permissions: PermissionArgs,
    #[command(flatten)]
    pub mocking: MockingArgs,
    #[command(flatten)]
    pub testing: TestingArgs,
}

#[derive(ClapArgs)]
pub(crate) struct RestartArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: String,
    /// Restart point, as events show it: `sync[3].fetch`, or `sync[3]` for the whole iteration
    #[arg(long, value_name = "PATH")]
    pub from: String,
    /// Occurrence of the restart point, counted from 1 [default: the last]
    #[arg(long, value_name = "N")]
    pub occurrence: Option<u64>,
    /// Override a variable, parameter or input from the restart point on; the value is parsed as JSON if possible, else
    /// taken as text
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub steering: SteeringArgs,
}

#[derive(ClapArgs)]
pub(crate) struct RetryArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: String,
    #[command(flatten)]
    pub steering: SteeringArgs,
}

/// How a restart or retry creates and watches the new run.
#[derive(ClapArgs)]
pub(crate) struct SteeringArgs {
    /// Id of the new run; repeating an id refers to the same run
    #[arg(long, value_name = "RUN")]
    pub id: Option<String>,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// Print no progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
    /// Publish model output while it is generated, as `agent.output` events
    #[arg(long)]
    pub stream: bool,
    #[command(flatten)]
    pub permissions: PermissionArgs,
    #[command(flatten)]
    pub mocking: MockingArgs,
    #[command(flatten)]
    pub testing: TestingArgs,
}

#[derive(ClapArgs, Default)]
pub(crate) struct TrustArgs {
    /// Give a run of a definition registered with a server the rights of this terminal: all tools, all addresses
    #[arg(long)]
    pub trusted: bool,
}

#[derive(ClapArgs)]
pub(crate) struct RunRequestArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: String,
    /// Idempotency key: requests with the same id count once
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub request: RunRequestArgs,
    /// Reason to record with the run
    #[arg(long, default_value = "cancelled by hand")]
    pub reason: String,
}

#[derive(ClapArgs)]
pub(crate) struct SignalArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: String,
    /// Name of the signal that the run waits for
    pub name: String,
    /// Payload: JSON, or `@FILE`
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
    /// Idempotency key: requests with the same id count once
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct ApprovalsArgs {
    /// Show only this run's requests: run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct ApproveArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: String,
    /// Name or path of the request, as `windlass approvals` shows it; needed if the run has several
    pub name: Option<String>,
    /// Answer: JSON, or `@FILE`
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
    /// Set one property of the answer; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[derive(ClapArgs)]
pub(crate) struct CleanArgs {
    /// Minimum time since the run ended: `30d`, `12h`, or ISO 8601 (`P30D`) [default: the bounds of [retention]]
    #[arg(long, value_name = "AGE")]
    pub older_than: Option<String>,
    /// Print what would be removed without removing it
    #[arg(long)]
    pub dry_run: bool,
    /// Remove a damaged row as `doctor` names it, such as `runs/17`, or a damaged or quarantined run by its id; repeatable
    #[arg(long, value_name = "ROW", conflicts_with = "older_than")]
    pub damaged: Vec<String>,
}

#[derive(ClapArgs)]
pub(crate) struct RepairArgs {
    /// List what can be saved and what is lost without changing anything
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(ClapArgs)]
pub(crate) struct ToolsArgs {
    /// Name of one tool; without it, all are listed
    pub name: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct ReplayArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: String,
    /// Stop after this many ticks
    #[arg(long, value_name = "TICK")]
    pub to: Option<u64>,
}

#[derive(ClapArgs)]
pub(crate) struct GraphArgs {
    /// Definition file, or `-` for standard input
    #[arg(value_name = "FILE", conflicts_with = "run")]
    pub file: Option<PathBuf>,
    /// Dialect of the definition [default: detected from its content]
    #[arg(long, conflicts_with = "run", value_parser = dialects::dialect_values())]
    pub dialect: Option<String>,
    /// Draw the history of this run instead: run id, an unambiguous prefix of it, its execution id, or `last`
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    #[arg(long, default_value = "mermaid")]
    pub format: GraphFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    Mermaid,
    Dot,
    Json,
    Svg,
}
