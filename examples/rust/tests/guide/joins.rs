//! Collecting one each of several types.

use serde::{Deserialize, Serialize};
use windlass::{Collect, Context, Event, StepError};

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
async fn pairs_by_a_key() {
    let workflow = Days.into_workflow().build().unwrap();
    let done: DayDone = workflow.run(Begun { orders: vec![1, 2] }).await.unwrap();
    let mut orders = [done.first, done.second];
    orders.sort();
    assert_eq!(orders, [1, 2]);
}
