//! Every playbook of `examples/noetl` produces the results that its README describes.

use serde_json::{Value, json};

use crate::world::{PlaybookFixture, event_paths};

pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/noetl");

/// The output of an example, and the rows it leaves in the database.
struct Example {
    name: &'static str,
    output: Value,
    steps: &'static [&'static str],
    rows: Vec<(&'static str, Value)>,
}

fn examples() -> Vec<Example> {
    let example = |name, output, steps, rows| Example { name, output, steps, rows };
    vec![
        example("hello", json!("Good morning, world!"), &["start", "morning"], vec![]),
        example("nightly", json!("The books of eu are closed."), &["start"], vec![]),
        example(
            "squares",
            json!({"squares": [1, 4, 9, 16, 25, 36, 49, 64], "total": 204, "stats": {"total": 8, "success": 8, "failed": 0}}),
            &["square", "report"],
            vec![],
        ),
        example("countdown", json!([3, 2, 1]), &["count"], vec![]),
        example(
            "pagination",
            json!({"items": 4, "shelves": [{"shelf": "north", "pages": 2}, {"shelf": "south", "pages": 1}]}),
            &["prepare", "walk_shelves", "report"],
            vec![(
                "SELECT shelf, page, items FROM shelf_pages ORDER BY shelf, page",
                json!([
                    {"shelf": "north", "page": 1, "items": ["atlas", "bible"]},
                    {"shelf": "north", "page": 2, "items": ["chart"]},
                    {"shelf": "south", "page": 1, "items": ["diary"]},
                ]),
            )],
        ),
        example(
            "endpoints",
            json!({"endpoints": 2, "pages": 5, "items": 8, "iterations": {"total": 2, "success": 2, "failed": 0}}),
            &["create_table", "fetch_all_endpoints", "validate_results"],
            vec![(ENDPOINTS.0, endpoint_rows())],
        ),
        example(
            "medications",
            json!({"medications": {"p001": 4, "p002": 1, "p003": 0}, "stats": {"total": 3, "success": 2, "failed": 1}}),
            &["prepare", "fetch_medications", "validate_results"],
            vec![(MEDICATIONS.0, medication_rows()), (MEDICATIONS.1, batch_rows())],
        ),
        example(
            "cities",
            json!({"Bonn": 11.5, "Graz": 7, "L'Aquila": 19.25, "Bern": -3}),
            &["prepare", "process_cities", "generate_report"],
            vec![(
                "SELECT city_name, temperature FROM city_weather WHERE updated_at IS NOT NULL ORDER BY city_name",
                json!([
                    {"city_name": "Bern", "temperature": -3},
                    {"city_name": "Bonn", "temperature": 11.5},
                    {"city_name": "Graz", "temperature": 7},
                    {"city_name": "L'Aquila", "temperature": 19.25},
                ]),
            )],
        ),
        example(
            "events",
            json!({"events": 7, "kinds": ["bell", "gun", "log"]}),
            &["prepare", "fetch_all_events", "process_events"],
            vec![(
                "SELECT execution_id > 0 AS numbered, event_count, events->0->'id' AS first, events->6->'id' AS last FROM events_cache",
                json!([{"numbered": true, "event_count": 7, "first": 1, "last": 7}]),
            )],
        ),
        example(
            "sinks",
            json!({"patients": 2, "pages": 2, "items": 2}),
            &["prepare", "fetch_data", "fetch_all_patients", "fetch_all_pages", "process_batch", "report"],
            vec![
                (
                    "SELECT run ~ '^[0-9]+$' AS numbered, body FROM raw_data",
                    json!([{"numbered": true, "body": {"status": "open", "since": 1843}}]),
                ),
                (
                    "SELECT total_patients, data->'results'->1->'data'->'name' AS second FROM batch_log",
                    json!([{"total_patients": 2, "second": "Bo"}]),
                ),
                (
                    "SELECT patient_id, jsonb_array_length(medications) AS count FROM patient_pages ORDER BY 1",
                    json!([{"patient_id": "p001", "count": 4}, {"patient_id": "p002", "count": 1}]),
                ),
                (
                    "SELECT * FROM item_details ORDER BY item, part",
                    json!([
                        {"item": "rope", "part": "eye", "weight": 1},
                        {"item": "rope", "part": "strand", "weight": 3},
                        {"item": "sail", "part": "cloth", "weight": 20},
                    ]),
                ),
                (
                    "SELECT jsonb_array_length(results) AS results, stats FROM batch_summary",
                    json!([{"results": 2, "stats": {"total": 2, "success": 2, "failed": 0}}]),
                ),
            ],
        ),
    ]
}

