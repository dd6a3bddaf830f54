//! The codes of this dialect's problems, and the names that the format's own test cases use for them.

use windlass_syntax::Severity;

/// Problems without a finer code.
pub(crate) const VALIDATION: &str = "WND-1300";

/// Problems that all dialects share.
pub(crate) const UNKNOWN_KEY: &str = "WND-1020";
pub(crate) const MISSING_KEY: &str = "WND-1022";
pub(crate) const CONFLICT: &str = "WND-1023";
pub(crate) const BAD_VALUE: &str = "WND-1024";

pub(crate) const JUDGE: &str = "WND-1329";
pub(crate) const INCLUDE: &str = "WND-1336";
pub(crate) const EXPRESSION: &str = "WND-1340";
pub(crate) const FILE_REFERENCE: &str = "WND-1341";
pub(crate) const RESULT_SCHEMA: &str = "WND-1342";
pub(crate) const PRICE: &str = "WND-1343";
pub(crate) const TEXT_DIRECTION: &str = "WND-1344";
pub(crate) const AGENT_TOOL: &str = "WND-1345";

pub(crate) const MISSING_NAME: &str = "WND-1301";
pub(crate) const MISSING_STEPS: &str = "WND-1302";
pub(crate) const EMPTY_STEPS: &str = "WND-1303";
pub(crate) const UNKNOWN_VERSION: &str = "WND-1304";
pub(crate) const AGENT_MISSING_DESCRIPTION: &str = "WND-1305";
pub(crate) const INVALID_STEP_ID: &str = "WND-1306";
pub(crate) const DUPLICATE_STEP: &str = "WND-1307";
pub(crate) const MISSING_AGENT: &str = "WND-1308";
pub(crate) const MISSING_DEP: &str = "WND-1309";
pub(crate) const CYCLE: &str = "WND-1310";
pub(crate) const NEGATIVE_VALUE: &str = "WND-1311";
pub(crate) const LOOP_VALIDATION: &str = "WND-1320";
pub(crate) const LOOP_MISSING_MAX_ITERATIONS: &str = "WND-1321";
pub(crate) const NESTED_LOOP: &str = "WND-1322";
pub(crate) const FOREACH_EMPTY: &str = "WND-1323";
/// A model that cannot be called. A warning if the workflow is only checked, not run.
pub(crate) const MODEL: &str = "WND-1346";
pub(crate) const UNTIL_AGENT: &str = "WND-1328";

/// Keys that cannot be combined with `forEach`, and the code of each error.
pub(crate) const FOREACH_WITH: [(&str, &str); 4] =
    [("maxIterations", "WND-1324"), ("until", "WND-1325"), ("untilAgent", "WND-1326"), ("delay", "WND-1327")];

/// Keys that cannot be combined with `include`, and the code of each error.
pub(crate) const INCLUDE_HAS: [(&str, &str); 6] = [
    ("agent", "WND-1330"),
    ("instructions", "WND-1331"),
    ("loop", "WND-1332"),
    ("condition", "WND-1333"),
    ("contextFiles", "WND-1334"),
    ("model", "WND-1335"),
];

/// Warning: a missing file, if the workflow is only checked, not run.
pub(crate) const MISSING_FILE: &str = "WND-1390";
/// Warning: a tool that is unknown in this environment; it may exist where the workflow runs.
pub(crate) const UNKNOWN_TOOL: &str = "WND-1391";
/// Warning: an expression uses a step that may not have ended.
pub(crate) const NOT_AN_ANCESTOR: &str = "WND-1392";
/// Warning: a text has two possible meanings.
pub(crate) const AMBIGUOUS: &str = "WND-1393";
/// Warning: `{{…}}`, which has no meaning here.
pub(crate) const TEMPLATE: &str = "WND-1395";
/// Warning: a key that is accepted and has no effect.
pub(crate) const NO_EFFECT: &str = "WND-1394";
/// Warning: letters of several scripts in one name.
pub(crate) const MIXED_SCRIPT: &str = "WND-1396";

/// The codes for which the format has a name. It calls all other errors `validation`.
const NAMES: &[(&str, &str)] = &[
    ("WND-1301", "missing_name"),
    ("WND-1302", "missing_steps"),
    ("WND-1303", "empty_steps"),
    ("WND-1304", "unknown_version"),
    ("WND-1305", "agent_missing_description"),
    ("WND-1306", "invalid_step_id"),
    ("WND-1307", "duplicate_step"),
    ("WND-1308", "missing_agent"),
    ("WND-1309", "missing_dep"),
    ("WND-1310", "cycle"),
    ("WND-1311", "negative_value"),
    ("WND-1320", "loop_validation"),
    ("WND-1321", "loop_missing_max_iterations"),
    ("WND-1322", "nested_loop_prohibited"),
    ("WND-1323", "foreach_empty_array"),
    ("WND-1324", "foreach_with_max_iterations"),
    ("WND-1325", "foreach_with_until"),
    ("WND-1326", "foreach_with_untilagent"),
    ("WND-1327", "foreach_with_delay"),
    ("WND-1328", "untilagent_bad_ref"),
    ("WND-1330", "include_has_agent"),
    ("WND-1331", "include_has_instructions"),
    ("WND-1332", "include_has_loop"),
    ("WND-1333", "include_has_condition"),
    ("WND-1334", "include_has_contextfiles"),
    ("WND-1335", "include_has_model"),
    ("WND-1346", "model"),
    ("WND-1390", "missing_file"),
    ("WND-1391", "unknown_tool"),
    ("WND-1392", "not_an_ancestor"),
    ("WND-1393", "ambiguous"),
    ("WND-1394", "no_effect"),
    ("WND-1395", "template"),
    ("WND-1396", "mixed_script"),
];

/// Returns the name that the format's own test cases use for a code.
pub(crate) fn conformance_name(code: &str, severity: Severity) -> &'static str {
    let other = match severity {
        Severity::Error => "validation",
        Severity::Warning => "no_effect",
    };
    NAMES.iter().find(|(numbered, _)| *numbered == code).map_or(other, |(_, name)| name)
}
