//! `windlass dev`

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use windlass_server::ServerOptions;

use crate::agent_options::AgentRunOptions;
use crate::args::{self, GlobalArgs};
use crate::catalog_compiler::CatalogCompiler;
use crate::config::CliSettings;
use crate::dev::{DefinitionFolder, DefinitionRoots, FileWatcher};
use crate::failure::{CliExit, CliFailure};
use crate::host::{self, Interrupts};
use crate::out::{self, Paint};
use crate::service::{self, PreparedService, Service, ServiceOptions, StoreLocation};
use crate::stores;

pub(crate) fn dev(global: &GlobalArgs, args: &args::DevArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings { agent_options: AgentRunOptions::from_dev_args(args)?, ..CliSettings::load(global)? };
    let settings = crate::mocks::apply(settings, &args.mocking, false, Paint::stderr(global.no_color))?;
    settings.mocks.iter().for_each(|mocks| out::note(&mocks.describe()));
    let settings = Arc::new(settings);
    crate::agents::check_model(&settings)?;
    let directory = stores::directory(global);
    let roots = DefinitionRoots::new(&args.paths, Some(directory.clone()), &settings.process_limits)?;
    if let Some(note) = roots.truncation_note() {
        out::note(&note);
    }
    let usual = ServerOptions::default();
    let options = ServerOptions {
        bind: SocketAddr::new(usual.bind.ip(), args.port.unwrap_or(usual.bind.port())),
        drain: Duration::from_secs(args.drain),
        dev: true,
        limits: settings.server.limits.clone(),
        ..usual
    };
    service::run_on_threads(async |front| {
        let mut interrupts = Interrupts::listen()?;
        let plan = ServiceOptions {
            settings: &settings,
            location: if args.ephemeral { StoreLocation::Memory } else { StoreLocation::Directory(directory) },
            options,
            sqlite: host::sqlite_options(&args.testing),
            commit_hook: None,
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
        print_startup(global, &service, &folder)?;
        if args.open {
            open_in_browser(&service.web_ui_url(true));
        }
        watch_until_stopped(folder, watcher, &mut interrupts).await?;
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
