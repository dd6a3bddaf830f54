//! `windlass approvals` and `windlass approve`: the approval requests of runs, and their answers.

use windlass_runtime::real_now;
use windlass_store::RunRow;
use windlass_tools::approval::{self, Approval, ApprovalError};
use windlass_value::Value;

use super::requests;
use windlass_runtime::inspect::fill_run_id;

use crate::args::{self, GlobalArgs};
use crate::failure::{CliExit, CliFailure, codes};
use crate::runs::Runs;
use crate::runs::api::segment;
use crate::runs::server::RequestReply;
use crate::{host, inputs, out, stores, text};

/// Maximum number of characters of a title.
const MAX_TITLE_CHARS: usize = 48;

/// Maximum number of open requests that an ambiguous answer lists.
const MAX_LISTED: usize = 10;

/// Approvals read from the store per query.
const PAGE_ROWS: u32 = 500;

pub(crate) fn approvals(global: &GlobalArgs, args: &args::ApprovalsArgs) -> Result<CliExit, CliFailure> {
    let runs = Runs::open(global)?;
    let run = args.run.as_deref().map(|run| requests::find(&runs, run)).transpose()?.map(|row| row.run);
    let open = open_approvals(&runs, run.as_deref())?;
    match global.json {
        true => out::print_json(&Value::list(open.iter().map(to_value).collect()))?,
        false => out::print(&show(&open))?,
    }
    Ok(CliExit::Success)
}

/// Lists the open approvals of all runs or of one run, oldest first.
pub(crate) fn open_approvals(runs: &Runs, run: Option<&str>) -> Result<Vec<Approval>, CliFailure> {
    let store = match runs {
        Runs::Store(store) => store,
        Runs::Server(server) => return server.approvals(run),
    };
    let mut open: Vec<Approval> = Vec::new();
    loop {
        let after = open.last().map_or(0, |approval| approval.position);
        let page = approval::approvals(&**store, run, after, PAGE_ROWS)?;
        let is_last_page = page.len() < PAGE_ROWS as usize;
        open.extend(page);
        if is_last_page {
            return Ok(open);
        }
    }
}

fn show(open: &[Approval]) -> String {
    if open.is_empty() {
        return "no open approval requests".to_owned();
    }
    let head = ["RUN", "NAME", "TITLE", "SINCE", "ENDS IN"].map(str::to_owned).to_vec();
    let now = real_now();
    let line = |approval: &Approval| {
        let title = approval.form.get("title").and_then(Value::as_str).unwrap_or_default();
        let shared = open.iter().filter(|other| other.run == approval.run && other.name == approval.name).count() > 1;
        vec![
            approval.run.to_string(),
            if shared { &approval.path } else { &approval.name }.to_string(),
            text::truncate(&text::one_line(title), MAX_TITLE_CHARS),
            text::format_duration(now.since(approval.since)),
            approval.deadline.map_or("-".to_owned(), |deadline| text::format_duration(deadline.since(now))),
        ]
    };
    text::table(&std::iter::once(head).chain(open.iter().map(line)).collect::<Vec<_>>())
}

fn to_value(approval: &Approval) -> Value {
    let form_field = |name: &str| approval.form.get(name).cloned().unwrap_or_default();
    Value::object([
        ("run", Value::from(approval.run.clone())),
        ("definition", Value::from(approval.definition.as_str())),
        ("name", Value::from(approval.name.clone())),
        ("path", Value::from(approval.path.clone())),
        ("title", form_field("title")),
        ("message", form_field("message")),
        ("schema", form_field("schema")),
        ("assignees", form_field("assignees")),
        ("since", Value::from(approval.since.to_string())),
        ("deadline", Value::from(approval.deadline.map(|deadline| deadline.to_string()))),
    ])
}

pub(crate) fn approve(global: &GlobalArgs, args: &args::ApproveArgs) -> Result<CliExit, CliFailure> {
    let whole = args.data.as_deref().map(|data| requests::parse_payload(Some(data))).transpose()?;
    let given = inputs::merge_answer(whole, &args.set)?;
    let runs = Runs::open(global)?;
    let row = requests::find(&runs, &args.run)?;
    let open = open_approvals(&runs, Some(&row.run))?;
    let found = match approval::select(open.clone(), &row.run, args.name.as_deref()) {
        Err(ApprovalError::Ambiguous(..)) => return Err(several_open(global, &row, &open, args.name.as_deref())),
        found => found.map_err(|refused| not_found(refused, &row, args))?,
    };
    let runtime = host::runtime()?;
    runtime.block_on(found.check_optional_answer(given.as_ref())).map_err(|refused| failure(refused, &row.run))?;
    let data = given.unwrap_or_default();
    let reply = match &runs {
        Runs::Store(store) => {
            let outcome =
                runtime.block_on(found.answer(&**store, data)).map_err(|refused| failure(refused, &row.run))?;
            RequestReply { outcome, undelivered: None }
        }
        Runs::Server(server) => {
            let path = format!("approvals/{}", segment(&found.path));
            server.request(&row.run, &path, &Value::object([("data", data)]))?
        }
    };
    requests::print_reply(global, &runs, &row, (&found.path, "approve"), reply)
}

