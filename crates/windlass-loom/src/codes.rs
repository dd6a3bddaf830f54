//! The stable codes of this compiler's problems. WND-1001 to WND-1005 (syntax) and WND-1021 (wrong kind) come from
//! `windlass-syntax`.

/// A key that nothing here is called by.
pub(crate) const UNKNOWN_KEY: &str = "WND-1020";
/// A value of the wrong kind.
pub(crate) const WRONG_KIND: &str = "WND-1021";
/// A key that must be there.
pub(crate) const MISSING_KEY: &str = "WND-1022";
/// Keys that exclude each other, or the same thing said twice.
pub(crate) const CONFLICT: &str = "WND-1023";
/// A value outside what is allowed.
pub(crate) const BAD_VALUE: &str = "WND-1024";

/// The file is no Loom definition.
pub(crate) const NOT_LOOM: &str = "WND-1100";
/// An action type that does not exist.
pub(crate) const UNKNOWN_TYPE: &str = "WND-1101";
/// Known, but not supported.
pub(crate) const NOT_SUPPORTED: &str = "WND-1102";
/// A tool or activity that nothing provides.
pub(crate) const UNKNOWN_TOOL: &str = "WND-1103";
/// `runAfter` names an action that is not beside this one.
pub(crate) const UNKNOWN_PREDECESSOR: &str = "WND-1104";
/// Actions wait for each other in a circle.
pub(crate) const CYCLE: &str = "WND-1105";
/// A status that does not exist.
pub(crate) const UNKNOWN_STATUS: &str = "WND-1106";
/// Two actions of one name in one scope.
pub(crate) const DUPLICATE_ACTION: &str = "WND-1107";

/// An expression that its language does not accept.
pub(crate) const BAD_EXPRESSION: &str = "WND-1110";
/// A condition that can never be a boolean.
pub(crate) const NOT_BOOLEAN: &str = "WND-1111";
/// An expression names an action that it cannot see.
pub(crate) const UNKNOWN_ACTION: &str = "WND-1112";
/// A variable that nothing declares.
pub(crate) const UNKNOWN_VARIABLE: &str = "WND-1113";
/// A loop that is not around the expression.
pub(crate) const UNKNOWN_LOOP: &str = "WND-1114";
/// A parameter that nothing declares.
pub(crate) const UNKNOWN_PARAMETER: &str = "WND-1115";

/// An app setting that nothing gives.
pub(crate) const UNKNOWN_SETTING: &str = "WND-1117";

/// More than the engine's limit.
pub(crate) const OVER_LIMIT: &str = "WND-1120";
/// Not a duration.
pub(crate) const BAD_DURATION: &str = "WND-1121";

/// `initializeVariable` inside another action.
pub(crate) const DECLARED_INSIDE: &str = "WND-1130";
/// A variable declared twice.
pub(crate) const DECLARED_TWICE: &str = "WND-1131";
/// A value that the variable's type does not hold, or an operation that it does not have.
pub(crate) const VARIABLE_TYPE: &str = "WND-1132";
/// `terminate` inside a loop.
pub(crate) const TERMINATE_INSIDE: &str = "WND-1133";
/// `response` inside a loop, or where nobody waits for one.
pub(crate) const RESPONSE_MISPLACED: &str = "WND-1134";
/// A static result that nothing is called by.
pub(crate) const UNKNOWN_STATIC_RESULT: &str = "WND-1135";

/// Warning: nothing in the loop changes what its condition reads.
pub(crate) const CONDITION_NEVER_CHANGES: &str = "WND-1190";
/// Warning: turns that run side by side write one variable.
pub(crate) const PARALLEL_WRITE: &str = "WND-1191";
/// Warning: from the expression language, such as `@` inside an expression.
pub(crate) const EXPRESSION_STYLE: &str = "WND-1192";
/// Warning: a parameter that must come from outside.
pub(crate) const OUTSIDE_PARAMETER: &str = "WND-1193";
/// Warning: a retry waits for an error that nothing is called by.
pub(crate) const UNKNOWN_ERROR: &str = "WND-1196";
/// Warning: an expression reads an action that need not have ended by then.
pub(crate) const NOT_AFTER: &str = "WND-1195";
/// Warning: something that is accepted and has no effect.
pub(crate) const NO_EFFECT: &str = "WND-1194";
/// Warning: a limit that is close to the most that the engine allows.
pub(crate) const NEAR_LIMIT: &str = "WND-1197";
/// Warning: an action only gives a value, and nobody reads it.
pub(crate) const NEVER_READ: &str = "WND-1198";
/// Warning: a computed name, and nothing that it could name.
pub(crate) const NO_ACTIVITIES: &str = "WND-1199";
