//! The folder of `windlass demo`: definitions, a mock file and settings, with a service that answers for them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use windlass_syntax::SourceText;
use windlass_testing::mock::{MockFile, MockService};
use windlass_value::{Value, to_json};

use crate::failure::CliFailure;

/// A definition of the demo. Its run has the same name.
pub(crate) struct DemoDefinition {
    pub name: &'static str,
    file: &'static str,
    text: &'static str,
    pub about: &'static str,
}

/// The definitions, in the order in which they are started.
pub(crate) const DEFINITIONS: [DemoDefinition; 5] = [
    DemoDefinition {
        name: "polling",
        file: "polling.json",
        text: include_str!("files/polling.json"),
        about: "a polling loop that goes on for five minutes",
    },
    DemoDefinition {
        name: "deploy",
        file: "deploy.json",
        text: include_str!("files/deploy.json"),
        about: "waits for an approval",
    },
    DemoDefinition {
        name: "climb",
        file: "climb.json",
        text: include_str!("files/climb.json"),
        about: "a loop that reached its limit of 5 iterations",
    },
    DemoDefinition {
        name: "review",
        file: "review.yaml",
        text: include_str!("files/review.yaml"),
        about: "an agent and its judge: accepted in the third iteration",
    },
    DemoDefinition {
        name: "orders",
        file: "orders.json",
        text: include_str!("files/orders.json"),
        about: "a foreach of which 7 of 1,000 iterations failed",
    },
];

const MOCKS: &str = include_str!("files/mocks.yaml");
const MOCKS_FILE: &str = "mocks.yaml";
const SETTINGS_FILE: &str = "windlass.toml";

/// Stands for the port of the service in the files.
const PORT_PLACEHOLDER: &str = "MOCK_PORT";

/// Marks a folder as that of a demo, and has the port of its service, which the definitions name.
const MARKER_FILE: &str = ".demo-port";

/// The folder of a demo, with its service.
pub(crate) struct DemoFolder {
    pub path: PathBuf,
    pub is_new: bool,
    /// Answers as long as the demo runs.
    pub service: MockService,
}

impl DemoFolder {
    /// Creates the folder, or opens that of an earlier demo as it is: its runs continue.
    pub(crate) fn open(path: &Path) -> Result<DemoFolder, CliFailure> {
        let unusable = |error: std::io::Error| CliFailure::usage(format!("could not use {}: {error}", path.display()));
        let known = std::fs::read_to_string(path.join(MARKER_FILE)).ok();
        let port = known.as_deref().and_then(|text| text.trim().parse::<u16>().ok());
        if port.is_none() && path.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(CliFailure::usage(format!("{} is not empty and not the folder of a demo", path.display()))
                .hint("name another folder: windlass demo FOLDER"));
        }
        std::fs::create_dir_all(path).map_err(unusable)?;
        // The engine, other processes and the web UI name files by their whole paths.
        let path = path.canonicalize().map_err(unusable)?;
        let is_new = port.is_none();
        let port = port.map_or_else(free_port, Ok).map_err(unusable)?;
        if is_new {
            write_files(&path, port).map_err(unusable)?;
        }
        let service = serve(&path, port)?;
        Ok(DemoFolder { path, is_new, service })
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path.join(".windlass")
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn write_files(path: &Path, port: u16) -> std::io::Result<()> {
    let port = port.to_string();
    for DemoDefinition { file, text, .. } in &DEFINITIONS {
        std::fs::write(path.join(file), text.replace(PORT_PLACEHOLDER, &port))?;
    }
    let mocks = path.join(MOCKS_FILE);
    std::fs::write(&mocks, MOCKS)?;
    // A text in JSON is one in TOML.
    let model = to_json(&Value::from(format!("scripted:{}", mocks.display())));
    let settings =
        format!("# Agents get their replies from the mock file: no model is called.\n[model]\nmodel = {model}\n");
    std::fs::write(path.join(SETTINGS_FILE), settings)?;
    // Written last: a folder without it is incomplete.
    std::fs::write(path.join(MARKER_FILE), port)
}

fn serve(path: &Path, port: u16) -> Result<MockService, CliFailure> {
    let file = path.join(MOCKS_FILE);
    let unreadable = |error: std::io::Error| CliFailure::usage(format!("could not read {}: {error}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(unreadable)?;
    let source = SourceText::new(file.display().to_string(), text);
    let mocks: MockFile = crate::mocks::parse(&source, crate::out::Paint::stderr(true))?;
    MockService::start(mocks, port).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => "the demo of this folder may be running already; name another folder",
            _ => "the definitions of the demo name this port",
        };
        CliFailure::usage(format!("the demo's service cannot listen on port {port}: {error}")).hint(hint)
    })
}
