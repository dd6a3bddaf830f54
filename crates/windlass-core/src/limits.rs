//! All limits that a user can reach, by name. The reducer, the compilers, tools, agents, workers, the server,
//! `windlass limits` and `windlass.toml` read them from here.
//!
//! [`Limits`] are stored with a plan, so that a changed setting does not affect a run that has already begun.
//! [`ProcessLimits`] apply to the work of a process, for whichever run; [`ServerLimits`] to the requests a server
//! accepts. Bounds that no user can reach (a buffer size, a polling interval) stay next to their code.

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
            /// Returns name, value and meaning of each limit, for people.
            pub fn describe(&self) -> Vec<(&'static str, String, &'static str)> {
                vec![$((stringify!($name), self.$name.to_string(), concat!($($doc,)+)),)+]
            }
        }
    };
}

limits! {
    /// Limits of definitions and runs, stored with each plan. The operator may change them; a definition cannot exceed
    /// them.
    Limits;
    /// Iterations of a condition loop that specifies no count.
    default_loop_iterations: u64 = 60,
    /// The maximum number of iterations that a condition loop may request.
    max_loop_iterations: u64 = 1_000,
    /// The maximum number of iterations that an `Until` in Azure's form may request.
    max_loop_iterations_azure: u64 = 5_000,
    /// Time of a condition loop that specifies no timeout.
    default_loop_time: Duration = Duration::from_secs(3_600),
    /// The maximum time that a loop may request.
    max_loop_time: Duration = Duration::from_secs(24 * 3_600),
    /// The maximum number of items of a foreach.
    max_loop_items: u64 = 1_000_000,
    /// Concurrent iterations of a parallel foreach that specifies no concurrency.
    default_loop_concurrency: u64 = 20,
    /// The maximum number of concurrent iterations that a definition may request.
    max_loop_concurrency: u64 = 1_000,
    /// The maximum number of concurrent iterations that a `Foreach` in Azure's form may request.
    max_loop_concurrency_azure: u64 = 50,
    /// The maximum number of concurrent iterations of a zenflow `forEach`, and the default if it specifies none.
    max_loop_concurrency_zenflow: u64 = 100,
    /// Concurrent steps of a zenflow workflow that specifies no concurrency.
    default_step_concurrency_zenflow: u64 = 5,
    /// Concurrent tool calls of one agent reply.
    max_agent_tool_concurrency: u64 = 10,
    /// Results that a condition loop keeps for its output; older results are dropped and counted.
    max_loop_results: u64 = 1_000,
    /// Results of a loop over items are stored in chunks of this many.
    loop_chunk_items: u64 = 1_024,
    /// From this iteration on, iterations that only compute are published as one progress event per slice.
    loop_quiet_from_iteration: u64 = 10_000,
    /// History: this many first iterations are always retained.
    history_first_iterations: u64 = 100,
    /// History: this many newest iterations are always retained. Failed iterations are retained in addition.
    history_newest_iterations: u64 = 10_000,
    /// History: maximum size of an item that is retained with a successful iteration.
    max_history_item_bytes: usize = 128,
    /// History: maximum size of an item that is retained with a failed iteration.
    max_history_failed_item_bytes: usize = 4_096,
    /// History: characters of a judge's reason that are retained with an iteration.
    max_history_reason_chars: usize = 1_000,
    /// Signals of one name that are buffered until a node waits for them; further signals are dropped.
    max_buffered_signals: usize = 1_000,
    /// The same limit for a run of Rust steps, whose senders receive a confirmation that an event is accepted.
    max_buffered_step_events: usize = 100_000,
    /// Pages that an `http` action with a `paginationPolicy` collects; a longer list fails the action.
    max_pages: u64 = 1_000,
    /// Task runs in one pipeline, jumps included.
    max_pipeline_task_runs: u64 = 100_000,
    /// Nesting depth of child runs.
    max_call_depth: u64 = 32,
    /// Child runs that one run starts, over its whole lifetime.
    max_child_runs: u64 = 100_000,
    /// Open runs of one run tree, the run at its root not counted.
    max_tree_runs: u64 = 10_000,
    /// Tokens in one run, over its whole lifetime. A loop of steps may run for days; one that never stops is still
    /// detected.
    max_net_tokens: u64 = 100_000_000,
    /// Mail that waits for one node; further mail is dropped.
    max_mailbox_messages: u64 = 10_000,
    /// The maximum number of attempts that a retry may request.
    max_retry_attempts: u64 = 1_000,
    /// Iterations that one tick computes before it yields.
    slice_iterations: u64 = 1_000,
    /// Agenda items that one tick processes before it yields.
    slice_items: u64 = 50_000,
    /// Evaluation steps of one expression.
    expression_fuel: u64 = 10_000_000,
    /// Bytes of the result of one expression.
    max_expression_output_bytes: usize = 104_857_600,
    /// Operations of one CEL expression of a zenflow workflow.
    max_cel_cost: u64 = 10_000,
    /// Numbers that `range` of a Loom definition may return.
    max_range_items: usize = 100_000,
    /// Nodes of an XML text that an expression parses.
    max_xml_nodes: u32 = 1_000_000,
    /// Nesting depth of lists and objects that an expression may return. A deeper value could not be read back.
    max_value_depth: usize = 200,
    /// Nesting depth of a definition.
    max_definition_depth: usize = 64,
    /// Bytes of a definition.
    max_definition_bytes: usize = 1_048_576,
    /// Actions of a definition.
    max_definition_actions: usize = 500,
    /// Triggers of a definition.
    max_definition_triggers: usize = 10,
    /// Labels of one run.
    max_run_labels: usize = 32,
    /// Characters of the name of a run's label.
    max_label_name_chars: usize = 64,
    /// Characters of the value of a run's label.
    max_label_value_chars: usize = 256,
    /// Steps in one list of a zenflow workflow.
    max_steps_zenflow: usize = 100,
    /// Nesting depth of zenflow workflows that include each other.
    max_include_depth: usize = 5,
    /// Steps of a zenflow workflow, including all workflows that it includes.
    max_included_steps: usize = 10_000,
    /// Characters of a description or an instruction of a zenflow workflow.
    max_description_chars: usize = 2_000,
    /// Bytes of a text file that a zenflow workflow reads (`@file`).
    max_text_file_bytes: u64 = 1_048_576,
    /// Length of a chain of files that refer to each other (`@file`).
    max_text_file_depth: usize = 20,
    /// Bytes of a context file of an agent.
    max_context_file_bytes: u64 = 10_485_760,
    /// Bytes of an agent's prompt; a longer prompt is truncated, with a marker.
    max_prompt_bytes: usize = 122_880,
    /// Bytes that one dependency adds to a prompt; a longer text is truncated, with a marker.
    max_prompt_dependency_bytes: usize = 16_384,
    /// Bytes of a prompt that includes a dependency in full; a longer prompt is truncated, with a marker.
    max_whole_prompt_bytes: usize = 1_048_576,
    /// Model calls of an agent whose definition specifies no `maxTurns`.
    default_agent_turns: u64 = 50,
    /// Replies with an invalid result after which an agent is not asked again, if its definition specifies no
    /// `maxResultAttempts`.
    default_result_attempts: u64 = 3,
    /// Turns in a row with the same tool calls and results after which an agent is stalled, if its definition specifies
    /// no `maxRepeatedCalls`.
    default_repeated_calls: u64 = 5,
    /// Times that a step's agent is called again because mail has arrived for it.
    max_agent_wakes: u64 = 10,
    /// Tokens of one reply where tokens or money are limited, the definition specifies no number, and the maximum of
    /// the model is unknown.
    default_reply_tokens: u64 = 16_384,
    /// Tokens that must be left for a reply where tokens or money are limited; with less left, no call is made.
    min_reply_tokens: u64 = 256,
    /// Times that a coordinator is called because mail has arrived for it.
    max_coordinator_wakes: u64 = 100,
    /// Model calls of a coordinator each time it is called.
    max_coordinator_turns: u64 = 50,
    /// Time of one reply of a coordinator.
    max_coordinator_time: Duration = Duration::from_secs(300),
    /// Time of a coordinator after the last step has ended.
    max_coordinator_end_time: Duration = Duration::from_secs(60),
    /// The maximum time that a step waits before its first model call until the coordinator has processed its mail; a
    /// sixth of it before each further call.
    max_coordinator_hold: Duration = Duration::from_secs(30),
    /// Concurrent runs of one trigger that a definition may request.
    max_trigger_concurrency: i64 = 50,
    /// Queued runs of one trigger that a definition may request.
    max_trigger_queued_runs: i64 = 200,
    /// Queued runs of one trigger, in addition to the concurrent ones, if the definition specifies no number.
    default_trigger_queued_runs: usize = 10,
    /// Bytes of a value that is stored inline in events and the journal; larger values become references.
    max_inline_bytes: usize = 65_536,
    /// The maximum wait, before a retry or the next call of an operation, for which a pipeline keeps its worker.
    lease_hold: Duration = Duration::from_secs(5),
    /// Time that a cancelled job may take to confirm.
    cancel_grace: Duration = Duration::from_secs(10),
    /// Ticks or computed iterations between two snapshots.
    snapshot_interval: u64 = 4_000,
    /// Bytes of one run's journal above which ticks before the oldest retained snapshot may be deleted.
    max_journal_bytes: u64 = 67_108_864,
}

