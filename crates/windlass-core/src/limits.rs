//! Every limit that a user can meet, by name. One place: the reducer, the compilers, tools, agents, workers, the server,
//! `windlass limits` and `windlass.toml` read these.
//!
//! [`Limits`] are stored with a plan, so that a changed setting does not change how a run that began goes on.
//! [`ProcessLimits`] hold for what a process does, whatever run it does it for; [`ServerLimits`] for what a server accepts.
//! A bound that no user meets (the size of a buffer, the time between two looks) stays by its code.

use serde::{Deserialize, Serialize};
use windlass_value::Duration;

macro_rules! limits {
    (
        $(#[doc = $about:literal])+ $limits:ident;
        $($(#[doc = $doc:literal])+ $name:ident: $kind:ty = $value:expr,)+
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $limits { $($(#[doc = $doc])+ pub $name: $kind,)+ }

        impl Default for $limits {
            fn default() -> $limits {
                $limits { $($name: $value,)+ }
            }
        }

        impl $limits {
            /// Name, value and meaning of each limit, for people.
            pub fn describe(&self) -> Vec<(&'static str, String, &'static str)> {
                vec![$((stringify!($name), self.$name.to_string(), concat!($($doc,)+)),)+]
            }
        }
    };
}

limits! {
    /// Limits of definitions and runs, stored with each plan. The operator may change them; a definition cannot exceed them.
    Limits;
    /// Turns of a condition loop that gives no count.
    default_loop_iterations: u64 = 60,
    /// The most turns a condition loop may ask for.
    max_loop_iterations: u64 = 1_000,
    /// The most turns an `Until` in Azure's form may ask for.
    max_loop_iterations_azure: u64 = 5_000,
    /// Time of a condition loop that gives no timeout.
    default_loop_time: Duration = Duration::from_secs(3_600),
    /// The most time a loop may ask for.
    max_loop_time: Duration = Duration::from_secs(24 * 3_600),
    /// The most items a foreach may have.
    max_loop_items: u64 = 1_000_000,
    /// Turns at once of a parallel foreach that does not say.
    default_loop_concurrency: u64 = 20,
    /// The most turns at once a definition may ask for.
    max_loop_concurrency: u64 = 1_000,
    /// The most turns at once a `Foreach` in Azure's form may ask for.
    max_loop_concurrency_azure: u64 = 50,
    /// The most iterations at once of a zenflow `forEach`, and how many there are if it does not say.
    max_loop_concurrency_zenflow: u64 = 100,
    /// Steps at once of a zenflow workflow that does not say.
    default_step_concurrency_zenflow: u64 = 5,
    /// Tool calls of one agent reply that run at once.
    max_agent_tool_concurrency: u64 = 10,
    /// Results that a condition loop keeps for its output; older ones are counted as dropped.
    max_loop_results: u64 = 1_000,
    /// Results of a loop over items are stored in chunks of this many.
    loop_chunk_items: u64 = 1_024,
    /// From this turn on, turns that only compute are published as one progress event per slice.
    loop_quiet_from_iteration: u64 = 10_000,
    /// History: this many first turns are always kept.
    history_first_iterations: u64 = 100,
    /// History: this many newest turns are always kept. Failed turns are kept besides.
    history_newest_iterations: u64 = 10_000,
    /// History: bytes of an item that is kept with an iteration that went well.
    max_history_item_bytes: usize = 128,
    /// History: bytes of an item that is kept with an iteration that failed.
    max_history_failed_item_bytes: usize = 4_096,
    /// Signals of one name that are kept until something waits for them; more are dropped.
    max_buffered_signals: usize = 1_000,
    /// The same in a run of Rust steps, whose senders are told that an event is accepted.
    max_buffered_step_events: usize = 100_000,
    /// Task runs in one pipeline, jumps included.
    max_pipeline_task_runs: u64 = 100_000,
    /// Child runs inside each other.
    max_call_depth: u64 = 32,
    /// Tokens in one run, over all its time: a loop of steps may go round for days, one that never stops is still found.
    max_net_tokens: u64 = 100_000_000,
    /// Mail that waits for one node: what comes on top is dropped.
    max_mailbox_messages: u64 = 10_000,
    /// The most tries a retry may ask for.
    max_retry_attempts: u64 = 1_000,
    /// Turns that one tick computes before it yields.
    slice_iterations: u64 = 1_000,
    /// Agenda items that one tick works off before it yields.
    slice_items: u64 = 50_000,
    /// Steps one expression may take.
    expression_fuel: u64 = 10_000_000,
    /// Bytes one expression may give.
    max_expression_output_bytes: usize = 104_857_600,
    /// Operations that one CEL expression of a zenflow workflow may take.
    max_cel_cost: u64 = 10_000,
    /// Numbers that `range` of a Loom definition may give.
    max_range_items: usize = 100_000,
    /// Nodes of an XML text that an expression reads.
    max_xml_nodes: u32 = 1_000_000,
    /// Levels of lists and objects in each other that an expression may give: what is deeper could not be read again.
    max_value_depth: usize = 200,
    /// Nesting of a definition.
    max_definition_depth: usize = 64,
    /// Bytes of a definition.
    max_definition_bytes: usize = 1_048_576,
    /// Actions of a definition.
    max_definition_actions: usize = 500,
    /// Triggers of a definition.
    max_definition_triggers: usize = 10,
    /// Steps in one list of a zenflow workflow.
    max_steps_zenflow: usize = 100,
    /// Zenflow workflows that include each other, in depth.
    max_include_depth: usize = 5,
    /// Steps of a zenflow workflow with all that it includes.
    max_included_steps: usize = 10_000,
    /// Characters of a description or an instruction of a zenflow workflow.
    max_description_chars: usize = 2_000,
    /// Bytes of a file that a zenflow workflow takes a text from (`@file`).
    max_text_file_bytes: u64 = 1_048_576,
    /// Files that refer to each other before one has the text (`@file`).
    max_text_file_depth: usize = 20,
    /// Bytes of a context file of an agent.
    max_context_file_bytes: u64 = 10_485_760,
    /// Bytes of an agent's prompt; what is longer is cut, with a marker.
    max_prompt_bytes: usize = 122_880,
    /// Bytes that one dependency brings into a prompt; what is longer is cut, with a marker.
    max_prompt_dependency_bytes: usize = 16_384,
    /// Bytes of a prompt with a dependency that is to be seen whole; what is longer is cut, with a marker.
    max_whole_prompt_bytes: usize = 1_048_576,
    /// Model calls of an agent whose definition does not give `maxTurns`.
    default_agent_turns: u64 = 50,
    /// Times that a step's agent is called again because mail has come for it.
    max_agent_wakes: u64 = 10,
    /// Tokens of one reply where tokens or money are limited and the definition does not say how many.
    default_reply_tokens: u64 = 4_096,
    /// Times that a coordinator is called because mail has come for it.
    max_coordinator_wakes: u64 = 100,
    /// Model calls of a coordinator each time.
    max_coordinator_turns: u64 = 50,
    /// Time of one answer of a coordinator.
    max_coordinator_time: Duration = Duration::from_secs(300),
    /// Time of a coordinator after the last step has ended.
    max_coordinator_end_time: Duration = Duration::from_secs(60),
    /// The longest that a step waits before its first model call until the coordinator has dealt with its mail; a sixth of
    /// it before each further call.
    max_coordinator_hold: Duration = Duration::from_secs(30),
    /// Runs of one trigger at once that a definition may ask for.
    max_trigger_concurrency: i64 = 50,
    /// Runs of one trigger that wait, which a definition may ask for.
    max_trigger_queued_runs: i64 = 200,
    /// Runs of one trigger that wait, beyond those at once, if the definition does not say how many.
    default_trigger_queued_runs: usize = 10,
    /// Bytes of a value that travels inside events and journal; larger ones become references.
    max_inline_bytes: usize = 65_536,
    /// The longest wait, before a retry or the next call of an operation, for which a pipeline keeps its worker.
    lease_hold: Duration = Duration::from_secs(5),
    /// Time a cancelled job may take to confirm.
    cancel_grace: Duration = Duration::from_secs(10),
    /// Ticks or computed turns between two snapshots.
    snapshot_interval: u64 = 4_000,
    /// Bytes of one run's journal after which ticks before the oldest kept snapshot may go.
    max_journal_bytes: u64 = 67_108_864,
}

limits! {
    /// Limits of what a process does for runs: jobs, tools, agents, a worker's results, the files of `windlass dev`. They
    /// come from the settings of that process and are stored with no run.
    ProcessLimits;
    /// Jobs of this process at once, over all runs; more wait.
    max_job_concurrency: usize = 1_024,
    /// Bytes of a reply that a tool accepts.
    max_tool_reply_bytes: usize = 104_857_600,
    /// Time of a call of `python`, `shell`, `postgres`, `sqlite` or `duckdb` that gives no timeout.
    default_tool_time: Duration = Duration::from_secs(3_600),
    /// Time of an HTTP request that gives no timeout.
    default_http_time: Duration = Duration::from_secs(120),
    /// Time until a connection to an HTTP service or a Postgres server is made.
    max_connect_time: Duration = Duration::from_secs(15),
    /// Redirects that one HTTP request follows.
    max_http_redirects: usize = 10,
    /// Wait before a service that has accepted a request (202) is asked for its result, if it does not say.
    default_http_poll_wait: Duration = Duration::from_secs(20),
    /// Time of one answer of a language model.
    max_model_time: Duration = Duration::from_secs(600),
    /// The longest wait that a service may ask for (`Retry-After`): of a service that has accepted a request it is cut, a
    /// call of a language model fails.
    max_retry_after: Duration = Duration::from_secs(3_600),
    /// Bytes of rows that one statement of `postgres`, `sqlite` or `duckdb` may give.
    max_sql_result_bytes: usize = 67_108_864,
    /// Connections to one Postgres database at once; more calls wait.
    max_sql_connections: usize = 10,
    /// The longest that `sqlite` and `duckdb` wait for a database that another has locked.
    max_sql_lock_wait: Duration = Duration::from_secs(5),
    /// Bytes that are kept of what a program of `shell` writes to each, output and errors.
    max_shell_output_bytes: usize = 1_048_576,
    /// Python interpreters at once; more calls wait. 0: as many as the machine has cores.
    max_python_interpreters: usize = 0,
    /// Characters that are kept of what Python code prints.
    max_python_print_chars: usize = 65_536,
    /// Bytes of a result of Python code, as JSON.
    max_python_result_bytes: usize = 67_108_864,
    /// Bytes of an answer of `read`, `bash`, `http` or an MCP server that an agent's model gets (of other tools, twice as
    /// many); what is longer is cut, with a marker.
    max_agent_answer_bytes: usize = 1_048_576,
    /// Bytes of a file that an agent writes.
    max_agent_write_bytes: usize = 16_777_216,
    /// Time of an agent's `bash` or `http` that gives no timeout.
    default_agent_tool_time: Duration = Duration::from_secs(30),
    /// The longest timeout that an agent may give its `bash` or `http`.
    max_agent_tool_time: Duration = Duration::from_secs(300),
    /// Lines of an agent's `grep` and paths of its `glob`.
    max_agent_search_results: usize = 1_000,
    /// Bytes of a file that an agent's `grep` looks into; larger ones are left out.
    max_agent_search_file_bytes: u64 = 33_554_432,
    /// Files and folders that one `glob` or `grep` of an agent looks at.
    max_agent_search_entries: usize = 200_000,
    /// Tools of one MCP server.
    max_mcp_tools: usize = 1_000,
    /// Characters that are kept of the description of an MCP server's tool.
    max_mcp_description_chars: usize = 8_192,
    /// Time until an MCP server is there and has listed its tools; never more than the `timeout` of its section.
    max_mcp_connect_time: Duration = Duration::from_secs(30),
    /// Bytes of a result that a remote worker sends. The server must accept them: `max_body_bytes` under [server].
    max_worker_result_bytes: usize = 15_728_640,
    /// Bytes of the jobs that a remote worker takes in one answer of the server.
    max_worker_job_bytes: usize = 268_435_456,
    /// Time that a remote worker keeps a result for a server that is away.
    max_worker_result_wait: Duration = Duration::from_secs(1_800),
    /// Files that `windlass dev` and `windlass register` find in folders.
    max_dev_files: usize = 1_000,
    /// Folders in each other that they look into.
    max_dev_depth: usize = 8,
}

limits! {
    /// Limits of what a server accepts, set under `[server]` of its settings.
    ServerLimits;
    /// Bytes of a request's body.
    max_body_bytes: usize = 16_777_216,
    /// Time until all of a request has arrived.
    max_request_time: Duration = Duration::from_secs(30),
    /// Time until an answer begins. A call that waits for a run's reply gives up five seconds before.
    max_response_time: Duration = Duration::from_secs(120),
    /// Time until a request's head has arrived, half of it for the first of a connection; also the longest silence between
    /// two requests.
    max_head_time: Duration = Duration::from_secs(20),
    /// Headers of a request.
    max_headers: usize = 64,
    /// Bytes of a request's head.
    max_head_bytes: usize = 32_768,
    /// Time after which a client that takes nothing of its answer is disconnected.
    max_client_stall_time: Duration = Duration::from_secs(30),
    /// The longest that a start may wait for the end of its run (`wait_ms`).
    max_start_wait: Duration = Duration::from_secs(60),
    /// Event streams of one token at once.
    max_streams_per_token: usize = 2_048,
    /// Requests with unknown tokens of one address in a second, and twenty times as many after a pause.
    max_unknown_tokens_per_second: u32 = 1,
    /// Deliveries to one webhook in a second, and twice as many after a pause.
    max_deliveries_per_second: u32 = 100,
    /// Deliveries of one address in a second that prove nothing, and ten times as many after a pause.
    max_unauthenticated_deliveries_per_second: u32 = 5,
    /// The most that the time of a signed delivery may differ from the server's.
    max_signature_age: Duration = Duration::from_secs(300),
    /// Triggers that poll at once; others wait for the next look.
    max_poll_concurrency: usize = 16,
    /// Time of one poll of a trigger.
    max_poll_time: Duration = Duration::from_secs(30),
    /// The longest wait that a polled service may ask for.
    max_poll_wait: Duration = Duration::from_secs(604_800),
    /// Missed runs that a schedule with `catch_up: all` makes up for.
    max_catch_up_runs: usize = 100,
    /// A run that was due less than this long ago is not missed.
    catch_up_grace: Duration = Duration::from_secs(60),
    /// Tokens.
    max_tokens: usize = 10_000,
    /// Bytes of an audit log file; then a new one begins.
    max_audit_file_bytes: u64 = 67_108_864,
    /// Refused calls in a second that the audit log has, and ten times as many after a pause; more are left out.
    max_refusals_logged_per_second: u32 = 10,
    /// Tools, labels and jobs that one remote worker may name.
    max_worker_entries: usize = 10_000,
    /// Bytes of an event that a remote worker publishes for a task.
    max_worker_event_bytes: usize = 65_536,
    /// Labels of one version of a definition.
    max_labels: usize = 64,
    /// Steps and tasks of one run that are sent as spans; more are counted only.
    max_trace_spans: u64 = 10_000,
}

impl Limits {
    /// A limit of nothing would stop the engine itself: these are at least 1.
    #[must_use]
    pub(crate) fn at_least_one(mut self) -> Limits {
        for limit in
            [&mut self.slice_iterations, &mut self.slice_items, &mut self.loop_chunk_items, &mut self.snapshot_interval]
        {
            *limit = (*limit).max(1);
        }
        self
    }
}
