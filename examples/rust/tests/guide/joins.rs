//! Collecting one event of each of several types.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{All, Collect, Context, Engine, Event, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "day.begun", start)]
struct Begun {
    orders: Vec<u64>,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.paid")]
struct Paid {
    order: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.packed")]
struct Packed {
    order: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.sent")]
struct Sent {
    order: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "day.done", stop)]
struct DayDone {
    first: u64,
    second: u64,
}

struct Days;

#[windlass::workflow(name = "days")]
impl Days {
    #[step(sends = [Paid, Packed])]
    async fn begin(&self, ctx: Context, begun: Begun) -> Result<(), StepError> {
        for order in &begun.orders {
            ctx.send(Paid { order: *order })?;
        }
        for order in begun.orders.iter().rev() {
            ctx.send(Packed { order: *order })?;
        }
        Ok(())
    }

    #[step(key = "order", surplus = "keep")]
    async fn ship(&self, both: Collect<(Paid, Packed)>) -> Result<Sent, StepError> {
        let Collect((paid, packed)) = both;
        assert_eq!(paid.order, packed.order);
        Ok(Sent { order: paid.order })
    }

    #[step]
    async fn end(&self, Collect((first, second)): Collect<(Sent, Sent)>) -> Result<DayDone, StepError> {
        Ok(DayDone { first: first.order, second: second.order })
    }
}

#[tokio::test]
async fn pairs_by_a_key() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = Days.into_workflow().build()?;
    let done: DayDone = workflow.run(Begun { orders: vec![1, 2] }).await?;
    let mut orders = [done.first, done.second];
    orders.sort();
    assert_eq!(orders, [1, 2]);
    Ok(())
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "numbers", start)]
struct Numbers {
    list: Vec<u64>,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "number")]
struct Number {
    value: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "number.done")]
struct NumberDone {
    value: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "numbers.done", stop)]
struct NumbersDone {
    list: Vec<u64>,
}

/// The list keeps its order, whichever event is ready first.
#[tokio::test]
async fn the_order_of_the_list() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = Workflow::builder("numbers")
        .step("split", |numbers: Numbers| async move {
            Ok(numbers.list.into_iter().map(|value| Number { value }).collect::<Vec<_>>())
        })
        .step("take_time", |ctx: Context, number: Number| async move {
            ctx.sleep(Duration::from_secs(number.value)).await?;
            Ok((number.value != 4).then_some(NumberDone { value: number.value }))
        })
        .step("join", |all: All<NumberDone>| async move {
            Ok(NumbersDone { list: all.into_iter().map(|one| one.value).collect() })
        })
        .build()?;
    let engine = Engine::in_memory().virtual_time(true).workflow(&workflow).build()?;
    let handle = engine.start(&workflow, Numbers { list: vec![5, 4, 3, 9, 1] }).await?;
    assert_eq!(handle.result::<NumbersDone>().await?.list, [5, 3, 9, 1]);
    Ok(())
}
