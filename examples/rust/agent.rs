//! A durable agent: plan, act, judge, until the goal is reached or the turns are used up. Kill it at any moment,
//! start it again, and it resumes in the same turn. docs/tutorial-rust.md explains it.

#[path = "agent/world.rs"]
mod world;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{BuildError, Context, Engine, Event, Events, Handle, Res, RunEventKind, StepError, Workflow};
use world::{Model, Tools, World};

/// Starts a run.
#[derive(Event, Serialize, Deserialize)]
#[event(name = "agent.goal", start)]
struct Goal {
    free: u64,
    turns: u32,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "agent.turn")]
struct Turn {
    number: u32,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "agent.act")]
struct Act {
    turn: u32,
    tool: String,
    on: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "agent.observed")]
struct Observed {
    turn: u32,
    what: String,
    free: u64,
}

/// Ends the run.
#[derive(Event, Serialize, Deserialize)]
#[event(name = "agent.done", stop)]
struct Done {
    good: bool,
    why: String,
    history: Vec<Observation>,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "approval.wanted", input_required)]
struct ApprovalWanted {
    turn: u32,
    tool: String,
    on: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "approval.given", human_response)]
struct ApprovalGiven {
    turn: u32,
    granted: bool,
}

#[derive(Events)]
enum Next {
    Turn(Turn),
    Done(Done),
}

/// The agent's memory. It is the run's state, and as durable as the run.
#[derive(Default, Serialize, Deserialize)]
struct Memory {
    goal: u64,
    turns: u32,
    history: Vec<Observation>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Observation {
    what: String,
    free: u64,
}

struct Agent;

#[windlass::workflow(name = "agent")]
impl Agent {
    #[step]
    async fn begin(&self, ctx: Context<Memory>, goal: Goal) -> Result<Turn, StepError> {
        ctx.update(|memory| (memory.goal, memory.turns) = (goal.free, goal.turns))?;
        Ok(Turn { number: 1 })
    }

    #[step(timeout = "1m", retry(exponential, attempts = 5, first = "1s"))]
    async fn plan(&self, ctx: Context<Memory>, turn: Turn, model: Res<Model>) -> Result<Act, StepError> {
        let (tool, on) = model.plan(ctx.key(), &ctx.state()?.history).await?;
        Ok(Act { turn: turn.number, tool, on })
    }

    /// A dangerous tool waits for a person first. When the answer arrives, the body runs again from its start, so nothing
    /// is done before the wait.
    #[step(waits = [ApprovalGiven], retry(exponential, attempts = 5, first = "1s"))]
    async fn act(&self, ctx: Context<Memory>, act: Act, tools: Res<Tools>) -> Result<Observed, StepError> {
        let Act { turn, tool, on } = act;
        if tools.is_dangerous(&tool) {
            let question = ApprovalWanted { turn, tool: tool.clone(), on: on.clone() };
            let answer = ctx.wait_for::<ApprovalGiven>().matching("turn", turn).asking(question).await?;
            if !answer.granted {
                let free = ctx.state()?.history.last().map_or(0, |last| last.free);
                return Ok(Observed { turn, what: format!("{tool} {on}: refused"), free });
            }
        }
        let free = tools.call(ctx.key(), &tool, &on).await?;
        Ok(Observed { turn, what: format!("{tool} {on}"), free })
    }

    /// The observation is added to the history together with this step's result: both are stored, or neither.
    #[step(timeout = "1m", retry(exponential, attempts = 5, first = "1s"))]
    async fn judge(&self, ctx: Context<Memory>, observed: Observed, model: Res<Model>) -> Result<Next, StepError> {
        let Observed { turn, what, free } = observed;
        ctx.append("history", Observation { what, free })?;
        let Memory { goal, turns, history } = ctx.state()?;
        if model.judge(ctx.key(), goal, free).await? {
            return Ok(Done { good: true, why: format!("{free} GB are free"), history }.into());
        }
        match turn < turns {
            true => Ok(Turn { number: turn + 1 }.into()),
            false => Ok(Done { good: false, why: format!("{turns} turns are spent"), history }.into()),
        }
    }
}

fn workflow(world: &World) -> Result<Workflow, BuildError> {
    Agent.into_workflow().event::<ApprovalWanted>().resource(world.model()).resource(world.tools()).build()
}

/// Follows the run until it ends, or until approval is needed and no answer was given on the command line.
async fn follow(handle: &Handle, mut answer: Option<bool>) -> Result<(), Box<dyn std::error::Error>> {
    let mut events = handle.events(0)?;
    let (mut asked, mut idle) = (None, false);
    loop {
        tokio::select! {
            biased;
            event = events.next() => {
                let Some(event) = event.transpose()? else { break };
                idle = matches!(event.kind, RunEventKind::WorkflowIdle { .. });
                match event.event::<ApprovalWanted>() {
                    Some(wanted) => asked = Some(wanted?),
                    None if matches!(event.kind, RunEventKind::StepRunning { .. }) => asked = None,
                    None => {}
                }
            }
            // All events so far are read, and the question is still open.
            () = std::future::ready(()), if idle && asked.is_some() => {
                let Some(ApprovalWanted { turn, tool, on }) = asked.take() else { continue };
                let Some(granted) = answer.take() else {
                    println!("May I {tool} {on}? Start me again with `approve` or `refuse`.");
                    return Ok(());
                };
                handle.send(ApprovalGiven { turn, granted }).await?;
            }
        }
    }
    let done: Done = handle.result().await?;
    println!("{} after {} turns: {}", if done.good { "Done" } else { "Given up" }, done.history.len(), done.why);
    for (number, Observation { what, free }) in done.history.iter().enumerate() {
        println!("  {}. {what}: {free} GB free", number + 1);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|one| one == word);
    let pace = if has("--slow") { Duration::from_secs(3) } else { Duration::from_millis(20) };
    let folder = Path::new(".windlass");
    let world = World::new(folder.join("agent-calls.txt"), pace);

    let workflow = workflow(&world)?;
    let engine = Engine::open(folder).workflow(&workflow).build()?;
    println!("process {}", std::process::id());
    // The same id with the same goal is the same run: the first start creates it, every later one resumes it.
    let handle = engine.start(&workflow, Goal { free: 40, turns: 6 }).id("agent").await?;
    follow(&handle, has("approve").then_some(true).or(has("refuse").then_some(false))).await?;
    engine.close().await;
    Ok(())
}
