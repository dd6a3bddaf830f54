//! The fixture of a playbook: a directory, a separate database, and a scripted service that logs its requests.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use windlass_syntax::SourceText;
use windlass_testing::mock::{MockFile, MockService};
use windlass_testing::test_postgres::PostgresServer;

use crate::support::{CommandOutput, TestDir, command_output};

/// One database server for all tests of this program. It ends with them, however they end.
static SERVER: LazyLock<PostgresServer> =
    LazyLock::new(|| PostgresServer::start().unwrap_or_else(|problem| panic!("{problem}")));

pub(crate) struct PlaybookFixture {
    pub place: TestDir,
    /// Created on first use: most playbooks need none.
    database: OnceLock<Database>,
    service: Option<MockService>,
    served: Arc<Mutex<Vec<String>>>,
    /// Additional credentials by alias.
    pub credentials: Vec<(String, String)>,
}

impl PlaybookFixture {
    pub(crate) fn new() -> PlaybookFixture {
        let (place, database) = (TestDir::new(), OnceLock::new());
        PlaybookFixture { place, database, service: None, served: Arc::default(), credentials: Vec::new() }
    }

    /// Starts a service in place of the previous one, with an empty log.
    pub(crate) fn serve(&mut self, script: &str) {
        self.service = None;
        let served: Arc<Mutex<Vec<String>>> = Arc::default();
        let source = SourceText::new("service.json", script);
        let script = MockFile::parse(&source)
            .unwrap_or_else(|problems| panic!("{}", problems.render(&source, windlass_syntax::Colour::Never)));
        let noted = served.clone();
        let service = MockService::with_observer(script, 0, move |one| {
            let line = format!("{} {}", one.path, one.status);
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        });
        self.service = Some(service.expect("a service"));
        self.served = served;
    }

    /// Returns the requests to the service so far, with the reply status: `/items?page=1 200`.
    pub(crate) fn served(&self) -> Vec<String> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn api_url(&self) -> String {
        self.service.as_ref().map(|service| service.url("")).unwrap_or_default()
    }

    fn database(&self) -> &Database {
        self.database.get_or_init(Database::new)
    }

    /// Gives the playbooks of this directory a database under the alias `postgres`.
    pub(crate) fn with_database(self) -> PlaybookFixture {
        self.database();
        self
    }

    pub(crate) fn windlass(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.place.command(arguments);
        if let Some(database) = self.database.get() {
            command.env("WINDLASS_AUTH_POSTGRES", database.url());
        }
        for (alias, credential) in &self.credentials {
            command.env(format!("WINDLASS_AUTH_{}", alias.to_uppercase()), credential);
        }
        command_output(command.output().expect("the program starts"))
    }

    /// Runs a playbook of this directory against the service, with virtual time.
    pub(crate) fn run(&self, file: &str, more: &[&str]) -> CommandOutput {
        let api_url = format!("api_url={}", self.api_url());
        let mut words = vec!["run", file, "--json", "-q", "--virtual-time"];
        if self.service.is_some() {
            words.extend(["--set", &api_url]);
        }
        words.extend(more);
        self.windlass(&words)
    }

    /// Returns all events of the last run, one object each.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.events_of("last")
    }

    pub(crate) fn events_of(&self, run: &str) -> Vec<Value> {
        let output = self.windlass(&["events", run, "--json"]);
        output.exits(0);
        output.out.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.database().query(sql);
    }

    /// Returns the rows of a query, each as an object.
    pub(crate) fn rows(&self, sql: &str) -> Value {
        let text = self.database().query(&format!("SELECT coalesce(json_agg(t), '[]') FROM ({sql}) t"));
        serde_json::from_str(&text.unwrap_or_default()).expect("JSON from Postgres")
    }
}

/// Returns the paths of all events of one type, in order.
pub(crate) fn event_paths(events: &[Value], kind: &str) -> Vec<String> {
    let paths = events.iter().filter(|event| event["type"] == kind).map(|event| event["path"].as_str());
    paths.map(|path| path.unwrap_or_default().to_owned()).collect()
}

/// A database for one test, and a connection to it.
struct Database {
    name: String,
    runtime: Runtime,
    client: Client,
}

impl Database {
    fn new() -> Database {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        Database::open("postgres").query(&format!("CREATE DATABASE {name}"));
        Database::open(&name)
    }

    fn open(name: &str) -> Database {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url(name), NoTls).await.expect("a connection");
            tokio::spawn(connection);
            client
        });
        Database { name: name.to_owned(), runtime, client }
    }

    fn url(&self) -> String {
        url(&self.name)
    }

    /// Returns the first value of the result, if there is one.
    fn query(&self, sql: &str) -> Option<String> {
        let messages = self.runtime.block_on(self.client.simple_query(sql));
        let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }
}

fn url(database: &str) -> String {
    let url = SERVER.url();
    format!("{}/{database}", url.rsplit_once('/').map_or("", |(server, _)| server))
}
