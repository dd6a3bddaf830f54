//! Mixed dialects: a Rust workflow calls a Loom definition and a NoETL playbook, and the playbook calls a Rust
//! function. All three are runs of one engine, equally durable.

use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, StepError};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "quote.wanted", start)]
struct Wanted {
    grams: u64,
    country: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "quote.postage")]
struct Postage {
    cents: u64,
    country: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "quote.made", stop)]
struct Quote {
    total: u64,
    percent: u64,
}

/// Inputs and outputs of the definitions.
#[derive(Serialize)]
struct Parcel {
    grams: u64,
}

#[derive(Deserialize)]
struct Cents {
    cents: u64,
}

#[derive(Serialize)]
struct Taxed {
    country: String,
    cents: u64,
}

#[derive(Deserialize)]
struct Country {
    country: String,
}

#[derive(Serialize)]
struct Rate {
    percent: u64,
}

/// Called by the playbook: `kind: rust`, `name: tax_rate`.
async fn tax_rate(input: Country) -> Result<Rate, StepError> {
    match input.country.as_str() {
        "DE" => Ok(Rate { percent: 19 }),
        "AT" => Ok(Rate { percent: 20 }),
        other => Err(StepError::new("NoSuchCountry", format!("the rate of `{other}` is not known"))),
    }
}

struct Quotes;

#[windlass::workflow(name = "quotes")]
impl Quotes {
    /// Calls the Loom definition `postage` as a child run.
    #[step]
    async fn weigh(&self, ctx: Context, wanted: Wanted) -> Result<Postage, StepError> {
        let postage: Cents = ctx.call("postage", Parcel { grams: wanted.grams }).await?;
        Ok(Postage { cents: postage.cents, country: wanted.country })
    }

    /// Calls the NoETL playbook `taxes`.
    #[step]
    async fn tax(&self, ctx: Context, postage: Postage) -> Result<Quote, StepError> {
        ctx.call("taxes", Taxed { country: postage.country, cents: postage.cents }).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = Quotes.into_workflow().build()?;
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .function("tax_rate", tax_rate)
        .definition("postage", include_str!("mixing/postage.json"))
        .definition("taxes", include_str!("mixing/taxes.yaml"))
        .build()?;
    for country in ["DE", "AT", "XX"] {
        let handle = engine.start(&workflow, Wanted { grams: 1500, country: country.into() }).await?;
        match handle.result::<Quote>().await {
            Ok(quote) => println!("{country}: {} cents with {} % tax", quote.total, quote.percent),
            Err(error) => println!("{country}: {}", error.code()),
        }
    }
    engine.close().await;
    Ok(())
}
