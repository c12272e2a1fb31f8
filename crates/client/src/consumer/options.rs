//! What a consumer is told when it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wire::types::TopicPartition;

use crate::fetch::Whence;
use crate::settings::ClientSettings;

/// How a consumer behaves, apart from the client's settings.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// Brokers, fetches, the group.
    pub client: ClientSettings,
    /// How often stored positions are committed by themselves; `None` for never.
    pub auto_commit: Option<Duration>,
    /// Most bytes of records that are fetched ahead.
    pub buffer_bytes: usize,
}

/// What a consumer reads.
#[derive(Clone, Debug)]
pub enum Assignment {
    /// These partitions, from there on.
    Given(BTreeMap<TopicPartition, Whence>),
    /// What the group gives it of these topics.
    Subscribed(BTreeSet<String>),
}