limits! {
    /// Limits of the work that a process does for runs: jobs, tools, agents, results of a worker, the files of
    /// `windlass dev`. They come from the settings of that process and are stored with no run.
    ProcessLimits;
    /// Concurrent jobs of this process, over all runs; further jobs wait.
    max_job_concurrency: usize = 1_024,
    /// Runs in memory. A further run waits until one ends or is evicted; in-memory runs are not counted.
    max_resident_runs: usize = 10_000,
    /// Runs in memory that only wait. When there are more, the run that has waited longest is evicted.
    max_idle_runs: usize = 200,
    /// Bytes of a reply that a tool accepts, counted while it is decoded.
    max_tool_reply_bytes: usize = 16_777_216,
    /// Bytes of all replies in flight, over all runs; a further reply waits before it is read.
    max_total_reply_bytes: usize = 268_435_456,
    /// Time of a call of `python`, `shell`, `postgres`, `sqlite` or `duckdb` that specifies no timeout.
    default_tool_time: Duration = Duration::from_secs(3_600),
    /// Time of an HTTP request that specifies no timeout.
    default_http_time: Duration = Duration::from_secs(120),
    /// Time to connect to an HTTP service or a Postgres server.
    max_connect_time: Duration = Duration::from_secs(15),
    /// Redirects that one HTTP request follows.
    max_http_redirects: usize = 10,
    /// Wait before the next poll of a service that has accepted a request (202), if the service specifies none.
    default_http_poll_wait: Duration = Duration::from_secs(20),
    /// Time of one reply of a language model.
    max_model_time: Duration = Duration::from_secs(600),
    /// The maximum wait that a service may request (`Retry-After`). For a service that has accepted a request, a longer
    /// wait is shortened to it; a call of a language model fails.
    max_retry_after: Duration = Duration::from_secs(3_600),
    /// Bytes of the rows that one statement of `postgres`, `sqlite` or `duckdb` may return.
    max_sql_result_bytes: usize = 67_108_864,
    /// Concurrent connections to one Postgres database; further calls wait.
    max_sql_connections: usize = 10,
    /// The maximum time that `sqlite` and `duckdb` wait for a locked database.
    max_sql_lock_wait: Duration = Duration::from_secs(5),
    /// Bytes kept of each output stream (standard output and standard error) of a program that `shell` runs.
    max_shell_output_bytes: usize = 1_048_576,
    /// Bytes of log lines that are stored of one attempt of a task: output of programs and code, and a worker's own
    /// lines. Further lines are counted.
    max_log_attempt_bytes: usize = 262_144,
    /// Bytes of one log line; a longer line is truncated.
    max_log_line_bytes: usize = 8_192,
    /// Bytes of log lines that are stored of one run; the oldest lines are removed first, and counted.
    max_log_run_bytes: u64 = 16_777_216,
    /// Concurrent Python interpreters; further calls wait. 0: one per core of the machine.
    max_python_interpreters: usize = 0,
    /// Characters kept of the printed output of Python code.
    max_python_print_chars: usize = 65_536,
    /// Bytes of a result of Python code, encoded as JSON.
    max_python_result_bytes: usize = 67_108_864,
    /// Bytes of a result of `read`, `bash`, `http` or an MCP server that is passed to an agent's model (twice as many
    /// for other tools); a longer result is truncated, with a marker.
    max_agent_answer_bytes: usize = 1_048_576,
    /// Bytes of a file that an agent writes.
    max_agent_write_bytes: usize = 16_777_216,
    /// Time of an agent's `bash` or `http` call that specifies no timeout.
    default_agent_tool_time: Duration = Duration::from_secs(30),
    /// The maximum timeout that an agent may specify for its `bash` or `http` call.
    max_agent_tool_time: Duration = Duration::from_secs(300),
    /// Lines that an agent's `grep` returns, and paths that its `glob` returns.
    max_agent_search_results: usize = 1_000,
    /// Bytes of a file that an agent's `grep` searches; larger files are skipped.
    max_agent_search_file_bytes: u64 = 33_554_432,
    /// Files and directories that one `glob` or `grep` of an agent visits.
    max_agent_search_entries: usize = 200_000,
    /// Tools of one MCP server.
    max_mcp_tools: usize = 1_000,
    /// Characters kept of the description of an MCP server's tool.
    max_mcp_description_chars: usize = 8_192,
    /// Time until an MCP server is connected and has listed its tools; never more than the `timeout` of its section.
    max_mcp_connect_time: Duration = Duration::from_secs(30),
    /// Bytes of a result that a remote worker sends. The server must accept them: `max_body_bytes` under [server].
    max_worker_result_bytes: usize = 15_728_640,
    /// Bytes of the jobs that a remote worker accepts in one response of the server.
    max_worker_job_bytes: usize = 268_435_456,
    /// Time that a remote worker keeps a result while the server is unreachable.
    max_worker_result_wait: Duration = Duration::from_secs(1_800),
    /// Files that `windlass dev` and `windlass register` find in directories.
    max_dev_files: usize = 1_000,
    /// Nesting depth of directories that they search.
    max_dev_depth: usize = 8,
}

