//! A temporary work folder, and calls as an agent makes them.

#![allow(dead_code, clippy::unwrap_used, reason = "no file of tests uses all of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_agents::{
    AgentToolCaller, BashOptions, DefaultRule, Permission, PermissionPolicy, ProtectedPaths, ToolAnswer, ToolRegistry,
    ToolRegistryBuilder,
};
use windlass_core::TaskOutcome;
use windlass_runtime::{Tool, ToolCall};
use windlass_tools::{HttpOptions, HttpTool};
use windlass_value::{Map, Value, parse_json};

pub(crate) struct Scene {
    root: PathBuf,
    pub registry: Arc<ToolRegistry>,
    permission: Arc<dyn Permission>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Returns a registry with all built-in tools.
pub(crate) fn builtin_tools() -> ToolRegistryBuilder {
    let env = [("PATH", std::env::var("PATH").unwrap_or_default()), ("MY_API_KEY", "hush".to_owned())];
    let env = env.map(|(name, value)| (name.to_owned(), value));
    let http = HttpTool::new(HttpOptions::default());
    ToolRegistry::builder().file_tools().bash(BashOptions::with_environment(env)).http(http)
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene::with(builtin_tools(), PermissionPolicy::new(DefaultRule::Allow))
    }

    /// Creates a scene with protected paths in the work folder.
    pub(crate) fn with_protected(protected: impl FnOnce(&Path) -> ProtectedPaths) -> Scene {
        Scene::build(|work| builtin_tools().protect(protected(work)), PermissionPolicy::new(DefaultRule::Allow))
    }

    pub(crate) fn with(registry: ToolRegistryBuilder, permission: impl Permission + 'static) -> Scene {
        Scene::build(|_| registry, permission)
    }

    fn build(registry: impl FnOnce(&Path) -> ToolRegistryBuilder, permission: impl Permission + 'static) -> Scene {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let name = format!("windlass-agents-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(root.join("work")).unwrap();
        let registry = registry(&root.join("work"));
        Scene { root, registry: Arc::new(registry.build().unwrap()), permission: Arc::new(permission) }
    }

    /// Returns a path in the work folder.
    pub(crate) fn work(&self, path: &str) -> PathBuf {
        self.root.join("work").join(path)
    }

    /// Returns a path outside the work folder.
    pub(crate) fn outside(&self, path: &str) -> PathBuf {
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
        self.tool().call(ToolCall::for_test(Value::map(input))).await
    }

    /// Calls a tool and returns its answer. No call of a model fails the step.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolAnswer {
        answer(&self.run(self.input(tool, arguments)).await)
    }

    pub(crate) async fn call_json(&self, tool: &str, arguments: &str) -> ToolAnswer {
        self.call(tool, parse_json(arguments).unwrap()).await
    }
}

pub(crate) fn answer(outcome: &TaskOutcome) -> ToolAnswer {
    assert_eq!(outcome.error, None);
    let content = outcome.output.get("content").and_then(Value::as_str).unwrap().to_owned();
    ToolAnswer { content, error: outcome.output.get("error").and_then(Value::as_bool).unwrap() }
}

pub(crate) fn object<const N: usize>(entries: [(&str, &str); N]) -> Value {
    Value::object(entries)
}
