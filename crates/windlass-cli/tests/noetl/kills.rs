//! A playbook killed around each of its commits resumes at its current task: the rows are the same, and of all its
//! external effects at most the one in flight is repeated.

use serde_json::Value;

use crate::examples::{ENDPOINTS, MEDICATIONS, batch_rows, endpoint_rows, fixture_for, medication_rows};
use crate::world::PlaybookFixture;

struct Victim {
    name: &'static str,
    /// Tables whose changes are counted.
    tables: &'static [&'static str],
    rows: Vec<(&'static str, Value)>,
}

fn victims() -> [Victim; 2] {
    [
        Victim { name: "endpoints", tables: &["pagination_test_results"], rows: vec![(ENDPOINTS.0, endpoint_rows())] },
        Victim {
            name: "medications",
            tables: &["patient_medications", "medication_batch_log"],
            rows: vec![(MEDICATIONS.0, medication_rows()), (MEDICATIONS.1, batch_rows())],
        },
    ]
}

/// Returns the number of external effects of the run: requests and row changes.
fn effects(world: &PlaybookFixture) -> usize {
    let changes = world.rows("SELECT count(*) AS n FROM changes");
    world.served().len() + changes[0]["n"].as_u64().expect("a number") as usize
}

/// Returns the successful ends of tasks, iterations and steps, in order. A failed attempt may have been lost with its
/// crash.
fn successful_ends(events: &[Value]) -> Vec<String> {
    let good = |event: &&Value| match event["type"].as_str().unwrap_or_default() {
        "task.processed" => event["outcome"]["status"] == "success",
        kind => kind.ends_with(".done") || kind == "workflow.finished",
    };
    let line = |event: &Value| format!("{} {} {}", event["type"], event["path"], event["task"]);
    events.iter().filter(good).map(line).collect()
}

/// The fixture of an example in which every row change is recorded.
fn instrumented_fixture(victim: &Victim) -> (PlaybookFixture, String) {
    let (world, file) = fixture_for(victim.name);
    world.execute(
        "CREATE TABLE changes (what text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO changes VALUES (TG_TABLE_NAME); RETURN NEW; END $$;
         CREATE FUNCTION watch() RETURNS event_trigger LANGUAGE plpgsql AS $$
             DECLARE made record;
             BEGIN
                 FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table' LOOP
                     EXECUTE format('CREATE OR REPLACE TRIGGER note AFTER INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION note()', made.object_identity);
                 END LOOP;
             END $$;
         CREATE EVENT TRIGGER watch ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION watch()",
    );
    (world, file)
}

#[test]
fn a_playbook_killed_at_any_commit_resumes_at_its_task() {
    for victim in victims() {
        let (world, file) = instrumented_fixture(&victim);
        world.run(&file, &[]).exits(0);
        let (undisturbed, ends) = (effects(&world), successful_ends(&world.events()));
        for table in victim.tables {
            let noted = world.rows(&format!("SELECT count(*) > 0 AS noted FROM changes WHERE what = '{table}'"));
            assert_eq!(noted[0]["noted"], true, "changes of {table} are not seen");
        }
        std::thread::scope(|scope| {
            for moment in ["before", "after"] {
                let (victim, file, ends) = (&victim, &file, &ends);
                scope.spawn(move || kill_at_each_commit(victim, file, moment, undisturbed, ends));
            }
        });
    }
}

fn kill_at_each_commit(victim: &Victim, file: &str, moment: &str, undisturbed: usize, expected: &[String]) {
    let service = std::fs::read_to_string(format!("{}/service.json", crate::examples::FOLDER)).expect("the service");
    let (mut world, _) = instrumented_fixture(victim);
    let mut commits = 0;
    loop {
        commits += 1;
        let context = format!("{}, killed {moment} commit {commits}", victim.name);
        world.serve(&service);
        for table in victim.tables {
            world.execute(&format!("DROP TABLE IF EXISTS {table}; DELETE FROM changes"));
        }
        let (id, crash) = (format!("{moment}-{commits}"), format!("{moment}:{commits}"));
        let done = world.run(file, &["--id", &id, "--crash-at", &crash]);
        if done.code.is_some() {
            done.exits(0);
            break;
        }
        // Before the first commit there is nothing to resume.
        if (moment, commits) == ("before", 1) {
            continue;
        }
        let done = world.windlass(&["resume", &id, "--json", "-q"]);
        assert_eq!(done.code, Some(0), "{context}: {}{}", done.out, done.err);
        for (query, expected_rows) in &victim.rows {
            assert_eq!(world.rows(query), *expected_rows, "{context}");
        }
        let done = effects(&world);
        assert!((undisturbed..=undisturbed + 1).contains(&done), "{context}: {done} effects, not {undisturbed}");
        // No end is published twice, and none is missing.
        assert_eq!(successful_ends(&world.events_of(&id)), expected, "{context}");
    }
    assert!(commits > 10, "{} has no more than {commits} commits", victim.name);
}
