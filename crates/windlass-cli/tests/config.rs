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

/// An ignored limit would not protect anything.
#[test]
fn mistyped_limits_in_the_environment_are_rejected() {
    let place = TestDir::new();
    let with =
        |name: &str| support::command_output(place.command(&["limits"]).env(name, "1").output().expect("it runs"));
    with("WINDLASS_MAX_LOOP_ITERATION").exits(3).has("WINDLASS_MAX_LOOP_ITERATION").has("`max_loop_iterations`?");
    with("WINDLASS_LOOP_CHUNK_ITEM").exits(3).has("did you mean `loop_chunk_items`?");
    with("WINDLASS_MAX_FROBS").exits(3).has("there is no limit `max_frobs`").has("windlass limits");
    with("WINDLASS_MAX_BODY_BYTES").exits(3).has("section [server]");
    for other in ["WINDLASS_KEY", "WINDLASS_AUTH_SHOP", "MAX_LOOP_ITERATION"] {
        with(other).exits(0);
    }
}

#[test]
fn limits_of_the_server_are_shown_too() {
    let place = TestDir::new();
    place.write("windlass.toml", "[server]\nmax_body_bytes = 4096\n");
    let limits = place.json(&["limits", "--json"]);
    let (server, other) = (&limits["max_body_bytes"], &limits["max_pages"]);
    assert_eq!((&server["value"], &server["section"]), (&4096.into(), &"server".into()), "{limits}");
    assert_eq!((&other["value"], &other["section"]), (&1000.into(), &"limits".into()), "{limits}");
    place.windlass(&["limits"]).exits(0).has("[server]\n").has("4096");
}
