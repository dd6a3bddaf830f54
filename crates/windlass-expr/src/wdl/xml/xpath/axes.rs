//! The nodes that a step reaches from a node, in the order of its axis.

use super::XPathError;
use crate::wdl::xml::document::{ROOT, XmlDocument, XmlNodeId, XmlNodeKind};
use windlass_value::nearest;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Axis {
    Ancestor,
    AncestorOrSelf,
    Attribute,
    Child,
    Descendant,
    DescendantOrSelf,
    Following,
    FollowingSibling,
    Namespace,
    Parent,
    Preceding,
    PrecedingSibling,
    SelfNode,
}

const AXES: &[(&str, Axis)] = &[
    ("ancestor", Axis::Ancestor),
    ("ancestor-or-self", Axis::AncestorOrSelf),
    ("attribute", Axis::Attribute),
    ("child", Axis::Child),
    ("descendant", Axis::Descendant),
    ("descendant-or-self", Axis::DescendantOrSelf),
    ("following", Axis::Following),
    ("following-sibling", Axis::FollowingSibling),
    ("namespace", Axis::Namespace),
    ("parent", Axis::Parent),
    ("preceding", Axis::Preceding),
    ("preceding-sibling", Axis::PrecedingSibling),
    ("self", Axis::SelfNode),
];

pub(super) enum NodeTest {
    Any,
    Text,
    Comment,
    Instruction(Option<String>),
    /// Without a local name, any name of the namespace; without both, any name.
    Name {
        prefix: Option<String>,
        local: Option<String>,
    },
}

impl Axis {
    pub(crate) fn from_name(name: &str) -> Result<Axis, XPathError> {
        let found = AXES.iter().find(|(known, _)| *known == name).map(|(_, axis)| *axis);
        found.ok_or_else(|| {
            let close = nearest(name, AXES.iter().map(|(known, _)| *known));
            let hint = close.map(|close| format!("did you mean `{close}`?"));
            XPathError { message: format!("there is no axis `{name}`"), hint }
        })
    }

    /// Calls `visit` for each node until it returns an error.
    pub(crate) fn walk<E>(
        self,
        document: &XmlDocument,
        from: XmlNodeId,
        visit: &mut dyn FnMut(XmlNodeId) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = document.nodes.len() as XmlNodeId;
        let node = document.node(from);
        let attribute = document.is_attribute(from);
        let inner = |id: &XmlNodeId| !document.is_attribute(*id) && !continues(document, *id);
        match self {
            Axis::SelfNode => visit(from),
            Axis::Parent if from == ROOT => Ok(()),
            Axis::Parent => visit(node.parent),
            Axis::Ancestor => ancestors(document, from).try_for_each(visit),
            Axis::AncestorOrSelf => std::iter::once(from).chain(ancestors(document, from)).try_for_each(visit),
            Axis::Attribute => document
                .attributes(from)
                .filter(|id| matches!(document.node(*id).kind, XmlNodeKind::Attribute { .. }))
                .try_for_each(visit),
            Axis::Namespace if matches!(node.kind, XmlNodeKind::Element { .. }) => {
                namespaces(document, from).into_iter().try_for_each(visit)
            }
            Axis::Namespace => Ok(()),
            Axis::Child => document.children(from).filter(inner).try_for_each(visit),
            Axis::Descendant => (from + 1..node.end).filter(inner).try_for_each(visit),
            Axis::DescendantOrSelf => {
                std::iter::once(from).chain((from + 1..node.end).filter(inner)).try_for_each(visit)
            }
            // The nodes that follow an attribute begin inside its element.
            Axis::Following if attribute => (from + 1..end).filter(inner).try_for_each(visit),
            Axis::Following => (node.end..end).filter(inner).try_for_each(visit),
            Axis::Preceding => {
                (1..from).rev().filter(|id| inner(id) && document.node(*id).end <= from).try_for_each(visit)
            }
            Axis::FollowingSibling | Axis::PrecedingSibling if attribute || from == ROOT => Ok(()),
            Axis::FollowingSibling => {
                let last = document.node(node.parent).end;
                let next = |id: &XmlNodeId| Some(document.node(*id).end).filter(|next| *next < last);
                std::iter::successors(next(&from), next).filter(inner).try_for_each(visit)
            }
            Axis::PrecedingSibling => {
                let before = |id: &XmlNodeId| Some(document.node(*id).previous).filter(|before| *before != ROOT);
                std::iter::successors(before(&from), before).filter(inner).try_for_each(visit)
            }
        }
    }

