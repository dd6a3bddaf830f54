//! The tests named in the tables of `README.md` exist.

use std::path::Path;

/// Scenarios that must be in the table.
const SCENARIOS: [u32; 30] =
    [1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 24, 26, 27, 28, 30, 32, 33, 34, 35, 38, 39];

#[test]
fn every_test_that_is_named_is_there() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = read(&here.join("README.md"));
    let (_, tables) = text.split_once("\n## ").expect("two tables");
    let rows: Vec<&str> = tables.lines().filter(|line| line.starts_with('|')).collect();
    let mut named = 0;
    for name in rows.iter().flat_map(|row| row.split('`').skip(1).step_by(2)) {
        let (file, test) = name.split_once("::").map_or((name, None), |(file, test)| (file, Some(test)));
        let path = match file.split_once('/') {
            Some(("core", file)) => here.join("../../windlass-core/tests").join(file),
            Some(("runtime", file)) => here.join("../../windlass-runtime/tests").join(file),
            _ => here.join(file),
        };
        assert!(path.exists(), "{name}: there is no {}", path.display());
        if let Some(test) = test {
            assert!(read(&path).contains(&format!("fn {test}()")), "there is no test {name}");
            named += 1;
        }
    }
    assert!(named > 60, "only {named} tests are named");
    for number in SCENARIOS {
        assert!(rows.iter().any(|row| row.starts_with(&format!("| {number} |"))), "scenario {number} is missing");
    }
}
