//! The stable codes of this compiler's diagnostics. WND-1001 to WND-1007 (syntax) and WND-1021 (wrong kind) come from
//! `windlass-syntax`. A problem that other dialects also have has the same code in all of them.

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

/// The file is not a playbook.
pub(crate) const NOT_NOETL: &str = "WND-1200";
/// A tool kind that does not exist.
pub(crate) const UNKNOWN_TOOL_KIND: &str = "WND-1201";
/// A known feature that is not supported.
pub(crate) const NOT_SUPPORTED: &str = "WND-1202";
/// A tool that nothing provides.
pub(crate) const UNKNOWN_TOOL: &str = "WND-1203";
/// An arc or an entry names a step that does not exist.
pub(crate) const UNKNOWN_STEP: &str = "WND-1204";
/// A jump names a task that its step does not have.
pub(crate) const UNKNOWN_LABEL: &str = "WND-1205";
/// Two steps, or two tasks of a step, with the same name.
pub(crate) const DUPLICATE: &str = "WND-1206";
/// Two forms mixed in one step.
pub(crate) const MIXED: &str = "WND-1207";
/// A spelling of an earlier version that has no meaning here.
pub(crate) const OLD_SPELLING: &str = "WND-1208";
/// A workbook task that does not exist.
pub(crate) const UNKNOWN_WORKBOOK: &str = "WND-1209";

/// A template that its language does not accept.
pub(crate) const BAD_TEMPLATE: &str = "WND-1210";
/// A template that uses a name which cannot exist.
pub(crate) const UNKNOWN_NAME: &str = "WND-1211";

/// A write that concurrent iterations may not make.
pub(crate) const SHARED_WRITE: &str = "WND-1212";
/// A secret that would be written in plain text.
pub(crate) const SECRET: &str = "WND-1213";
/// An SQL statement that is nothing but a template.
pub(crate) const COMPUTED_STATEMENT: &str = "WND-1214";
/// A number above the engine's limit.
pub(crate) const OVER_LIMIT: &str = "WND-1120";

/// Warning: an unknown credential.
pub(crate) const UNKNOWN_ALIAS: &str = "WND-1290";
/// Warning: one name with two meanings.
pub(crate) const NAME_CLASH: &str = "WND-1291";
/// Warning: a name that only the run's input can provide.
pub(crate) const OUTSIDE_NAME: &str = "WND-1292";
/// Warning: an arc that can never be taken, a step that no token reaches, a rule that is never evaluated.
pub(crate) const NEVER_REACHED: &str = "WND-1293";
/// Warning: something that is accepted and has no effect.
pub(crate) const NO_EFFECT: &str = "WND-1294";
/// Warning: text that goes into an SQL statement unescaped.
pub(crate) const RAW_SQL: &str = "WND-1295";
/// Warning: a name that is read only with a default, and that nothing writes.
pub(crate) const NEVER_WRITTEN: &str = "WND-1296";
/// Warning: a condition that may be meant for a failure and does not look at it.
pub(crate) const BLIND_ARC: &str = "WND-1297";
/// Warning: the branches of a fan-out meet at a step that runs once for each of them.
pub(crate) const REPEATED_STEP: &str = "WND-1298";
