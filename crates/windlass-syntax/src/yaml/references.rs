//! Anchors, aliases and merge keys. The size of all copies is bounded: a few lines can expand beyond any memory.

use std::collections::HashMap;

use super::{NOT_SUPPORTED, YamlParseResult, not_supported};
use crate::json::{MALFORMED, TOO_DEEP};
use crate::{Diagnostic, Span, SpannedKey, SyntaxNode, SyntaxNodeKind};

/// Maximum cost of all copies of a file together, roughly in bytes, as a multiple of the maximum definition size.
const MAX_COPY_FACTOR: usize = 8;
/// Cost of a node, independent of its content.
const NODE_COST: usize = 64;

pub(super) struct References {
    anchored: HashMap<usize, AnchoredNode>,
    copied: usize,
    max_copied: usize,
}

struct AnchoredNode {
    node: SyntaxNode,
    cost: usize,
    height: usize,
}

impl References {
    pub(crate) fn new(max_file_bytes: usize) -> References {
        References { anchored: HashMap::new(), copied: 0, max_copied: max_file_bytes.saturating_mul(MAX_COPY_FACTOR) }
    }

    /// Stores an anchored node; 0 means no anchor and stores nothing.
    pub(crate) fn store(&mut self, anchor: usize, node: &SyntaxNode) -> YamlParseResult<()> {
        if anchor == 0 {
            return Ok(());
        }
        let (cost, height) = measure(node);
        self.spend(cost, node.span)?;
        self.anchored.insert(anchor, AnchoredNode { node: node.clone(), cost, height });
        Ok(())
    }

    /// Returns the node that an alias stands for. A collection gets the alias's span; nodes inside it, and a scalar,
    /// keep the span where they were written.
    pub(crate) fn get(&mut self, anchor: usize, span: Span, depth_left: usize) -> YamlParseResult<SyntaxNode> {
        let Some(found) = self.anchored.get(&anchor) else {
            let problem = Diagnostic::error(MALFORMED, span, "this alias refers to a value that contains it");
            return Err(Box::new(problem.with_hint("write the value out")));
        };
        let (cost, height) = (found.cost, found.height);
        if height > depth_left {
            let problem = Diagnostic::error(TOO_DEEP, span, "with this alias the file nests too deep");
            return Err(Box::new(
                problem.with_hint("raise `limits.max_definition_depth` in windlass.toml if this is intended"),
            ));
        }
        let node = match &found.node.kind {
            kind @ (SyntaxNodeKind::List(_) | SyntaxNodeKind::Map(_)) => SyntaxNode::new(span, kind.clone()),
            _ => found.node.clone(),
        };
        self.spend(cost, span)?;
        Ok(node)
    }

    fn spend(&mut self, cost: usize, span: Span) -> YamlParseResult<()> {
        self.copied = self.copied.saturating_add(cost);
        match self.copied <= self.max_copied {
            true => Ok(()),
            false => {
                let hint = "write out what is needed, without anchors, or raise `limits.max_definition_bytes` in windlass.toml";
                Err(not_supported(span, "the aliases of this file expand to too much data", hint))
            }
        }
    }
}

/// Returns the cost of copying a node, and the number of levels below it.
fn measure(node: &SyntaxNode) -> (usize, usize) {
    let over = |found: &mut dyn Iterator<Item = (usize, usize)>| {
        found.fold((NODE_COST, 0), |(cost, height), (more, below)| (cost + more, height.max(below + 1)))
    };
    match &node.kind {
        SyntaxNodeKind::Str(text) => (NODE_COST + text.text.len(), 0),
        SyntaxNodeKind::List(items) => over(&mut items.iter().map(measure)),
        SyntaxNodeKind::Map(entries) => over(&mut entries.iter().map(|(key, node)| {
            let (cost, height) = measure(node);
            (cost + key.text.len(), height)
        })),
        _ => (NODE_COST, 0),
    }
}

/// Returns the entries that a merge key contributes, highest precedence first.
pub(super) fn merge_entries(node: SyntaxNode) -> YamlParseResult<Vec<(SpannedKey, SyntaxNode)>> {
    let wrong = |span: Span| {
        let hint = "write `<<: *name` or `<<: [*one, *two]`, each an object";
        Box::new(Diagnostic::error(NOT_SUPPORTED, span, "only objects can be merged").with_hint(hint))
    };
    match node.kind {
        SyntaxNodeKind::Map(entries) => Ok(entries),
        SyntaxNodeKind::List(items) => {
            let mut all = Vec::new();
            for item in items {
                match item.kind {
                    SyntaxNodeKind::Map(entries) => all.extend(entries),
                    _ => return Err(wrong(item.span)),
                }
            }
            Ok(all)
        }
        _ => Err(wrong(node.span)),
    }
}
