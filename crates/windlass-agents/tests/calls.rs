//! Tool calls of agents: executed and denied calls, their events, and the processes they must not leave behind.

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{Scene, answer, builtin_tools, object};
use windlass_agents::{
    CallPattern, DefaultRule, Permission, PermissionPolicy, PermissionPrompt, PermissionRequest, PermissionVerdict,
    ToolCatalogue, ToolRegistry, ToolSpec,
};
use windlass_core::{ErrorInfo, ResumeData, SuspendedOn, Suspension, TaskOutcome, TickKind};
use windlass_runtime::{CancelToken, EventPublisher, Tool, ToolCall, ToolFuture, Tools};
use windlass_value::{Duration, Map, Value, parse_json, to_json};

#[tokio::test]
async fn commands_give_their_output() {
    let scene = Scene::new();
    for (arguments, expected, error) in [
        (r#"{"command": "echo hi"}"#, "hi\n", false),
        (r#"{"command": "true"}"#, "(no output)", false),
        (r#"{"command": "echo out; echo err >&2; echo last"}"#, "out\nerr\nlast\n", false),
        (r#"{"command": "echo no >&2; exit 3"}"#, "no\n[exit code 3]", true),
        (r#"{"command": "printf x; exit 1"}"#, "x\n[exit code 1]", true),
        (r#"{"command": "kill -9 $$"}"#, "[ended by signal 9]", true),
        (r#"{"command": "cat; echo end"}"#, "end\n", false),
        (r#"{"command": "echo \"<$MY_API_KEY>\""}"#, "<>\n", false),
        (
            r#"{"command": "echo begun; sleep 100", "timeout": 0.2}"#,
            "begun\n[killed: it did not end within 0.2 seconds]",
            true,
        ),
    ] {
        let found = scene.call_json("bash", arguments).await;
        assert_eq!((found.content.as_str(), found.error), (expected, error), "{arguments}");
    }
    let working_directory = scene.call_json("bash", r#"{"command": "pwd -P"}"#).await.content;
    assert_eq!(working_directory.trim(), scene.folder());
    let long = scene
        .call_json("bash", r#"{"command": "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo last"}"#)
        .await;
    assert!(long.content.starts_with("first\nx") && long.content.ends_with("xlast\n"));
    assert!(long.content.contains("bytes left out") && long.content.len() < (1 << 20) + 100);
}

/// Counts the processes with the word in their command line.
fn count_processes(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
    // The test process holds the word too, but not in its command line.
    lines.filter(|line| line.contains(word)).count()
}

/// Waits for a condition that soon becomes true, or fails.
async fn wait_until(what: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !what() {
        assert!(began.elapsed().as_secs() < 120, "the condition did not become true within 120 s");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn commands_leave_no_processes_behind() {
    let scene = Scene::new();
    // A number that no other command line contains by chance.
    let word = format!("86{}.860", std::process::id());
    // Timeout: the shell, its child, and its background process are killed.
    let command = format!("sleep {word}1 & (sleep {word}2 &); sleep {word}3");
    let mut arguments = Map::new();
    arguments.insert("command", command.clone());
    arguments.insert("timeout", Value::float(0.5).unwrap());
    let found = scene.call("bash", Value::map(arguments)).await;
    assert!(found.content.contains("killed"), "{found:?}");
    wait_until(|| count_processes(&word) == 0).await;
    // A background process holds the output open: it ends with the shell.
    let found = scene.call("bash", object([("command", &format!("sleep {word}4 & echo done"))])).await;
    assert_eq!(found.content, "done\n");
    wait_until(|| count_processes(&word) == 0).await;
    // The call is cancelled.
    let input = Value::map(scene.input("bash", object([("command", &command)])));
    let calling = tokio::spawn(scene.tool().call(ToolCall::for_test(input)));
    wait_until(|| count_processes(&word) >= 3).await;
    calling.abort();
    wait_until(|| count_processes(&word) == 0).await;
}

#[tokio::test]
async fn a_cancelled_call_ends_its_command() {
    let scene = Scene::new();
    let word = format!("87{}.870", std::process::id());
    let mut call = ToolCall::for_test(Value::map(scene.input("bash", object([("command", &format!("sleep {word}"))]))));
    call.cancelled = CancelToken::uncancelled();
    let cancelled = call.cancelled.clone();
    let calling = tokio::spawn(scene.tool().call(call));
    wait_until(|| count_processes(&word) >= 1).await;
    cancelled.cancel();
    assert_eq!(&*calling.await.unwrap().error.unwrap().kind, "cancelled");
    wait_until(|| count_processes(&word) == 0).await;
}

#[tokio::test]
async fn calls_and_denials_are_published_without_secrets() {
    let policy = PermissionPolicy::new(DefaultRule::Allow).deny(patterns(&["http"]));
    let scene = Scene::with(builtin_tools(), policy);
    let secret = "sk-abcdefghijklmnop";
    let mut published = Vec::new();
    for (tool, arguments) in [
        ("bash", object([("command", &format!("echo {secret} > /dev/null"))])),
        ("http", object([("url", &format!("https://example.com/?api_key={secret}"))])),
        ("write", object([("path", "x"), ("content", &"long ".repeat(5000))])),
    ] {
        let (publish, mut events) = EventPublisher::channel();
        let input = Value::map(scene.input(tool, arguments));
        scene.tool().call(ToolCall { publish, ..ToolCall::for_test(input) }).await;
        while let Ok(TickKind::PublishEvent { kind, data, .. }) = events.try_recv() {
            published.push(format!("{kind} {}", to_json(&data)));
        }
    }
    assert_eq!(published[0], r#"agent.tool {"tool":"bash","arguments":{"command":"echo *** > /dev/null"}}"#);
    let reason = "permission denied: tool `http` is denied by --deny";
    assert_eq!(published[1], format!(r#"agent.permission {{"tool":"http","decision":"denied","reason":"{reason}"}}"#));
    assert!(published[2].len() < 3000 && published.len() == 3, "{published:?}");
}

#[tokio::test]
async fn wrong_calls_are_texts_for_the_model() {
    let scene = Scene::new();
    for (tool, arguments, expected) in [
        ("raed", "{}", "there is no tool `raed`; did you mean `read`?"),
        ("zzzzzz", "{}", "available tools: bash, glob, grep, http, read, write"),
        ("a\u{1b}[2J\nb", "{}", "there is no tool `a\\u{1b}[2J\\nb`"),
        ("no__tool", "{}", "there is no tool `no__tool`"),
        ("read", "{}", "the arguments do not match the schema of `read`: \"path\" is a required property"),
        ("read", r#"{"path": 3}"#, "/path: 3 is not of type \"string\""),
        ("read", r#"{"path": "x", "paths": 1}"#, "'paths' was unexpected"),
        ("bash", r#"{"command": "x", "timeout": 301}"#, "/timeout: 301 is greater than the maximum of 300"),
        ("read", "null", "\"path\" is a required property"),
        ("read", "[1]", "not an object"),
        ("read", "\"path\"", "not an object"),
        ("http", r#"{"url": "http://127.0.0.1:1/"}"#, "not public"),
        ("http", r#"{"url": "http://169.254.169.254/latest"}"#, "not public"),
        ("http", r#"{"url": "ftp://x"}"#, "http or https"),
        ("http", r#"{"url": "https://example.com@127.0.0.1/"}"#, "a login goes into a header"),
        ("http", r#"{"url": "https://example.com\\.x/"}"#, "backslash"),
    ] {
        let found = scene.call_json(tool, arguments).await;
        assert!(found.error && found.content.contains(expected), "{tool} {arguments}: {found:?}");
    }
    let mut input = scene.input("http", object([("url", "ftp://x")]));
    input.insert("folder", Value::Null);
    assert!(answer(&scene.run(input).await).content.contains("http or https"), "what needs no folder has none");
    let mut input = scene.input("write", object([("path", "x"), ("content", "y")]));
    input.insert("allow", parse_json(r#"["read", "glob"]"#).unwrap());
    let found = answer(&scene.run(input.clone()).await);
    assert_eq!(
        (found.content.as_str(), found.error),
        ("this agent may not call `write`; available tools: glob, read", true)
    );
    input.insert("allow", Value::list(Vec::new()));
    input.insert("deny", parse_json(r#"["write"]"#).unwrap());
    assert!(answer(&scene.run(input.clone()).await).content.contains("may not call"));
    input.insert("deny", Value::Null);
    assert!(!answer(&scene.run(input.clone()).await).error, "an empty list allows all");
    input.insert("folder", "relative");
    assert!(answer(&scene.run(input.clone()).await).content.contains("not an absolute path"));
    input.insert("folder", Value::Null);
    assert!(answer(&scene.run(input.clone()).await).content.contains("there is no work folder"));
    input.insert("folder", 3i64);
    assert_eq!(&*scene.run(input).await.error.unwrap().kind, "input", "the task itself is wrong");
}

/// Answers as scripted, and records the questions.
#[derive(Default)]
struct ScriptedPrompt {
    answers: Mutex<Vec<&'static str>>,
    questions: Mutex<Vec<String>>,
    in_flight: AtomicUsize,
}

impl PermissionPrompt for ScriptedPrompt {
    fn ask(&self, question: &str) -> std::io::Result<Option<String>> {
        assert_eq!(self.in_flight.fetch_add(1, Ordering::SeqCst), 0, "a question at a time");
        self.questions.lock().unwrap().push(question.to_owned());
        let answer = self.answers.lock().unwrap().pop();
        std::thread::yield_now();
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        Ok(answer.map(str::to_owned))
    }
}

fn patterns(texts: &[&str]) -> Vec<CallPattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[tokio::test]
async fn policies_allow_and_deny() {
    // The default rule, the allow list, the deny list; the tool and its arguments; the reason of a denial.
    for (otherwise, allow, deny, tool, arguments, expected) in [
        (DefaultRule::Allow, vec![], vec![], "bash", "{}", Ok(())),
        (DefaultRule::Allow, vec![], vec!["bash"], "bash", "{}", Err("--deny")),
        (DefaultRule::Allow, vec!["bash"], vec!["bash(rm *)"], "bash", r#"{"command": "rm x"}"#, Err("--deny")),
        (DefaultRule::Sandbox, vec![], vec![], "read", "{}", Ok(())),
        (DefaultRule::Sandbox, vec![], vec![], "write", "{}", Ok(())),
        (DefaultRule::Sandbox, vec![], vec![], "glob", "{}", Ok(())),
        (DefaultRule::Sandbox, vec![], vec![], "grep", "{}", Ok(())),
        (DefaultRule::Sandbox, vec![], vec![], "bash", "{}", Err("--allow bash")),
        (DefaultRule::Sandbox, vec![], vec![], "http", "{}", Err("sandbox")),
        (DefaultRule::Sandbox, vec![], vec![], "github__issue", "{}", Err("sandbox")),
        (DefaultRule::Sandbox, vec!["bash(git *)"], vec![], "bash", r#"{"command": "git log"}"#, Ok(())),
        (DefaultRule::Sandbox, vec!["bash(git *)"], vec![], "bash", r#"{"command": "git log; ls"}"#, Err("sandbox")),
        (DefaultRule::Deny, vec![], vec![], "read", "{}", Err("--allow read, --sandbox or --yolo")),
        (DefaultRule::Deny, vec![], vec![], "bash", "{}", Err("pass --allow bash or --yolo")),
        (DefaultRule::Deny, vec!["read"], vec![], "read", "{}", Ok(())),
        (DefaultRule::Deny, vec!["*"], vec!["write"], "write", "{}", Err("--deny")),
    ] {
        let policy = PermissionPolicy::new(otherwise).allow(patterns(&allow)).deny(patterns(&deny));
        let arguments = parse_json(arguments).unwrap();
        let decision =
            policy.decide(&PermissionRequest { tool, step: "s", arguments: &arguments, resolved_paths: &[] }).await;
        match expected {
            Ok(()) => assert_eq!(decision, PermissionVerdict::Allowed, "{otherwise:?} {tool}"),
            Err(why) => {
                assert!(
                    matches!(&decision, PermissionVerdict::Denied(reason) if reason.contains(why)),
                    "{tool}: {decision:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_user_is_asked() {
    let scripted = Arc::new(ScriptedPrompt::default());
    // Answers are taken from the end.
    *scripted.answers.lock().unwrap() = vec!["a", "", "n", "yes", "y"];
    let policy = PermissionPolicy::new(DefaultRule::Ask).prompt(scripted.clone());
    let arguments = object([("command", "curl -H 'Authorization: Bearer abcdefghijk'\n\u{1b}[2K x")]);
    let request = PermissionRequest { tool: "bash", step: "build[2].fix", arguments: &arguments, resolved_paths: &[] };
    let mut decisions = Vec::new();
    for _ in 0..6 {
        decisions.push(match policy.decide(&request).await {
            PermissionVerdict::Allowed => "rule",
            PermissionVerdict::Granted { always: true } => "always",
            PermissionVerdict::Granted { always: false } => "once",
            PermissionVerdict::Denied(_) => "no",
        });
    }
    assert_eq!(decisions, ["once", "once", "no", "no", "always", "rule"]);
    let other = PermissionRequest { tool: "http", ..request };
    assert!(
        matches!(policy.decide(&other).await, PermissionVerdict::Denied(reason) if reason.contains("the prompt was not answered"))
    );
    let question = scripted.questions.lock().unwrap()[0].clone();
    let expected = "build[2].fix wants to call bash: curl -H 'Authorization: Bearer ***'\\n\\u{1b}[2K x\n";
    assert!(question.starts_with(expected), "{question}");
}

#[tokio::test]
async fn one_prompt_at_a_time() {
    let scripted = Arc::new(ScriptedPrompt::default());
    *scripted.answers.lock().unwrap() = vec!["y"; 20];
    let policy = Arc::new(PermissionPolicy::new(DefaultRule::Ask).prompt(scripted.clone()));
    let requests = (0..20).map(|_| {
        let policy = policy.clone();
        tokio::spawn(async move {
            policy
                .decide(&PermissionRequest { tool: "bash", step: "s", arguments: &Value::Null, resolved_paths: &[] })
                .await
                == PermissionVerdict::Granted { always: false }
        })
    });
    for one in requests.collect::<Vec<_>>() {
        assert!(one.await.unwrap());
    }
}

#[tokio::test]
async fn a_denied_call_does_not_fail_the_step() {
    let scene = Scene::with(builtin_tools(), PermissionPolicy::new(DefaultRule::Deny));
    let found = scene.call("bash", object([("command", "touch made")])).await;
    assert!(found.error && found.content.contains("--yolo"), "{found:?}");
    assert!(!scene.work("made").exists());
}

#[tokio::test]
async fn an_interrupted_call_needs_permission_again() {
    let scene = Scene::with(builtin_tools(), PermissionPolicy::new(DefaultRule::Deny));
    let input = scene.input("bash", object([("command", "touch made")]));
    // The call had published an event before the crash, and has not suspended.
    let resumed = Some(Arc::new(ResumeData { answers: Vec::new(), published_events: 1 }));
    let call = ToolCall { resumed, ..ToolCall::for_test(Value::map(input)) };
    assert!(answer(&scene.tool().call(call).await).error);
    assert!(!scene.work("made").exists());
}

/// An engine tool that suspends first.
struct WaitingTool;

impl Tool for WaitingTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        Box::pin(async move {
            let mut outcome = TaskOutcome::success(Value::from(5i64));
            if call.resumed.is_none() {
                let awaited = SuspendedOn::Time(Duration::from_secs(1));
                outcome.suspension = Some(Box::new(Suspension { waits_for: awaited, published_events: 0 }));
            }
            outcome
        })
    }
}

#[tokio::test]
async fn rust_functions_are_tools() {
    let schema =
        || parse_json(r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#).unwrap();
    let spec = |name: &str| ToolSpec { name: name.to_owned(), description: "d".to_owned(), parameters: schema() };
    let failing = Tools::new()
        .with_fn("x", |_| async { TaskOutcome::failure(ErrorInfo::new("c", "k", "it is broken").hint("mend it")) });
    let registry = ToolRegistry::builder()
        .function("double", "Doubles.", schema(), |call| async move {
            let n = call.arguments().get("n").and_then(Value::as_int).unwrap_or(0);
            if n < 0 { Err("too small".to_owned()) } else { Ok(Value::from(2 * n)) }
        })
        .function("free", "Needs no approval.", parse_json("{}").unwrap(), |_| async { Ok(Value::from("text")) })
        .trusted()
        .engine_tool(spec("waits"), Arc::new(WaitingTool))
        .engine_tool(spec("fails"), failing.get("x").unwrap().clone());
    let scene =
        Scene::with(registry, PermissionPolicy::new(DefaultRule::Deny).allow(patterns(&["double", "waits", "fails"])));
    for (tool, arguments, expected, error) in [
        ("double", r#"{"n": 4}"#, "8", false),
        ("double", r#"{"n": -4}"#, "too small", true),
        (
            "double",
            r#"{"n": "4"}"#,
            "the arguments do not match the schema of `double`: /n: \"4\" is not of type \"integer\"",
            true,
        ),
        ("free", "{}", "text", false),
        ("fails", r#"{"n": 1}"#, "it is broken (mend it)", true),
    ] {
        let found = scene.call_json(tool, arguments).await;
        assert_eq!((found.content.as_str(), found.error), (expected, error), "{tool} {arguments}");
    }
    let waiting = scene.run(scene.input("waits", parse_json(r#"{"n": 1}"#).unwrap())).await;
    assert!(waiting.suspension.is_some() && waiting.error.is_none(), "the engine comes back when the time is over");
    let names: Vec<String> = scene.registry.specs().await.unwrap().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["double", "fails", "free", "waits"]);
}

#[test]
fn invalid_registries_are_rejected() {
    let add = |name: &str, schema: &str| {
        ToolRegistry::builder().function(name, "d", parse_json(schema).unwrap(), |_| async { Ok(Value::Null) })
    };
    for (built, why) in [
        (add("a b", "{}").build(), "cannot name a tool"),
        (add("a", r#"{"type": "nothing"}"#).build(), "not a valid JSON Schema"),
        (add("read", "{}").file_tools().build(), "two tools `read`"),
    ] {
        let error = built.err().unwrap();
        assert!(error.message.contains(why), "{}", error.message);
    }
}

#[tokio::test]
async fn known_secrets_are_redacted_from_answers_and_events() {
    use windlass_agents::BashOptions;
    use windlass_tools::Secret;
    let path = std::env::var("PATH").unwrap_or_default();
    let env = [("PATH", path.as_str()), ("HOUSE_KEY", "plain-word-9"), ("STORE", "redis://ann:open-sesame@host/0")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let registry = ToolRegistry::builder()
        .file_tools()
        .bash(BashOptions::with_environment(env))
        .secrets([Secret::new("model-key-1")])
        .function("tells", "d", parse_json("{}").unwrap(), |_| async { Err("it is model-key-1".to_owned()) });
    let scene = Scene::with(registry, PermissionPolicy::new(DefaultRule::Allow));
    std::fs::write(scene.work("env"), "K=plain-word-9\nopen-sesame").unwrap();
    for (tool, arguments, expected) in [
        ("bash", r#"{"command": "echo plain-word-9 $HOUSE_KEY; cat env"}"#, "***\nK=***\n***"),
        ("bash", r#"{"command": "echo model-key-1 | base64"}"#, "***"),
        ("read", r#"{"path": "env"}"#, "K=***\n***"),
        ("grep", r#"{"pattern": "open"}"#, "env:2:***"),
        ("tells", "{}", "it is ***"),
    ] {
        let (publish, mut events) = EventPublisher::channel();
        let input = Value::map(scene.input(tool, parse_json(arguments).unwrap()));
        let found = answer(&scene.tool().call(ToolCall { publish, ..ToolCall::for_test(input) }).await);
        assert!(found.content.starts_with(expected), "{tool}: {found:?}");
        let Ok(TickKind::PublishEvent { data, .. }) = events.try_recv() else { panic!("an event") };
        assert!(!["plain-word", "model-key"].iter().any(|part| to_json(&data).contains(part)), "{data:?}");
    }
}

#[tokio::test]
async fn path_rules_apply_to_resolved_paths() {
    let denied = PermissionPolicy::new(DefaultRule::Sandbox).deny(patterns(&["read(secret*)", "write(keep/*)"]));
    let allowed = PermissionPolicy::new(DefaultRule::Deny).allow(patterns(&["read(src/*)", "write(src/*)"]));
    let (denied, allowed) = (Scene::with(builtin_tools(), denied), Scene::with(builtin_tools(), allowed));
    for scene in [&denied, &allowed] {
        for folder in ["sub", "src", "keep"] {
            std::fs::create_dir_all(scene.work(folder)).unwrap();
        }
        for file in ["secret.txt", "src/a", "keep/a"] {
            std::fs::write(scene.work(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("../secret.txt", scene.work("src/link")).unwrap();
        std::os::unix::fs::symlink("src", scene.work("other")).unwrap();
        std::os::unix::fs::symlink("keep", scene.work("gone")).unwrap();
    }
    // The path; whether the deny list permits reading and writing it; whether the allow list does.
    for (path, by_denied, by_allowed) in [
        ("secret.txt", (false, true), (false, false)),
        ("./secret.txt", (false, true), (false, false)),
        ("sub/../secret.txt", (false, true), (false, false)),
        ("sub//.././Secret.txt", (false, true), (false, false)),
        ("{folder}/secret.txt", (false, true), (false, false)),
        ("src/link", (false, true), (false, false)),
        ("gone/new/x", (true, false), (false, false)),
        ("src/a", (true, true), (true, true)),
        ("./sub/../src/a", (true, true), (true, true)),
        ("other/a", (true, true), (true, true)),
        ("{folder}/src/new", (true, true), (true, true)),
        ("src/../keep/a", (true, false), (false, false)),
    ] {
        for (scene, expected) in [(&denied, by_denied), (&allowed, by_allowed)] {
            let path = path.replace("{folder}", &scene.folder());
            let refused = |found: &str| found.contains("--deny") || found.contains("needs approval");
            let read = scene.call("read", object([("path", &path)])).await.content;
            let written = scene.call("write", object([("path", &path), ("content", "x")])).await.content;
            assert_eq!((!refused(&read), !refused(&written)), expected, "{path}: {read} {written}");
        }
    }
}

#[test]
fn a_permission_prompt_shows_both_ends_of_long_arguments() {
    let shown = |arguments: &Value| {
        PermissionRequest { tool: "bash", step: "s", arguments, resolved_paths: &[] }.display_arguments()
    };
    let long = format!("echo {}; rm -rf x", "word ".repeat(500));
    assert_eq!(shown(&object([("command", &long)])), long, "a command is shown whole");
    let longer = format!("echo {}\n; rm -rf x", "word ".repeat(50_000));
    let found = shown(&object([("command", &longer)]));
    assert!(found.starts_with("echo word") && found.ends_with("\\n; rm -rf x") && found.len() < 5000, "{found}");
    assert!(found.contains("characters, "), "{found}");
    let pushed = format!("ls{}; rm -rf x", " ".repeat(100_000));
    assert_eq!(shown(&object([("command", &pushed)])), "ls [… 100000 blanks …] ; rm -rf x");
    let written = shown(&object([("path", "a"), ("content", &format!("{}\nend", "x\n".repeat(9000)))]));
    assert!(written.contains(r#""path":"a""#) && written.contains("end\"") && written.len() < 1500, "{written}");
}
