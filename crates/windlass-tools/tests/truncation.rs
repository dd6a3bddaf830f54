//! Truncated text contains no part of a secret. Each line is a case.

#![cfg(all(feature = "python", feature = "shell"))]

use crate::support;

use std::sync::Arc;

use support::{call, debug_text, options};
use windlass_core::ProcessLimits;
use windlass_tools::{Credentials, NamedCredentials, playbook_tools};
use windlass_value::{Value, to_json};

const LONE: &str = "canary-0123456789-abcdefghijklmnopqrstuvwxyz";
const PEM: &str =
    "-----BEGIN PRIVATE KEY-----\ncanaryMIIEvQIBADANBgkq\ncanaryhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n";

#[tokio::test]
async fn no_part_of_a_secret_is_left_at_a_cut() {
    let known: Arc<dyn Credentials> = Arc::new(NamedCredentials::new(|name| match name {
        "WINDLASS_AUTH_LONE" => Some(LONE.to_owned()),
        "WINDLASS_AUTH_PEM" => Some(to_json(&Value::object([("key", PEM)]))),
        _ => None,
    }));
    let tools = playbook_tools(options(), &ProcessLimits::default(), &known, |name| std::env::var(name).ok());
    let mut seen = 0;
    for (tool, text, secret) in [
        // The line of an error is cut after 60 characters.
        ("shell", "printf '%030d%s' 0 \"$S\" >&2; exit 3", "lone"),
        ("shell", "printf '%045d%s' 0 \"$S\" >&2; exit 3", "lone"),
        // Output is cut after 1 MiB.
        ("shell", "head -c 1048556 /dev/zero | tr '\\0' x; echo \"$S\"", "lone"),
        ("shell", "head -c 1048566 /dev/zero | tr '\\0' x; echo \"$S\"", "lone"),
        ("shell", "echo \"$S\" | sed -n 2p; echo \"$S\" | sed -n 3p >&2; exit 1", "pem"),
        ("python", "raise ValueError('x' * 3980 + S)", "lone"),
        ("python", "raise ValueError(S + 'x' * 7950)", "lone"),
        ("python", "raise ValueError(S + 'x' * 7970)", "lone"),
        ("python", "print('x' * ((64 << 10) - 20) + S)", "lone"),
        ("python", "import os\nos.write(2, (S + 'x' * 1980).encode())\nos._exit(1)", "lone"),
        ("python", "result = [S.splitlines()[1], S.splitlines()[2][:]]", "pem"),
    ] {
        let (key, place) = if tool == "shell" { ("command", "values") } else { ("code", "args") };
        let text = to_json(&Value::from(text));
        let input = format!(
            r#"{{"{key}": {text}, "{place}": {{"S": null}}, "sealed": [{{"at": ["{place}", "S"], "parts": [{{"credential": "{secret}", "field": "key"}}]}}]}}"#
        );
        let outcome = tools.get(tool).unwrap().call(call(&input)).await;
        let visible = format!("{} {} {}", debug_text(&outcome), to_json(&outcome.output), to_json(&outcome.facts));
        for part in ["canary", "0123456", "uvwxyz", "MIIEv", "hkiG9"] {
            let at =
                visible.find(part).map(|at| visible[at.saturating_sub(50)..].chars().take(100).collect::<String>());
            assert_eq!(at, None, "{part} of {text}");
        }
        seen += usize::from(visible.contains("***"));
    }
    assert_eq!(seen, 11);
}
