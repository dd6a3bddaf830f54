//! `windlass demo`

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_runtime::{RunStartOptions, RuntimeError};
use windlass_server::ServerOptions;
use windlass_store::{RunStatus, Store};
use windlass_value::{Map, Value};

use super::dev::{FolderService, serve_folder};
use crate::agent_options::AgentRunOptions;
use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::demo::{DEFINITIONS, DemoFolder};
use crate::dev::DefinitionRoots;
use crate::failure::{CliExit, CliFailure};
use crate::service::{ServerCommand, Service};
use crate::stores::{self, shell_quote};
use crate::{hints, out};

/// The folder of a demo without a name, in the current one.
const DEFAULT_FOLDER: &str = "windlass-demo";

/// The time after which the summary is printed even if runs are still on their way to it.
const MAX_WAIT: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Serves five definitions with their own mock service and scripted model, and runs them.
pub(crate) fn demo(global: &GlobalArgs, args: &args::DemoArgs) -> Result<CliExit, CliFailure> {
    reject_other_stores(global)?;
    let folder = DemoFolder::open(args.folder.as_deref().unwrap_or(DEFAULT_FOLDER.as_ref()))?;
    let global = GlobalArgs { store: Some(folder.store()), config: None, ..global.clone() };
    let settings =
        CliSettings { agent_options: AgentRunOptions::for_demo(&folder.path), ..CliSettings::load(&global)? };
    let settings = Arc::new(settings);
    let roots =
        DefinitionRoots::new(std::slice::from_ref(&folder.path), Some(folder.store()), &settings.process_limits)?;
    let state = if folder.is_new { "created" } else { "continued; its runs are as they were" };
    out::note(&format!("demo in {} ({state}); no network and no key are used", folder.path.display()));
    let options = FolderService {
        settings,
        roots,
        directory: Some(folder.store()),
        port: args.port.or_else(free_port),
        auth: false,
        drain: Duration::from_secs(2),
        open: args.open,
        testing: &args.testing,
        command: ServerCommand {
            arguments: args.to_arguments(&folder.path),
            folder: None,
            has_own_store: true,
            is_mocked: true,
        },
    };
    let result = serve_folder(&global, options, async |service, _| {
        start_runs(service).await?;
        out::note("the demo's runs are under way …");
        wait_for_runs(&*service.app.store).await;
        print_summary(&global, &folder, args, service)
    });
    let remove = shell_quote(&folder.path.display().to_string());
    let again = format!("{} {}", program_name(), args.to_arguments(&folder.path));
    out::note(&format!("`{again}` continues the demo; `rm -r {remove}` removes it"));
    result
}

/// Returns the port that stands for any free one, if another process uses the default one.
fn free_port() -> Option<u16> {
    let usual = ServerOptions::default().bind;
    TcpListener::bind(usual).is_err_and(|error| error.kind() == ErrorKind::AddrInUse).then(|| {
        out::note(&format!("port {} is in use; the demo takes a free one", usual.port()));
        0
    })
}

/// Rejects options that the demo cannot honour: it has a store and settings of its own.
fn reject_other_stores(global: &GlobalArgs) -> Result<(), CliFailure> {
    let given = [
        ("--store", stores::is_store_given(global)),
        ("--server", hints::given_server(global).is_some()),
        ("--config", global.config.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            let message = format!("the demo does not take {option}: it serves a store of its own, in its folder");
            Err(CliFailure::usage(message).hint("name the folder: windlass demo FOLDER"))
        }
    }
}