limits! {
    /// Limits of the requests that a server accepts, set under `[server]` of its settings.
    ServerLimits;
    /// Bytes of a request's body.
    max_body_bytes: usize = 16_777_216,
    /// Time to receive a complete request.
    max_request_time: Duration = Duration::from_secs(30),
    /// Time until a response begins. A call that waits for a run's reply gives up five seconds earlier.
    max_response_time: Duration = Duration::from_secs(120),
    /// Time to receive a request's head, and half of it for the first request of a connection; also the maximum idle
    /// time between two requests.
    max_head_time: Duration = Duration::from_secs(20),
    /// Headers of a request.
    max_headers: usize = 64,
    /// Bytes of a request's head.
    max_head_bytes: usize = 32_768,
    /// Time after which a client that does not read its response is disconnected.
    max_client_stall_time: Duration = Duration::from_secs(30),
    /// The maximum time that a start may wait for the end of its run (`wait_ms`).
    max_start_wait: Duration = Duration::from_secs(60),
    /// Concurrent event streams of one token.
    max_streams_per_token: usize = 2_048,
    /// Requests with unknown tokens per address and second, and a burst of twenty times as many after a pause.
    max_unknown_tokens_per_second: u32 = 1,
    /// Deliveries to one webhook per second, and a burst of twice as many after a pause.
    max_deliveries_per_second: u32 = 100,
    /// Unauthenticated deliveries per address and second, and a burst of ten times as many after a pause.
    max_unauthenticated_deliveries_per_second: u32 = 5,
    /// The maximum difference between the time of a signed delivery and the server's time.
    max_signature_age: Duration = Duration::from_secs(300),
    /// Triggers that poll concurrently; others wait for the next check.
    max_poll_concurrency: usize = 16,
    /// Time of one poll of a trigger.
    max_poll_time: Duration = Duration::from_secs(30),
    /// The maximum wait that a polled service may request.
    max_poll_wait: Duration = Duration::from_secs(604_800),
    /// Missed runs that a schedule with `catch_up: all` starts afterwards.
    max_catch_up_runs: usize = 100,
    /// Grace period: a run that was due less than this long ago does not count as missed.
    catch_up_grace: Duration = Duration::from_secs(60),
    /// Number of tokens.
    max_tokens: usize = 10_000,
    /// Number of stored credentials.
    max_credentials: usize = 1_000,
    /// Bytes of the value of a stored credential.
    max_credential_bytes: usize = 65_536,
    /// Time for which a browser stays signed in to the web UI; a session never outlives its token.
    max_session_time: Duration = Duration::from_secs(604_800),
    /// Browsers signed in with one token; one more ends the oldest session of that token.
    max_sessions_per_token: usize = 100,
    /// Bytes of an audit log file; then a new file begins.
    max_audit_file_bytes: u64 = 67_108_864,
    /// Rejected calls per second that are written to the audit log, and a burst of ten times as many after a pause;
    /// more are omitted.
    max_refusals_logged_per_second: u32 = 10,
    /// Tools, labels and jobs that one remote worker may list.
    max_worker_entries: usize = 10_000,
    /// Bytes of an event that a remote worker publishes for a task.
    max_worker_event_bytes: usize = 65_536,
    /// Labels of one version of a definition.
    max_labels: usize = 64,
    /// Steps and tasks of one run that are exported as spans; further ones are only counted.
    max_trace_spans: u64 = 10_000,
}

impl Limits {
    /// Raises limits to at least 1 where a limit of 0 would stop the engine itself.
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

/// Limits that the operator cannot raise without bound, with their maximum: a value or a definition that nests deeper
/// could be written, but not read back.
pub const LIMIT_CEILINGS: [(&str, u64); 2] = [("max_value_depth", 400), ("max_definition_depth", 512)];
