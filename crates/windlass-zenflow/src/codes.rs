//! The stable diagnostic codes of this dialect. Errors have the names that the format's own test cases use.

/// Problems without a finer code.
pub(crate) const VALIDATION: &str = "validation";

pub(crate) const MISSING_NAME: &str = "missing_name";
pub(crate) const MISSING_STEPS: &str = "missing_steps";
pub(crate) const EMPTY_STEPS: &str = "empty_steps";
pub(crate) const UNKNOWN_VERSION: &str = "unknown_version";
pub(crate) const AGENT_MISSING_DESCRIPTION: &str = "agent_missing_description";
pub(crate) const INVALID_STEP_ID: &str = "invalid_step_id";
pub(crate) const DUPLICATE_STEP: &str = "duplicate_step";
pub(crate) const MISSING_AGENT: &str = "missing_agent";
pub(crate) const MISSING_DEP: &str = "missing_dep";
pub(crate) const CYCLE: &str = "cycle";
pub(crate) const NEGATIVE_VALUE: &str = "negative_value";
pub(crate) const LOOP_VALIDATION: &str = "loop_validation";
pub(crate) const LOOP_MISSING_MAX_ITERATIONS: &str = "loop_missing_max_iterations";
pub(crate) const NESTED_LOOP: &str = "nested_loop_prohibited";
pub(crate) const FOREACH_EMPTY: &str = "foreach_empty_array";
/// A model that cannot be called. A warning if the workflow is only checked, not run.
pub(crate) const MODEL: &str = "model";
pub(crate) const UNTIL_AGENT: &str = "untilagent_bad_ref";

/// Keys that cannot be combined with `forEach`, and the code of each error.
pub(crate) const FOREACH_WITH: [(&str, &str); 4] = [
    ("maxIterations", "foreach_with_max_iterations"),
    ("until", "foreach_with_until"),
    ("untilAgent", "foreach_with_untilagent"),
    ("delay", "foreach_with_delay"),
];

/// Keys that cannot be combined with `include`, and the code of each error.
pub(crate) const INCLUDE_HAS: [(&str, &str); 6] = [
    ("agent", "include_has_agent"),
    ("instructions", "include_has_instructions"),
    ("loop", "include_has_loop"),
    ("condition", "include_has_condition"),
    ("contextFiles", "include_has_contextfiles"),
    ("model", "include_has_model"),
];

/// Warning: a missing file, if the workflow is only checked, not run.
pub(crate) const MISSING_FILE: &str = "missing_file";
/// Warning: a tool that is unknown in this environment; it may exist where the workflow runs.
pub(crate) const UNKNOWN_TOOL: &str = "unknown_tool";
/// Warning: an expression uses a step that may not have ended.
pub(crate) const NOT_AN_ANCESTOR: &str = "not_an_ancestor";
/// Warning: a text has two possible meanings.
pub(crate) const AMBIGUOUS: &str = "ambiguous";
/// Warning: `{{…}}`, which has no meaning here.
pub(crate) const TEMPLATE: &str = "template";
/// Warning: a key that is accepted and has no effect.
pub(crate) const NO_EFFECT: &str = "no_effect";
/// Warning: letters of several scripts in one name.
pub(crate) const MIXED_SCRIPT: &str = "mixed_script";
