use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use windlass_runtime::ToolCall;
use windlass_server::{DefinitionCatalog, DefinitionCompiler, DefinitionDraft, RegisteredVersion};
use windlass_syntax::Severity;
use windlass_value::{BlobHash, parse_json};

use super::*;
use crate::config::CliSettings;

/// A catalog of names, dialects and texts.
#[derive(Default)]
struct FakeCatalog(BTreeMap<&'static str, (&'static str, &'static str)>);

impl FakeCatalog {
    fn new(entries: &[(&'static str, &'static str, &'static str)]) -> FakeCatalog {
        FakeCatalog(entries.iter().map(|(name, dialect, text)| (*name, (*dialect, *text))).collect())
    }
}

impl DefinitionCatalog for FakeCatalog {
    fn newest(&self, name: &str) -> Option<RegisteredVersion> {
        let (name, (dialect, source)) = self.0.get_key_value(name)?;
        let plan = BlobHash([name.len() as u8; 32]);
        Some(RegisteredVersion {
            name: (*name).into(),
            version: 1,
            dialect: (*dialect).into(),
            plan,
            source: (*source).into(),
        })
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().map(|name| (*name).to_owned()).collect()
    }
}

const CHILD: &str = r#"{"actions": {"a": {"type": "Compose", "inputs": 1}}}"#;
const PLAYBOOK: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: own, path: own}\n";
const AGENT: &str =
    "name: inner\nagents: {a: {description: d, prompt: x}}\nsteps: [{id: s, agent: a, instructions: y}]\n";

fn calls(name: &str) -> String {
    format!(
        r#"{{"actions": {{"c": {{"type": "Workflow", "inputs": {{"host": {{"workflow": {{"id": "{name}"}}}}}}}}}}}}"#
    )
}

fn sample_catalog() -> FakeCatalog {
    let back: &'static str = Box::leak(calls("own").into_boxed_str());
    let further: &'static str = Box::leak(calls("back").into_boxed_str());
    FakeCatalog::new(&[
        ("child", "loom", CHILD),
        ("team/daily", "loom", CHILD),
        ("back", "loom", back),
        ("further", "loom", further),
        ("flows/inner", "zenflow", AGENT),
    ])
}

fn settings(toml: &str) -> CliSettings {
    CliSettings::from_text(Path::new("/nowhere/windlass.toml"), toml).expect("settings")
}

/// Returns the plan's pins and warnings, or every problem with its line.
fn compile(name: &str, text: &str, toml: &str) -> Result<(Vec<String>, Vec<String>), Vec<String>> {
    let settings = Arc::new(settings(toml));
    let remote = server_tools(&settings).expect("tools").remote;
    let name = Some(name.to_owned()).filter(|name| !name.is_empty());
    let draft = DefinitionDraft { name, dialect: None, text: text.to_owned() };
    let format_report = |report: &windlass_syntax::DiagnosticReport| {
        format!(
            "{}:{}:{} {} ({})",
            report.code,
            report.line,
            report.column,
            report.message,
            report.hint.as_deref().unwrap_or_default()
        )
    };
    match CatalogCompiler::new(settings, remote).compile(&draft, &sample_catalog()) {
        Ok(compiled) => {
            assert!(compiled.warnings.iter().all(|report| report.severity == Severity::Warning));
            let pins = compiled.plan.pins.iter().map(|(name, hash)| format!("{name}={}", hash.0[0])).collect();
            Ok((pins, compiled.warnings.iter().map(format_report).collect()))
        }
        Err(reports) => Err(reports.iter().map(format_report).collect()),
    }
}

#[test]
fn a_definition_is_registered_under_the_requested_name() {
    let itself = format!("{PLAYBOOK}workflow: [{{step: start, tool: {{kind: playbook, path: own}}}}]\n");
    let named = CHILD.replacen('{', "{\"name\": \"own\", ", 1);
    for (name, text, problem) in [
        ("", CHILD, "WND-1520"),
        ("", named.as_str(), ""),
        ("other", CHILD, ""),
        ("other", named.as_str(), ""),
        ("own", itself.as_str(), "WND-1030"),
        ("other", itself.as_str(), "WND-1521"),
        // A change of the dialect is a warning, not an error.
        ("child", "apiVersion: noetl.io/v2\nkind: Playbook\nworkflow: [{step: start}]\n", "WND-1523"),
    ] {
        let findings = match compile(name, text, "") {
            Ok((_, warnings)) => warnings.join("\n"),
            Err(problems) => problems.join("\n"),
        };
        assert!(
            findings.contains(problem) && (findings.is_empty() || !problem.is_empty()),
            "{name} {text}: {findings}"
        );
    }
}

#[test]
fn calls_are_pinned_to_what_is_registered() {
    let playbook =
        |path: &str| format!("{PLAYBOOK}workflow: [{{step: start, tool: {{kind: playbook, path: {path}}}}}]\n");
    for (text, pins) in [
        (calls("child"), vec!["child=5"]),
        (calls("team/daily"), vec!["daily=10"]),
        (calls("own"), vec![]),
        (playbook("child"), vec!["child=5"]),
        (playbook("team/daily"), vec!["team/daily=10"]),
        (playbook("own"), vec![]),
    ] {
        let (found, _) = compile("own", &text, "").unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        assert_eq!(found, pins, "{text}");
    }
    for (text, problem, hint) in [
        (calls("chid"), "no registered definition `chid`", "did you mean `child`"),
        (calls("zzzzzzzz"), "no registered definition `zzzzzzzz`", "register it first"),
        (calls("../etc/passwd"), "no registered definition", ""),
        (calls("back"), "`back` calls `own` again", "by its own name"),
        (calls("further"), "`further` calls `own` again", "by its own name"),
        (playbook("unknown"), "no registered definition `unknown`", "register"),
        ("{".to_owned(), "", ""),
        ("hello".to_owned(), "not a definition in any known dialect", "loom"),
    ] {
        let problems = compile("own", &text, "").expect_err(&text).join("\n");
        assert!(
            problems.contains(problem) && problems.contains(hint) && !problems.contains(":0:"),
            "{text}: {problems}"
        );
    }
}

#[test]
fn workflows_include_registered_ones_and_read_no_file() {
    let includes = |path: &str| format!("name: own\nsteps: [{{id: i, include: {path}}}]\n");
    for (name, path) in [("flows/outer", "inner.yaml"), ("flows/outer", "./inner"), ("outer", "flows/inner.yaml")] {
        let made = compile(name, &includes(path), MODEL);
        assert!(made.is_ok(), "{name} {path}: {made:?}");
    }
    let agent = |more: &str| {
        format!("name: own\nagents: {{a: {{description: d, prompt: x}}}}\nsteps: [{{id: s, agent: a, {more}}}]\n")
    };
    for (name, text, problem) in [
        ("outer", includes("inner.yaml"), "no workflow of that name is registered"),
        ("outer", includes("child.json"), "no workflow of that name is registered"),
        ("flows/outer", includes("../../etc/passwd"), "leads out"),
        ("flows/inner", includes("inner.yaml"), "inner"),
        ("outer", includes("/etc/hostname"), "absolute"),
        ("outer", agent("instructions: '@../../etc/passwd'"), "leads out"),
        ("outer", agent("instructions: '@/etc/hostname'"), "absolute"),
        ("outer", agent("instructions: '@notes.md'"), "no workflow of that name"),
        ("outer", agent("instructions: y, contextFiles: [notes.md]"), "set `workdir` under [server]"),
    ] {
        let problems = compile(name, &text, MODEL).expect_err(&text).join("\n");
        assert!(problems.contains(problem), "{text}: {problems}");
    }
    let script = "name: own\nagents: {a: {description: d, prompt: x, model: 'scripted:/etc/passwd'}}\nsteps: [{id: s, agent: a, instructions: y}]\n";
    let problems = compile("outer", script, MODEL).expect_err("a script").join("\n");
    assert!(problems.contains("cannot use a script"), "{problems}");
}

/// A model service that no test calls.
const MODEL: &str = "[model]\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n";

#[test]
fn context_files_are_those_of_the_work_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("notes.md"), "x").expect("a file");
    std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link.md")).expect("a link");
    let toml = format!("{MODEL}[server]\nworkdir = {:?}\n", folder.path());
    let takes = |path: &str| {
        format!(
            "name: own\nagents: {{a: {{description: d, prompt: x}}}}\nsteps: [{{id: s, agent: a, instructions: y, contextFiles: [{path}]}}]\n"
        )
    };
    let made = compile("outer", &takes("notes.md"), &toml);
    assert!(made.is_ok(), "{made:?}");
    for (path, problem) in [("other.md", "does not exist"), ("link.md", "leads out"), ("../x", "leads out")] {
        let problems = compile("outer", &takes(path), &toml).expect_err(path).join("\n");
        assert!(problems.contains(problem), "{path}: {problems}");
    }
}

