//! New runs made from earlier ones: restarted from a step, and retried where they failed.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::{Begin, Directory, Done, Item, Worked, World, done, in_time, refused};
use windlass::{All, Engine, Res, RestartRequest, Workflow};

fn sums(world: &World, broken: &Arc<AtomicBool>) -> Workflow {
    let (world, broken) = (world.clone(), broken.clone());
    Workflow::builder("sums")
        .step("split", |_: Begin| async { Ok((1..=5).map(|n| Item { n }).collect::<Vec<_>>()) })
        .step("work", move |world: Res<World>, item: Item| {
            let broken = broken.clone();
            async move {
                world.note(format!("work {}", item.n));
                match item.n == 3 && broken.load(Ordering::SeqCst) {
                    true => Err(refused()),
                    false => Ok(Worked { n: item.n }),
                }
            }
        })
        .workers(1)
        .step("gather", |all: All<Worked>| async move { done(all.iter().map(|one| one.n).sum::<u64>().to_string()) })
        .resource(world)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn successful_steps_are_not_repeated() {
    let (world, broken, directory) = (World::default(), Arc::new(AtomicBool::new(true)), Directory::new());
    let workflow = sums(&world, &broken);
    let engine = Engine::open(directory.path()).workflow(&workflow).build().unwrap();
    let old = engine.start(&workflow, Begin { n: 0 }).await.unwrap();
    let failed = in_time(old.result::<Done>()).await.unwrap_err();
    assert_eq!(failed.code(), "NotYet");
    let before = world.notes().len();
    broken.store(false, Ordering::SeqCst);
    let new = in_time(engine.retry_failed(old.id(), Some("new".to_owned()))).await.unwrap();
    assert_eq!(in_time(new.result::<Done>()).await.unwrap().text, "15");
    assert_eq!(world.notes()[before..], ["work 3", "work 4", "work 5"]);
    let nothing = engine.retry_failed("new", None).await.err().unwrap();
    assert_eq!(nothing.code(), "NothingFailed");

    // From the second body that this run itself has started; the earlier one keeps its result.
    let before = world.notes().len();
    let restart = RestartRequest { from: "work".to_owned(), occurrence: Some(2), ..RestartRequest::default() };
    let third = in_time(engine.restart(new.id(), restart)).await.unwrap();
    assert_eq!(in_time(third.result::<Done>()).await.unwrap().text, "15");
    assert_eq!(world.notes()[before..], ["work 4", "work 5"]);
}
