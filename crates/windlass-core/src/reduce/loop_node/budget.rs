//! The budget that a loop's iterations share. Amounts are counted in the same way for every node: see
//! [`crate::reduce::budget`].
//!
//! | spent | effect on the loop |
//! |---|---|
//! | calls | iterations still begin; the first call that is refused ends the loop |
//! | time | its timer ends the loop, and no other iteration begins |
//! | anything else | no other iteration begins; the first call that is refused ends the loop |

use crate::ErrorInfo;
use crate::plan::TIME;
use crate::reduce::Reducer;
use crate::reduce::budget::BudgetShortage;
use crate::reduce::fault::FaultResult;
use crate::state::{BudgetUsage, FrameId};

impl BudgetUsage {
    /// Returns true if no other iteration may begin. An iteration may need no calls; its use of other resources is not
    /// known in advance.
    pub(in crate::reduce) fn ends_iterations(&self) -> bool {
        self.is_spent() && !self.counts_calls()
    }
}

impl Reducer<'_> {
    /// Sets the timer of a budget of time.
    pub(super) fn limit_loop_time(&mut self, id: FrameId, budget: &[BudgetUsage]) -> FaultResult {
        match budget.iter().find(|budget| &*budget.what == TIME) {
            Some(time) => self.limit_time(id, time.max),
            None => Ok(()),
        }
    }
}

/// Returns the error of a loop that ends because its budget is used up; it names that budget.
pub(super) fn budget_error(when: &str, BudgetShortage { what, detail }: BudgetShortage) -> ErrorInfo {
    ErrorInfo::new("LoopBudget", "limit", format!("the loop {what} {when}{detail}"))
        .hint("raise the budget, or check what its iterations spend it on: `windlass events RUN`")
}
