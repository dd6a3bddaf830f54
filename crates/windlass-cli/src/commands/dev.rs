//! `windlass dev`

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use windlass_server::ServerOptions;

use crate::args::{self, Global};
use crate::config::Settings;
use crate::dev::{Folder, Roots, Watcher};
use crate::failure::{Exit, Failure};
use crate::flow::Flow;
use crate::host::{self, Interrupts};
use crate::out::{self, Paint};
use crate::served::CatalogCompiler;
use crate::service::{self, Base, Place, Plan, Service};
use crate::stores;

pub(crate) fn dev(global: &Global, args: &args::Dev) -> Result<Exit, Failure> {
    let settings = Settings { flow: Flow::of_dev(args)?, ..Settings::load(global)? };
    let settings = Arc::new(settings);
    crate::agents::check_model(&settings)?;
    let directory = stores::directory(global);
    let roots = Roots::new(&args.paths, Some(directory.clone()), &settings.process_limits)?;
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
    service::on_threads(async |front| {
        let mut interrupts = Interrupts::listen()?;
        let plan = Plan {
            settings: &settings,
            place: if args.ephemeral { Place::Memory } else { Place::Directory(directory) },
            options,
            sqlite: host::sqlite_options(&args.testing),
            commit_hook: None,
        };
        // Watched before they are looked at: what changes in between is looked at again.
        let watcher = Watcher::new(&roots)?;
        let gate = Arc::new(crate::secrets::sealer(&settings).lenient());
        let tools = crate::tools::trusted(&settings)?;
        let base = Base::open(plan, &tools, &crate::secrets::edge(&settings)?, gate)?;
        let service = base.serve(Arc::new(CatalogCompiler::new(settings.clone(), Vec::new())), &front).await?;
        let folder = Folder::new(roots, settings.clone(), service.app.clone(), Paint::stderr(global.no_color));
        let folder = looked(folder).await?;
        tell(global, &service, &folder)?;
        if args.open {
            open_in_browser(&service.web_ui_url(true));
        }
        watched(folder, watcher, &mut interrupts).await?;
        service.stop(&mut interrupts).await
    })
}

fn tell(global: &Global, service: &Service, folder: &Folder) -> Result<(), Failure> {
    let (registered, broken) = folder.counts();
    if registered == 0 && broken == 0 {
        let none = "there is no definition yet: a file that is put here is registered as soon as it is there";
        tracing::info!(event = "empty", "{none}");
    }
    service.tell(global, !global.json && std::io::stdout().is_terminal())
}

/// Until somebody wants it to stop.
async fn watched(mut folder: Folder, mut watcher: Watcher, interrupts: &mut Interrupts) -> Result<(), Failure> {
    loop {
        tokio::select! {
            () = watcher.next() => folder = looked(folder).await?,
            () = interrupts.next() => return Ok(()),
        }
    }
}

/// Compiling may take a while: on a thread that may.
async fn looked(mut folder: Folder) -> Result<Folder, Failure> {
    let looking = tokio::task::spawn_blocking(move || {
        folder.look();
        folder
    });
    looking.await.map_err(|error| Failure::new(Exit::Otherwise, format!("could not look at the files: {error}")))
}

/// With what the system opens addresses with. Whoever has none has the address on the screen.
fn open_in_browser(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened =
        Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match opened {
        Ok(mut child) => {
            // Somebody has to see it end.
            std::thread::spawn(move || child.wait());
        }
        Err(error) => tracing::info!(event = "page", "could not open the page with {program}: {error}"),
    }
}
