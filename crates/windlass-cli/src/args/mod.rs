//! What can be typed.

mod server;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

pub(crate) use server::*;

use crate::dialects;

#[derive(Parser)]
#[command(name = "windlass", version, about = "Durable workflows: run, watch and steer them", max_term_width = 110)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: CliCommand,
}

#[derive(ClapArgs, Clone)]
pub(crate) struct GlobalArgs {
    /// The directory that keeps the runs [default: .windlass]
    #[arg(long, global = true, value_name = "PATH", env = "WINDLASS_STORE", hide_env_values = true)]
    pub store: Option<PathBuf>,
    /// Settings [default: windlass.toml beside the store, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Machine output on stdout, nothing else there
    #[arg(long, global = true)]
    pub json: bool,
    /// No colours (NO_COLOR does the same)
    #[arg(long, global = true)]
    pub no_color: bool,
}

#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Compile a definition and run it to its end
    Run(Box<RunArgs>),
    /// Look for problems in definitions, without running them
    Check(CheckArgs),
    /// The runs of the store, newest first
    List(ListArgs),
    /// Where a run stands
    Status(StatusArgs),
    /// The turns of a run's loops
    Iterations(IterationsArgs),
    /// What has happened in a run, in order
    Events(EventsArgs),
    /// Go on with a run after a crash, an interruption or a pause
    Resume(ResumeArgs),
    /// Do a run again from a step or a loop's turn on, as a new run
    Restart(RestartArgs),
    /// Do again what has failed in a run, as a new run
    Retry(RetryArgs),
    /// Let a run stop between two tasks
    Pause(RunRequestArgs),
    /// End a run early
    Cancel(CancelArgs),
    /// Answer a run that waits for something
    Signal(SignalArgs),
    /// What runs ask of people
    Approvals(ApprovalsArgs),
    /// Answer what a run asks
    Approve(ApproveArgs),
    /// Rebuild a run's state from its journal and compare
    Replay(ReplayArgs),
    /// Draw a definition, or what has happened in a run
    Graph(GraphArgs),
    /// Serve definitions and runs over HTTP, with a page to look at them
    Serve(Box<ServeArgs>),
    /// Serve the definitions of a folder while they are being written; whoever has its token is trusted as its files are
    Dev(Box<DevArgs>),
    /// Register definitions at a server
    Register(RegisterArgs),
    /// Answer HTTP requests on this machine as a script says, for trials without a network
    Mock(MockArgs),
    /// Do jobs for a server on another machine, with the tools of this one
    Worker(WorkerArgs),
    /// What tasks can do: the tools of this program, with their inputs and results
    Tools(ToolsArgs),
    /// Print the JSON Schema of events or of a dialect's files
    Schema(SchemaArgs),
    /// All limits with their values
    Limits,
    /// Who may use the server of this store
    Token(TokenArgs),
    /// Look for runs that are stuck and for damage
    Doctor,
    /// Remove runs that have ended long ago, and what only they have stored
    Clean(CleanArgs),
    #[command(hide = true)]
    Workflow(WorkflowArgs),
}

#[derive(ClapArgs)]
pub(crate) struct WorkflowArgs {
    #[command(subcommand)]
    pub command: WorkflowCommand,
}

#[derive(Subcommand)]
pub(crate) enum WorkflowCommand {
    /// Where a run stands
    Status(StatusArgs),
}

#[derive(ClapArgs)]
pub(crate) struct SourceArgs {
    /// The definition, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Which dialect it is written in [default: found from its content]
    #[arg(long, value_parser = dialects::dialect_values())]
    pub dialect: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// One input; the value is JSON if it can be read as such, else text. KEY may lead into an object: base.b.c
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The input as JSON, or `-` for standard input
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// The input as a JSON file, or `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub input_file: Option<PathBuf>,
    /// The run's id; the same id twice is the same run
    #[arg(long, value_name = "RUN")]
    pub id: Option<String>,
    /// The trigger that gets the input, if there are several
    #[arg(long, value_name = "NAME")]
    pub trigger: Option<String>,
    /// Keep nothing
    #[arg(long)]
    pub ephemeral: bool,
    /// Skip waiting: time jumps to the next timer when nothing else is left to do
    #[arg(long)]
    pub virtual_time: bool,
    /// No progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub agents: AgentArgs,
    #[command(flatten)]
    pub permissions: PermissionArgs,
    #[command(flatten)]
    pub testing: TestingArgs,
}