    /// Returns whether positions are counted backwards.
    pub(crate) fn is_reverse(self) -> bool {
        matches!(self, Axis::Ancestor | Axis::AncestorOrSelf | Axis::Preceding | Axis::PrecedingSibling)
    }
}

/// Returns whether the node continues a text. Adjacent text and CDATA are one text node, represented by the first.
fn continues(document: &XmlDocument, id: XmlNodeId) -> bool {
    matches!(document.node(id).kind, XmlNodeKind::Text { continues: true, .. })
}

fn ancestors(document: &XmlDocument, from: XmlNodeId) -> impl Iterator<Item = XmlNodeId> + '_ {
    std::iter::successors(Some(from), |id| Some(document.node(*id).parent).filter(|_| *id != ROOT)).skip(1)
}

/// Returns the declarations in scope at an element, each prefix once.
fn namespaces(document: &XmlDocument, from: XmlNodeId) -> Vec<XmlNodeId> {
    let (mut seen, mut found) = (std::collections::HashSet::new(), Vec::new());
    for element in std::iter::once(from).chain(ancestors(document, from)) {
        for id in document.attributes(element) {
            if let XmlNodeKind::Namespace { prefix, uri } = &document.node(id).kind
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

/// Returns the namespace of a prefix, from its first declaration in the document.
pub(super) fn namespace_of<'a>(document: &'a XmlDocument, prefix_name: &str) -> Option<&'a str> {
    document.nodes.iter().find_map(|node| match &node.kind {
        XmlNodeKind::Namespace { prefix, uri } if **prefix == *prefix_name => Some(&**uri),
        _ => None,
    })
}

/// Returns whether a node passes the test, given the namespace of the test's prefix.
pub(super) fn matches_test(
    document: &XmlDocument,
    axis: Axis,
    test: &NodeTest,
    namespace: &str,
    id: XmlNodeId,
) -> bool {
    let kind = &document.node(id).kind;
    match test {
        NodeTest::Any => true,
        NodeTest::Text => matches!(kind, XmlNodeKind::Text { .. }),
        NodeTest::Comment => matches!(kind, XmlNodeKind::Comment(_)),
        NodeTest::Instruction(None) => matches!(kind, XmlNodeKind::Instruction { .. }),
        NodeTest::Instruction(Some(expected)) => {
            matches!(kind, XmlNodeKind::Instruction { target, .. } if **target == **expected)
        }
        NodeTest::Name { prefix, local } => {
            let fits = |found: &str| local.as_ref().is_none_or(|local| local == found);
            let in_namespace = |found: &str| match (prefix, local) {
                (None, None) => true,
                _ => found == namespace,
            };
            // A name matches only the kind of node that the axis selects.
            match (axis, kind) {
                (Axis::Attribute, XmlNodeKind::Attribute { name, .. }) => {
                    fits(&name.local) && in_namespace(&name.namespace)
                }
                (Axis::Namespace, XmlNodeKind::Namespace { prefix: name, .. }) => prefix.is_none() && fits(name),
                (Axis::Attribute | Axis::Namespace, _) => false,
                (_, XmlNodeKind::Element { name, .. }) => fits(&name.local) && in_namespace(&name.namespace),
                _ => false,
            }
        }
    }
}
