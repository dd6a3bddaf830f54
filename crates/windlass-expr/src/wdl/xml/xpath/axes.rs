//! Which nodes a step reaches from a node, in the order of its axis.

use super::XPathError;
use crate::wdl::xml::document::{Document, Kind, NodeId, ROOT};
use windlass_value::nearest;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Axis {
    Ancestor,
    AncestorOrItself,
    Attribute,
    Child,
    Descendant,
    DescendantOrItself,
    Following,
    FollowingSibling,
    Namespace,
    Parent,
    Preceding,
    PrecedingSibling,
    Itself,
}

const NAMES: &[(&str, Axis)] = &[
    ("ancestor", Axis::Ancestor),
    ("ancestor-or-self", Axis::AncestorOrItself),
    ("attribute", Axis::Attribute),
    ("child", Axis::Child),
    ("descendant", Axis::Descendant),
    ("descendant-or-self", Axis::DescendantOrItself),
    ("following", Axis::Following),
    ("following-sibling", Axis::FollowingSibling),
    ("namespace", Axis::Namespace),
    ("parent", Axis::Parent),
    ("preceding", Axis::Preceding),
    ("preceding-sibling", Axis::PrecedingSibling),
    ("self", Axis::Itself),
];

pub(super) enum Test {
    Any,
    Text,
    Comment,
    Instruction(Option<String>),
    /// Without a local name any name of the namespace; without both, any.
    Name {
        prefix: Option<String>,
        local: Option<String>,
    },
}

impl Axis {
    pub(crate) fn named(name: &str) -> Result<Axis, XPathError> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, axis)| *axis);
        found.ok_or_else(|| {
            let close = nearest(name, NAMES.iter().map(|(known, _)| *known));
            let hint = close.map(|close| format!("did you mean `{close}`?"));
            XPathError { message: format!("there is no axis `{name}`"), hint }
        })
    }

    /// Hands each node on to `visit`, until that says no more.
    pub(crate) fn walk<E>(
        self,
        document: &Document,
        from: NodeId,
        visit: &mut dyn FnMut(NodeId) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = document.nodes.len() as NodeId;
        let node = document.node(from);
        let attribute = document.is_attribute(from);
        let inner = |id: &NodeId| !document.is_attribute(*id) && !continues(document, *id);
        match self {
            Axis::Itself => visit(from),
            Axis::Parent if from == ROOT => Ok(()),
            Axis::Parent => visit(node.parent),
            Axis::Ancestor => ancestors(document, from).try_for_each(visit),
            Axis::AncestorOrItself => std::iter::once(from).chain(ancestors(document, from)).try_for_each(visit),
            Axis::Attribute => document
                .attributes(from)
                .filter(|id| matches!(document.node(*id).kind, Kind::Attribute { .. }))
                .try_for_each(visit),
            Axis::Namespace if matches!(node.kind, Kind::Element { .. }) => {
                namespaces(document, from).into_iter().try_for_each(visit)
            }
            Axis::Namespace => Ok(()),
            Axis::Child => document.children(from).filter(inner).try_for_each(visit),
            Axis::Descendant => (from + 1..node.end).filter(inner).try_for_each(visit),
            Axis::DescendantOrItself => {
                std::iter::once(from).chain((from + 1..node.end).filter(inner)).try_for_each(visit)
            }
            // What follows an attribute begins inside its element.
            Axis::Following if attribute => (from + 1..end).filter(inner).try_for_each(visit),
            Axis::Following => (node.end..end).filter(inner).try_for_each(visit),
            Axis::Preceding => {
                (1..from).rev().filter(|id| inner(id) && document.node(*id).end <= from).try_for_each(visit)
            }
            Axis::FollowingSibling | Axis::PrecedingSibling if attribute || from == ROOT => Ok(()),
            Axis::FollowingSibling => {
                let last = document.node(node.parent).end;
                let next = |id: &NodeId| Some(document.node(*id).end).filter(|next| *next < last);
                std::iter::successors(next(&from), next).filter(inner).try_for_each(visit)
            }
            Axis::PrecedingSibling => {
                let before = |id: &NodeId| Some(document.node(*id).previous).filter(|before| *before != ROOT);
                std::iter::successors(before(&from), before).filter(inner).try_for_each(visit)
            }
        }
    }

    /// Whether positions are counted backwards.
    pub(crate) fn is_reverse(self) -> bool {
        matches!(self, Axis::Ancestor | Axis::AncestorOrItself | Axis::Preceding | Axis::PrecedingSibling)
    }
}

/// Text and CDATA beside each other are one text node: the first stands for all.
fn continues(document: &Document, id: NodeId) -> bool {
    matches!(document.node(id).kind, Kind::Text { continues: true, .. })
}

fn ancestors(document: &Document, from: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    std::iter::successors(Some(from), |id| Some(document.node(*id).parent).filter(|_| *id != ROOT)).skip(1)
}

/// The declarations that hold at an element, each prefix once.
fn namespaces(document: &Document, from: NodeId) -> Vec<NodeId> {
    let (mut seen, mut found) = (std::collections::HashSet::new(), Vec::new());
    for element in std::iter::once(from).chain(ancestors(document, from)) {
        for id in document.attributes(element) {
            if let Kind::Namespace { prefix, uri } = &document.node(id).kind
                && seen.insert(prefix)
                && !uri.is_empty()
            {
                found.push(id);
            }
        }
    }
    found.sort_unstable();
    found
}

/// The namespace a prefix stands for: as the document declares it first.
pub(super) fn namespace_of<'a>(document: &'a Document, wanted: &str) -> Option<&'a str> {
    document.nodes.iter().find_map(|node| match &node.kind {
        Kind::Namespace { prefix, uri } if **prefix == *wanted => Some(&**uri),
        _ => None,
    })
}

/// Whether a node passes, given the namespace that the test's prefix stands for.
pub(super) fn passes(document: &Document, axis: Axis, test: &Test, namespace: &str, id: NodeId) -> bool {
    let kind = &document.node(id).kind;
    match test {
        Test::Any => true,
        Test::Text => matches!(kind, Kind::Text { .. }),
        Test::Comment => matches!(kind, Kind::Comment(_)),
        Test::Instruction(None) => matches!(kind, Kind::Instruction { .. }),
        Test::Instruction(Some(wanted)) => {
            matches!(kind, Kind::Instruction { target, .. } if **target == **wanted)
        }
        Test::Name { prefix, local } => {
            let fits = |found: &str| local.as_ref().is_none_or(|local| local == found);
            let in_namespace = |found: &str| match (prefix, local) {
                (None, None) => true,
                _ => found == namespace,
            };
            // A name means the kind of node that the axis is about.
            match (axis, kind) {
                (Axis::Attribute, Kind::Attribute { name, .. }) => fits(&name.local) && in_namespace(&name.namespace),
                (Axis::Namespace, Kind::Namespace { prefix: name, .. }) => prefix.is_none() && fits(name),
                (Axis::Attribute | Axis::Namespace, _) => false,
                (_, Kind::Element { name, .. }) => fits(&name.local) && in_namespace(&name.namespace),
                _ => false,
            }
        }
    }
}
