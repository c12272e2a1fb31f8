//! The places that can give a setting its value.
//!
//! Invariant: numbered as the protocol numbers them. It does not: look anything up (`sources.rs`, `broker_settings.rs`).

/// A place that can give a value, as the protocol numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Set on the topic.
    Topic = 1,
    /// Set on this broker at run time.
    DynamicBroker = 2,
    /// Set on all brokers at run time.
    DynamicDefault = 3,
    /// In the configuration file.
    StaticBroker = 4,
    /// Nowhere.
    Default = 5,
    /// Set on the subscription to client metrics.
    ClientMetrics = 7,
    /// Set on the group.
    Group = 8,
}

/// A value with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sourced {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) source: Source,
}
