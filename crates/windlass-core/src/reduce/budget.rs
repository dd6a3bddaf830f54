//! Budgets of nodes and the amounts used. Both are part of the state, so that a crash loses no accounting.
//!
//! A call that declares the amounts it may use reserves them from every budget around it and returns what it did not
//! need. If only calls in flight prevent it, it waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_value::{Duration, Map, Value};

use super::eval::Locals;
use super::fault::{FaultResult, no_job};
use super::{ItemStop, Reducer};
use crate::plan::{Budget, CALLS, ExprId, MONEY, TIME};
use crate::state::{AgendaItem, BudgetUsage, Closing, Frame, FrameBody, FrameId, ScopeId, Timer, UsageAccount};
use crate::{ErrorInfo, EventKind, LoopEndReason, Status, TaskOutcome, amounts};

/// Amounts by the name of their budget.
pub(in crate::reduce) type Amounts = Vec<(Arc<str>, u64)>;

/// Whether the budgets around a call allow it.
pub(in crate::reduce) enum BudgetDecision {
    Yes,
    /// Possibly, when calls in flight have ended.
    Later,
    /// The budget of this frame does not suffice.
    No(FrameId),
}

/// The text of an error about budgets that do not suffice.
pub(in crate::reduce) struct BudgetShortage {
    pub what: &'static str,
    pub detail: String,
}

const USED_UP: &str = "has used up its budget";

impl BudgetUsage {
    pub(in crate::reduce) fn counts_calls(&self) -> bool {
        &*self.what == CALLS
    }

    /// Returns true if no other effect may be dispatched.
    pub(in crate::reduce) fn is_spent(&self) -> bool {
        self.used >= self.max
    }

    fn is_insufficient_for(&self, amount: u64) -> bool {
        self.is_spent() || self.used.saturating_add(amount) > self.max
    }
}