/// Starts a run of each definition, named after it. Runs of an earlier start continue.
async fn start_runs(service: &Service) -> Result<(), CliFailure> {
    for definition in &DEFINITIONS {
        let Some(registered) = service.app.definitions.get(definition.name) else { continue };
        let options = RunStartOptions { id: Some(definition.name.to_owned()), ..RunStartOptions::default() };
        let started = service.app.engine.start(registered.current.plan(), Value::map(Map::new()), options).await;
        match started {
            // The definition may have been edited since.
            Ok(_) | Err(RuntimeError::RunExists(_) | RuntimeError::Owned { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until every run has ended, waits for a person, or polls.
async fn wait_for_runs(store: &dyn Store) {
    let is_settled = |name: &str| {
        let status = store.run(name).ok().flatten().map(|row| row.status);
        let is_open = |status: RunStatus| matches!(status, RunStatus::Pending | RunStatus::Running);
        name == "polling" || !status.is_some_and(is_open)
    };
    let start = Instant::now();
    while start.elapsed() < MAX_WAIT && !DEFINITIONS.iter().all(|definition| is_settled(definition.name)) {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn print_summary(
    global: &GlobalArgs,
    folder: &DemoFolder,
    args: &args::DemoArgs,
    service: &Service,
) -> Result<(), CliFailure> {
    let commands = next_commands(folder, args);
    if global.json {
        return print_json(folder, &commands, service);
    }
    out::print("")?;
    for definition in &DEFINITIONS {
        let status = service.app.store.run(definition.name)?.map_or("unknown", |row| row.status.as_str());
        out::print(&format!("  {:<9} {status:<10} {}", definition.name, definition.about))?;
    }
    out::print("\nTry these in another terminal:")?;
    for (about, command) in &commands {
        out::print(&format!("\n  {about}\n    {command}"))?;
    }
    out::print(&format!("\nThe web UI: {}", service.web_ui_url(false)))?;
    out::print(&format!(
        "The demo's files and runs are in {}; Ctrl-C stops it, `rm -r {}` removes it.",
        folder.path.display(),
        shell_quote(&folder.path.display().to_string())
    ))
}

fn print_json(folder: &DemoFolder, commands: &[NextCommand], service: &Service) -> Result<(), CliFailure> {
    let commands =
        commands.iter().map(|(about, command)| Value::object([("about", *about), ("command", command.as_str())]));
    let value = Value::object([
        ("folder", Value::from(folder.path.display().to_string())),
        ("url", service.web_ui_url(false).into()),
        ("service", folder.service.url("").into()),
        ("process", Value::Int(i64::from(std::process::id()))),
        ("commands", Value::list(commands.collect())),
    ]);
    out::print(&windlass_value::to_json(&value))
}

/// A command with its purpose.
type NextCommand = (&'static str, String);

/// Returns the commands to try next, each complete: the store, and a program that is not on the PATH, are named.
fn next_commands(folder: &DemoFolder, args: &args::DemoArgs) -> Vec<NextCommand> {
    let program = program_name();
    let store = shell_quote(&folder.store().display().to_string());
    let on_store = |arguments: &str| format!("{program} --store {store} {arguments}");
    vec![
        (
            "Kill it in the middle of its work; the runs resume where they were:",
            format!("kill -9 {}; {program} {}", std::process::id(), args.to_arguments(&folder.path)),
        ),
        ("Look at the seven iterations that failed:", on_store("iterations orders each --failed")),
        ("Retry what failed, and only that, as a new run:", on_store("retry orders --trusted")),
        ("Restart the agent's loop at its second iteration:", on_store("restart review --from 'cycle[1]' --trusted")),
        (
            "Fork the loop at its limit, with another value, so that it reaches its target:",
            on_store("restart climb --from 'climb[3]' --set target=4 --trusted"),
        ),
        ("Approve the deployment that waits:", on_store("approve deploy --set approved=true")),
    ]
}

/// Returns the name by which a shell finds this program.
fn program_name() -> String {
    let own = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found: Option<PathBuf> = std::env::split_paths(&path)
        .map(|folder| folder.join("windlass"))
        .find(|file| file.is_file())
        .and_then(|file| file.canonicalize().ok());
    match own {
        Some(own) if found.as_ref() != Some(&own) => shell_quote(&own.display().to_string()),
        _ => "windlass".to_owned(),
    }
}
