//! `windlass worker --server URL`

use std::sync::Arc;
use std::time::Duration;

use windlass_runtime::new_run_id;
use windlass_server::workers::{LeaseRequest, Labels};
use windlass_syntax::did_you_mean;
use windlass_tools::Redactor;

use crate::args::{self, Global};
use crate::config::Settings;
use crate::failure::{Exit, Failure};
use crate::host::{self, Interrupts};
use crate::out;
use crate::tools;
use crate::worker::{Client, RemoteWorker, token};

/// Does jobs for a server until it is stopped.
pub(crate) fn worker(global: &Global, args: &args::Worker) -> Result<Exit, Failure> {
    let settings = Settings::load(global)?;
    let token = token(args.token_file.as_deref())?;
    let limits = settings.process_limits.clone();
    let client = Client::new(&args.server, &token, args.insecure)?.with_max_response_bytes(limits.max_worker_job_bytes);
    let labels = labels(&args.labels)?;
    if args.only_labelled && labels.is_empty() {
        let hint = "give it labels with --label NAME=VALUE";
        return Err(Failure::usage("a worker for labelled jobs alone, without a label, would get none").hint(hint));
    }
    host::runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let tools = tools::tools(&settings)?;
        let known: Vec<String> = tools.names().map(str::to_owned).collect();
        let offered = match args.tools.is_empty() {
            true => known,
            false => {
                args.tools.iter().try_for_each(|name| has(&known, name))?;
                args.tools.clone()
            }
        };
        let name = args.name.clone().unwrap_or_else(machine);
        out::note(&format!("{name}: {} at a time of {}", args.slots, offered.join(", ")));
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
        let worker = Arc::new(RemoteWorker::new(client, tools, poll_request, secrets, limits));
        worker.run(&mut interrupts, Duration::from_secs(args.drain_seconds)).await
    })
}

fn has(known: &[String], name: &String) -> Result<(), Failure> {
    match known.contains(name) {
        true => Ok(()),
        false => {
            let failure = Failure::usage(format!("this program has no tool `{name}`"));
            let near = did_you_mean(name, known.iter().map(String::as_str));
            Err(failure.hint(near.unwrap_or_else(|| "`windlass tools` lists those that it has".to_owned())))
        }
    }
}

pub(crate) fn labels(given: &[String]) -> Result<Labels, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(Failure::usage(format!("--label {text}: it must be NAME=VALUE"))),
    };
    given.iter().map(pair).collect()
}

/// What people call this machine.
fn machine() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.or_else(|| tools::variable("HOSTNAME")).unwrap_or_default();
    match name.trim() {
        "" => "worker".to_owned(),
        name => name.to_owned(),
    }
}