impl Reducer<'_> {
    /// Evaluates the amounts of a budget; none of them is used yet.
    pub(in crate::reduce) fn evaluate_budget(
        &mut self,
        limits: &[Budget],
        scope: ScopeId,
    ) -> Result<Vec<BudgetUsage>, ItemStop> {
        let used = |limit: &Budget| {
            Ok(BudgetUsage {
                what: limit.what.clone(),
                used: 0,
                max: self.count(&limit.max, scope)?,
                reserved: 0,
                refused: 0,
            })
        };
        limits.iter().map(used).collect()
    }

    /// Begins metering when a node is entered for the first time; a node that is entered again continues counting.
    pub(in crate::reduce) fn open_account(&mut self, id: FrameId) -> Result<(), ItemStop> {
        let frame = self.frame(id)?;
        if frame.account.is_some() {
            return Ok(());
        }
        let (node, scope) = (self.program.node(frame.node), frame.scope);
        if !node.meters_usage && node.budget.is_empty() {
            return Ok(());
        }
        let budget = self.evaluate_budget(&node.budget, scope)?;
        let time = budget.iter().find(|budget| &*budget.what == TIME).map(|budget| budget.max);
        self.frame_mut(id)?.account = Some(Box::new(UsageAccount { budget, ..UsageAccount::default() }));
        if let Some(max_ms) = time {
            self.limit_time(id, max_ms)?;
        }
        Ok(())
    }

    pub(in crate::reduce) fn limit_time(&mut self, id: FrameId, max_ms: u64) -> FaultResult {
        let after = Duration(max_ms.saturating_mul(1_000));
        let key = self.set_timer(self.now() + after, Timer::Budget(id));
        if let Some(before) = self.frame_mut(id)?.account.get_or_insert_default().time.replace(key) {
            self.state.timers.remove(&before);
        }
        Ok(())
    }

    /// Handles the expiry of a frame's budget of time.
    pub(in crate::reduce) fn budget_time_over(&mut self, id: FrameId) -> FaultResult {
        if let Some(account) = self.frame_mut(id)?.account.as_mut() {
            account.time = None;
        }
        for budget in self.budgets_mut(id)? {
            budget.refused = 0;
            if &*budget.what == TIME {
                budget.used = budget.max;
            }
        }
        self.exhaust(id, None)
    }

    /// Evaluates the amounts that a call may use. The expression sees the input that will be sent as `_input`.
    pub(in crate::reduce) fn reservation(
        &mut self,
        expression: Option<ExprId>,
        input: &Value,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<Amounts, ItemStop> {
        let Some(expression) = expression else { return Ok(Amounts::new()) };
        let names = Map::from_iter([("_input", input.clone())]);
        let reserved = self.eval_with(expression, scope, Locals { names: Some(&names), ..locals })?;
        Ok(amounts(&reserved))
    }

    /// Returns the names for the input of a call that reserves amounts: `_left` has what the budgets around it have
    /// left. Amounts that calls in flight have reserved count as left, because most of them will be returned: a call
    /// that asks for more than is free next to them waits.
    pub(in crate::reduce) fn names_of_budgets(&mut self, id: FrameId) -> FaultResult<Map> {
        let mut left: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for frame in self.enclosing_budgets(id)? {
            for budget in self.budgets_mut(frame)? {
                let amount = budget.max.saturating_sub(budget.used);
                let least = left.entry(budget.what.clone()).or_insert(amount);
                *least = amount.min(*least);
            }
        }
        Ok(Map::from_iter([("_left", Value::object(left))]))
    }

    /// Reserves the amounts if all budgets around the call allow it. The innermost budget that does not suffice
    /// decides: outer budgets do not pay for a call that it refuses.
    pub(in crate::reduce) fn reserve_budget(&mut self, id: FrameId, reserved: &Amounts) -> FaultResult<BudgetDecision> {
        let around = self.enclosing_budgets(id)?;
        let mut later = false;
        for frame in &around {
            let mut lacks = false;
            for budget in self.budgets_mut(*frame)? {
                let amount = if budget.counts_calls() { 1 } else { amount_of(reserved, &budget.what) };
                let short = budget.is_insufficient_for(amount);
                budget.refused = if short { amount } else { 0 };
                lacks |= short;
                later |= amount > 0 && budget.is_insufficient_for(amount.saturating_add(budget.reserved));
            }
            // An exhausted budget ends its frame; calls that were dispatched before may still complete.
            match lacks && !self.is_paying(*frame)? {
                true => return Ok(BudgetDecision::No(*frame)),
                false => later |= lacks,
            }
        }
        if later {
            return Ok(BudgetDecision::Later);
        }
        for frame in around {
            for budget in self.budgets_mut(frame)? {
                match budget.counts_calls() {
                    true => budget.used = budget.used.saturating_add(1),
                    false => budget.reserved = budget.reserved.saturating_add(amount_of(reserved, &budget.what)),
                }
            }
        }
        Ok(BudgetDecision::Yes)
    }

    /// Returns true if a call inside is in flight that has reserved an amount.
    fn is_paying(&self, id: FrameId) -> FaultResult<bool> {
        for open in self.state.jobs.values().filter(|open| !open.resting && !open.reserved.is_empty()) {
            if self.enclosing_frames(open.frame)?.contains(&id) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Delays the task until a call in flight returns an unused reservation.
    pub(in crate::reduce) fn wait_for_budget(&mut self, id: FrameId) -> FaultResult {
        self.return_worker(id)?;
        self.state.waiting_for_budget.push_back(id);
        Ok(())
    }

    /// Handles an exhausted budget: a loop ends where it is, any other node fails. `by` is the frame that was refused.
    pub(in crate::reduce) fn exhaust(&mut self, id: FrameId, by: Option<FrameId>) -> FaultResult {
        let frame = self.frame(id)?;
        if matches!(frame.body, FrameBody::Loop(_)) {
            return self.stop_loop(id, LoopEndReason::Budget);
        }
        let name = self.program.node(frame.node).name.clone();
        let name = if frame.parent.is_none() { "the run".to_owned() } else { format!("`{name}`") };
        let budget: Vec<BudgetUsage> = self.budgets_mut(id)?.map(|budget| budget.clone()).collect();
        let BudgetShortage { what, detail } = shortage(&budget);
        let error = ErrorInfo::new(EXCEEDED, "budget", format!("{name} {what}{detail}"))
            .hint("raise the budget, or check what it is spent on: `windlass events RUN`");
        let mut error = self.program.plan.apply_hint(error);
        // A run has no path; the refused frame has one.
        if self.path(id).is_empty() {
            error.path = by.map_or_else(|| "".into(), |by| self.task_path(by));
        }
        self.close(id, Closing { status: Status::Failed, error: Some(error), output: Value::Null, own_end: true })
    }

    /// Accounts for a finished job: adds the amounts it used and frees its reservation.
    pub(in crate::reduce) fn account_job(&mut self, job: u64, outcome: Option<&TaskOutcome>) -> FaultResult {
        let open = self.state.jobs.get_mut(&job).ok_or_else(|| no_job(job, "a job that ends"))?;
        let (frame, reserved) = (open.frame, std::mem::take(&mut open.reserved));
        let used = outcome.and_then(|outcome| outcome.meta.get("usage")).map(amounts).unwrap_or_default();
        if reserved.is_empty() && used.is_empty() {
            return Ok(());
        }
        for id in self.enclosing_frames(frame)? {
            let mut exceeded = Vec::new();
            for budget in self.budgets_mut(id)?.filter(|budget| !budget.counts_calls()) {
                let before = budget.used;
                budget.reserved = budget.reserved.saturating_sub(amount_of(&reserved, &budget.what));
                budget.used = budget.used.saturating_add(amount_of(&used, &budget.what));
                if before <= budget.max && budget.used > budget.max {
                    exceeded.push(budget.clone());
                }
            }
            self.publish_exceeded(id, exceeded);
            self.meter(id, &used)?;
        }
        self.state.budget_freed |= !reserved.is_empty();
        Ok(())
    }

    /// Lets waiting calls check their budgets again, once all consequences of finished calls are processed: if such a
    /// check exhausts a budget, that must not cancel these consequences.
    pub(in crate::reduce) fn recheck_budgets(&mut self) -> bool {
        if !self.state.agenda.is_empty() || !std::mem::take(&mut self.state.budget_freed) {
            return false;
        }
        let waiting = std::mem::take(&mut self.state.waiting_for_budget);
        self.state.agenda.extend(waiting.into_iter().map(AgendaItem::Task));
        !self.state.agenda.is_empty() && !self.state.paused && self.work.items_left > 0
    }

    /// Publishes that a call used more than was reserved for it, and more than the budget allows.
    fn publish_exceeded(&mut self, id: FrameId, exceeded: Vec<BudgetUsage>) {
        for BudgetUsage { what, used, max, .. } in exceeded {
            self.publish_at(id, EventKind::BudgetExceeded { what, used, max });
        }
    }

    fn meter(&mut self, id: FrameId, used: &Amounts) -> FaultResult {
        let program = self.program;
        let frame = self.frame_mut(id)?;
        if !program.node(frame.node).meters_usage {
            return Ok(());
        }
        let account = frame.account.get_or_insert_default();
        for (what, amount) in used {
            let total = account.usage.entry(what.clone()).or_default();
            *total = total.saturating_add(*amount);
        }
        Ok(())
    }

    fn budgets_mut(&mut self, id: FrameId) -> FaultResult<impl Iterator<Item = &mut BudgetUsage>> {
        let frame = self.frame_mut(id)?;
        let of_loop = if let FrameBody::Loop(looping) = &mut frame.body { Some(looping) } else { None };
        let of_node = frame.account.iter_mut().flat_map(|account| &mut account.budget);
        Ok(of_node.chain(of_loop.into_iter().flat_map(|looping| &mut looping.budget)))
    }

    /// Returns a frame and the frames around it, from the inside out.
    fn enclosing_frames(&self, id: FrameId) -> FaultResult<Vec<FrameId>> {
        self.enclosing_frames_where(id, |_| true)
    }

    /// Returns those of them that have a budget.
    fn enclosing_budgets(&self, id: FrameId) -> FaultResult<Vec<FrameId>> {
        self.enclosing_frames_where(id, |frame| {
            let of_loop = matches!(&frame.body, FrameBody::Loop(looping) if !looping.budget.is_empty());
            of_loop || frame.account.as_ref().is_some_and(|account| !account.budget.is_empty())
        })
    }

    fn enclosing_frames_where(&self, id: FrameId, matches: impl Fn(&Frame) -> bool) -> FaultResult<Vec<FrameId>> {
        let (mut found, mut next) = (Vec::new(), Some(id));
        while let Some(id) = next {
            let frame = self.frame(id)?;
            if matches(frame) {
                found.push(id);
            }
            next = frame.parent;
        }
        Ok(found)
    }
}

/// The code of an error that a retry would only repeat.
pub(in crate::reduce) const EXCEEDED: &str = "BudgetExceeded";

/// Parses amounts: whole numbers from 0 on; other values are ignored.
fn amounts(value: &Value) -> Amounts {
    let amount = |(what, amount): (&Arc<str>, &Value)| {
        amount.as_int().and_then(|amount| u64::try_from(amount).ok()).map(|amount| (what.clone(), amount))
    };
    value.as_map().into_iter().flat_map(Map::iter).filter_map(amount).collect()
}

fn amount_of(amounts: &Amounts, what: &str) -> u64 {
    amounts.iter().find(|(name, _)| **name == *what).map_or(0, |(_, amount)| *amount)
}

/// Returns `{input_tokens: 900, output_tokens: 300}`; null if nothing was used.
pub(crate) fn usage_value(usage: &BTreeMap<Arc<str>, u64>) -> Value {
    match usage.is_empty() {
        true => Value::Null,
        false => Value::object(usage.iter().map(|(what, amount)| (what.clone(), Value::from(*amount)))),
    }
}

/// Returns `{calls: 3, tokens: 1200}`; None for a loop without a budget.
pub(in crate::reduce) fn amounts_value(budget: &[BudgetUsage], amount: impl Fn(&BudgetUsage) -> u64) -> Option<Value> {
    let map: Map = budget.iter().map(|budget| (budget.what.clone(), Value::from(amount(budget)))).collect();
    (!budget.is_empty()).then(|| Value::map(map))
}

/// Describes the budget that did not suffice for a call, with the amount requested; else the budget that is spent.
pub(in crate::reduce) fn shortage(budget: &[BudgetUsage]) -> BudgetShortage {
    let refused = budget.iter().find(|budget| budget.refused > 0);
    let spent = refused.or_else(|| budget.iter().find(|budget| budget.ends_iterations()));
    let spent = spent.or_else(|| budget.iter().find(|budget| budget.is_spent()));
    let detail = spent.map_or_else(String::new, |BudgetUsage { what, used, max, refused, .. }| {
        let detail = format!(
            ": {} of {}{}",
            amounts::format_amount(what, *used),
            amounts::format_amount(what, *max),
            amounts::unit_suffix(what)
        );
        let verb = if &**what == MONEY { "is" } else { "are" };
        match used >= max {
            true => detail,
            false => format!(
                "{detail} {verb} used; the next call reserves {}, more than is left",
                amounts::format_amount(what, *refused)
            ),
        }
    });
    let enough = spent.is_some_and(|budget| !budget.is_spent());
    BudgetShortage { what: if enough { "has too little of its budget left" } else { USED_UP }, detail }
}
