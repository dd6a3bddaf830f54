//! The documentation of the dialect lists all names that a template may use.

#[test]
fn the_documentation_lists_all_template_names() {
    let page = include_str!("../../../docs/noetl.md");
    for (kind, names) in windlass_expr::jinja::names() {
        let row = page.lines().find(|line| line.starts_with(&format!("| {kind}s |"))).unwrap();
        let missing: Vec<&&str> = names.iter().filter(|name| !row.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "{kind}s that the page does not name: {missing:?}");
        assert_eq!(row.matches('`').count(), names.len() * 2, "{kind}s that are not there");
    }
}
