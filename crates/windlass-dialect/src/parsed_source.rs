//! A source, parsed once for all dialects that examine it.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use windlass_core::Limits;
use windlass_syntax::{Diagnostics, SourceText, SyntaxNode, YamlRules, parse_json, parse_yaml};

use crate::parse_limits;

/// A source and its lazily parsed trees.
pub struct ParsedSource<'a> {
    /// The text as it was given, with a byte order mark if it has one.
    pub source: &'a SourceText,
    /// Limits whose maximum size and depth of a definition apply to parsing.
    pub limits: &'a Limits,
    json: OnceCell<Rc<ParsedTree>>,
    yaml: RefCell<Vec<(YamlRules, Rc<ParsedTree>)>>,
}

/// The tree of a source, and the problems of parsing it.
#[derive(Clone, Debug, Default)]
pub struct ParsedTree {
    /// `None` if there is no tree at all; with a tree there may still be problems.
    pub tree: Option<SyntaxNode>,
    /// Errors and warnings of the parser.
    pub diagnostics: Diagnostics,
}

impl<'a> ParsedSource<'a> {
    /// Creates a source that nothing has parsed yet.
    pub fn new(source: &'a SourceText, limits: &'a Limits) -> ParsedSource<'a> {
        ParsedSource { source, limits, json: OnceCell::new(), yaml: RefCell::default() }
    }

    /// Returns whether the text begins like JSON.
    pub fn looks_like_json(&self) -> bool {
        self.source.text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '['])
    }

    /// Returns whether the text exceeds the maximum size of a definition.
    pub fn is_too_large(&self) -> bool {
        self.source.text.len() > self.limits.max_definition_bytes
    }

    /// Returns whether a line begins with one of these, such as a top-level key of a YAML file. This is the only way to
    /// look for keys in a text that cannot be parsed.
    pub fn has_line(&self, beginnings: &[&str]) -> bool {
        let text = self.source.text.trim_start_matches('\u{feff}');
        text.lines().any(|line| beginnings.iter().any(|beginning| line.starts_with(beginning)))
    }

    /// Parses the text as JSON.
    pub fn json(&self) -> Rc<ParsedTree> {
        let parse = || {
            let mut found = Diagnostics::new();
            let tree = parse_json(self.source, parse_limits(self.limits), &mut found);
            Rc::new(ParsedTree { tree, diagnostics: found })
        };
        self.json.get_or_init(parse).clone()
    }

    /// Parses the text as YAML with these rules.
    pub fn yaml(&self, rules: impl Into<YamlRules>) -> Rc<ParsedTree> {
        let rules = rules.into();
        if let Some((_, parsed)) = self.yaml.borrow().iter().find(|(known, _)| *known == rules) {
            return parsed.clone();
        }
        let mut found = Diagnostics::new();
        let tree = parse_yaml(self.source, parse_limits(self.limits), rules, &mut found);
        let parsed = Rc::new(ParsedTree { tree, diagnostics: found });
        self.yaml.borrow_mut().push((rules, parsed.clone()));
        parsed
    }
}
