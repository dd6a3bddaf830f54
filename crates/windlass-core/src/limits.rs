//! Every limit of the engine, by name. One place: the reducer, the compilers, `windlass limits` and `windlass.toml` read
//! these.

use serde::{Deserialize, Serialize};
use windlass_value::Duration;

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ty = $value:expr,)+) => {
        /// All limits. Whoever runs the engine may change them; a definition cannot exceed them.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Limits { $($(#[doc = $doc])+ pub $name: $kind,)+ }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $($name: $value,)+ }
            }
        }

        impl Limits {
            /// Name, value and meaning of each limit, for people.
            pub fn describe(&self) -> Vec<(&'static str, String, &'static str)> {
                vec![$((stringify!($name), self.$name.to_string(), concat!($($doc,)+)),)+]
            }
        }
    };
}

limits! {
    /// Turns of a condition loop that gives no count.
    loop_turns_default: u64 = 60,
    /// The most turns a condition loop may ask for.
    loop_turns_max: u64 = 1_000,
    /// The most turns an `Until` in Azure's form may ask for.
    loop_turns_max_azure: u64 = 5_000,
    /// Time of a condition loop that gives no timeout.
    loop_time_default: Duration = Duration::from_secs(3_600),
    /// The most time a loop may ask for.
    loop_time_max: Duration = Duration::from_secs(24 * 3_600),
    /// The most items a foreach may have.
    loop_items_max: u64 = 1_000_000,
    /// Turns at once of a parallel foreach that does not say.
    loop_in_flight_default: u64 = 20,
    /// The most turns at once a definition may ask for.
    loop_in_flight_max: u64 = 1_000,
    /// The most turns at once a `Foreach` in Azure's form may ask for.
    loop_in_flight_max_azure: u64 = 50,
    /// The most iterations at once of a zenflow `forEach`, and how many there are if it does not say.
    max_loop_concurrency_zenflow: u64 = 100,
    /// Steps at once of a zenflow workflow that does not say.
    default_step_concurrency_zenflow: u64 = 5,
    /// Tool calls of one agent reply that run at once.
    max_agent_tool_concurrency: u64 = 10,
    /// Results that a condition loop keeps for its output; older ones are counted as dropped.
    loop_results_kept: u64 = 1_000,
    /// Results of a loop over items are stored in chunks of this many.
    loop_chunk_items: u64 = 1_024,
    /// From this turn on, turns that only compute are published as one progress event per slice.
    loop_quiet_from_turn: u64 = 10_000,
    /// History: this many first turns are always kept.
    history_first_turns: u64 = 100,
    /// History: this many newest turns are always kept. Failed turns are kept besides.
    history_newest_turns: u64 = 10_000,
    /// History: bytes of an item that is kept with an iteration that went well.
    max_history_item_bytes: usize = 128,
    /// History: bytes of an item that is kept with an iteration that failed.
    max_history_failed_item_bytes: usize = 4_096,
    /// Signals of one name that are kept until something waits for them; more are dropped.
    max_kept_signals: usize = 1_000,
    /// The same in a run of Rust steps, whose senders are told that an event is accepted.
    max_kept_step_events: usize = 100_000,
    /// Task runs in one pipeline, jumps included.
    pipeline_task_runs_max: u64 = 100_000,
    /// Child runs inside each other.
    call_depth_max: u64 = 32,
    /// Tokens in one run, over all its time: a loop of steps may go round for days, one that never stops is still found.
    net_tokens_max: u64 = 100_000_000,
    /// Mail that waits for one node: what comes on top is dropped.
    mailbox_max: u64 = 10_000,
    /// The most tries a retry may ask for.
    retry_attempts_max: u64 = 1_000,
    /// Turns that one tick computes before it yields.
    slice_turns: u64 = 1_000,
    /// Agenda items that one tick works off before it yields.
    slice_items: u64 = 50_000,
    /// Steps one expression may take.
    expression_fuel: u64 = 10_000_000,
    /// Bytes one expression may give.
    expression_output_bytes_max: usize = 104_857_600,
    /// Levels of lists and objects in each other that an expression may give: what is deeper could not be read again.
    value_depth_max: usize = 200,
    /// Nesting of a definition.
    definition_depth_max: usize = 64,
    /// Bytes of a definition.
    definition_bytes_max: usize = 1_048_576,
    /// Actions of a definition.
    definition_actions_max: usize = 500,
    /// Triggers of a definition.
    definition_triggers_max: usize = 10,
    /// Steps in one list of a zenflow workflow.
    max_steps_zenflow: usize = 100,
    /// Zenflow workflows that include each other, in depth.
    max_include_depth: usize = 5,
    /// Steps of a zenflow workflow with all that it includes.
    max_included_steps: usize = 10_000,
    /// Runs of one trigger at once that a definition may ask for.
    max_trigger_runs: i64 = 50,
    /// Runs of one trigger that wait, which a definition may ask for.
    max_trigger_waiting_runs: i64 = 200,
    /// Bytes of a value that travels inside events and journal; larger ones become references.
    inline_bytes_max: usize = 65_536,
    /// Bytes of a reply that a tool accepts.
    tool_reply_bytes_max: usize = 104_857_600,
    /// The longest wait, before a retry or the next call of an operation, for which a pipeline keeps its worker.
    lease_hold: Duration = Duration::from_secs(5),
    /// Time a cancelled job may take to confirm.
    cancel_grace: Duration = Duration::from_secs(10),
    /// Ticks or computed turns between two snapshots.
    snapshot_interval: u64 = 4_000,
    /// Bytes of one run's journal after which ticks before the oldest kept snapshot may go.
    journal_bytes_kept: u64 = 67_108_864,
}

impl Limits {
    /// A limit of nothing would stop the engine itself: these are at least 1.
    #[must_use]
    pub(crate) fn at_least_one(mut self) -> Limits {
        for limit in
            [&mut self.slice_turns, &mut self.slice_items, &mut self.loop_chunk_items, &mut self.snapshot_interval]
        {
            *limit = (*limit).max(1);
        }
        self
    }
}
