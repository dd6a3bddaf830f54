//! Retries as data, and an error handler for failures that retries do not fix.

use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Events, Res, StepError, StepFailed};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "payment.due", start)]
struct PaymentDue {
    account: String,
    cents: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "payment.by_invoice")]
struct ByInvoice {
    cents: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "payment.settled", stop)]
struct Settled {
    how: String,
    attempts: u32,
}

#[derive(Events)]
enum Recovered {
    ByInvoice(ByInvoice),
    Settled(Settled),
}

/// A fake network service: busy twice, then it answers; it knows a single account.
#[derive(Default)]
struct Gateway {
    calls: AtomicU32,
}

impl Gateway {
    async fn charge(&self, account: &str, _cents: u64) -> Result<(), StepError> {
        if account != "ada" {
            return Err(StepError::new("NoSuchAccount", format!("there is no account `{account}`")));
        }
        match self.calls.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err(StepError::new("RateLimited", "too many requests")),
            _ => Ok(()),
        }
    }
}

struct Payments;

#[windlass::workflow(name = "payments")]
impl Payments {
    /// Retries only `RateLimited`: after 1, 2, 4 … seconds, five attempts in total.
    #[step(timeout = "30s", retry(exponential, attempts = 5, first = "1s", on = ["RateLimited"]))]
    async fn charge(&self, ctx: Context, due: PaymentDue, gateway: Res<Gateway>) -> Result<Settled, StepError> {
        gateway.charge(&due.account, due.cents).await?;
        Ok(Settled { how: "card".into(), attempts: ctx.attempt() })
    }

    /// Receives the event of the failed step, and the error.
    #[on_failure(of = [charge], times = 1)]
    async fn recover(&self, failed: StepFailed) -> Result<Recovered, StepError> {
        println!("{} failed after {} attempt: {}", failed.step, failed.attempts, failed.error);
        match failed.event::<PaymentDue>() {
            Some(due) => Ok(ByInvoice { cents: due?.cents }.into()),
            None => Ok(Settled { how: "nothing".into(), attempts: failed.attempts }.into()),
        }
    }

    #[step]
    async fn invoice(&self, by: ByInvoice) -> Result<Settled, StepError> {
        Ok(Settled { how: format!("an invoice over {} cents", by.cents), attempts: 1 })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // With `--virtual-time` the waits between the attempts take no time.
    let virtual_time = std::env::args().any(|word| word == "--virtual-time");
    let workflow = Payments.into_workflow().resource(Gateway::default()).build()?;
    let engine = Engine::in_memory().virtual_time(virtual_time).workflow(&workflow).build()?;
    for account in ["ada", "bob"] {
        let handle = engine.start(&workflow, PaymentDue { account: account.into(), cents: 1990 }).await?;
        let settled: Settled = handle.result().await?;
        println!("{account}: {} (attempt {})", settled.how, settled.attempts);
    }
    engine.close().await;
    Ok(())
}
