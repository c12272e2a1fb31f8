//! Settings of resources, by kind and name.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The kind of a resource that has settings, as numbered in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResourceType(pub i8);

impl ResourceType {
    /// A topic.
    pub const TOPIC: Self = Self(2);
    /// A broker, or the cluster default if the name is empty.
    pub const BROKER: Self = Self(4);
    /// The loggers of a broker.
    pub const BROKER_LOGGER: Self = Self(8);
    /// A client metrics subscription.
    pub const CLIENT_METRICS: Self = Self(16);
    /// A group.
    pub const GROUP: Self = Self(32);
}

/// The settings of every resource of one kind.
pub type ResourceSettings = BTreeMap<String, Arc<BTreeMap<String, String>>>;
