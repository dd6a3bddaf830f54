//! Parallel iterations: exactly as many as a loop allows, with results in the order of the items.

use serde_json::{Value, json};

use crate::gate::BarrierService;
use crate::world::PlaybookFixture;

const CANONICAL: &str = "tool: [{call: {kind: http, url: '{{ api_url }}/{{ n }}'}}]";
const RETRY: &str = "tool: http\n    url: '{{ api_url }}/{{ n }}'";

/// The concurrency, the loop that sets it, and its tool.
const LOOPS: [(usize, &str, &str); 6] = [
    (1, "{in: '{{ items }}', iterator: n}", CANONICAL),
    (3, "{spec: {mode: parallel, max_in_flight: 3}, in: '{{ items }}', iterator: n}", CANONICAL),
    (4, "{spec: {mode: parallel, max_in_flight: '{{ 2 * 2 }}'}, in: '{{ items }}', iterator: n}", CANONICAL),
    (20, "{spec: {mode: parallel}, in: '{{ items }}', iterator: n}", CANONICAL),
    (4, "{mode: async, max_in_flight: 4, collection: '{{ items }}', element: n}", RETRY),
    (20, "{mode: async, collection: '{{ items }}', element: n}", RETRY),
];

#[test]
fn exactly_the_allowed_number_of_iterations_run_in_parallel() {
    // All groups are complete: the number of items is a multiple of each size.
    const ITEMS: i32 = 60;
    for (concurrency, looping, tool) in LOOPS {
        let (gate, world) = (BarrierService::start(concurrency), PlaybookFixture::new());
        let items: Vec<i32> = (0..ITEMS).collect();
        let text = format!(
            "workload: {{items: {items:?}, api_url: ''}}\nworkflow:\n  - step: start\n    loop: {looping}\n    {tool}\n"
        );
        world.place.write("playbook.yaml", text);
        let done = world.run("playbook.yaml", &["--set", &format!("api_url={}", gate.url())]);
        done.exits(0);
        let output = &done.json()["output"];
        let paths = output["results"].as_array().expect("results").iter().map(|one| one["data"]["path"].clone());
        let expected: Vec<Value> = items.iter().map(|n| json!(format!("/{n}"))).collect();
        assert_eq!(paths.collect::<Vec<Value>>(), expected, "{looping}");
        assert_eq!(output["stats"], json!({"total": ITEMS, "success": ITEMS, "failed": 0}), "{looping}");
        assert_eq!(gate.max_in_flight(), concurrency, "{looping}");
    }
}