#[test]
fn a_server_runs_only_safe_and_enabled_tools() {
    let off = |toml: &str| server_tools(&settings(toml)).expect("tools");
    let usual = off("");
    let tools = usual.tools;
    let names: Vec<&str> = tools.names().collect();
    assert_eq!(names, ["agent_model", "http", "http_call", "model", "noop", "postgres"]);
    assert_eq!(usual.remote, ["agent_files", "agent_tool", "python", "shell", "sqlite"]);
    let more = off("[server]\ntools = [\"shell\", \"agent_tool\"]\n[activities.pay]\nurl = \"http://10.0.0.1/\"\n");
    assert_eq!(more.remote, ["agent_files", "python", "sqlite"]);
    assert!(more.tools.get("shell").is_some() && more.tools.get("pay").is_some());
    let text = format!("{PLAYBOOK}workflow: [{{step: start, tool: {{kind: shell, cmds: [ls]}}}}]\n");
    let (_, warnings) = compile("own", &text, "").expect("a playbook");
    assert!(warnings[0].starts_with("WND-1524:") && warnings[0].contains("windlass worker"), "{warnings:?}");
    let agent = "name: own\nagents: {a: {description: d, prompt: x, model: ollama/llama3}}\nsteps: [{id: s, agent: a, instructions: y}]\n";
    let (_, warnings) = compile("own", agent, "").expect("a workflow");
    assert!(warnings[0].contains("if the model calls one") && !warnings[0].contains("the step waits"), "{warnings:?}");
    let (_, warnings) = compile("own", &text, "[server]\ntools = [\"shell\"]\n").expect("a playbook");
    assert_eq!(warnings, Vec::<String>::new());
}