/// Lists the requests that an answer could be meant for, each with the command that answers it.
fn several_open(global: &GlobalArgs, row: &RunRow, open: &[Approval], name: Option<&str>) -> CliFailure {
    let open: Vec<&Approval> = open.iter().filter(|approval| name.is_none_or(|name| *approval.name == *name)).collect();
    let line = |approval: &&Approval| {
        let title = approval.form.get("title").and_then(Value::as_str).unwrap_or_default();
        let title = text::truncate(&text::one_line(title), MAX_TITLE_CHARS);
        let answer =
            format!("approve {} {} {}", row.run, stores::shell_quote(&approval.path), example_answer(approval));
        format!("{}  {title}\n    {}", approval.path, stores::command(global, &answer))
    };
    let lines: Vec<String> = open.iter().take(MAX_LISTED).map(line).collect();
    let more = open.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 {
        format!("\n  … and {more} more: `windlass approvals {}` lists all", row.run)
    } else {
        String::new()
    };
    let message =
        format!("run `{}` has {}; name the one to answer", row.run, text::pluralize(open.len() as u64, "open request"));
    CliFailure::usage(message).hint(format!("one of\n  {}{more}", lines.join("\n  ")))
}

/// Returns the flag of an answer as the schema asks for it: its first required property, or the whole answer.
fn example_answer(approval: &Approval) -> String {
    let schema = approval.form.get("schema");
    let property = schema.and_then(|schema| schema.get("required")).and_then(|required| match required {
        Value::List(names) => names.first().and_then(Value::as_str).map(str::to_owned),
        _ => None,
    });
    match property {
        Some(name) => format!("--set {}", stores::shell_quote(&format!("{name}={}", example_value(schema, &name)))),
        None => "--data JSON".to_owned(),
    }
}

fn example_value(schema: Option<&Value>, name: &str) -> &'static str {
    let property = schema.and_then(|schema| schema.get("properties")).and_then(|properties| properties.get(name));
    match property.and_then(|property| property.get("type")).and_then(Value::as_str) {
        Some("boolean") => "true",
        Some("integer" | "number") => "1",
        _ => "VALUE",
    }
}

fn not_found(refused: ApprovalError, row: &RunRow, args: &args::ApproveArgs) -> CliFailure {
    let run = &row.run;
    match (&refused, &args.name) {
        (ApprovalError::NotFound(..), _) if row.status.is_final() => {
            CliFailure::usage(format!("the run `{run}` has ended: it has no open approval requests"))
                .code(codes::RUN_ENDED)
                .hint(format!("`windlass status {run}` shows its result"))
        }
        (ApprovalError::NotFound(..), None) => CliFailure::usage(format!("run `{run}` has no open approval requests"))
            .hint("`windlass approvals` lists the open requests"),
        _ => failure(refused, run),
    }
}

pub(crate) fn failure(refused: ApprovalError, run: &str) -> CliFailure {
    let hint = match &refused {
        ApprovalError::Runtime(_) => "`windlass doctor` checks the store",
        ApprovalError::SchemaViolations(_) => "pass it with --data JSON, or property by property: --set approved=true",
        ApprovalError::ValidationFailed(_) => "give a smaller answer, or correct the schema in the definition",
        ApprovalError::MissingAnswer(..) => "pass it with --set approved=true or --data JSON; --data null answers null",
        ApprovalError::InvalidSchema(_) => {
            "correct the schema in the definition; this run can be answered with `windlass signal`"
        }
        ApprovalError::Conflict(..) | ApprovalError::AlreadyAnswered(..) => {
            "`windlass events RUN` shows when the run consumed the first answer"
        }
        ApprovalError::NotFound(..) => "`windlass approvals` lists the open requests",
        ApprovalError::Ambiguous(..) => "name one of them: windlass approve RUN PATH",
    };
    CliFailure::usage(refused.to_string()).hint(fill_run_id(hint, run))
}
