//! Steps: methods or functions, workers, time limits, retries, checks, drawings, mixing.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{BuildError, Context, Event, Res, RetryPolicy, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.placed", start)]
struct OrderPlaced {
    cents: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.paid", stop)]
struct Paid {
    attempts: u32,
}

struct Gateway {
    limit: u64,
}

impl Gateway {
    async fn charge(&self, key: &str, cents: u64) -> Result<(), StepError> {
        match cents > self.limit {
            true => Err(StepError::new("RateLimited", format!("{key} is too much"))),
            false => Ok(()),
        }
    }
}

struct Orders;

#[windlass::workflow(name = "orders", timeout = "1h")]
impl Orders {
    #[step(
        workers = 8,
        timeout = "30s",
        retry(
            exponential,
            attempts = 5,
            first = "200ms",
            factor = 2.0,
            max = "10s",
            jitter = 0.1,
            stop_after = "1m",
            on = ["RateLimited", "timeout"]
        )
    )]
    async fn charge(&self, ctx: Context, order: OrderPlaced, gateway: Res<Gateway>) -> Result<Paid, StepError> {
        gateway.charge(ctx.key(), order.cents).await?;
        Ok(Paid { attempts: ctx.attempt() })
    }
}

fn by_hand() -> Result<Workflow, BuildError> {
    Workflow::builder("orders")
        .timeout(Duration::from_secs(3600))
        .step("charge", |ctx: Context, order: OrderPlaced, gateway: Res<Gateway>| async move {
            gateway.charge(ctx.key(), order.cents).await?;
            Ok(Paid { attempts: ctx.attempt() })
        })
        .workers(8)
        .timeout(Duration::from_secs(30))
        .retry(RetryPolicy::exponential(Duration::from_millis(200)).attempts(5).max(Duration::from_secs(10)))
        .resource(Gateway { limit: 5000 })
        .build()
}

#[tokio::test]
async fn both_ways_of_writing() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = Orders.into_workflow().resource(Gateway { limit: 5000 }).build()?;
    assert_eq!(workflow.run::<Paid>(OrderPlaced { cents: 1990 }).await?.attempts, 1);
    assert_eq!(by_hand()?.run::<Paid>(OrderPlaced { cents: 1990 }).await?.attempts, 1);
    Ok(())
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.lost")]
struct Lost {}

#[test]
fn all_problems_at_once() {
    let built =
        Workflow::builder("orders").step("lose", |_: OrderPlaced, _: Res<Gateway>| async { Ok(Lost {}) }).build();
    let Err(error) = built else { panic!("it has no end") };
    assert!(error.has("no_stop") && error.has("missing_resource") && error.has("never_consumed"));
    println!("{error}");
}

#[test]
fn drawings() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = by_hand()?;
    let drawing = workflow.drawing();
    println!("{}", drawing.to_mermaid());
    let json = drawing.write(windlass::draw::DrawingFormat::Json);
    for text in [drawing.to_mermaid(), drawing.to_dot(), drawing.to_svg(), json] {
        assert!(text.contains("charge"), "{text}");
    }
    Ok(())
}
