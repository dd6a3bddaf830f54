//! `docs/limits.md` lists every limit of the engine.

use std::fmt::Write;

use windlass_core::Limits;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");

fn page() -> String {
    let mut page = String::from(
        "# Limits\n\n\
         Every limit that a definition or a run can meet. `windlass limits` prints those in force. Change one in `windlass.toml`, section\n\
         `[limits]`, or in the environment as `WINDLASS_<NAME>` in capitals. A run keeps the limits that its definition was stored with: a\n\
         changed limit counts for runs of definitions that are stored afterwards. Bounds of the server are in [serving.md](serving.md).\n\n\
         | limit | default | meaning |\n|---|---|---|\n",
    );
    for (name, value, meaning) in Limits::default().describe() {
        let _ = writeln!(page, "| `{name}` | {value} | {} |", meaning.trim());
    }
    page
}

/// `UPDATE=1 cargo test -p windlass-core limits_page` writes it.
#[test]
fn the_page_lists_every_limit() {
    let now = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, &now).expect("the file");
    }
    let kept = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(kept == now, "docs/limits.md is outdated: UPDATE=1 cargo test -p windlass-core limits_page");
}
