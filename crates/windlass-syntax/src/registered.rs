//! What a definition may name that stands in no file.

/// What the program around the engine has registered, by name. The `windlass` program registers nothing; one that embeds
/// the crate `windlass` does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// Functions in Rust. Each is a tool of the engine under this very name, so it must not be called as another tool is.
    pub functions: Vec<String>,
    /// Definitions that the engine has already, such as workflows in Rust, by the names of their plans. A call of one is
    /// not among those that are to be found and pinned: the engine goes by the name when the call is made.
    pub definitions: Vec<String>,
}

/// Where it is said how functions in Rust are registered.
const PLACE: &str = "docs/noetl.md, “Functions in Rust”";

impl Registered {
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.iter().any(|known| known == name)
    }

    pub fn has_definition(&self, name: &str) -> bool {
        self.definitions.iter().any(|known| known == name)
    }

    /// What is wrong with a name of a function that is not there, and what to do.
    pub fn no_function(&self, name: &str) -> (String, String) {
        let names = || self.functions.iter().map(String::as_str);
        match (self.functions.is_empty(), crate::did_you_mean(name, names())) {
            (true, _) => (
                format!("no function `{name}` is registered: this program has none in Rust"),
                format!("a program that embeds the crate `windlass` registers them: {PLACE}"),
            ),
            (false, Some(hint)) => (format!("no function `{name}` is registered"), hint),
            (false, None) => {
                (format!("no function `{name}` is registered"), format!("registered: {}", crate::list_of(names())))
            }
        }
    }
}
