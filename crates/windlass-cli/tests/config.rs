//! Limits from `windlass.toml` and the environment.

use crate::support;

use support::{TestDir, counting};

#[test]
fn limits_come_from_the_file_and_then_from_the_environment() {
    let place = TestDir::new();
    let value = |place: &TestDir| place.json(&["limits", "--json"])["max_loop_iterations"]["value"].clone();
    assert_eq!(value(&place), 1_000);
    place.write("windlass.toml", "[limits]\nmax_loop_iterations = 50\nmax_loop_time = \"PT2H\"\n");
    assert_eq!(value(&place), 50);
    let mut command = place.command(&["limits"]);
    let shown = support::command_output(command.env("WINDLASS_MAX_LOOP_ITERATIONS", "40").output().expect("it runs"));
    shown.exits(0).has("max_loop_iterations").has("40").has("PT2H");
    place.write("flow.json", counting(1, "PT0.01S"));
    place.windlass(&["check", "flow.json"]).exits(2).has("max_loop_iterations");
    place.write("other.toml", "");
    place.windlass(&["check", "flow.json", "--config", "other.toml"]).exits(0);
}

#[test]
fn invalid_settings_are_rejected_with_their_location() {
    let place = TestDir::new();
    let refused = |content: &str| {
        place.write("windlass.toml", content);
        place.windlass(&["limits"])
    };
    refused("[limits]\nmax_loop_iteration = 1\n")
        .exits(3)
        .has("did you mean `max_loop_iterations`")
        .has("windlass.toml");
    refused("[limitz]\n").exits(3).has("did you mean `limits`");
    refused("[limits]\nmax_loop_iterations = \"many\"\n").exits(3).has("whole number");
    refused("[limits]\nmax_loop_time = \"soon\"\n").exits(3).has("must be a duration");
    refused("limits = \n").exits(3).has("TOML").has("windlass.toml:1");
    place.write("windlass.toml", "");
    place.windlass(&["limits", "--config", "missing.toml"]).exits(3).has("missing.toml");
    let mut command = place.command(&["limits"]);
    let refused = support::command_output(command.env("WINDLASS_CANCEL_GRACE", "x").output().expect("it runs"));
    refused.exits(3).has("WINDLASS_CANCEL_GRACE");
}
