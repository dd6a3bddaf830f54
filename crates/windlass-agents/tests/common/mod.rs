//! A work folder of its own, and calls as an agent makes them.

#![allow(dead_code, clippy::unwrap_used, reason = "no file of tests uses all of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_agents::{
    AgentToolCaller, Answer, BashOptions, DefaultRule, Permission, PermissionPolicy, Protected, Registry,
    RegistryBuilder,
};
use windlass_core::TaskOutcome;
use windlass_runtime::{Tool, ToolCall};
use windlass_tools::{HttpOptions, HttpTool};
use windlass_value::{Map, Value, parse_json};

pub(crate) struct Scene {
    root: PathBuf,
    pub registry: Arc<Registry>,
    permission: Arc<dyn Permission>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// All built-in tools.
pub(crate) fn usual() -> RegistryBuilder {
    let env = [("PATH", std::env::var("PATH").unwrap_or_default()), ("MY_API_KEY", "hush".to_owned())];
    let env = env.map(|(name, value)| (name.to_owned(), value));
    let http = HttpTool::new(HttpOptions::default());
    Registry::builder().file_tools().bash(BashOptions::with_environment(env)).http(http)
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene::with(usual(), PermissionPolicy::new(DefaultRule::Allow))
    }

    /// With paths of the work folder that file tools leave alone.
    pub(crate) fn protecting(protected: impl FnOnce(&Path) -> Protected) -> Scene {
        Scene::made(|work| usual().protect(protected(work)), PermissionPolicy::new(DefaultRule::Allow))
    }

    pub(crate) fn with(registry: RegistryBuilder, permission: impl Permission + 'static) -> Scene {
        Scene::made(|_| registry, permission)
    }

    fn made(registry: impl FnOnce(&Path) -> RegistryBuilder, permission: impl Permission + 'static) -> Scene {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let name = format!("windlass-agents-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(root.join("work")).unwrap();
        let registry = registry(&root.join("work"));
        Scene { root, registry: Arc::new(registry.build().unwrap()), permission: Arc::new(permission) }
    }

    /// A path in the work folder.
    pub(crate) fn work(&self, path: &str) -> PathBuf {
        self.root.join("work").join(path)
    }

    /// A path that is none of the agent's business.
    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn folder(&self) -> String {
        Path::new(&self.root).join("work").display().to_string()
    }

    pub(crate) fn tool(&self) -> AgentToolCaller {
        AgentToolCaller::new(self.registry.clone(), self.permission.clone())
    }

    pub(crate) fn input(&self, tool: &str, arguments: Value) -> Map {
        let mut input = Map::new();
        input.insert("tool", tool);
        input.insert("arguments", arguments);
        input.insert("allow", Value::Null);
        input.insert("deny", Value::list(Vec::new()));
        input.insert("folder", self.folder());
        input
    }

    pub(crate) async fn run(&self, input: Map) -> TaskOutcome {
        self.tool().call(ToolCall::alone(Value::map(input))).await
    }

    /// The answer: nothing that a model does is an error of the step.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        answer(&self.run(self.input(tool, arguments)).await)
    }

    pub(crate) async fn call_json(&self, tool: &str, arguments: &str) -> Answer {
        self.call(tool, parse_json(arguments).unwrap()).await
    }
}

pub(crate) fn answer(outcome: &TaskOutcome) -> Answer {
    assert_eq!(outcome.error, None);
    let content = outcome.output.get("content").and_then(Value::as_str).unwrap().to_owned();
    Answer { content, error: outcome.output.get("error").and_then(Value::as_bool).unwrap() }
}

pub(crate) fn object<const N: usize>(entries: [(&str, &str); N]) -> Value {
    Value::object(entries)
}
