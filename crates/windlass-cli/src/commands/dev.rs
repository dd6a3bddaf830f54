//! `windlass dev`

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use windlass_server::ServerOptions;

use crate::agent_options::AgentRunOptions;
use crate::args::{self, GlobalArgs, TestingArgs};
use crate::catalog_compiler::CatalogCompiler;
use crate::config::CliSettings;
use crate::dev::{DefinitionFolder, DefinitionRoots, FileWatcher};
use crate::failure::{CliExit, CliFailure};
use crate::host::{self, Interrupts};
use crate::out::{self, Paint};
use crate::service::{self, PreparedService, ServerCommand, Service, ServiceOptions, StoreLocation};
use crate::stores;

pub(crate) fn dev(global: &GlobalArgs, args: &args::DevArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings { agent_options: AgentRunOptions::from_dev_args(args)?, ..CliSettings::load(global)? };
    let of_project = settings.dev_mocks.clone().filter(|_| !args.no_mocks);
    let mocking = args::MockingArgs { static_file: args.mocking.static_file.clone().or(of_project) };
    let settings = crate::mocks::apply(settings, &mocking, false, Paint::stderr(global.no_color))?;
    settings.mocks.iter().for_each(|mocks| out::note(&mocks.describe()));
    let settings = Arc::new(settings);
    let command = ServerCommand {
        arguments: args.to_arguments(global),
        folder: std::env::current_dir().ok(),
        has_own_store: false,
        is_mocked: settings.mocks.is_some(),
    };
    crate::agents::check_model(&settings)?;
    let directory = stores::directory(global);
    let roots = DefinitionRoots::new(&args.paths, Some(directory.clone()), &settings.process_limits)?;
    let roots = roots.with_mock_file(settings.mocks.as_ref().map(|mocks| mocks.file_path()).as_deref());
    if let Some(note) = roots.truncation_note() {
        out::note(&note);
    }
    let options = FolderService {
        settings,
        roots,
        directory: (!args.ephemeral).then_some(directory),
        port: args.port,
        auth: args.auth,
        drain: Duration::from_secs(args.drain),
        open: args.open,
        testing: &args.testing,
        command,
    };
    serve_folder(global, options, async |service, folder| print_startup(global, service, folder))
}

/// A server for the definitions of a folder.
pub(crate) struct FolderService<'a> {
    pub settings: Arc<CliSettings>,
    pub roots: DefinitionRoots,
    /// The store; `None` keeps runs in memory.
    pub directory: Option<PathBuf>,
    pub port: Option<u16>,
    /// Requests need a token, as with `serve`.
    pub auth: bool,
    pub drain: Duration,
    pub open: bool,
    pub testing: &'a TestingArgs,
    /// The command that starts this server again.
    pub command: ServerCommand,
}

/// Serves the definitions of a folder while they are edited, until an interrupt. `started` is called once, when the
/// definitions are registered.
pub(crate) fn serve_folder(
    global: &GlobalArgs,
    folder_service: FolderService<'_>,
    started: impl AsyncFnOnce(&Service, &DefinitionFolder) -> Result<(), CliFailure>,
) -> Result<CliExit, CliFailure> {
    let FolderService { settings, roots, directory, port, auth, drain, open, testing, command } = folder_service;
    let usual = ServerOptions::default();
    let options = ServerOptions {
        bind: SocketAddr::new(usual.bind.ip(), port.unwrap_or(usual.bind.port())),
        no_auth: !auth,
        drain,
        dev: true,
        limits: settings.server.limits.clone(),
        retention: Some(settings.retention.stated_policy()),
        ..usual
    };
    service::run_on_threads(async |front| {
        let mut interrupts = Interrupts::listen()?;
        let plan = ServiceOptions {
            settings: &settings,
            location: directory.map_or(StoreLocation::Memory, StoreLocation::Directory),
            options,
            sqlite: host::sqlite_options(testing),
            commit_hook: None,
            command,
        };
        // Watched before the first scan: a change in between causes another scan.
        let watcher = FileWatcher::new(&roots)?;
        let gate = Arc::new(crate::secrets::sealer(&settings).lenient());
        let tools = crate::tools::trusted_tools(&settings)?;
        let base = PreparedService::open(plan, &tools, &crate::secrets::edge(&settings)?, gate)?;
        let service = base.serve(Arc::new(CatalogCompiler::new(settings.clone(), Vec::new())), &front).await?;
        let folder =
            DefinitionFolder::new(roots, settings.clone(), service.app.clone(), Paint::stderr(global.no_color));
        let folder = rescan(folder).await?;
        if open {
            open_in_browser(&service.web_ui_url(true));
        }
        let is_stopped = tokio::select! {
            started = started(&service, &folder) => {
                started?;
                false
            }
            () = interrupts.next() => true,
        };
        if !is_stopped {
            watch_until_stopped(folder, watcher, &mut interrupts).await?;
        }
        service.stop(&mut interrupts).await
    })
}

fn print_startup(global: &GlobalArgs, service: &Service, folder: &DefinitionFolder) -> Result<(), CliFailure> {
    let (registered, broken) = folder.counts();
    if registered == 0 && broken == 0 {
        let none = "there is no definition yet: a file that is put here is registered immediately";
        tracing::info!(event = "empty", "{none}");
    }
    service.print_startup(global, !global.json && std::io::stdout().is_terminal())
}

/// Rescans the folder on every change, until an interrupt.
async fn watch_until_stopped(
    mut folder: DefinitionFolder,
    mut watcher: FileWatcher,
    interrupts: &mut Interrupts,
) -> Result<(), CliFailure> {
    loop {
        tokio::select! {
            () = watcher.next() => folder = rescan(folder).await?,
            () = interrupts.next() => return Ok(()),
        }
    }
}

/// Rescans on a blocking thread: compiling may take a while.
async fn rescan(mut folder: DefinitionFolder) -> Result<DefinitionFolder, CliFailure> {
    let looking = tokio::task::spawn_blocking(move || {
        folder.rescan();
        folder
    });
    looking.await.map_err(|error| CliFailure::new(CliExit::Failed, format!("could not scan the files: {error}")))
}

/// Opens the web UI with the system's URL opener. Without one, the user still sees the address on the screen.
fn open_in_browser(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened =
        Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match opened {
        Ok(mut child) => {
            // The child must be waited for, or it stays a zombie.
            std::thread::spawn(move || child.wait());
        }
        Err(error) => tracing::info!(event = "web_ui", "could not open the web UI with {program}: {error}"),
    }
}
