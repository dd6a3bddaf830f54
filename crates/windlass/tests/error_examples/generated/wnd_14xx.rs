//! Generated from the pages of `windlass-errors`: `UPDATE=1 cargo test -p windlass-errors`.

pub(super) const EXAMPLES: &[super::Example] = &[
    ("WND-1400", || Box::pin(wnd_1400::call())),
    ("WND-1401", || Box::pin(wnd_1401::call())),
    ("WND-1402", || Box::pin(wnd_1402::call())),
    ("WND-1403", || Box::pin(wnd_1403::call())),
    ("WND-1404", || Box::pin(wnd_1404::call())),
    ("WND-1405", || Box::pin(wnd_1405::call())),
    ("WND-1406", || Box::pin(wnd_1406::call())),
    ("WND-1407", || Box::pin(wnd_1407::call())),
    ("WND-1408", || Box::pin(wnd_1408::call())),
    ("WND-1409", || Box::pin(wnd_1409::call())),
    ("WND-1410", || Box::pin(wnd_1410::call())),
    ("WND-1411", || Box::pin(wnd_1411::call())),
    ("WND-1412", || Box::pin(wnd_1412::call())),
    ("WND-1413", || Box::pin(wnd_1413::call())),
    ("WND-1414", || Box::pin(wnd_1414::call())),
    ("WND-1415", || Box::pin(wnd_1415::call())),
    ("WND-1420", || Box::pin(wnd_1420::call())),
    ("WND-1421", || Box::pin(wnd_1421::call())),
    ("WND-1422", || Box::pin(wnd_1422::call())),
    ("WND-1423", || Box::pin(wnd_1423::call())),
    ("WND-1424", || Box::pin(wnd_1424::call())),
];

mod wnd_1400 {
use windlass::{BuildError, Workflow};

fn example() -> BuildError {
    Workflow::builder("orders")
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1401 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("all orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1402 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .step("finish", |_: Begin| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1403 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.checked")]
struct Checked;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("check", |_: Begin| async { Ok(Checked) })
        .step("finish", |_: Begin, _: Checked| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1404 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .workers(0)
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1405 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .key("id")
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1406 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "step.done")]
struct Own;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("first", |_: Begin| async { Ok(Own) })
        .step("finish", |_: Own| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1407 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "checked")]
struct Checked;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "checked")]
struct Verified;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("first", |_: Begin| async { Ok(Checked) })
        .step("finish", |_: Verified| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1408 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "decision", human_response)]
struct Decision;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Decision| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1409 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "import", start)]
struct Import;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .step("import", |_: Import| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1410 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "question", input_required)]
struct Question;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("ask", |_: Begin| async { Ok(Question) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1411 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "refused", stop)]
struct Refused;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .step("refuse", |_: Begin| async { Ok(Refused) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1412 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .step("after", |_: Done| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1413 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, StepFailed, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .on_failure("recover", |_: StepFailed| async { Ok(Done) })
        .times(0)
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1414 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Res, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

struct Database;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin, _: Res<Database>| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1415 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Context, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.checked")]
struct Checked;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

#[derive(Default, Serialize, Deserialize)]
struct Cart {
    items: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Bill {
    cents: u64,
}

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("check", |_: Begin, _: Context<Cart>| async { Ok(Checked) })
        .step("finish", |_: Checked, _: Context<Bill>| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1420 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.checked")]
struct Checked;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.paid")]
struct Paid;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .step("check", |_: Checked| async { Ok(Paid) })
        .step("pay", |_: Paid| async { Ok(Checked) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1421 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.checked")]
struct Checked;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .step("check", |_: Begin| async { Ok(Checked) })
        .step("log", |_: Checked| async { Ok(()) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1422 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.checked")]
struct Checked;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .step("check", |_: Checked| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1423 {
use serde::{Deserialize, Serialize};
use windlass::{BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.checked")]
struct Checked;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("finish", |_: Begin| async { Ok(Done) })
        .sends::<Checked>()
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}

mod wnd_1424 {
use serde::{Deserialize, Serialize};
use windlass::{All, BuildError, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order.checked")]
struct Checked;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn example() -> BuildError {
    Workflow::builder("orders")
        .step("check", |_: Begin| async { Ok(Checked) })
        .step("finish", |_: All<Checked>| async { Ok(Done) })
        .build()
        .unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().into()
}
}
