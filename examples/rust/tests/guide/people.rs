//! A wait for a person, inside a step.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{BuildError, Context, Engine, Event, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.placed", start)]
struct OrderPlaced {
    order: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "approval.wanted", input_required)]
struct ApprovalWanted {
    order: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "approval.given", human_response)]
struct ApprovalGiven {
    order: u64,
    by: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.approved", stop)]
struct Approved {
    by: String,
}

async fn approve(ctx: Context, placed: OrderPlaced) -> Result<Approved, StepError> {
    let answer = ctx
        .wait_for::<ApprovalGiven>()
        .matching("order", placed.order)
        .asking(ApprovalWanted { order: placed.order })
        .deadline(Duration::from_secs(2 * 24 * 3600))
        .await;
    match answer {
        Ok(given) => Ok(Approved { by: given.by }),
        Err(error) if error.kind() == "timeout" => Ok(Approved { by: "default, after two days".into() }),
        Err(error) => Err(error),
    }
}

fn workflow() -> Result<Workflow, BuildError> {
    let builder = Workflow::builder("approvals").step("approve", approve).waits::<ApprovalGiven>();
    builder.workflow().event::<ApprovalWanted>().build()
}

#[tokio::test]
async fn two_days_take_no_time() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = workflow()?;
    let engine = Engine::in_memory().virtual_time(true).workflow(&workflow).build()?;
    let handle = engine.start(&workflow, OrderPlaced { order: 7 }).await?;
    assert_eq!(handle.result::<Approved>().await?.by, "default, after two days");
    Ok(())
}

#[tokio::test]
async fn the_right_answer() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = workflow()?;
    let engine = Engine::in_memory().workflow(&workflow).build()?;
    let handle = engine.start(&workflow, OrderPlaced { order: 7 }).await?;
    handle.send(ApprovalGiven { order: 8, by: "Bob".into() }).await?;
    handle.send(ApprovalGiven { order: 7, by: "Ada".into() }).await?;
    assert_eq!(handle.result::<Approved>().await?.by, "Ada");
    Ok(())
}