#[tokio::test]
async fn definitions_reach_what_the_settings_open_and_nothing_else() {
    let service = windlass_testing::test_service::TestService::start().expect("a service");
    let port = service.addr().port();
    let call = |tool: &'static str, toml: String, input: String| async move {
        let tools = server_tools(&settings(&toml)).expect("tools").tools;
        let call = ToolCall::for_test(parse_json(&input).expect("JSON"));
        tools.get(tool).expect(tool).call(call).await.error.map(|error| error.code.to_string())
    };
    let own = format!(r#"{{"url": "{}"}}"#, service.url("/text"));
    let blocked = Some("BlockedAddress".to_owned());
    for tool in ["http", "http_call"] {
        assert_eq!(call(tool, String::new(), own.clone()).await, blocked, "{tool}");
        let open = format!("[server.outbound]\nallow = [\"127.0.0.1:{port}\"]\n");
        assert_eq!(call(tool, open, own.clone()).await, None, "{tool}");
        let both = format!("[server.outbound]\nallow = [\"127.0.0.1:{port}\"]\ndeny = [\"127.0.0.0/8\"]\n");
        assert_eq!(call(tool, both, own.clone()).await, blocked, "{tool}");
    }
    let activity = format!("[activities.pay]\nurl = \"{}\"\n", service.url("/json"));
    assert_eq!(call("pay", activity.clone(), "{}".to_owned()).await, None);
    assert_eq!(call("http", activity.clone(), own).await, blocked, "only the activity itself");
    let denied = format!("{activity}[server.outbound]\ndeny = [\"127.0.0.1\"]\n");
    assert_eq!(call("pay", denied, "{}".to_owned()).await, blocked);
}
