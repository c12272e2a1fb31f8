//! The client's side of a fetch session (KIP-227) with one broker: it says only what changed.
//!
//! States: none (epoch 0: everything is said, and a session is asked for), in a session (epochs 1,
//! 2, .. up to the largest, then 1 again). An error or a lost connection ends it; the next request
//! names it once more with epoch 0, so that the broker forgets it. Pure. Not here: what is fetched.

use std::collections::BTreeMap;

use wire::types::{ErrorCode, TopicId, TopicPartition};

/// The epoch that asks for a session.
const BEGIN: i32 = 0;
/// The epoch that ends one.
const END: i32 = -1;

/// What is asked of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartitionAsk {
    /// The topic's id; zero if it is not known.
    pub(super) topic_id: TopicId,
    /// The offset to read from.
    pub(super) offset: i64,
    /// The leader's epoch, -1 if it is not known.
    pub(super) leader_epoch: i32,
    /// The epoch of the last batch that was read, -1 if there is none.
    pub(super) last_epoch: i32,
    /// Most bytes of it.
    pub(super) bytes_max: i32,
}

/// A request, as far as the session decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SessionAsk {
    /// The session, 0 for none.
    pub(super) id: i32,
    /// Its epoch.
    pub(super) epoch: i32,
    /// Topics are named by their ids.
    pub(super) by_id: bool,
    /// What is new or changed.
    pub(super) asked: Vec<(TopicPartition, PartitionAsk)>,
    /// What is not wanted any more, with the ids of the topics.
    pub(super) forgotten: Vec<(TopicPartition, TopicId)>,
}

/// A session with one broker.
#[derive(Default, Debug)]
pub(super) struct FetchSession {
    id: i32,
    epoch: i32,
    by_id: bool,
    /// What the broker knows, or what the request under way tells it.
    known: BTreeMap<TopicPartition, PartitionAsk>,
}

impl FetchSession {
    /// Returns the request that makes the broker read these partitions.
    pub(super) fn ask(&mut self, wanted: Vec<(TopicPartition, PartitionAsk)>) -> SessionAsk {
        let by_id = wanted.iter().all(|(_, ask)| ask.topic_id != TopicId::ZERO);
        if by_id != self.by_id {
            self.epoch = BEGIN;
            self.by_id = by_id;
        }
        let wanted_now: BTreeMap<_, _> = wanted.iter().cloned().collect();
        let known = std::mem::replace(&mut self.known, wanted_now);
        let (id, epoch) = (self.id, self.epoch);
        if epoch == BEGIN {
            return SessionAsk {
                id,
                epoch,
                by_id,
                asked: wanted,
                forgotten: Vec::new(),
            };
        }
        let is_news = |(place, ask): &(TopicPartition, PartitionAsk)| known.get(place) != Some(ask);
        let asked = wanted.into_iter().filter(is_news).collect();
        let is_gone = |(place, before): &(&TopicPartition, &PartitionAsk)| {
            let now = self.known.get(*place);
            // A topic that was made again is another one to the broker.
            now.is_none_or(|now| now.topic_id != before.topic_id)
        };
        let gone = known.iter().filter(is_gone);
        let forgotten = gone
            .map(|(place, before)| (place.clone(), before.topic_id))
            .collect();
        SessionAsk {
            id,
            epoch,
            by_id,
            asked,
            forgotten,
        }
    }

    /// Takes the fields of an answer that are about the session; false if the answer has nothing
    /// about partitions.
    pub(super) fn answered(&mut self, error: Option<ErrorCode>, id: i32) -> bool {
        match error {
            None if self.epoch == BEGIN => {
                self.id = id.max(0);
                self.epoch = if id > 0 { 1 } else { BEGIN };
                true
            }
            None => {
                self.epoch = self.epoch.checked_add(1).unwrap_or(1);
                if id != self.id {
                    // The broker has ended it.
                    (self.id, self.epoch) = (0, BEGIN);
                }
                true
            }
            Some(ErrorCode::FetchSessionIdNotFound) => {
                (self.id, self.epoch) = (0, BEGIN);
                false
            }
            Some(_) => {
                self.lost();
                false
            }
        }
    }

    /// Takes that the answer to the last request never came.
    pub(super) fn lost(&mut self) {
        self.epoch = BEGIN;
    }

    /// Returns the request that ends the session, if there is one.
    pub(super) fn end(&mut self) -> Option<SessionAsk> {
        self.known.clear();
        let id = std::mem::take(&mut self.id);
        self.epoch = BEGIN;
        (id != 0).then_some(SessionAsk {
            id,
            epoch: END,
            by_id: self.by_id,
            asked: Vec::new(),
            forgotten: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests;
