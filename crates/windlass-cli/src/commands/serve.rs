//! `windlass serve`

use std::sync::Arc;
use std::time::Duration;

use windlass_server::ServerOptions;
use windlass_value::Value;

use crate::args::{self, Global};
use crate::config::Settings;
use crate::failure::{Exit, Failure};
use crate::host::{self, Interrupts};
use crate::service::{self, Base, Log, Place, PlainCompiler, Plan};
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
        let plan = Plan {
            settings: &settings,
            place: Place::Kept(stores::directory(global)),
            options,
            sqlite: host::sqlite_options(&args.testing),
            commit_hook: host::commit_hook(&args.testing)?,
            log,
        };
        let base = Base::open(plan, |_| crate::tools::tools(&settings))?;
        let service = base.serve(Arc::new(PlainCompiler(settings.clone()))).await?;
        log.say("started", &[("address", Value::from(service.address.as_str()))]);
        service.tell(global)?;
        service.until_stopped(interrupts).await
    })
}

fn options(args: &args::Serve, _settings: &Settings) -> ServerOptions {
    let usual = ServerOptions::default();
    ServerOptions {
        bind: args.bind.unwrap_or(usual.bind),
        open: args.no_auth,
        hosts: args.host.clone(),
        drain: args.drain.map_or(usual.drain, Duration::from_secs),
        ..usual
    }
}
