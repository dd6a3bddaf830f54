//! A server with secrets of all kinds, a worker with separate ones, and a crawl over the whole API.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::forms::{CollectedOutput, percent_encoded, planted};
use crate::services::{EchoService, TOOL_PROGRAM};
use crate::support::TestDir;
use crate::support::server::{TestServer, parse_body};

/// Settings and variables of a server whose services listen at this address.
pub(crate) struct SecretServerConfig {
    pub service: String,
    pub port: u16,
    pub database: u16,
}

impl SecretServerConfig {
    pub(crate) fn new(service: &EchoService) -> SecretServerConfig {
        SecretServerConfig { service: service.url(), port: service.port, database: 1 }
    }

    fn settings(&self, place: &TestDir) -> String {
        let SecretServerConfig { service, port, database } = self;
        let program = place.path("leaks.py").display().to_string();
        let folder = place.path("").display().to_string();
        format!(
            "[server]\ntools = [\"agent_tool\", \"shell\"]\nworkdir = \"work\"\n\
             [server.outbound]\nallow = [\"127.0.0.1:{port}\"]\n[server.agents]\nallow = [\"prog__leak\"]\n\
             [auth]\nvault = {{ token = {{ env = \"CANARY_VAULT\" }}, user = \"ann\" }}\n\
             db = {{ host = \"127.0.0.1\", port = {database}, user = \"ann\", password = {{ env = \"CANARY_PG\" }}, database = \"x\" }}\n\
             [activities.tally]\nworker = true\n[activities.pay]\nurl = \"{service}/json/pay\"\n\
             headers = {{ x-team = {{ env = \"CANARY_ACTIVITY\" }}, authorization = \"Bearer {}\" }}\n\
             [model]\nbase_url = \"{service}/json\"\nmodel = \"m\"\nkey_env = \"CANARY_MODEL\"\n\
             [models.house]\nbase_url = \"{service}/scripted\"\nkey_env = \"CANARY_AGENT\"\n\
             [mcp.web]\nurl = \"{service}/json/mcp\"\nheaders = {{ authorization = {{ env = \"CANARY_MCP\" }} }}\noptional = true\n\
             [mcp.prog]\ncommand = \"python3\"\nargs = [\"{program}\"]\nfolder = \"{folder}\"\nenv = {{ LEAK_KEY = {{ env = \"CANARY_MCP_ENV\" }} }}\n",
            planted(3)
        )
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let address = format!("postgres://ann:{}@127.0.0.1:1/x", percent_encoded(planted(11)));
        vec![
            ("WINDLASS_AUTH_ENV_API", format!(r#"{{"type": "bearer", "token": "{}"}}"#, planted(1))),
            ("WINDLASS_AUTH_FAR_DB", address),
            ("CANARY_VAULT", planted(2).to_owned()),
            ("CANARY_MODEL", planted(4).to_owned()),
            ("CANARY_ACTIVITY", planted(5).to_owned()),
            ("CANARY_MCP", planted(6).to_owned()),
            ("CANARY_HOOK", planted(7).to_owned()),
            ("CANARY_PG", planted(8).to_owned()),
            ("CANARY_AGENT", planted(9).to_owned()),
            ("CANARY_MCP_ENV", planted(10).to_owned()),
            ("WINDLASS_LOG", "trace".to_owned()),
            ("WINDLASS_TRACES", "trace".to_owned()),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}/collector", self.service)),
        ]
    }

    pub(crate) fn start(&self, place: &TestDir) -> TestServer {
        place.write("windlass.toml", self.settings(place));
        place.write("leaks.py", TOOL_PROGRAM);
        std::fs::create_dir_all(place.path("work")).expect("a folder");
        let variables = self.variables();
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        TestServer::start(place, &[], &variables)
    }
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Collects every file of a folder except those that the operator wrote.
pub(crate) fn collect_files(seen: &mut CollectedOutput, place: &TestDir, when: &str) {
    for path in files(&place.path("")) {
        let own = ["windlass.toml", "leaks.py", "token"].iter().any(|name| path.ends_with(name));
        if !own {
            seen.keep(format!("{} {when}", path.display()), std::fs::read(&path).unwrap_or_default());
        }
    }
}

/// Requests every GET route of the server's OpenAPI document, for all resources.
pub(crate) fn crawl_api(server: &TestServer, seen: &mut CollectedOutput) {
    let document = server.get("/api/v1/openapi.json");
    let items = |path: &str| server.get(path)["items"].as_array().cloned().unwrap_or_default();
    let texts = |items: &[Value], name: &str| -> Vec<String> {
        items.iter().map(|item| item[name].as_str().expect("a name").to_owned()).collect()
    };
    let runs = texts(&items("/api/v1/runs?children=true&limit=500"), "run");
    let names = texts(&items("/api/v1/definitions?limit=500"), "name");
    for (route, operations) in document["paths"].as_object().expect("paths") {
        // This stream never ends; the test records it separately from the beginning.
        if operations.get("get").is_none() || route == "/api/v1/runs/changes" {
            continue;
        }
        let parameters: BTreeSet<&str> = route.split(['{', '}']).skip(1).step_by(2).collect();
        let known = ["run", "name", "version", "hash", "trigger", "path", "code"];
        assert!(parameters.iter().all(|name| known.contains(name)), "{route}: the test does not know its parameters");
        let mut paths = match (route.contains("{run}"), route.contains("{name}")) {
            (true, _) => runs.iter().flat_map(|run| paths_of_run(server, route, run)).collect(),
            (_, true) => names.iter().map(|name| route.replace("{name}", name).replace("{version}", "1")).collect(),
            _ => vec![route.clone()],
        };
        for path in &mut paths {
            *path = path.replace("{trigger}", "manual").replace("{path}", "x").replace("{code}", "WND-3003");
        }
        let mut good = 0;
        for path in &paths {
            let (status, answer) = server.request("GET", path, None);
            good += usize::from(status == 200);
            seen.keep(format!("GET {path}"), answer);
        }
        // A webhook route has no successful response to GET.
        assert!(good > 0 || route.starts_with("/hooks/"), "{route}: none of {paths:?} has an answer");
    }
    for path in ["/", "/api/v1/runs?status=failed", "/api/v1/approvals", "/nowhere"] {
        seen.keep(format!("GET {path}"), server.request("GET", path, None).1);
    }
}

fn paths_of_run(server: &TestServer, route: &str, run: &str) -> Vec<String> {
    let path = route.replace("{run}", run);
    match route.rsplit('/').next() {
        Some("iterations" | "strip") => {
            let loops = server.get(&format!("/api/v1/runs/{run}/loops"));
            let loops = loops["items"].as_array().cloned().unwrap_or_default();
            let named = loops.iter().filter_map(|item| item["loop"].as_str());
            named.map(|name| format!("{path}?loop={}", percent_encoded(name))).collect()
        }
        Some("events") => vec![format!("{path}?follow=false&limit=5000"), format!("{path}?limit=5000")],
        Some("journal") => vec![format!("{path}?limit=500")],
        Some("{hash}") => {
            let (_, events) =
                server.request("GET", &format!("/api/v1/runs/{run}/events?follow=false&limit=5000"), None);
            blob_keys(&parse_body(&events)).into_iter().map(|hash| path.replace("{hash}", &hash)).collect()
        }
        _ => vec![path],
    }
}

/// Returns the keys of referenced large values.
fn blob_keys(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(map) => {
            let own = map.get("ref").and_then(|reference| reference["key"].as_str()).map(str::to_owned);
            own.into_iter().chain(map.values().flat_map(blob_keys)).collect()
        }
        Value::Array(items) => items.iter().flat_map(blob_keys).collect(),
        _ => BTreeSet::new(),
    }
}

/// Requests events in the other representations.
pub(crate) fn crawl_streams(server: &TestServer, seen: &mut CollectedOutput, runs: &[String]) {
    let bearer = format!("Bearer {}", server.token);
    for run in runs {
        for accept in ["text/event-stream", "application/x-ndjson"] {
            let path = format!("/api/v1/runs/{run}/events?follow=false");
            let headers = [("Authorization", bearer.as_str()), ("Accept", accept)];
            let (status, answer) = server.request_with_headers("GET", &path, &headers, b"");
            assert_eq!(status, 200, "{path}");
            seen.keep(format!("{accept} {path}"), answer);
        }
    }
}

/// A Loom definition with these parameters and actions, started by a request.
pub(crate) fn loom(parameters: &Value, actions: &Value) -> String {
    let triggers = json!({ "manual": { "type": "Request", "kind": "Http" } });
    json!({ "definition": { "parameters": parameters, "triggers": triggers, "actions": actions } }).to_string()
}

/// A secret reference to a credential of the settings.
pub(crate) fn vault() -> Value {
    json!({ "$secret": "vault", "field": "token" })
}
