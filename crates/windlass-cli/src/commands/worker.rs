//! `windlass worker --server URL`

use std::sync::Arc;
use std::time::Duration;

use windlass_runtime::new_run_id;
use windlass_server::workers::{Labels, LeaseRequest};
use windlass_syntax::did_you_mean;
use windlass_tools::Redactor;

use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure};
use crate::host::{self, Interrupts};
use crate::out;
use crate::runs;
use crate::tools;
use crate::worker::{RemoteWorker, read_token};

/// Runs jobs for a server until it is interrupted.
pub(crate) fn worker(global: &GlobalArgs, args: &args::WorkerArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings::load(global)?;
    let target = runs::required_server(global, "worker")?;
    let token = target.token.clone().map_or_else(|| read_token(None), Ok)?;
    let limits = settings.process_limits.clone();
    let client = target.client()?.with_max_response_bytes(limits.max_worker_job_bytes);
    let labels = parse_labels(&args.labels)?;
    if args.only_labelled && labels.is_empty() {
        let hint = "give it labels with --label NAME=VALUE";
        return Err(CliFailure::usage("--only-labelled without a label: this worker would get no jobs").hint(hint));
    }
    host::runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let tools = tools::tools(&settings)?;
        let known: Vec<String> = tools.names().map(str::to_owned).collect();
        let offered = match args.tools.is_empty() {
            true => known,
            false => {
                args.tools.iter().try_for_each(|name| check_tool_exists(&known, name))?;
                args.tools.clone()
            }
        };
        let name = args.name.clone().unwrap_or_else(host_name);
        out::note(&format!("{name}: up to {} concurrent jobs, tools: {}", args.slots, offered.join(", ")));
        let poll_request = LeaseRequest {
            worker: new_run_id(),
            name,
            tools: offered,
            labels,
            only_labelled: args.only_labelled,
            slots: args.slots,
            free: None,
            wait_ms: 0,
        };
        let secrets = Redactor::from_secrets([&token]);
        let known_secrets = settings.vault.known_secrets().clone();
        let worker = Arc::new(RemoteWorker::new(client, (tools, known_secrets), poll_request, secrets, limits));
        worker.run(&mut interrupts, Duration::from_secs(args.drain)).await
    })
}

fn check_tool_exists(known: &[String], name: &String) -> Result<(), CliFailure> {
    match known.contains(name) {
        true => Ok(()),
        false => {
            let failure = CliFailure::usage(format!("this program has no tool `{name}`"));
            let near = did_you_mean(name, known.iter().map(String::as_str));
            Err(failure.hint(near.unwrap_or_else(|| "`windlass tools` lists its tools".to_owned())))
        }
    }
}

pub(crate) fn parse_labels(given: &[String]) -> Result<Labels, CliFailure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(CliFailure::usage(format!("--label {text}: it must be NAME=VALUE"))),
    };
    given.iter().map(pair).collect()
}

/// Returns the host name of this machine.
fn host_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.or_else(|| tools::variable("HOSTNAME")).unwrap_or_default();
    match name.trim() {
        "" => "worker".to_owned(),
        name => name.to_owned(),
    }
}