/// How a workflow of agents is run.
#[derive(ClapArgs, Clone, Default)]
#[command(next_help_heading = "Workflows of agents")]
pub(crate) struct AgentArgs {
    /// The model for everything, whatever the file says: `provider/model`, or `scripted:FILE`
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// What the workflow is about this time: every agent is told
    #[arg(long, value_name = "TEXT")]
    pub context: Option<String>,
    /// Where agents work; their files stay inside [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// Whether there is somebody who passes messages on [default: if the file mentions send_message]
    #[arg(long, value_name = "WHEN")]
    pub coordinator: Option<CoordinatorArg>,
    /// Steps at a time, if the file says nothing [default: 5]
    #[arg(long, value_name = "N")]
    pub max_concurrency: Option<u64>,
    /// Tell what models say while they say it, as events `agent.output`
    #[arg(long)]
    pub stream: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CoordinatorArg {
    Auto,
    On,
    Off,
}

/// What agents may do without being asked for. Otherwise a terminal is asked, and without one the answer is no.
#[derive(ClapArgs, Clone, Default)]
#[command(next_help_heading = "Permissions of agents")]
pub(crate) struct PermissionArgs {
    /// Everything
    #[arg(long)]
    pub yolo: bool,
    /// Only files of the work folder: read, write, glob, grep
    #[arg(long, conflicts_with = "yolo")]
    pub sandbox: bool,
    /// This tool, such as `bash` or `server__tool`; may be given more than once
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Never this tool, whatever else is allowed
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub deny: Vec<String>,
}

impl PermissionArgs {
    /// As they are written on a command line, each after a blank.
    pub(crate) fn to_flags(&self) -> String {
        let mut flags = String::new();
        flags.push_str(if self.yolo { " --yolo" } else { "" });
        flags.push_str(if self.sandbox { " --sandbox" } else { "" });
        for (flag, tools) in [("allow", &self.allow), ("deny", &self.deny)] {
            tools.iter().for_each(|tool| flags.push_str(&format!(" --{flag} {}", crate::stores::shell_quote(tool))));
        }
        flags
    }
}

/// For tests and benchmarks of the program itself.
#[derive(ClapArgs)]
pub(crate) struct TestingArgs {
    /// before:N or after:N – dies as if by kill -9 around its N-th commit
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
    /// Where to listen; port 0 takes any that is free [default: 127.0.0.1:7117]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub bind: Option<std::net::SocketAddr>,
    /// Ask nobody for a token; only on this machine's own address
    #[arg(long)]
    pub no_auth: bool,
    /// A name under which it is reached, besides its address; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// How long what is at work may take to end when it is stopped [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub drain: Option<u64>,
    /// How lines on stderr look
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub log: LogFormat,
    /// What is logged: error, warn, info, debug or trace; windlass_server=debug sets one crate
    #[arg(long, value_name = "LEVEL", env = "WINDLASS_LOG", hide_env_values = true, default_value = "info")]
    pub log_level: String,
    #[arg(long, hide = true)]
    pub virtual_time: bool,
    #[command(flatten)]
    pub testing: TestingArgs,
}

#[derive(ClapArgs)]
pub(crate) struct DevArgs {
    /// A folder, or files with definitions [default: the current folder]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Open the page
    #[arg(long)]
    pub open: bool,
    /// Where to listen on 127.0.0.1; 0 takes any port that is free [default: 7117]
    #[arg(long)]
    pub port: Option<u16>,
    /// Keep nothing
    #[arg(long)]
    pub ephemeral: bool,
    /// How long what is at work may take to end when it is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    pub drain: u64,
    /// How lines on stderr look
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub log: LogFormat,
    /// What is logged: error, warn, info, debug or trace; windlass_server=debug sets one crate
    #[arg(long, value_name = "LEVEL", env = "WINDLASS_LOG", hide_env_values = true, default_value = "info")]
    pub log_level: String,
    #[command(flatten)]
    pub agents: AgentArgs,
    #[command(flatten)]
    pub permissions: PermissionArgs,
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
    /// The definitions, or `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Which dialect they are written in [default: found from their content]
    #[arg(long, value_parser = dialects::dialect_values())]
    pub dialect: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct ListArgs {
    /// Only runs with this status
    #[arg(long)]
    pub status: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 20)]
    pub limit: u32,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Also runs that other runs have started
    #[arg(long)]
    pub children: bool,
}

#[derive(ClapArgs)]
pub(crate) struct StatusArgs {
    /// The run's id, its beginning, or `last`
    pub run: String,
}

#[derive(ClapArgs)]
pub(crate) struct IterationsArgs {
    /// The run's id, its beginning, or `last`
    pub run: String,
    /// The loop's path, such as `sync` or `pages[3].items`; without it, the loops are listed
    pub r#loop: Option<String>,
    /// Begin at this turn, counted from 0
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub from: u64,
    /// At most this many
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub limit: usize,
    /// Only turns that did not succeed
    #[arg(long)]
    pub failed: bool,
}

#[derive(ClapArgs)]
pub(crate) struct EventsArgs {
    /// The run's id, its beginning, or `last`
    pub run: String,
    /// The last event seen: shows what came after it
    #[arg(long, default_value_t = 0, value_name = "SEQ", visible_alias = "after")]
    pub from: u64,
    /// Wait for more until the run has ended
    #[arg(long, short)]
    pub follow: bool,
}

