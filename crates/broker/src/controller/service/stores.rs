//! Key and trust stores of listeners around a turn: they are checked before it, and read again
//! after it.
//!
//! A check reads files, so no turn waits for it. Not here: what a change means
//! (`controller/stores.rs`).

use platform::Platform;

use super::Controller;
use crate::access::Access;
use crate::controller::Rules;
use crate::controller::mutations::Caller;
use crate::controller::stores::{ChangedStores, CheckedStores};
use crate::image::ResourceType;

impl<P: Platform> Controller<P> {
    /// Has the stores checked that a request of `caller` would change as the metadata are now.
    pub(super) async fn checked_stores(
        &self,
        caller: &Caller,
        changed: impl FnOnce(Rules<'_>, &Access) -> Vec<ChangedStores>,
    ) -> CheckedStores {
        let Some(stores) = &self.options.stores else {
            return CheckedStores::default();
        };
        let changed = {
            let image = self.image();
            let rules = Rules {
                image: &image,
                options: &self.options,
            };
            changed(rules, &caller.access(&image))
        };
        CheckedStores::of(&**stores, changed).await
    }

    /// Has all stores read again if a change of settings of the broker was carried out, as Kafka
    /// does, for files may have changed under the names that stayed.
    pub(super) fn read_stores_again(&self, told: impl Iterator<Item = (i16, i8)>) {
        let mut told = told;
        let is_of_broker =
            |(code, kind): (i16, i8)| code == 0 && ResourceType(kind) == ResourceType::BROKER;
        if let Some(stores) = &self.options.stores
            && told.any(is_of_broker)
        {
            stores.read_again();
        }
    }
}
