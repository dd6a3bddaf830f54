//! `docs/serving.md` lists every limit of the server, with its default.

use std::fmt::Write;

use windlass_server::ServerOptions;
use windlass_value::Duration;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serving.md");
const BEGIN: &str = "<!-- limits: UPDATE=1 cargo test -p windlass-server limits_page -->\n";
const END: &str = "<!-- end of limits -->\n";

fn table() -> String {
    let ServerOptions {
        rate_per_second,
        max_connections,
        max_connections_per_address,
        lease,
        drain,
        scrub_every,
        scrub_percent,
        limits,
        ..
    } = ServerOptions::default();
    let span = |span: std::time::Duration| Duration::from_secs(span.as_secs()).to_string();
    let mut rows = vec![
        (
            "rate_per_second",
            rate_per_second.to_string(),
            "Requests of one token per second, and a burst of as many after a pause.",
        ),
        (
            "max_connections",
            max_connections.to_string(),
            "Concurrent connections; fewer if the process may open fewer files.",
        ),
        (
            "max_connections_per_address",
            max_connections_per_address.to_string(),
            "Concurrent connections of one address (IPv6: one /64), except this machine and `proxies`.",
        ),
        ("lease", span(lease), "Time without a heartbeat after which a remote worker loses its jobs."),
        ("drain", span(drain), "Time that requests and jobs in flight may take to end when the server stops."),
        ("scrub_every", span(scrub_every), "Time between two searches for damage in the store; 0 turns them off."),
        ("scrub_percent", scrub_percent.to_string(), "Share of time that such a search works, in percent."),
    ];
    rows.extend(limits.describe());
    let mut table = String::from("| setting | default | meaning |\n|---|---|---|\n");
    for (name, value, meaning) in rows {
        let _ = writeln!(table, "| `{name}` | {value} | {} |", meaning.trim());
    }
    table
}

/// `UPDATE=1 cargo test -p windlass-server limits_page` regenerates the table.
#[test]
fn the_page_lists_every_limit_of_the_server() {
    let page = std::fs::read_to_string(FILE).expect("the document");
    let (before, rest) = page.split_once(BEGIN).expect("the document has a section for the limits");
    let (kept, after) = rest.split_once(END).expect("the section has an end");
    let now = table();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, format!("{before}{BEGIN}{now}{END}{after}")).expect("the document");
    } else {
        assert!(kept == now, "docs/serving.md is outdated: UPDATE=1 cargo test -p windlass-server limits_page");
    }
}
