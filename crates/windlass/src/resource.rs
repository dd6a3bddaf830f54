//! Resources of steps: connections, clients, settings.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A resource that a step takes, looked up by its type. It is added to the workflow before the build; a missing
/// resource is a build error.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError};
/// use windlass::{Res, Workflow};
///
/// struct Prices(u64);
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "order", start)]
/// # struct Order { pieces: u64 }
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "bill", stop)]
/// # struct Bill { total: u64 }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("bills")
///     .step("price", |order: Order, prices: Res<Prices>| async move { Ok(Bill { total: order.pieces * prices.0 }) })
///     .resource(Prices(3))
///     .build()?;
/// assert_eq!(workflow.run::<Bill>(Order { pieces: 2 }).await?, Bill { total: 6 });
/// # Ok(())
/// # }
/// ```
pub struct Res<T: ?Sized>(pub(crate) Arc<T>);

impl<T: ?Sized> Res<T> {
    /// Returns the shared value.
    pub fn into_inner(self) -> Arc<T> {
        self.0
    }
}

impl<T: ?Sized> Clone for Res<T> {
    fn clone(&self) -> Res<T> {
        Res(self.0.clone())
    }
}

impl<T: ?Sized> Deref for Res<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Res<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The type of a resource that a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceType {
    pub type_id: TypeId,
    pub name: &'static str,
}

impl ResourceType {
    pub(crate) fn for_type<T: 'static>() -> ResourceType {
        ResourceType { type_id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

/// All resources of a workflow, by type.
#[derive(Clone, Default)]
pub(crate) struct Resources(BTreeMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>);

impl Resources {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, resource: Arc<T>) {
        self.0.insert(TypeId::of::<T>(), (type_name::<T>(), resource));
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Res<T>> {
        let (_, resource) = self.0.get(&TypeId::of::<T>())?;
        resource.clone().downcast().ok().map(Res)
    }

    pub(crate) fn contains(&self, needed: &ResourceType) -> bool {
        self.0.contains_key(&needed.type_id)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.values().map(|(name, _)| *name)
    }
}
