//! Scopes of names: the run, and inside it one scope per loop body. Branches and blocks open no scope.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_core::plan::NodeId;
use windlass_syntax::Span;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NameScopeId(pub usize);

/// The scope of the whole run.
pub(crate) const RUN: NameScopeId = NameScopeId(0);

/// The scope of triggers: there is no run yet.
pub(crate) const TRIGGER: NameScopeId = NameScopeId(1);

/// The position of an action in the definition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActionPosition {
    pub parent: NodeId,
    pub scope: NameScopeId,
    /// Directly in the workflow, not inside another action.
    pub top: bool,
}

pub(crate) struct NameScope {
    pub parent: Option<NameScopeId>,
    /// The loop whose body this is.
    pub enclosing_loop: Option<LoomLoop>,
    /// By name in lower case: names are case-insensitive.
    pub names: HashMap<String, NamedAction>,
}

#[derive(Clone, Debug)]
pub(crate) struct LoomLoop {
    pub name: Arc<str>,
    pub node: NodeId,
    pub foreach: bool,
    /// Iterations may run concurrently.
    pub parallel: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct NamedAction {
    pub name: Arc<str>,
    pub span: Span,
    /// Set when the compilation of the action begins.
    pub node: Option<NodeId>,
}

pub(crate) struct Scopes(Vec<NameScope>);

impl Scopes {
    pub(crate) fn new() -> Scopes {
        let empty = || NameScope { parent: None, enclosing_loop: None, names: HashMap::new() };
        Scopes(vec![empty(), empty()])
    }

    pub(crate) fn open(&mut self, parent: NameScopeId, enclosing_loop: LoomLoop) -> NameScopeId {
        self.0.push(NameScope { parent: Some(parent), enclosing_loop: Some(enclosing_loop), names: HashMap::new() });
        NameScopeId(self.0.len() - 1)
    }

    pub(crate) fn get_mut(&mut self, id: NameScopeId) -> &mut NameScope {
        &mut self.0[id.0]
    }

    /// Iterates over the scope and the scopes around it, innermost first.
    pub(crate) fn chain(&self, id: NameScopeId) -> impl Iterator<Item = &NameScope> {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let scope = &self.0[next?.0];
            next = scope.parent;
            Some(scope)
        })
    }

    /// Iterates over the loops around a scope, innermost first.
    pub(crate) fn loops(&self, id: NameScopeId) -> impl Iterator<Item = &LoomLoop> {
        self.chain(id).filter_map(|scope| scope.enclosing_loop.as_ref())
    }

    /// Returns the visible loop bodies that contain a name, from the innermost scope that has any.
    pub(crate) fn bodies_with(&self, id: NameScopeId, lower: &str) -> Vec<&NameScope> {
        let mut next = Some(id);
        while let Some(id) = next {
            let holds = |scope: &&NameScope| scope.parent == Some(id) && scope.names.contains_key(lower);
            let found: Vec<&NameScope> = self.0.iter().filter(holds).collect();
            if !found.is_empty() {
                return found;
            }
            next = self.0[id.0].parent;
        }
        Vec::new()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &NameScope> {
        self.0.iter()
    }

    /// Reports whether a scope is another one or inside it.
    pub(crate) fn is_within(&self, inner: NameScopeId, outer: NameScopeId) -> bool {
        let mut next = Some(inner);
        while let Some(id) = next {
            if id == outer {
                return true;
            }
            next = self.0[id.0].parent;
        }
        false
    }
}
