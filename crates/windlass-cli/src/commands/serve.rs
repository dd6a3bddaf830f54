//! `windlass serve`

use std::sync::Arc;
use std::time::Duration;

use windlass_server::ServerOptions;
use windlass_value::Value;

use crate::args::{self, Global};
use crate::config::Settings;
use crate::failure::{Exit, Failure};
use crate::host::{self, Interrupts};
use crate::served::{CatalogCompiler, server_tools};
use crate::service::{self, Base, Log, Place, Plan};
use crate::stores;

pub fn serve(global: &Global, args: &args::Serve) -> Result<Exit, Failure> {
    if args.virtual_time {
        return Err(Failure::usage("a server's time is that of the clock: others wait for it")
            .hint("`windlass run --virtual-time FILE` runs one definition without waiting"));
    }
    let settings = Arc::new(Settings::load(global)?);
    let options = options(args, &settings);
    service::runtime()?.block_on(async {
        // Listened for from the beginning: whoever stops a server while it starts means it.
        let interrupts = Interrupts::listen()?;
        let log = Log::new(args.log);
        let tools = server_tools(&settings)?;
        let plan = Plan {
            settings: &settings,
            place: Place::Kept(stores::directory(global)),
            options,
            sqlite: host::sqlite_options(&args.testing),
            commit_hook: host::commit_hook(&args.testing)?,
            gate: tools.gate.clone(),
            log,
        };
        let base = Base::open(plan, |dispatcher| Ok(tools.routed(dispatcher)))?;
        let compiler = CatalogCompiler::new(settings.clone(), tools.remote.clone());
        let service = base.serve(Arc::new(compiler)).await?;
        log.say("started", &[("address", Value::from(service.address.as_str()))]);
        service.tell(global)?;
        service.until_stopped(interrupts).await
    })
}

/// What is typed counts more than what the settings say.
fn options(args: &args::Serve, settings: &Settings) -> ServerOptions {
    let (usual, server) = (ServerOptions::default(), &settings.server);
    ServerOptions {
        bind: args.bind.or(server.bind).unwrap_or(usual.bind),
        open: args.no_auth,
        hosts: args.host.iter().chain(&server.hosts).cloned().collect(),
        rate_per_second: server.rate.unwrap_or(usual.rate_per_second),
        lease: server.lease.map_or(usual.lease, windlass_value::Duration::to_std),
        drain: args
            .drain
            .map(Duration::from_secs)
            .or(server.drain.map(windlass_value::Duration::to_std))
            .unwrap_or(usual.drain),
        ..usual
    }
}
