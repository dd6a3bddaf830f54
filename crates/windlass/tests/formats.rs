//! A run that a newer program has written: an older program refuses it with a reason and does not change it.

use crate::support;

use support::{Answer, Begin, Directory, Question, done, in_time};
use windlass::{Engine, Workflow};

fn asking() -> Workflow {
    Workflow::builder("asking")
        .step("ask", |begin: Begin| async move { Ok(Question { n: begin.n }) })
        .step("end", |answer: Answer| async move { done(answer.text) })
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_refuses_a_run_of_a_newer_format_and_changes_nothing() {
    let (directory, workflow) = (Directory::new(), asking());
    let open = || Engine::open(directory.path()).workflow(&workflow).build().unwrap();
    let engine = open();
    engine.start(&workflow, Begin { n: 7 }).id("r").await.unwrap();
    engine.close().await;
    drop(engine);
    let shell = rusqlite::Connection::open(directory.path().join("windlass.db")).unwrap();
    let stamp = |format: u32| {
        shell.execute("UPDATE runs SET format = ?1", [format]).unwrap();
        windlass_store_sqlite::reseal_runs(&shell).unwrap();
    };
    let row = || -> (String, u64, u32) {
        let sql = "SELECT status, owner_epoch, format FROM runs";
        shell.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
    };
    stamp(2);
    let before = row();
    // An engine that adopts runs examines it, too.
    let engine = open();
    let error = in_time(engine.resume("r")).await.err().unwrap();
    assert_eq!(error.code(), "NeedsNewer", "{error}");
    assert!(error.to_string().contains("journal format 2, this program reads up to 1"), "{error}");
    engine.close().await;
    drop(engine);
    assert_eq!(row(), before);
    stamp(1);
    let engine = open();
    let handle = in_time(engine.resume("r")).await.unwrap();
    handle.send(Answer { n: 7, text: "yes".into() }).await.unwrap();
    assert_eq!(in_time(handle.result::<support::Done>()).await.unwrap().text, "yes");
    engine.close().await;
}
