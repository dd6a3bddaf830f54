//! `windlass serve`

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use windlass_runtime::RetentionPolicy;
use windlass_server::{ServerOptions, TlsFiles};

use windlass_store_sqlite::SqliteOptions;

use crate::args::{self, GlobalArgs};
use crate::catalog_compiler::{CatalogCompiler, ServerTools, server_tools};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure};
use crate::host::{self, Interrupts};
use crate::service::{self, PreparedService, ServerCommand, ServiceOptions, StoreLocation};
use crate::{out, stores};

pub(crate) fn serve(global: &GlobalArgs, args: &args::ServeArgs) -> Result<CliExit, CliFailure> {
    if args.virtual_time {
        return Err(CliFailure::usage("a server does not support virtual time: its clients wait in real time")
            .hint("`windlass run --virtual-time FILE` runs one definition without waiting"));
    }
    let settings = Arc::new(CliSettings::load(global)?);
    let options = options(args, &settings);
    warn_about_mocks(global);
    service::run_on_threads(async |front| {
        // Listens from the beginning: an interrupt during startup must stop the server.
        let interrupts = Interrupts::listen()?;
        let plan = ServiceOptions {
            settings: &settings,
            location: StoreLocation::Directory(stores::directory(global)),
            options,
            sqlite: SqliteOptions {
                reserved_bytes: Some(settings.server.limits.reserved_disk_bytes),
                ..host::sqlite_options(&args.testing)
            },
            commit_hook: host::commit_hook(&args.testing)?,
            command: ServerCommand {
                arguments: args::ServeArgs::to_arguments(global),
                folder: None,
                has_own_store: false,
                is_mocked: false,
            },
        };
        let ServerTools { tools, remote, edge, gate } = server_tools(&settings)?;
        let base = PreparedService::open(plan, &tools, &edge, gate)?;
        log_retention(&settings.retention.server_policy());
        let service = base.serve(Arc::new(CatalogCompiler::new(settings.clone(), remote)), &front).await?;
        tracing::info!(address = service.address, "started");
        service.print_startup(global, !global.json && std::io::stdout().is_terminal())?;
        service.until_stopped(interrupts).await
    })
}

/// Warns that this server calls real services for the runs of a server with mocks.
fn warn_about_mocks(global: &GlobalArgs) {
    if service::last_server_command(&stores::directory(global)).is_some_and(|last| last.is_mocked) {
        let last = crate::hints::server_command(global);
        out::note(&format!(
            "warning: mocks answered the calls of the last server on this store, `{last}`; here its runs call real \
             services and models"
        ));
    }
}

/// Server options: the command line wins over the settings, the settings over the defaults.
fn options(args: &args::ServeArgs, settings: &CliSettings) -> ServerOptions {
    let (usual, server) = (ServerOptions::default(), &settings.server);
    let hosts = server.hosts.iter().chain(&args.host).cloned().collect();
    let drain = args.drain.map(Duration::from_secs).or(server.drain.map(|drain| drain.to_std()));
    let count = |given: Option<u32>, usual: usize| given.map_or(usual, |given| given as usize);
    let given = args.tls_cert.clone().zip(args.tls_key.clone());
    let tls = given.map(|(certificate, key)| TlsFiles { certificate, key }).or_else(|| server.tls.clone());
    let mut bind = args.bind.or(server.bind).unwrap_or(usual.bind);
    bind.set_port(args.port.unwrap_or(bind.port()));
    ServerOptions {
        tls,
        behind_proxy: args.behind_proxy || server.behind_proxy,
        bind,
        no_auth: args.no_auth,
        hosts,
        proxies: server.proxies.clone(),
        max_connections: count(server.max_connections, usual.max_connections),
        max_connections_per_address: count(server.max_connections_per_address, usual.max_connections_per_address),
        drain: drain.unwrap_or(usual.drain),
        rate_per_second: server.rate_per_second.unwrap_or(usual.rate_per_second),
        lease: server.lease.map_or(usual.lease, |lease| lease.to_std()),
        scrub_every: server.scrub_every.map_or(usual.scrub_every, |every| every.to_std()),
        scrub_percent: server.scrub_percent.unwrap_or(usual.scrub_percent),
        limits: server.limits.clone(),
        retention: Some(settings.retention.server_policy()),
        ..usual
    }
}

/// Says which ended runs the server removes.
fn log_retention(policy: &RetentionPolicy) {
    let (max_age, rules) = (policy.others.max_age, policy.rules.len());
    match max_age {
        Some(age) => tracing::info!(max_age = %age, rules, keep_ids = %policy.keep_ids, "ended runs are removed"),
        None if policy.keeps_all() => tracing::info!("ended runs are kept"),
        None => tracing::info!(rules, keep_ids = %policy.keep_ids, "ended runs are removed"),
    }
}
