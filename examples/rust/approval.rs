//! Human approval over two processes: the first starts a run and exits, the second delivers the answer.
//!
//! `cargo run --example approval -- ask`, and some other day `cargo run --example approval -- approve Ada`.

use serde::{Deserialize, Serialize};
use windlass::{BuildError, Engine, Event, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "expense.filed", start)]
struct Filed {
    cents: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "expense.question", input_required)]
struct Question {
    text: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "expense.decision", human_response)]
struct Decision {
    by: String,
    granted: bool,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "expense.decided", stop)]
struct Decided {
    text: String,
}

struct Expenses;

#[windlass::workflow(name = "expenses")]
impl Expenses {
    /// Publishes the question and ends. The run holds no resources while a person decides.
    #[step]
    async fn ask(&self, filed: Filed) -> Result<Question, StepError> {
        Ok(Question { text: format!("{} cents: is that right?", filed.cents) })
    }

    #[step]
    async fn decide(&self, decision: Decision) -> Result<Decided, StepError> {
        let verdict = if decision.granted { "granted" } else { "refused" };
        Ok(Decided { text: format!("{verdict} by {}", decision.by) })
    }
}

fn workflow() -> Result<Workflow, BuildError> {
    Expenses.into_workflow().build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let workflow = workflow()?;
    let engine = Engine::open(".windlass").workflow(&workflow).build()?;
    match words[..] {
        ["ask"] => {
            let handle = engine.start(&workflow, Filed { cents: 4200 }).id("expense-1").await?;
            let mut events = handle.events(0)?;
            while let Some(event) = events.next().await {
                if let Some(question) = event?.event::<Question>() {
                    println!("{}", question?.text);
                    break;
                }
            }
        }
        [verdict @ ("approve" | "refuse"), by] => {
            let handle = engine.resume("expense-1").await?;
            handle.send(Decision { by: by.to_owned(), granted: verdict == "approve" }).await?;
            let decided: Decided = handle.result().await?;
            println!("{}", decided.text);
        }
        _ => println!("approval ask | approval approve NAME | approval refuse NAME"),
    }
    engine.close().await;
    Ok(())
}
