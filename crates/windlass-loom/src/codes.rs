//! The stable codes of this compiler's diagnostics. WND-1001 to WND-1005 (syntax) and WND-1021 (wrong kind) come from
//! `windlass-syntax`.

/// An unknown key.
pub(crate) const UNKNOWN_KEY: &str = "WND-1020";
/// A value of the wrong kind.
pub(crate) const WRONG_KIND: &str = "WND-1021";
/// A missing required key.
pub(crate) const MISSING_KEY: &str = "WND-1022";
/// Keys that exclude each other, or a duplicate.
pub(crate) const CONFLICT: &str = "WND-1023";
/// A value outside of the allowed range.
pub(crate) const BAD_VALUE: &str = "WND-1024";

/// The file is not a Loom definition.
pub(crate) const NOT_LOOM: &str = "WND-1100";
/// An action type that does not exist.
pub(crate) const UNKNOWN_TYPE: &str = "WND-1101";
/// A known feature that is not supported.
pub(crate) const NOT_SUPPORTED: &str = "WND-1102";
/// A tool or activity that nothing provides.
pub(crate) const UNKNOWN_TOOL: &str = "WND-1103";
/// `runAfter` names an action that is not in the same block.
pub(crate) const UNKNOWN_PREDECESSOR: &str = "WND-1104";
/// Actions that wait for each other in a cycle.
pub(crate) const CYCLE: &str = "WND-1105";
/// A status that does not exist.
pub(crate) const UNKNOWN_STATUS: &str = "WND-1106";
/// Two actions with the same name in one scope.
pub(crate) const DUPLICATE_ACTION: &str = "WND-1107";

/// An expression that its language does not accept.
pub(crate) const BAD_EXPRESSION: &str = "WND-1110";
/// A condition that can never be a boolean.
pub(crate) const NOT_BOOLEAN: &str = "WND-1111";
/// An expression that names an action it cannot see.
pub(crate) const UNKNOWN_ACTION: &str = "WND-1112";
/// A variable that nothing declares.
pub(crate) const UNKNOWN_VARIABLE: &str = "WND-1113";
/// A loop that is not around the expression.
pub(crate) const UNKNOWN_LOOP: &str = "WND-1114";
/// A parameter that nothing declares.
pub(crate) const UNKNOWN_PARAMETER: &str = "WND-1115";

/// An undefined app setting.
pub(crate) const UNKNOWN_SETTING: &str = "WND-1117";

/// A value above the engine's limit.
pub(crate) const OVER_LIMIT: &str = "WND-1120";
/// An invalid duration.
pub(crate) const BAD_DURATION: &str = "WND-1121";

/// `initializeVariable` inside another action.
pub(crate) const DECLARED_INSIDE: &str = "WND-1130";
/// A variable declared twice.
pub(crate) const DECLARED_TWICE: &str = "WND-1131";
/// A value that the variable's type does not accept, or an operation that the type does not support.
pub(crate) const VARIABLE_TYPE: &str = "WND-1132";
/// `terminate` inside a loop.
pub(crate) const TERMINATE_INSIDE: &str = "WND-1133";
/// `response` inside a loop, or in a run without a caller that waits for one.
pub(crate) const RESPONSE_MISPLACED: &str = "WND-1134";
/// An unknown static result.
pub(crate) const UNKNOWN_STATIC_RESULT: &str = "WND-1135";

/// Warning: nothing in the loop changes what its condition reads.
pub(crate) const CONDITION_NEVER_CHANGES: &str = "WND-1190";
/// Warning: concurrent iterations write the same variable.
pub(crate) const PARALLEL_WRITE: &str = "WND-1191";
/// Warning: from the expression language, such as `@` inside an expression.
pub(crate) const EXPRESSION_STYLE: &str = "WND-1192";
/// Warning: a parameter that must be provided from outside of the file.
pub(crate) const OUTSIDE_PARAMETER: &str = "WND-1193";
/// Warning: a retry names an error that does not exist.
pub(crate) const UNKNOWN_ERROR: &str = "WND-1196";
/// Warning: an expression reads an action that may not have ended by then.
pub(crate) const NOT_AFTER: &str = "WND-1195";
/// Warning: something that is accepted and has no effect.
pub(crate) const NO_EFFECT: &str = "WND-1194";
/// Warning: a limit close to the engine's maximum.
pub(crate) const NEAR_LIMIT: &str = "WND-1197";
/// Warning: an action that only computes a value, and no expression reads it.
pub(crate) const NEVER_READ: &str = "WND-1198";
/// Warning: a computed name without any activity it could name.
pub(crate) const NO_ACTIVITIES: &str = "WND-1199";
