//! Events: names, versions, unions.

use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Events, StepError, Value, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.placed", start, version = 2, upgrade = with_currency)]
struct OrderPlaced {
    id: u64,
    currency: String,
}

/// Version 1 had no currency: all orders were in euros.
fn with_currency(_from: u32, payload: Value) -> Result<Value, StepError> {
    let id = payload.get("id").cloned().unwrap_or_default();
    Ok(Value::object([("id", id), ("currency", "EUR".into())]))
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.priced")]
struct Priced {
    cents: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.closed", stop)]
struct Closed {
    how: String,
}

#[derive(Events)]
enum Verdict {
    Priced(Priced),
    Closed(Closed),
}

async fn price(order: OrderPlaced) -> Result<Verdict, StepError> {
    match order.currency.as_str() {
        "EUR" => Ok(Priced { cents: 100 * order.id }.into()),
        other => Ok(Closed { how: format!("no prices in {other}") }.into()),
    }
}

async fn close(priced: Priced) -> Result<Closed, StepError> {
    Ok(Closed { how: format!("{} cents", priced.cents) })
}

fn orders() -> Result<Workflow, BuildError> {
    Workflow::builder("orders").step("price", price).step("close", close).build()
}

#[tokio::test]
async fn a_union_is_one_of_several() -> Result<(), Box<dyn std::error::Error>> {
    for (currency, how) in [("EUR", "700 cents"), ("XXX", "no prices in XXX")] {
        let closed: Closed = orders()?.run(OrderPlaced { id: 7, currency: currency.into() }).await?;
        assert_eq!(closed.how, how);
    }
    Ok(())
}

#[tokio::test]
async fn older_versions_are_read() -> Result<(), Box<dyn std::error::Error>> {
    let older = Value::object([("id", Value::from(7u32))]);
    let now = orders()?.read_event("order.placed", &older)?;
    assert_eq!(now.get("currency").and_then(Value::as_str), Some("EUR"));
    let error = orders()?.read_event("order.plaiced", &older).err();
    assert_eq!(error.as_ref().map(|error| error.code()), Some("UnknownEvent"));
    Ok(())
}
