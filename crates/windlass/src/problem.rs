//! Problems of a workflow, reported together.

use std::fmt;

/// A check of the build that can be turned off, for a step or for a workflow.
///
/// ```
/// use windlass::Check;
/// assert_eq!(Check::DeadEnd.as_str(), "dead_end");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// A step that no event from the start, from outside or from a failure can lead to.
    Unreachable,
    /// A step from which no path leads to a stop event or to an event that requests input from outside.
    DeadEnd,
    /// An event that a step accepts and no step produces.
    NeverProduced,
    /// An event that a step produces and no step accepts.
    NeverConsumed,
    /// A join that can never be complete.
    Join,
}

impl Check {
    /// Returns its name in `allow = ["…"]`.
    pub fn as_str(self) -> &'static str {
        match self {
            Check::Unreachable => "unreachable",
            Check::DeadEnd => "dead_end",
            Check::NeverProduced => "never_produced",
            Check::NeverConsumed => "never_consumed",
            Check::Join => "join",
        }
    }
}

/// One problem of a workflow.
///
/// ```
/// let error = windlass::Workflow::builder("empty").build().unwrap_err();
/// assert_eq!(error.problems[0].code, "no_steps");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The code, for programs; for a check that can be turned off, its name.
    pub code: &'static str,
    /// The step that the problem belongs to, if it is a single one.
    pub step: Option<String>,
    /// The description of the problem.
    pub message: String,
    /// The suggested fix.
    pub hint: String,
}

impl Problem {
    pub(crate) fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { code, step: None, message: message.into(), hint: hint.into() }
    }

    /// Returns the error code, such as `WND-1400`; `windlass explain` prints its page.
    ///
    /// ```
    /// let error = windlass::Workflow::builder("empty").build().unwrap_err();
    /// assert_eq!(error.problems[0].reference(), "WND-1400");
    /// ```
    pub fn reference(&self) -> &'static str {
        // A test checks that every code has a page.
        windlass_errors::for_build_problem(self.code).unwrap_or_default()
    }

    pub(crate) fn at(mut self, step: &str) -> Problem {
        self.step = Some(step.to_owned());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]: {}\n    {}", self.code, self.reference(), self.message, self.hint)
    }
}

/// A workflow that cannot be built, with all its problems.
///
/// ```
/// let error = windlass::Workflow::builder("empty").build().unwrap_err();
/// assert!(error.to_string().starts_with("the workflow `empty` cannot be built"));
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the workflow `{workflow}` cannot be built, {}:{}", format_count(.problems.len()), format_problems(.problems))]
pub struct BuildError {
    /// The name of the workflow.
    pub workflow: String,
    /// The problems, in the order of the steps.
    pub problems: Vec<Problem>,
}

/// Prints the same text as `Display`, since `main` prints the debug form of a returned error.
impl std::fmt::Debug for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl BuildError {
    pub(crate) fn new(workflow: String, problems: Vec<Problem>) -> BuildError {
        BuildError { workflow, problems }
    }

    /// Reports whether there is a problem with this code.
    pub fn has(&self, code: &str) -> bool {
        self.problems.iter().any(|problem| problem.code == code)
    }
}

fn format_count(problems: usize) -> String {
    match problems {
        1 => "for one reason".to_owned(),
        more => format!("for {more} reasons"),
    }
}

fn format_problems(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
