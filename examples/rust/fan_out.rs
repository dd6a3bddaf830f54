//! Fan-out and join: a list of events is processed with a concurrency of four, and one step gets all results.

use serde::{Deserialize, Serialize};
use windlass::{All, Event, StepError};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.placed", start)]
struct OrderPlaced {
    parcels: Vec<u64>,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "parcel.packed")]
struct Packed {
    grams: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "parcel.shipped")]
struct Shipped {
    grams: u64,
    cents: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.shipped", stop)]
struct OrderShipped {
    parcels: usize,
    cents: u64,
}

struct Shipping {
    cents_per_kilo: u64,
}

#[windlass::workflow(name = "shipping")]
impl Shipping {
    /// A list is a fan-out: each event is processed separately.
    #[step]
    async fn pack(&self, order: OrderPlaced) -> Result<Vec<Packed>, StepError> {
        Ok(order.parcels.into_iter().map(|grams| Packed { grams }).collect())
    }

    #[step(workers = 4)]
    async fn ship(&self, packed: Packed) -> Result<Shipped, StepError> {
        Ok(Shipped { grams: packed.grams, cents: packed.grams * self.cents_per_kilo / 1000 })
    }

    /// Runs once, when no work of the fan-out is left. An order without parcels arrives here too, with an empty list.
    #[step]
    async fn bill(&self, all: All<Shipped>) -> Result<OrderShipped, StepError> {
        Ok(OrderShipped { parcels: all.len(), cents: all.iter().map(|parcel| parcel.cents).sum() })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = Shipping { cents_per_kilo: 200 }.into_workflow().build()?;
    for parcels in [vec![500, 1500, 250, 4000, 750], Vec::new()] {
        let shipped: OrderShipped = workflow.run(OrderPlaced { parcels }).await?;
        println!("{} parcels, {} cents", shipped.parcels, shipped.cents);
    }
    Ok(())
}
