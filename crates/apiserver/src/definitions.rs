//! What follows from a write: a CustomResourceDefinition makes resources appear, change and disappear.

use crate::crd;
use crate::registry::{Resource, Strategy};
use crate::selection::selectable_values;
use crate::server::Inner;
use crate::store::{Kept, Key};

/// The table of CustomResourceDefinitions.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl Inner {
    /// Puts back what a durable store kept: definitions first, because they say what the rest is.
    pub(crate) fn restore(&self, kept: Vec<Kept>) {
        let (definitions, others): (Vec<Kept>, Vec<Kept>) =
            kept.into_iter().partition(|kept| kept.table == DEFINITIONS);
        for kept in definitions {
            self.registry.define(&kept.key.name, crd::resources(&kept.object));
            self.store.restore(DEFINITIONS, kept, Vec::new());
        }
        let resources = self.registry.all();
        for kept in others {
            let table = kept.table.clone();
            // Without a definition nobody could ask for it.
            if let Some(resource) = resources.iter().find(|resource| resource.table == table) {
                let fields = selectable_values(resource, &kept.object);
                self.store.restore(&table, kept, fields);
            }
        }
    }

    /// Offers exactly what the stored definitions say.
    pub(crate) fn redefine(&self) {
        self.registry.clear();
        let stored = self.store.list(DEFINITIONS, None, None).map(|listing| listing.objects).unwrap_or_default();
        for definition in stored {
            self.registry.define(&definition.key.name, crd::resources(&definition.value()));
        }
    }

    /// Called after every write to `resource`.
    pub(crate) fn after_write(&self, resource: &Resource, key: &Key) {
        match resource.strategy {
            Strategy::Definition => {}
            _ if resource.table == "events" => return self.expire_events(resource, key),
            _ => return,
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
