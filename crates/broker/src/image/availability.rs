//! Which brokers the clients of a listener can reach.
//!
//! A broker is alive if it is registered and not fenced; it is reachable on a listener if it has
//! registered an endpoint for it.

use wire::records::metadata::EndpointEntry;

use super::{BrokerRegistration, Image, PartitionImage};

impl BrokerRegistration {
    /// Returns the broker's endpoint on this listener.
    pub fn endpoint(&self, listener: &str) -> Option<&EndpointEntry> {
        self.endpoints
            .iter()
            .find(|endpoint| endpoint.name == listener)
    }
}

impl Image {
    /// Returns the brokers that serve clients of `listener`, by id.
    pub fn alive_brokers<'a>(
        &'a self,
        listener: &'a str,
    ) -> impl Iterator<Item = (&'a BrokerRegistration, &'a EndpointEntry)> {
        let alive = self.brokers().filter(|broker| !broker.fenced);
        alive.filter_map(move |broker| Some((broker.as_ref(), broker.endpoint(listener)?)))
    }

    /// Returns true if the broker serves clients of `listener`.
    pub fn is_alive(&self, broker: i32, listener: &str) -> bool {
        let found = self.brokers.get(&broker);
        found.is_some_and(|broker| !broker.fenced && broker.endpoint(listener).is_some())
    }
}

impl PartitionImage {
    /// Returns the replicas that clients of `listener` cannot reach.
    pub fn offline_replicas(&self, image: &Image, listener: &str) -> Vec<i32> {
        let offline = |id: &&i32| !image.is_alive(**id, listener);
        self.replicas.iter().filter(offline).copied().collect()
    }
}
