//! The source of runs: a store of this machine, or a server. Commands get their data and send their requests
//! through this module, and print what they get in one way.
//!
//! - `contexts`, `keyring`: named servers and their tokens
//! - `api`: requests to a server; `decode`: its responses as the types that commands print
//! - `server`: operations on the runs of a server; `follow`: watching a run of a server

pub(crate) mod api;
pub(crate) mod contexts;
pub(crate) mod decode;
pub(crate) mod follow;
pub(crate) mod keyring;
pub(crate) mod server;

use std::path::PathBuf;
use std::sync::Arc;

use windlass_store::Store;
use windlass_tools::Secret;

use crate::args::GlobalArgs;
use crate::failure::{CliFailure, codes};
use crate::tools::variable;
use crate::worker::{ServerClient, accepted_certificates, read_token};
use crate::{service, stores};
use api::ServerApi;
use contexts::Contexts;
pub(crate) use server::ServerRuns;

/// The place of the runs that a command is about.
pub(crate) enum Runs {
    Store(Arc<dyn Store>),
    Server(ServerRuns),
}

impl Runs {
    /// Finds the runs: those of the named server, else those of the store, which must exist.
    pub(crate) fn open(global: &GlobalArgs) -> Result<Runs, CliFailure> {
        match named_server(global)? {
            Some(target) => Ok(Runs::Server(target.connect()?)),
            None => Ok(Runs::Store(stores::open(global)?)),
        }
    }
}

/// A server that the command line, the environment or a context names.
pub(crate) struct ServerTarget {
    pub url: String,
    pub token: Option<Secret>,
    pub insecure: bool,
    /// File with the certificate authority of the server.
    pub ca: Option<PathBuf>,
}

impl ServerTarget {
    pub(crate) fn client(&self) -> Result<ServerClient, CliFailure> {
        let certificates = accepted_certificates(self.ca.as_deref())?;
        ServerClient::new(&self.url, self.token.as_ref(), self.insecure, certificates)
    }

    pub(crate) fn connect(&self) -> Result<ServerRuns, CliFailure> {
        let client = self.client()?.with_full_api();
        ServerRuns::new(ServerApi::new(client, &self.url, self.token.is_some()))
    }
}

/// How a server was named.
enum ServerName {
    Url(String),
    Context(String),
}

impl ServerName {
    /// Tells a URL from the name of a context.
    fn parse(server: &str) -> Result<ServerName, CliFailure> {
        // A text with neither a scheme, a dot nor a port is meant as the name of a context.
        let is_name = !server.contains(['/', ':', '.']);
        let is_context = is_name || !server.contains("://") && Contexts::load()?.contexts.contains_key(server);
        Ok(if is_context { ServerName::Context(server.to_owned()) } else { ServerName::Url(server.to_owned()) })
    }

    /// Finds how the server is named that a command uses; `None` if it uses a store. The first that is given counts:
    /// `--server`, `--store`, `WINDLASS_SERVER`, `WINDLASS_STORE`, the current context.
    fn find(global: &GlobalArgs) -> Result<Option<ServerName>, CliFailure> {
        let given = global.server.as_deref().filter(|server| !server.is_empty());
        let from_environment = given.is_some() && variable("WINDLASS_SERVER").as_deref() == given;
        match given {
            Some(server) if !from_environment || !stores::is_store_given(global) => ServerName::parse(server).map(Some),
            None if global.store.is_none() => Ok(Contexts::load()?.current.map(ServerName::Context)),
            _ => Ok(None),
        }
    }
}

/// Returns the server that a command uses, with its token; `None` if it uses a store.
pub(crate) fn named_server(global: &GlobalArgs) -> Result<Option<ServerTarget>, CliFailure> {
    ServerName::find(global)?
        .map(|name| match name {
            ServerName::Url(url) => from_url(global, &url),
            ServerName::Context(name) => from_context(global, &Contexts::load()?, &name),
        })
        .transpose()
}

