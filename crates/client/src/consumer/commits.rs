//! What a consumer has committed, and what it is about to.

use std::collections::BTreeMap;
use std::time::Duration;

use platform::clock::Instant;
use tokio::sync::oneshot;
use wire::types::TopicPartition;

use crate::error::ClientError;
use crate::fetch::Position;
use crate::group::Places;
use crate::pauses::later;

/// Who waits for a commit.
pub(super) enum Waiter {
    /// The application.
    Application(oneshot::Sender<Result<(), ClientError>>),
    /// The revocation with this number.
    Revocation(u64),
    /// The end of the consumer.
    End,
    /// Nobody: it is only time.
    Nobody,
}

/// The commits of a consumer.
pub(super) struct Commits {
    pub(super) every: Option<Duration>,
    pub(super) due: Instant,
    /// The newest positions that were committed.
    pub(super) committed: BTreeMap<TopicPartition, Position>,
    pub(super) under_way: Option<UnderWay>,
    /// Those who wait for the commit after the one under way.
    pub(super) waiting: Vec<(Waiter, Instant)>,
}

/// A commit under way, or between two tries.
pub(super) struct UnderWay {
    pub(super) waiters: Vec<Waiter>,
    pub(super) deadline: Instant,
    pub(super) positions: BTreeMap<TopicPartition, Position>,
    pub(super) is_asked: bool,
    pub(super) not_before: Option<Instant>,
    pub(super) failures: u32,
}

impl Commits {
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Self {
        Self {
            every,
            due: every.map_or(now, |every| later(now, every)),
            committed: BTreeMap::new(),
            under_way: None,
            waiting: Vec::new(),
        }
    }

    /// Forgets partitions that are the member's no longer.
    pub(super) fn forget(&mut self, gone: &Places) {
        self.committed.retain(|place, _| !gone.contains(place));
        if let Some(under_way) = &mut self.under_way {
            under_way.positions.retain(|place, _| !gone.contains(place));
        }
    }
}
