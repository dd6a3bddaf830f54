//! The smallest workflow: one step, from the event that starts a run to the one that ends it.

use serde::{Deserialize, Serialize};
use windlass::{Event, StepError};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "greet", start)]
struct Greet {
    name: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "greeted", stop)]
struct Greeted {
    text: String,
}

struct Hello;

#[windlass::workflow(name = "hello")]
impl Hello {
    #[step]
    async fn greet(&self, greet: Greet) -> Result<Greeted, StepError> {
        Ok(Greeted { text: format!("Hello, {}!", greet.name) })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = Hello.into_workflow().build()?;
    let greeted: Greeted = workflow.run(Greet { name: "Ada".into() }).await?;
    println!("{}", greeted.text);
    Ok(())
}
