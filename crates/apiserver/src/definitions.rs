//! What follows from a written CustomResourceDefinition: resources appear, change and disappear.

use crate::crd;
use crate::registry::{Resource, Strategy};
use crate::server::Inner;
use crate::store::Key;

impl Inner {
    /// Called after every write to `resource`.
    pub(crate) fn after_write(&self, resource: &Resource, key: &Key) {
        if resource.strategy != Strategy::Definition {
            return;
        }
        match self.store.get(&resource.table, key) {
            Some(stored) => self.registry.define(&key.name, crd::resources(&stored.value())),
            None => self.withdraw(&key.name),
        }
    }

    /// A definition is gone: so are its objects, and the watches on them.
    fn withdraw(&self, definition: &str) {
        let is_its = |resource: &&std::sync::Arc<Resource>| resource.is_custom() && resource.table == definition;
        let Some(resource) = self.registry.all().iter().find(is_its).cloned() else { return };
        if let Ok(listing) = self.store.list(&resource.table, None, None) {
            for stored in listing.objects {
                self.remove_silently(&resource, &stored.key);
            }
        }
        self.registry.define(definition, Vec::new());
        self.store.drop_table(&resource.table);
    }
}