/// Queries whose rows show what an example has done, however often it was interrupted.
pub(crate) const ENDPOINTS: (&str,) = (
    "SELECT endpoint, page, jsonb_path_query_array(items, '$.name') AS names FROM pagination_test_results ORDER BY 1, 2",
);
pub(crate) const MEDICATIONS: (&str, &str) = (
    "SELECT pcc_patient_id AS id, jsonb_path_query_array(payload, '$.drug') AS drugs FROM patient_medications ORDER BY 1",
    "SELECT DISTINCT total_patients AS total, success_count AS success, failed_count AS failed FROM medication_batch_log",
);

pub(crate) fn endpoint_rows() -> Value {
    json!([
        {"endpoint": "/api/v1/cargo", "page": 1, "names": ["rope", "tar"]},
        {"endpoint": "/api/v1/cargo", "page": 2, "names": ["salt"]},
        {"endpoint": "/api/v1/crew", "page": 1, "names": ["Ada", "Anne O'Neil"]},
        {"endpoint": "/api/v1/crew", "page": 2, "names": ["Bo", "Cy"]},
        {"endpoint": "/api/v1/crew", "page": 3, "names": ["Di"]},
    ])
}

pub(crate) fn medication_rows() -> Value {
    json!([
        {"id": "p001", "drugs": ["aspirin", "codeine", "insulin", "$$ quinine"]},
        {"id": "p002", "drugs": ["aspirin"]},
    ])
}

pub(crate) fn batch_rows() -> Value {
    json!([{"total": 3, "success": 2, "failed": 1}])
}

/// A fixture with one of the examples and their service.
pub(crate) fn fixture_for(name: &str) -> (PlaybookFixture, String) {
    let mut world = PlaybookFixture::new().with_database();
    let read = |file: &str| std::fs::read_to_string(format!("{FOLDER}/{file}")).expect("an example");
    let file = format!("{name}.yaml");
    world.place.write(&file, read(&file));
    world.serve(&read("service.json"));
    (world, file)
}

#[test]
fn every_example_has_the_expected_results() {
    let mut files: Vec<String> = std::fs::read_dir(FOLDER)
        .expect("the examples")
        .filter_map(|entry| entry.expect("an entry").file_name().to_str()?.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    for Example { name, output, steps, rows } in examples() {
        let (world, file) = fixture_for(name);
        world.windlass(&["check", &file]).exits(0).has("valid");
        let needs_service = std::fs::read_to_string(world.place.path(&file)).expect("the file").contains("api_url");
        let done = match needs_service {
            true => world.run(&file, &["--id", name]),
            false => world.windlass(&["run", &file, "--json", "-q", "--virtual-time"]),
        };
        assert_eq!(done.code, Some(0), "{name}: {}{}", done.out, done.err);
        assert_eq!(done.json()["output"], output, "{name}");
        // Each step ends once, loops too, whatever their iterations did.
        assert_eq!(event_paths(&world.events(), "step.done"), steps, "{name}");
        for (query, expected) in rows {
            assert_eq!(world.rows(query), expected, "{name}: {query}");
        }
        files.retain(|file| file != name);
    }
    assert!(files.is_empty(), "examples without a test: {files:?}");
}

/// The transition of a failed loop: none of its pages remain.
#[test]
fn a_failed_loop_is_cleaned_up() {
    let (mut world, file) = fixture_for("endpoints");
    world.serve(
        r#"{"mocks": [
          {"when": {"url": "/api/v1/crew", "query": {"page": "1"}}, "body": {"data": [1], "paging": {"page": 1, "hasMore": true}}},
          {"when": {"url": "/api/v1/crew", "query": {"page": "2"}}, "status": 503}
        ]}"#,
    );
    let done = world.run(&file, &[]);
    done.exits(0);
    assert_eq!(done.json()["output"], json!({"removed": 1}));
    // Ten attempts of the second page with doubled delays; the second endpoint is not started.
    assert_eq!(world.served().len(), 11);
    let events = world.events();
    assert_eq!(event_paths(&events, "step.failed"), ["fetch_all_endpoints"]);
    assert_eq!(event_paths(&events, "step.done"), ["create_table", "cleanup"]);
    let delays = events.iter().filter(|event| event["type"] == "task.retrying").map(|event| event["delay"].clone());
    assert_eq!(delays.collect::<Vec<Value>>(), (0..9).map(|n| json!(1000 * 2_i64.pow(n))).collect::<Vec<Value>>());
    assert_eq!(world.rows("SELECT * FROM pagination_test_results"), json!([]));
}

/// `check` warns about a missing credential, also under the default name, and a run that reaches it fails.
#[test]
fn a_missing_credential_is_reported() {
    let world = PlaybookFixture::new();
    let text = std::fs::read_to_string(format!("{FOLDER}/events.yaml")).expect("the example");
    world.place.write("events.yaml", text);
    world.windlass(&["check", "events.yaml"]).exits(0).has("the credential `postgres` is not configured");
    world.windlass(&["run", "events.yaml", "-q"]).exits(1).has("UnknownCredential").has("WINDLASS_AUTH_POSTGRES");
}
