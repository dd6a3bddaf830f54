//! One file per command.

mod approvals;
mod backup;
pub(crate) mod check;
mod clean;
mod completions;
mod context;
mod credentials;
mod definitions;
mod delivery;
mod demo;
mod dev;
mod doctor;
mod events;
mod explain;
mod graph;
mod health;
mod init;
mod iterations;
mod limits;
mod list;
mod logs;
mod mock;
mod register;
mod repair;
mod replay;
mod requests;
mod resume;
mod retries;
mod run;
pub(crate) mod schema;
mod serve;
mod start;
mod status;
mod steering;
mod token;
mod tools;
mod tree;
mod worker;

pub(crate) use mock::write_new;
pub(crate) use tree::format_loop_progress;

use crate::args::{CliArgs, CliCommand, WorkflowCommand};
use crate::failure::{CliExit, CliFailure};

pub(crate) fn run(args: CliArgs) -> Result<CliExit, CliFailure> {
    crate::log::install(&args.command)?;
    let global = &args.global;
    match args.command {
        CliCommand::Run(args) => run::run(global, &args),
        CliCommand::Check(args) => check::check(global, &args),
        CliCommand::List(args) => list::list(global, &args),
        CliCommand::Status(args) => status::status(global, &args),
        CliCommand::Iterations(args) => iterations::iterations(global, &args),
        CliCommand::Events(args) => events::events(global, &args),
        CliCommand::Logs(args) => logs::logs(global, &args),
        CliCommand::Resume(args) => resume::resume(global, &args),
        CliCommand::Restart(args) => steering::restart(global, &args),
        CliCommand::Retry(args) => steering::retry(global, &args),
        CliCommand::Pause(args) => requests::pause(global, &args),
        CliCommand::Cancel(args) => requests::cancel(global, &args),
        CliCommand::Signal(args) => requests::signal(global, &args),
        CliCommand::Approvals(args) => approvals::approvals(global, &args),
        CliCommand::Approve(args) => approvals::approve(global, &args),
        CliCommand::Replay(args) => replay::replay(global, &args),
        CliCommand::Graph(args) => graph::graph(global, &args),
        CliCommand::Serve(args) => serve::serve(global, &args),
        CliCommand::Dev(args) => dev::dev(global, &args),
        CliCommand::Init(args) => init::init(global, &args),
        CliCommand::Demo(args) => demo::demo(global, &args),
        CliCommand::Mock(args) => mock::mock(global, &args),
        CliCommand::Token(args) => token::token(global, &args),
        CliCommand::Start(args) => start::start(global, &args),
        CliCommand::Definitions(args) => definitions::definitions(global, &args),
        CliCommand::Credentials(args) => credentials::credentials(global, &args),
        CliCommand::Context(args) => context::context(global, &args),
        CliCommand::Register(args) => register::register(global, &args),
        CliCommand::Worker(args) => worker::worker(global, &args),
        CliCommand::Tools(args) => tools::tools(global, &args),
        CliCommand::Schema(args) => schema::schema(&args),
        CliCommand::Explain(args) => explain::explain(global, &args),
        CliCommand::Limits => limits::limits(global),
        CliCommand::Doctor(args) => doctor::doctor(global, &args),
        CliCommand::Repair(args) => repair::repair(global, &args),
        CliCommand::Health(args) => health::health(global, &args),
        CliCommand::Backup(args) => backup::backup(global, &args),
        CliCommand::Restore(args) => backup::restore(global, &args),
        CliCommand::Clean(args) => clean::clean(global, &args),
        CliCommand::Completions(args) => completions::completions(&args),
        CliCommand::Man(args) => completions::man(&args),
        CliCommand::Workflow(args) => match args.command {
            WorkflowCommand::Status(args) => status::status(global, &args),
        },
    }
}
