//! One file a command.

mod approvals;
mod check;
mod clean;
mod delivery;
mod dev;
mod doctor;
mod events;
mod graph;
mod limits;
mod list;
mod steering;
mod mock;
mod register;
mod replay;
mod requests;
mod resume;
mod run;
pub(crate) mod schema;
mod serve;
mod status;
mod token;
mod tools;
mod tree;
mod iterations;
mod worker;

use crate::args::{Args, Command, WorkflowCommand};
use crate::failure::{Exit, Failure};

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    crate::log::install(&args.command)?;
    let global = &args.global;
    match args.command {
        Command::Run(args) => run::run(global, &args),
        Command::Check(args) => check::check(global, &args),
        Command::List(args) => list::list(global, &args),
        Command::Status(args) => status::status(global, &args),
        Command::Iterations(args) => iterations::iterations(global, &args),
        Command::Events(args) => events::events(global, &args),
        Command::Resume(args) => resume::resume(global, &args),
        Command::Restart(args) => steering::restart(global, &args),
        Command::Retry(args) => steering::retry(global, &args),
        Command::Pause(args) => requests::pause(global, &args),
        Command::Cancel(args) => requests::cancel(global, &args),
        Command::Signal(args) => requests::signal(global, &args),
        Command::Approvals(args) => approvals::approvals(global, &args),
        Command::Approve(args) => approvals::approve(global, &args),
        Command::Replay(args) => replay::replay(global, &args),
        Command::Graph(args) => graph::graph(global, &args),
        Command::Serve(args) => serve::serve(global, &args),
        Command::Dev(args) => dev::dev(global, &args),
        Command::Mock(args) => mock::mock(global, &args),
        Command::Token(args) => token::token(global, &args),
        Command::Register(args) => register::register(global, &args),
        Command::Worker(args) => worker::worker(global, &args),
        Command::Tools(args) => tools::tools(global, &args),
        Command::Schema(args) => schema::schema(&args),
        Command::Limits => limits::limits(global),
        Command::Doctor => doctor::doctor(global),
        Command::Clean(args) => clean::clean(global, &args),
        Command::Workflow(args) => match args.command {
            WorkflowCommand::Status(args) => status::status(global, &args),
        },
    }
}