/// Returns the URL of the server that a command uses, for a request without a token.
pub(crate) fn named_server_url(global: &GlobalArgs) -> Result<Option<String>, CliFailure> {
    ServerName::find(global)?
        .map(|name| match name {
            ServerName::Url(url) => Ok(url),
            ServerName::Context(name) => Ok(Contexts::load()?.get(&name)?.server.clone()),
        })
        .transpose()
}

/// Returns the server for a command that always needs one.
pub(crate) fn required_server(global: &GlobalArgs, command: &str) -> Result<ServerTarget, CliFailure> {
    named_server(global)?.ok_or_else(|| no_server(&format!("`windlass {command}` needs a server")))
}

/// Connects to the named server, or to the one that runs on the store.
pub(crate) fn server_or_local(global: &GlobalArgs, command: &str) -> Result<ServerRuns, CliFailure> {
    if let Some(target) = named_server(global)? {
        return target.connect();
    }
    let (client, address) = local_client(global, command)?;
    ServerRuns::new(ServerApi::new(client, &address, true))
}

/// Returns a client of the server that runs on the store, with its URL.
pub(crate) fn local_client(global: &GlobalArgs, command: &str) -> Result<(ServerClient, String), CliFailure> {
    let directory = stores::directory(global);
    let none = || no_server(&format!("`windlass {command}` needs a server, and none runs on {}", directory.display()));
    let address = service::serving_address(&directory).ok_or_else(none)?;
    Ok((ServerClient::for_store(&address, &directory)?, address))
}

/// Connects to the server that runs on the store, if there is one.
pub(crate) fn local_server(global: &GlobalArgs) -> Result<Option<ServerRuns>, CliFailure> {
    let directory = stores::directory(global);
    let Some(address) = service::serving_address(&directory) else { return Ok(None) };
    let client = ServerClient::for_store(&address, &directory)?;
    ServerRuns::new(ServerApi::new(client, &address, true)).map(Some)
}

fn no_server(message: &str) -> CliFailure {
    CliFailure::usage(message)
        .code(codes::NO_SERVER)
        .hint("start `windlass serve` or `windlass dev` here, or name one: --server URL, WINDLASS_SERVER, a context")
}

/// Rejects a server for a command that reads the files of a store.
pub(crate) fn require_store(global: &GlobalArgs, command: &str) -> Result<(), CliFailure> {
    let Some(target) = named_server(global)? else { return Ok(()) };
    let message = format!("`windlass {command}` works on a store of this machine, not on the server {}", target.url);
    Err(CliFailure::usage(message)
        .code(codes::NEEDS_STORE)
        .hint("run it on the machine of the server, or name a store with --store"))
}

fn from_url(global: &GlobalArgs, server: &str) -> Result<ServerTarget, CliFailure> {
    let token = match (&global.token_file, variable("WINDLASS_TOKEN")) {
        (None, None) => local_token(global, server),
        (file, _) => Some(read_token(file.as_deref())?),
    };
    Ok(ServerTarget { url: server.to_owned(), token, insecure: global.insecure, ca: global.ca.clone() })
}

/// The server of this store may also be named by its URL: then its local token is used as well.
fn local_token(global: &GlobalArgs, server: &str) -> Option<Secret> {
    let directory = stores::directory(global);
    let address = service::serving_address(&directory)?;
    let file = directory.join(windlass_server::auth::LOCAL_TOKEN_FILE);
    (address == server.trim_end_matches('/')).then(|| read_token(Some(&file)).ok()).flatten()
}

fn from_context(global: &GlobalArgs, contexts: &Contexts, name: &str) -> Result<ServerTarget, CliFailure> {
    let context = contexts.get(name)?;
    let token = match (&global.token_file, &context.token) {
        (Some(file), _) => Some(read_token(Some(file))?),
        (None, Some(source)) => Some(source.read(name)?),
        (None, None) => variable("WINDLASS_TOKEN").map(Secret::new),
    };
    let (insecure, ca) = (global.insecure || context.insecure, global.ca.clone().or_else(|| context.ca.clone()));
    Ok(ServerTarget { url: context.server.clone(), token, insecure, ca })
}
