//! What a member is told when it is made.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::assign::Strategy;
use crate::pauses::Pauses;

/// What a member is, for as long as it lives.
#[derive(Clone, Debug)]
pub(crate) struct MemberSettings {
    pub(crate) group: String,
    /// The name of a static member.
    pub(crate) instance_id: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) topics: BTreeSet<Arc<str>>,
    /// The coordinator's assignor, if the member asks for one.
    pub(crate) assignor: Option<String>,
    /// How the leader of a classic group divides, the preferred way first.
    pub(crate) strategies: Vec<Strategy>,
    pub(crate) session_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
    /// How long the application may take between two looks, and to let go of partitions.
    pub(crate) rebalance_timeout: Duration,
    /// How often the leader of a classic group looks whether topics have grown.
    pub(crate) metadata_max_age: Duration,
    pub(crate) pauses: Pauses,
}
