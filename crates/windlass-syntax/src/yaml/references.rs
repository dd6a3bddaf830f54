//! Anchors, aliases and merge keys. What they copy is bounded: a few lines can stand for more than any memory holds.

use std::collections::HashMap;

use super::{NOT_SUPPORTED, YamlParseResult, not_supported};
use crate::json::{MALFORMED, TOO_DEEP};
use crate::{Diagnostic, Span, SpannedKey, SyntaxNode, SyntaxNodeKind};

/// What all copies of a file may cost together, roughly in bytes: so many times what a definition may have.
const MAX_COPY_FACTOR: usize = 8;
/// A node costs this much, whatever it holds.
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

    /// Nothing that has no anchor is kept: 0 is none.
    pub(crate) fn store(&mut self, anchor: usize, node: &SyntaxNode) -> YamlParseResult<()> {
        if anchor == 0 {
            return Ok(());
        }
        let (cost, height) = measure(node);
        self.spend(cost, node.span)?;
        self.anchored.insert(anchor, AnchoredNode { node: node.clone(), cost, height });
        Ok(())
    }

    /// What an alias stands for. A collection stands where the alias does; what is inside of it, and a scalar, stays where
    /// it was written.
    pub(crate) fn get(&mut self, anchor: usize, span: Span, depth_left: usize) -> YamlParseResult<SyntaxNode> {
        let Some(found) = self.anchored.get(&anchor) else {
            let problem = Diagnostic::error(MALFORMED, span, "this alias is inside of what it stands for");
            return Err(Box::new(problem.with_hint("write the value out")));
        };
        let (cost, height) = (found.cost, found.height);
        if height > depth_left {
            let problem = Diagnostic::error(TOO_DEEP, span, "with this alias the file nests too deep");
            return Err(Box::new(
                problem.with_hint("raise `limits.definition_depth_max` in windlass.toml if this is meant"),
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
                let hint = "write out what is needed, without anchors, or raise `limits.definition_bytes_max` in windlass.toml";
                Err(not_supported(span, "the aliases of this file stand for too much", hint))
            }
        }
    }
}

/// What a node costs to copy, and how many levels are in it below itself.
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

/// The entries that a merge key brings, what counts first in front.
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