#[derive(ClapArgs)]
pub(crate) struct SchemaArgs {
    /// A dialect, or `events` for the events of runs
    #[arg(value_name = "OF", value_parser = clap::builder::PossibleValuesParser::new(crate::commands::schema::subjects()))]
    pub subject: String,
}

#[derive(ClapArgs)]
pub(crate) struct ResumeArgs {
    /// The run's id, its beginning, or `last`
    pub run: String,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// No progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
    /// Tell what models say while they say it, as events `agent.output`
    #[arg(long)]
    pub stream: bool,
    #[command(flatten)]
    pub permissions: PermissionArgs,
    #[command(flatten)]
    pub testing: TestingArgs,
}

#[derive(ClapArgs)]
pub(crate) struct RestartArgs {
    /// The run's id, its beginning, or `last`
    pub run: String,
    /// Where to begin, as events show it: `sync[3].fetch`, or `sync[3]` for the whole turn
    #[arg(long, value_name = "PATH")]
    pub from: String,
    /// Which of its beginnings, counted from 1 [default: the last]
    #[arg(long, value_name = "N")]
    pub occurrence: Option<u64>,
    /// A variable that is to be another from there on; the value is JSON if it can be read as such, else text
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub steering: SteeringArgs,
}

#[derive(ClapArgs)]
pub(crate) struct RetryArgs {
    /// The run's id, its beginning, or `last`
    pub run: String,
    #[command(flatten)]
    pub steering: SteeringArgs,
}

/// How the new run is made and watched.
#[derive(ClapArgs)]
pub(crate) struct SteeringArgs {
    /// The new run's id; the same id twice is the same run
    #[arg(long, value_name = "RUN")]
    pub id: Option<String>,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// No progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
    /// Tell what models say while they say it, as events `agent.output`
    #[arg(long)]
    pub stream: bool,
    #[command(flatten)]
    pub permissions: PermissionArgs,
    #[command(flatten)]
    pub testing: TestingArgs,
}

#[derive(ClapArgs)]
pub(crate) struct TrustArgs {
    /// Give a run of a definition that is registered with a server the rights of this terminal: all tools, all addresses
    #[arg(long)]
    pub trusted: bool,
}

impl TrustArgs {
    /// As it is written on a command line, with what else was permitted.
    pub(crate) fn to_flags(&self, permissions: &PermissionArgs) -> String {
        format!("{}{}", if self.trusted { " --trusted" } else { "" }, permissions.to_flags())
    }
}

#[derive(ClapArgs)]
pub(crate) struct RunRequestArgs {
    /// The run's id, its beginning, or `last`
    pub run: String,
    /// A name for this request: the same twice counts once
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub request: RunRequestArgs,
    /// Why, for whoever looks at the run later
    #[arg(long, default_value = "cancelled by hand")]
    pub reason: String,
}

#[derive(ClapArgs)]
pub(crate) struct SignalArgs {
    /// The run's id, its beginning, or `last`
    pub run: String,
    /// What the run waits for
    pub name: String,
    /// What it is to get: JSON, or `@FILE`
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
    /// A name for this request: the same twice counts once
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct ApprovalsArgs {
    /// Only of this run: its id, its beginning, or `last`
    pub run: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct ApproveArgs {
    /// The run's id, its beginning, or `last`
    pub run: String,
    /// What is answered, by its name or path as `windlass approvals` shows it; needed if the run asks for several things
    pub name: Option<String>,
    /// The answer: JSON, or `@FILE`
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
    /// One property of the answer; may be given more than once
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[derive(ClapArgs)]
pub(crate) struct CleanArgs {
    /// How long ago they must have ended: `30d`, `12h`, or as ISO 8601 (`P30D`)
    #[arg(long, value_name = "AGE")]
    pub older_than: String,
    /// Only say what would go
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(ClapArgs)]
pub(crate) struct MockArgs {
    /// The script, JSON or YAML: routes with their replies, and rules for a model
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where to listen on 127.0.0.1; 0 takes any port that is free
    #[arg(long, default_value_t = 8090)]
    pub port: u16,
    /// Say nothing of the requests
    #[arg(long, short)]
    pub quiet: bool,
    /// A file that gets a line of JSON for every request to the model, before it is answered
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub(crate) struct ToolsArgs {
    /// One tool; without it, all of them
    pub name: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct ReplayArgs {
    /// The run's id, its beginning, or `last`
    pub run: String,
    /// Stop after this many ticks
    #[arg(long, value_name = "TICK")]
    pub to: Option<u64>,
}

#[derive(ClapArgs)]
pub(crate) struct GraphArgs {
    /// The definition, or `-` for standard input
    #[arg(value_name = "FILE", conflicts_with = "run_to_end")]
    pub file: Option<PathBuf>,
    /// Which dialect it is written in [default: found from its content]
    #[arg(long, conflicts_with = "run_to_end", value_parser = dialects::dialect_values())]
    pub dialect: Option<String>,
    /// Draw what has happened in a run instead: its id, its beginning, or `last`
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
