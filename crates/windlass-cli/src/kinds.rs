//! The task kinds of playbooks and the fields of each. The tools that implement them take other fields.

pub(crate) struct TaskKind {
    pub name: &'static str,
    pub what: &'static str,
    /// Name and description; the description also lists other spellings.
    pub fields: &'static [(&'static str, &'static str)],
    pub returns: &'static str,
}

const SQL: &[(&str, &str)] = &[
    (
        "command",
        "a statement, or a list of them; also `query`, `statement`, `commands`, `sql`. Templates become values",
    ),
    ("params", "values of the statement's placeholders, if it has any"),
];

pub(crate) const TASK_KINDS: &[TaskKind] = &[
    TaskKind {
        name: "artifact",
        what: "Resolves a reference.",
        fields: &[("action", "`get`"), ("input", "{result_ref}")],
        returns: "the value",
    },
    TaskKind {
        name: "duckdb",
        what: "Runs SQL over DuckDB, in programs that are built with it.",
        fields: &[("database", "the file; default: in memory; also `db_path`, `db`"), SQL[0], SQL[1]],
        returns: "{rows, row_count (rowcount), columns, command_0, …}",
    },
    TaskKind {
        name: "http",
        what: "Calls a service.",
        fields: &[
            ("url", "the address; also `endpoint`, `uri`"),
            ("method", "default GET"),
            ("headers", "an object"),
            ("params", "an object: the query of the address"),
            ("json", "the body; also `data`, `payload`, `body`, `form`: one of them"),
            ("auth", "the alias of a credential"),
            ("timeout", "seconds, or PT30S"),
            ("verify_ssl", "false accepts any certificate"),
            ("follow_redirects", "true or false"),
        ],
        returns: "{status_code, headers, data}",
    },
    TaskKind {
        name: "noop",
        what: "Does nothing itself; its rules choose the next step and set variables.",
        fields: &[("result", "its result"), ("message", "the same, as {message}")],
        returns: "`result`; else `_prev` stays as it is",
    },
    TaskKind {
        name: "playbook",
        what: "Runs another playbook as a child.",
        fields: &[
            ("path", "its file beside this one, or its declared path; also `name`"),
            ("input", "its workload; also `payload`, `args`, `workload`"),
            ("return_step", "the step whose result is returned"),
            ("timeout", "seconds, or PT30S"),
        ],
        returns: "the child's output, or that of `return_step`",
    },
    TaskKind {
        name: "postgres",
        what: "Runs SQL over Postgres, all statements of a task in one transaction.",
        fields: &[("auth", "the alias of a credential, default `postgres`"), SQL[0], SQL[1]],
        returns: "{rows, row_count (rowcount), columns, command_0, …}",
    },
    TaskKind {
        name: "python",
        what: "Runs Python code.",
        fields: &[
            ("code", "the code: it sets `result`, returns it, or defines `main`"),
            ("input", "variables of the code; also `args`"),
            ("libs", "{name: module}, or {name: {from, import}}"),
            ("timeout", "seconds, or PT30S"),
        ],
        returns: "the result",
    },
    TaskKind {
        name: "rust",
        what: "Calls a function that a program with an embedded engine has registered; the `windlass` program has none.",
        fields: &[
            ("name", "the function; also `function`, if the task itself has a `name`"),
            ("input", "its argument; also `args`"),
            ("timeout", "seconds, or PT30S"),
        ],
        returns: "what the function returns",
    },
    TaskKind {
        name: "shell",
        what: "Runs commands.",
        fields: &[
            ("cmd", "a text; also `command`, or `cmds` for several. Templates become variables"),
            ("argv", "a program and its arguments, without a shell"),
            ("env", "an object: variables"),
            ("cwd", "the folder"),
            ("stdin", "a text"),
        ],
        returns: "{stdout, stderr, exit_code}",
    },
    TaskKind {
        name: "sqlite",
        what: "Runs SQL over a SQLite file, all statements of a task in one transaction.",
        fields: &[("database", "the file; also `db_path`, `db`"), SQL[0], SQL[1]],
        returns: "{rows, row_count (rowcount), columns, command_0, …}",
    },
    TaskKind {
        name: "workbook",
        what: "Runs a task that the playbook names under `workbook`.",
        fields: &[("name", "the task"), ("input", "its input")],
        returns: "the result of that task",
    },
];

pub(crate) fn find(name: &str) -> Option<&'static TaskKind> {
    TASK_KINDS.iter().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use windlass_syntax::SourceText;

    /// Returns the codes of all problems of a task of this kind with only this field.
    fn codes(kind: &str, field: &str) -> Vec<&'static str> {
        let head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkflow:\n  - step: start\n";
        let text = format!("{head}    tool: {{kind: {kind}, {field}: x}}\n");
        let settings = crate::config::CliSettings::default();
        let source = SourceText::new("t.yaml", text);
        let context = crate::dialects::file_context(&source, &settings, BTreeMap::new(), BTreeMap::new());
        match crate::dialects::registry().compile(&source, None, &context) {
            Ok(compiled) => compiled.warnings.iter().map(|problem| problem.code).collect(),
            Err(problems) => problems.own.iter().map(|problem| problem.code).collect(),
        }
    }

    #[test]
    fn playbooks_know_every_kind_and_field() {
        assert!(TASK_KINDS.windows(2).all(|pair| pair[0].name < pair[1].name));
        let slip = codes("http", "ulr");
        let unknown = ["WND-1020", codes("htp", "url")[0]];
        assert!(slip.contains(&unknown[0]), "{slip:?}");
        for kind in TASK_KINDS {
            for (field, _) in kind.fields {
                let found = codes(kind.name, field);
                assert!(!found.iter().any(|code| unknown.contains(code)), "{} {field}: {found:?}", kind.name);
            }
        }
    }
}
