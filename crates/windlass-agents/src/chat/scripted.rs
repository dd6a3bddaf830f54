//! Models that are a mock file: `scripted:FILE`. The file is served on loopback and called over a real
//! connection.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use windlass_core::ErrorInfo;
use windlass_syntax::{Colour, SourceText};
use windlass_testing::mock::{MockFile, MockOptions, MockService};

use super::ChatOptions;
use super::providers::{ModelProtocol, NO_QUIRKS};
use super::service::{ModelEndpoint, endpoint_url};
use windlass_tools::{HttpOptions, HttpTool, Outbound, Redactor};

/// The variable that names a log file for the requests to scripted models, one line of JSON each.
const LOG_VARIABLE: &str = "WINDLASS_SCRIPT_LOG";
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The files in use, each served once.
pub(super) struct ScriptedModels {
    /// A separate client: scripts are served on this machine even if other models may not be.
    http: HttpTool,
    services: Mutex<BTreeMap<PathBuf, ServedScript>>,
}

struct ServedScript {
    service: MockService,
    /// The time of the file's last change, when it was read.
    modified: Option<SystemTime>,
}

impl ScriptedModels {
    pub(super) fn new(http: &HttpTool) -> ScriptedModels {
        let max_reply_bytes = http.max_reply_bytes();
        let options = HttpOptions { outbound: Outbound::open(), max_reply_bytes, ..HttpOptions::default() };
        ScriptedModels { http: HttpTool::new(options), services: Mutex::default() }
    }

    pub(super) fn choose(&self, file: &str, options: &ChatOptions) -> Result<(ModelEndpoint, &HttpTool), ErrorInfo> {
        let base = self.serve(Path::new(file.trim()), options)?;
        let chosen = ModelEndpoint {
            provider: "scripted".to_owned(),
            protocol: ModelProtocol::OpenAi,
            model: format!("scripted:{file}"),
            url: endpoint_url(&base, ModelProtocol::OpenAi),
            headers: Vec::new(),
            redaction: Redactor::default(),
            stream: true,
            max_tokens: None,
            quirks: NO_QUIRKS,
            key_variable: String::new(),
        };
        Ok((chosen, &self.http))
    }

    fn serve(&self, file: &Path, options: &ChatOptions) -> Result<String, ErrorInfo> {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let modified = std::fs::metadata(file).and_then(|about| about.modified()).ok();
        if let Some(served) = services.get_mut(file) {
            served.reload(file, modified);
            return Ok(served.service.model_url());
        }
        let mocks = read(file)?;
        let log = (options.variables)(LOG_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let service = MockService::with_options(mocks, &MockOptions { port: 0, log }, |_| {});
        let service = service.map_err(|error| {
            problem(file, &format!("cannot be served: {error}"))
                .hint(format!("it listens on 127.0.0.1; {LOG_VARIABLE} names a log"))
        })?;
        let url = service.model_url();
        services.insert(file.to_owned(), ServedScript { service, modified });
        Ok(url)
    }
}

impl ServedScript {
    /// Takes the rules from the file, if it was changed. A file that is not valid at the moment changes nothing.
    fn reload(&mut self, file: &Path, modified: Option<SystemTime>) {
        if modified.is_some() && modified != self.modified {
            self.modified = modified;
            if let Ok(mocks) = read(file) {
                self.service.replace(mocks);
            }
        }
    }
}

/// Checks that the file can be read and is a mock file.
pub(super) fn check(file: &str) -> Result<(), ErrorInfo> {
    read(Path::new(file.trim())).map(|_| ())
}

fn read(file: &Path) -> Result<MockFile, ErrorInfo> {
    let unreadable = |reason: String| {
        problem(file, &format!("cannot be read: {reason}"))
            .hint("`scripted:FILE` names a mock file, from the current folder")
    };
    let size = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
    if size > MAX_FILE_BYTES {
        return Err(unreadable(format!("it has {size} bytes, more than {MAX_FILE_BYTES}")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    let source = SourceText::new(file.display().to_string(), text);
    MockFile::parse(&source).map_err(|problems| {
        let rendered = problems.render(&source, Colour::Never);
        problem(file, &format!("is not valid:\n{}", rendered.trim_end())).hint("docs/mocks.md has the whole format")
    })
}

fn problem(file: &Path, what: &str) -> ErrorInfo {
    ErrorInfo::new("BadMockFile", "input", format!("the mock file {} {what}", file.display()))
}
