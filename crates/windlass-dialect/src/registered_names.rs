//! Names that a definition may use without a file.

/// Functions and definitions that the embedding program has registered, by name.
///
/// The `windlass` program registers nothing; a program that embeds the crate `windlass` does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisteredNames {
    /// Functions in Rust. Each is a tool of the engine under this name, so it must not have the name of another tool.
    pub functions: Vec<String>,
    /// Definitions that the engine already has, such as workflows in Rust, by the names of their plans. A call of one
    /// is not resolved and pinned: the engine looks up the name when the call is made.
    pub definitions: Vec<String>,
}

/// The documentation of registering functions in Rust.
const FUNCTIONS_DOC: &str = "docs/noetl.md, “Functions in Rust”";

impl RegisteredNames {
    /// Reports whether a function has exactly this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.iter().any(|known| known == name)
    }

    /// Reports whether a definition has exactly this name.
    pub fn has_definition(&self, name: &str) -> bool {
        self.definitions.iter().any(|known| known == name)
    }

    /// Returns the message and hint for a function that is not registered.
    pub fn missing_function_message(&self, name: &str) -> (String, String) {
        if self.functions.is_empty() {
            let message = format!("no function `{name}` is registered: this program has none in Rust");
            return (message, format!("a program that embeds the crate `windlass` registers them: {FUNCTIONS_DOC}"));
        }
        (format!("no function `{name}` is registered"), suggest_or_list(name, &self.functions))
    }

    /// Returns the message and hint for a missing definition, where there are no files to search.
    pub fn missing_definition_message(&self, name: &str) -> (String, String) {
        let hint = match self.definitions.is_empty() {
            true => "give the engine the definition under that name".to_owned(),
            false => suggest_or_list(name, &self.definitions),
        };
        (format!("there is no definition `{name}`"), hint)
    }
}

fn suggest_or_list(name: &str, known: &[String]) -> String {
    let names = || known.iter().map(String::as_str);
    windlass_syntax::did_you_mean(name, names())
        .unwrap_or_else(|| format!("registered: {}", windlass_syntax::format_names(names())))
}

#[cfg(test)]
mod tests {
    use super::RegisteredNames;

    #[test]
    fn missing_names_are_explained() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let none = RegisteredNames::default();
        let some = RegisteredNames { functions: names(&["price", "score"]), definitions: names(&["orders"]) };
        let table = [
            (none.missing_function_message("x"), "embeds the crate `windlass`"),
            (some.missing_function_message("pirce"), "did you mean `price`?"),
            (some.missing_function_message("x"), "registered: `price`, `score`"),
            (none.missing_definition_message("x"), "give the engine the definition"),
            (some.missing_definition_message("order"), "did you mean `orders`?"),
            (some.missing_definition_message("x"), "registered: `orders`"),
        ];
        for ((message, hint), expected) in table {
            assert!(hint.contains(expected), "{message}: {hint}");
        }
    }
}
