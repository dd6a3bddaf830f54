//! A golden case: a definition in one of the dialects, and its script.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_agents::language::AgentLanguage;
use windlass_core::plan::Plan;
use windlass_core::{Limits, Program};
use windlass_dialect::RegisteredNames;
use windlass_expr::{cel::CelLanguage, jinja::JinjaLanguage, steps::StepsLanguage, wdl};
use windlass_syntax::{Colour, Diagnostics, ParseLimits, ScalarRules, SourceText, parse_yaml, to_value};
use windlass_value::{Language, Value, from_value};

use super::{script::Script, workflows};

const SCRIPT: &str = "=== script\n";

/// The tools that definitions may name. None of them exists: the script provides their results.
const TOOLS: [&str; 7] = ["http", "http_call", "postgres", "python", "shell", "echo", "chat"];

pub(crate) struct Case {
    /// `DIALECT/NAME`.
    pub name: String,
    path: PathBuf,
    dialect: String,
    definition: String,
    pub script: Script,
    limits: Limits,
}

impl Case {
    /// Reads every file below `cases`, in order.
    pub(crate) fn all() -> Vec<Case> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cases");
        let mut cases: Vec<Case> = Vec::new();
        for folder in entries(&root) {
            let files = entries(&folder).into_iter().filter(|file| file.extension().is_some_and(|end| end == "case"));
            cases.extend(files.map(|file| Case::read(&folder, file)));
        }
        cases
    }

    fn read(folder: &Path, path: PathBuf) -> Case {
        let text = fs::read_to_string(&path).expect("a case can be read");
        let (definition, script) = text.split_once(SCRIPT).unwrap_or((&text, ""));
        let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let dialect = stem(folder);
        let name = format!("{dialect}/{}", stem(&path));
        let script = yaml(&name, script);
        let limits = script.get("limits").map(|limits| from_value(limits).expect("limits"));
        Case {
            definition: definition.to_owned(),
            limits: limits.unwrap_or_default(),
            script: Script::new(script),
            name,
            path,
            dialect,
        }
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.path.with_extension("jsonl")
    }

    pub(crate) fn program(&self) -> Program {
        let mut languages = wdl::languages();
        let others: [Arc<dyn Language>; 4] =
            [Arc::new(JinjaLanguage), Arc::new(StepsLanguage), Arc::new(CelLanguage), Arc::new(AgentLanguage)];
        languages.extend(others);
        let languages: Vec<&dyn Language> = languages.iter().map(AsRef::as_ref).collect();
        Program::load(self.plan(), &languages, self.limits.clone()).expect("a plan that loads")
    }

    pub(crate) fn plan(&self) -> Plan {
        let source = SourceText::new("golden", &*self.definition);
        let registered = RegisteredNames { definitions: vec!["child".to_owned()], ..RegisteredNames::default() };
        let (tools, limits) = (TOOLS.map(str::to_owned).to_vec(), self.limits.clone());
        let refused = |found: Diagnostics| panic!("{}:\n{}", self.name, found.render(&source, Colour::Never));
        match &*self.dialect {
            "loom" => {
                let activities = ["echo"].map(|name| windlass_loom::LoomActivity {
                    name: name.to_owned(),
                    target: windlass_loom::ActivityTarget::Tool,
                });
                let activities = activities.to_vec();
                let options = windlass_loom::LoomOptions {
                    limits,
                    tools,
                    registered,
                    activities,
                    ..windlass_loom::LoomOptions::default()
                };
                windlass_loom::compile(&source, &options).map_or_else(refused, |compiled| compiled.plan)
            }
            "noetl" => {
                let options = windlass_noetl::NoetlOptions {
                    limits,
                    tools,
                    registered,
                    ..windlass_noetl::NoetlOptions::default()
                };
                windlass_noetl::compile(&source, &options).map_or_else(refused, |compiled| compiled.plan)
            }
            "zenflow" => {
                let prices = [(
                    "m".to_owned(),
                    windlass_zenflow::ModelPrice { input: 1_000_000, output: 2_000_000, cache_read: 0, cache_write: 0 },
                )];
                let options = windlass_zenflow::ZenflowOptions {
                    limits,
                    tools: ["bash", "read", "write"].map(str::to_owned).to_vec(),
                    prices: prices.into_iter().collect(),
                    work_folder: Some("/work-folder".into()),
                    ..windlass_zenflow::ZenflowOptions::default()
                };
                windlass_zenflow::compile(&source, &options)
                    .map_or_else(|problems| refused(problems.own), |compiled| compiled.plan)
            }
            "rust" => workflows::build(self.definition.trim()).plan().clone(),
            other => panic!("{other} is no dialect"),
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    paths
}

fn yaml(name: &str, text: &str) -> Value {
    let mut found = Diagnostics::new();
    let source = SourceText::new(name, text);
    let tree = parse_yaml(&source, ParseLimits { bytes: 1 << 20, depth: 64 }, ScalarRules::Core, &mut found);
    match tree.filter(|_| !found.has_errors()) {
        Some(tree) => to_value(&tree),
        None if text.trim().is_empty() => Value::Null,
        None => panic!("{name}: {}", found.render(&source, Colour::Never)),
    }
}
