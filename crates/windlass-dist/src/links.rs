//! Links between documents: a package does not have every file of the repository.

/// Replaces links to files that `exists` does not know by their texts. `page` is the path of the document, to which links
/// are relative.
pub(crate) fn without_dead_links(page: &str, text: &str, exists: impl Fn(&str) -> bool) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("](") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        let link = before.rfind('[').zip(after.find([')', '\n']).filter(|end| after[*end..].starts_with(')')));
        match link {
            Some((start, end)) if is_dead(page, &after[..end], &exists) => {
                kept.push_str(&before[..start]);
                kept.push_str(&before[start + 1..]);
                rest = &after[end + 1..];
            }
            _ => {
                kept.push_str(&rest[..at + 2]);
                rest = after;
            }
        }
    }
    kept.push_str(rest);
    kept
}

fn is_dead(page: &str, target: &str, exists: impl Fn(&str) -> bool) -> bool {
    let file = target.split('#').next().unwrap_or_default();
    // Neither addresses nor places on the same page are files.
    if file.is_empty() || file.contains(':') {
        return false;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." | "" => {}
            name => parts.push(name),
        }
    }
    !exists(&parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::without_dead_links;

    #[test]
    fn links_to_files_that_are_missing_become_text() {
        let exists = |path: &str| ["docs/a.md", "README.md", "examples"].contains(&path);
        let kept = |text: &str| without_dead_links("docs/b.md", text, exists);
        for text in ["[a](a.md#x) and [b](../README.md)", "[c](https://x.example/y)", "[d](#d)", "[e](../examples)"] {
            assert_eq!(kept(text), text);
        }
        assert_eq!(kept("see [ui/README.md](../ui/README.md)."), "see ui/README.md.");
        assert_eq!(kept("[a](a.md), [x](x.md) and [b](../README.md)"), "[a](a.md), x and [b](../README.md)");
        assert_eq!(kept("`f[0](x` is code"), "`f[0](x` is code");
    }
}
