//! Names of servers' tools in a form that models accept.

use std::collections::BTreeSet;

const MAX_NAME_LENGTH: usize = 64;

/// Returns `server__tool` for each tool, in the same order. Characters that model services reject become `_`. Names
/// that are too long or already used end in a number.
pub(super) fn unique_names<'a>(server: &str, tools: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut used = BTreeSet::new();
    let unique = |tool: &str| {
        let usable = |one: char| if one.is_ascii_alphanumeric() || one == '-' { one } else { '_' };
        let whole: String = format!("{server}__{}", tool.chars().map(usable).collect::<String>());
        let numbered = (2u64..).map(|number| {
            let end = format!("_{number}");
            whole.chars().take(MAX_NAME_LENGTH - end.len()).collect::<String>() + &end
        });
        let fitting = Some(whole.clone()).filter(|whole| whole.len() <= MAX_NAME_LENGTH);
        let name = fitting.into_iter().chain(numbered).find(|name| !used.contains(name)).unwrap_or_default();
        used.insert(name.clone());
        name
    };
    tools.map(unique).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_usable_and_different() {
        let long = "x".repeat(100);
        let other = format!("{}y", "x".repeat(100));
        let names = unique_names("git", ["log", "a.b/c", "a_b_c", &long, &other, "log"].into_iter());
        assert_eq!(names[..3], ["git__log", "git__a_b_c", "git__a_b_c_2"]);
        assert!(names.iter().all(|name| name.len() <= MAX_NAME_LENGTH && name.starts_with("git__")));
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
