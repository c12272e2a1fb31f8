//! Key and trust stores of listeners that clients change while the broker runs.
//!
//! As in Kafka the ten settings of stores change for one listener of one broker at a time, by
//! `listener.name.<listener>.ssl.keystore.location` and its like. Whether a listener could serve
//! with other values depends on files, which this crate does not read: who serves the listeners
//! says so ([`ListenerStores`]) before the controller decides (`controller/stores.rs`).
//!
//! Invariant: no value is shown. Not here: what is in a store, and serving with it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use wire::sasl::Secret;
use wire::types::NodeId;

use crate::image::{Image, ResourceType};

/// The settings of stores that may change while a broker runs: `RECONFIGURABLE_CONFIGS` of Kafka.
pub const STORE_SETTINGS: [&str; 10] = [
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
];

/// Values of [`STORE_SETTINGS`] that clients have set for one listener, by setting.
// Bounded: `STORE_SETTINGS`.
pub type StoreValues = BTreeMap<&'static str, Secret<String>>;

/// The answer to [`ListenerStores::check`]: why a listener could not serve.
pub type PendingStoreCheck = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// Who serves the listeners, and with them the stores.
pub trait ListenerStores: fmt::Debug + Send + Sync {
    /// Says whether a listener, whose name is in lower case, could go on serving with these values
    /// in the place of those that clients have set before.
    ///
    /// A listener that is not known, or does not speak TLS, has no stores, and takes any value.
    fn check(&self, listener: &str, values: StoreValues) -> PendingStoreCheck;

    /// Asks for all stores to be read again: a client has changed settings of the broker, to the
    /// values before or to others.
    fn read_again(&self);
}

/// Returns listener and setting of the name of a setting of a listener's stores.
///
/// Names of listeners may have dots.
pub(crate) fn store_setting_of(name: &str) -> Option<(&str, &'static str)> {
    let rest = name.strip_prefix("listener.name.")?;
    STORE_SETTINGS.iter().find_map(|setting| {
        let listener = rest.strip_suffix(setting)?.strip_suffix('.')?;
        (!listener.is_empty()).then_some((listener, *setting))
    })
}

/// Returns the values that clients have set for the stores of this node, by listener.
pub(crate) fn set_by_clients(image: &Image, node: NodeId) -> BTreeMap<String, StoreValues> {
    let settings = image.settings(ResourceType::BROKER, &node.0.to_string());
    // Bounded: the settings of one resource, `controller::bounds::check_settings`.
    let mut all = BTreeMap::<String, StoreValues>::new();
    for (name, value) in settings.into_iter().flatten() {
        if let Some((listener, setting)) = store_setting_of(name) {
            let of_listener = all.entry(listener.to_owned()).or_default();
            of_listener.insert(setting, Secret::new(value.clone()));
            assert!(of_listener.len() <= STORE_SETTINGS.len(), "one value each");
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_listener_and_setting_and_listeners_may_have_dots() {
        assert_eq!(
            store_setting_of("listener.name.out.side.ssl.keystore.location"),
            Some(("out.side", "ssl.keystore.location"))
        );
        for name in [
            "ssl.keystore.location",
            "listener.name.ssl.keystore.location",
            "listener.name..ssl.keystore.location",
            "listener.name.out.ssl.client.auth",
            "listener.name.out.plain.sasl.jaas.config",
        ] {
            assert_eq!(store_setting_of(name), None, "{name}");
        }
    }
}
