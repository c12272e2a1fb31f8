//! The sources of a setting's value.
//!
//! Invariant: numbered as in the protocol. It does not look values up (`sources.rs`,
//! `broker_settings.rs`).

/// A source of a value, numbered as in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Set on the topic.
    Topic = 1,
    /// Set on this broker at run time.
    DynamicBroker = 2,
    /// Set on all brokers at run time.
    DynamicDefault = 3,
    /// Set in the configuration file.
    StaticBroker = 4,
    /// Not set: the default.
    Default = 5,
    /// Set on the client metrics subscription.
    ClientMetrics = 7,
    /// Set on the group.
    Group = 8,
}

/// A value with its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SourcedValue {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) source: Source,
}
