//! Incremental fetch sessions (KIP-227): the broker remembers what a client fetched last time, so
//! that the client need not repeat it, and what it answered last time, so that it need not repeat
//! that.
//!
//! States of a session: created by a full fetch with epoch 0; continued by fetches with epochs 1,
//! 2, ...; closed by epoch -1, by an empty set of partitions, or by eviction when all slots are
//! taken.
//!
//! Invariants: at most `sessions_max` sessions, whose partitions take at most [`BYTES_MAX`] in
//! total: a session that would need more is not created, or ends, and its client fetches without
//! one. With an authorizer a session is that of its creator, and for others there is none. A
//! session's id names the shard that keeps it (`id % shards`), so a client that reconnects to
//! another shard gets the error for an unknown session and creates a new one. An id may be reused
//! once its session is gone: code that keeps an id across an await also checks the session's serial
//! number, which is never reused.
//!
//! Pure: time and randomness are parameters. Sessions of very many partitions are processed in
//! pieces (`turns.rs`).

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an overflow or an index out of bounds ends the broker"
    )
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use wire::acl::Principal;
use wire::types::{ErrorCode, LeaderEpoch, Offset, TopicId};

use crate::many::MANY;

mod turns;

pub(crate) use turns::{SessionRequest, answer, resolve};

/// A new session may evict a session that was unused for this long.
const EVICTABLE_AFTER: Duration = Duration::from_mins(2);
/// The epoch of a fetch that requests a new session.
pub(crate) const INITIAL_EPOCH: i32 = 0;
/// The epoch of a fetch that requests no session.
const FINAL_EPOCH: i32 = -1;

/// Maximum memory of the sessions of one shard, with topic names counted for each partition.
///
/// 30 bytes of a request take ten times as much here.
pub const BYTES_MAX: usize = 64 << 20;
/// Memory of a partition in addition to its topic's name: two keys, the fetch parameters, the last
/// answer, its node of the map.
const PARTITION_BYTES: usize = 256;

const _: () = assert!(
    MANY * PARTITION_BYTES < BYTES_MAX,
    "a session may be of very many partitions"
);

/// A topic as the request named it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TopicKey {
    /// By id (version 13 and later).
    Id(TopicId),
    /// By name.
    Name(Arc<str>),
}

impl TopicKey {
    /// Returns the topic of a request, by id if the request names topics by id, otherwise by name.
    pub fn from_wire(by_id: bool, name: &str, id: TopicId) -> Self {
        if by_id {
            Self::Id(id)
        } else {
            Self::Name(name.into())
        }
    }
}

/// A partition of a fetch.
pub type Key = (TopicKey, i32);

/// The parameters of a fetch for one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionFetch {
    /// The client's leader epoch, or none.
    pub current_leader_epoch: LeaderEpoch,
    /// The offset to read from.
    pub fetch_offset: Offset,
    /// Epoch of the client's last record (followers), or none.
    pub last_fetched_epoch: LeaderEpoch,
    /// Log start offset of a follower, -1 for consumers.
    pub log_start_offset: Offset,
    /// Maximum bytes for this partition.
    pub max_bytes: i32,
}

/// The last answer for a partition, apart from records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnswerState {
    /// High watermark.
    pub high_watermark: Offset,
    /// Log start offset.
    pub log_start_offset: Offset,
    /// True if the response must mention the partition even if it is unchanged: records, an error,
    /// a divergence.
    pub urgent: bool,
}

/// The session fields of a fetch request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionClaim {
    /// Session id, 0 for none.
    pub id: i32,
    /// Epoch within the session.
    pub epoch: i32,
}

/// A fetch whose session is resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResolvedFetch {
    /// Session id of the response, 0 for none.
    pub id: i32,
    /// Serial number of the session: by the time of the response, another session may have the id.
    serial: u64,
    /// Partitions to read, in order.
    pub partitions: Vec<(Key, PartitionFetch)>,
    /// True if the response contains only what changed.
    pub incremental: bool,
}

struct CachedPartition {
    wanted: PartitionFetch,
    told: Option<AnswerState>,
    /// True if the last response contained records, an error or a divergence of this partition.
    served: bool,
}

struct Session {
    /// Serial number, which is never reused.
    serial: u64,
    /// The principal that created it; `None` if no right is denied to any client.
    owner: Option<Principal>,
    /// The epoch that the next request must carry.
    next_epoch: i32,
    by_id: bool,
    content: Content,
    /// True while a request has taken the content out.
    is_out: bool,
    /// Memory of the content, even while it is out.
    bytes: usize,
    used: Instant,
}

/// The content of a session.
#[derive(Default)]
struct Content {
    // Bounded: `BYTES_MAX` for all sessions.
    partitions: BTreeMap<Key, CachedPartition>,
    order: Vec<Key>,
    /// Memory of the partitions.
    bytes: usize,
}

/// The sessions of one shard.
pub struct FetchSessions {
    // Bounded: `make_room` by `max.incremental.fetch.session.cache.slots` and `BYTES_MAX`.
    sessions: BTreeMap<i32, Session>,
    sessions_max: usize,
    /// Memory of all sessions.
    bytes: usize,
    /// Number of sessions ever created.
    begun: u64,
    shard: usize,
    shards: usize,
    evictions: u64,
}

impl FetchSessions {
    /// Returns an empty cache; `shard` of `shards` keeps at most `sessions_max` sessions.
    pub fn new(sessions_max: usize, shard: usize, shards: usize) -> Self {
        Self {
            sessions: BTreeMap::new(),
            sessions_max,
            bytes: 0,
            begun: 0,
            shard,
            shards: shards.max(1),
            evictions: 0,
        }
    }

    /// Returns the current number of sessions.
    pub fn count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the memory of the sessions.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns an upper bound of the partitions in a session; it looks the session up only if all
    /// together have very many.
    pub fn partitions(&self, id: i32) -> usize {
        let all = self.bytes / PARTITION_BYTES;
        if all <= MANY {
            return all;
        }
        let session = self.sessions.get(&id);
        session.map_or(0, |session| session.bytes / PARTITION_BYTES)
    }

    /// Returns the number of sessions evicted so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns what a fetch reads: the partitions that it names, or those of its session with its
    /// changes applied.
    pub fn resolve(
        &mut self,
        claim: SessionClaim,
        by_id: bool,
        named: Vec<(Key, PartitionFetch)>,
        forgotten: &[Key],
        now: Instant,
        random: u64,
    ) -> Result<ResolvedFetch, ErrorCode> {
        if claim.epoch == FINAL_EPOCH || claim.epoch == INITIAL_EPOCH {
            self.remove(claim.id);
            let wants_session = claim.epoch == INITIAL_EPOCH && !named.is_empty();
            let place = wants_session
                .then(|| self.create(by_id, &named, now, random))
                .flatten();
            // Without a session, the response has id 0.
            let (id, serial) = place.unwrap_or_default();
            return Ok(ResolvedFetch {
                id,
                serial,
                partitions: named,
                incremental: false,
            });
        }
        let session = self.claimed(claim, by_id)?;
        let (serial, before) = (session.serial, session.bytes);
        let content = &mut session.content;
        for (key, wanted) in named {
            content.name(key, wanted);
        }
        if !forgotten.is_empty() {
            for key in forgotten {
                content.forget(key);
            }
            let order = std::mem::take(&mut content.order);
            content.order = content.remembered(order);
        }
        let partitions = content.listed(&content.order);
        session.bytes = content.bytes;
        session.used = now;
        session.next_epoch = epoch_after(claim.epoch);
        content.check();
        let (is_empty, bytes) = (partitions.is_empty(), session.bytes);
        self.weigh(before, bytes);
        Ok(ResolvedFetch {
            id: self.id_of((claim.id, serial), is_empty),
            serial,
            partitions,
            incremental: true,
        })
    }

    /// Returns the session of a fetch that is neither its first nor its last.
    fn claimed(&mut self, claim: SessionClaim, by_id: bool) -> Result<&mut Session, ErrorCode> {
        let session = self
            .sessions
            .get_mut(&claim.id)
            .ok_or(ErrorCode::FetchSessionIdNotFound)?;
        // While a request has the content out, the client has no response yet, so it cannot know
        // the next epoch.
        if session.next_epoch != claim.epoch || session.is_out {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.by_id != by_id {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        Ok(session)
    }

    /// Returns what a client claims; of the session of another client, that it knows none: it would
    /// learn from it what the other reads, and could end it.
    pub fn claim_of(&self, owner: &Principal, claim: SessionClaim) -> SessionClaim {
        let session = self.sessions.get(&claim.id);
        if session.is_none_or(|session| session.owner.as_ref() == Some(owner)) {
            return claim;
        }
        assert!(claim.id != 0, "no session has the id that means none");
        SessionClaim { id: 0, ..claim }
    }

    /// Notes the principal that created a session.
    pub fn own(&mut self, owner: Principal, resolved: &ResolvedFetch) {
        if let Some(session) = self.same((resolved.id, resolved.serial)) {
            session.owner = Some(owner);
        }
    }

    /// Returns the session with this id and serial number, unless it is gone.
    fn same(&mut self, (id, serial): (i32, u64)) -> Option<&mut Session> {
        let session = self.sessions.get_mut(&id);
        session.filter(|session| session.serial == serial)
    }

    /// Returns the session id of the response.
    ///
    /// A session that is empty or has become too large gets this last response, with id 0, and
    /// ends.
    fn id_of(&mut self, place: (i32, u64), is_empty: bool) -> i32 {
        if is_empty || self.bytes > BYTES_MAX {
            self.remove_same(place);
            return 0;
        }
        place.0
    }

    /// Returns which partitions a response mentions, and remembers their answers.
    ///
    /// The response of an incremental fetch leaves out what the client already knows. If the
    /// session is gone, the response has id 0.
    pub fn answer(&mut self, resolved: &mut ResolvedFetch, told: &[AnswerState]) -> Vec<bool> {
        let Some(session) = self.same((resolved.id, resolved.serial)) else {
            resolved.id = 0;
            return vec![true; told.len()];
        };
        if session.is_out {
            return vec![true; told.len()];
        }
        let content = &mut session.content;
        assert_eq!(
            told.len(),
            resolved.partitions.len(),
            "each partition is told of"
        );
        let all = resolved.partitions.iter().zip(told);
        let tell = |((key, _), told): (&(Key, PartitionFetch), &AnswerState)| {
            content.tell(key, *told, resolved.incremental)
        };
        let mentioned = all.map(tell).collect();
        let served = told.iter().filter(|told| told.urgent).count();
        if served > 0 && served < content.order.len() {
            let order = std::mem::take(&mut content.order);
            let (mut order, served) = content.by_turn(order);
            order.extend(served);
            content.order = order;
        }
        mentioned
    }

    /// Returns the session id of a response without partitions.
    ///
    /// The session's answers stay as they were, and a session that was being created ends.
    pub fn withhold(&mut self, resolved: &ResolvedFetch) -> i32 {
        let place = (resolved.id, resolved.serial);
        if !resolved.incremental {
            self.remove_same(place);
        }
        self.same(place).map_or(0, |_| place.0)
    }

    /// Removes a session, unless it is gone and another one may have its id.
    fn remove_same(&mut self, place: (i32, u64)) {
        if self.same(place).is_some() {
            self.remove(place.0);
        }
    }

    fn remove(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.weigh(session.bytes, 0);
        }
        assert!(
            self.bytes == 0 || !self.sessions.is_empty(),
            "no session, no bytes"
        );
    }

    /// Updates the total when the memory of a session changes.
    fn weigh(&mut self, before: usize, now: usize) {
        assert!(self.bytes >= before, "the sum of what sessions take");
        self.bytes = self.bytes.saturating_sub(before).saturating_add(now);
    }

    fn create(
        &mut self,
        by_id: bool,
        named: &[(Key, PartitionFetch)],
        now: Instant,
        random: u64,
    ) -> Option<(i32, u64)> {
        let place = self.place(by_id, named, now, random)?;
        let Some(session) = self.same(place) else {
            unreachable!("it was placed just now");
        };
        let content = &mut session.content;
        for (key, wanted) in named {
            content.name(key.clone(), *wanted);
        }
        content.check();
        Some(place)
    }

    /// Creates an empty session, with memory reserved for its partitions. Returns its id and serial
    /// number.
    fn place(
        &mut self,
        by_id: bool,
        named: &[(Key, PartitionFetch)],
        now: Instant,
        random: u64,
    ) -> Option<(i32, u64)> {
        // The handler has removed repeated partitions.
        let bytes = named.iter().map(|(key, _)| bytes_of(key));
        let bytes = bytes.fold(0, usize::saturating_add);
        if !self.make_room(now, bytes) {
            return None;
        }
        let id = self.unused_id(random)?;
        let serial = self.begun.checked_add(1)?;
        self.begun = serial;
        let session = Session {
            serial,
            owner: None,
            next_epoch: 1,
            by_id,
            content: Content::default(),
            is_out: false,
            bytes,
            used: now,
        };
        self.bytes = self.bytes.saturating_add(bytes);
        let taken = self.sessions.insert(id, session);
        assert!(taken.is_none(), "an id is one session's");
        assert!(self.bytes <= BYTES_MAX, "there was room for it");
        assert!(
            self.sessions.len() <= self.sessions_max,
            "there was a slot for it"
        );
        Some((id, serial))
    }

    /// Returns true if there is a free slot and enough memory, if necessary after evicting the
    /// least recently used sessions.
    fn make_room(&mut self, now: Instant, bytes: usize) -> bool {
        if self.sessions_max == 0 || bytes > BYTES_MAX {
            return false;
        }
        while self.sessions.len() >= self.sessions_max
            || self.bytes.saturating_add(bytes) > BYTES_MAX
        {
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.used);
            let Some((id, used)) = oldest.map(|(id, session)| (*id, session.used)) else {
                return false;
            };
            if now.saturating_duration_since(used) < EVICTABLE_AFTER {
                return false;
            }
            self.remove(id);
            self.evictions = self.evictions.saturating_add(1);
        }
        true
    }

    fn unused_id(&self, random: u64) -> Option<i32> {
        (0..64u64).find_map(|attempt| {
            let spread = random.wrapping_add(attempt.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 33;
            let of_shard_0 = spread.saturating_sub(spread.checked_rem(self.shards as u64)?);
            let id = i32::try_from(of_shard_0.checked_add(self.shard as u64)?).ok()?;
            (id > 0 && !self.sessions.contains_key(&id)).then_some(id)
        })
    }
}

impl Content {
    /// Checks the invariants that hold between requests.
    fn check(&self) {
        let (order, known) = (self.order.len(), self.partitions.len());
        assert_eq!(order, known, "each partition has one place in the order");
        assert!(
            self.bytes >= known.saturating_mul(PARTITION_BYTES),
            "each partition is weighed"
        );
    }

    /// Adds or updates a partition that a fetch names.
    fn name(&mut self, key: Key, wanted: PartitionFetch) {
        if let Some(cached) = self.partitions.get_mut(&key) {
            cached.wanted = wanted;
            return;
        }
        self.bytes = self.bytes.saturating_add(bytes_of(&key));
        self.order.push(key.clone());
        let cached = CachedPartition {
            wanted,
            told: None,
            served: false,
        };
        self.partitions.insert(key, cached);
    }

    /// Removes a partition from the session; the order still contains it until [`Self::remembered`]
    /// runs.
    fn forget(&mut self, key: &Key) {
        if self.partitions.remove(key).is_some() {
            assert!(self.bytes >= bytes_of(key), "it was weighed as it came");
            self.bytes = self.bytes.saturating_sub(bytes_of(key));
        }
    }

    /// Returns the partitions of a piece of the order that are still in the session.
    fn remembered(&self, mut order: Vec<Key>) -> Vec<Key> {
        order.retain(|key| self.partitions.contains_key(key));
        order
    }

    /// Returns the fetch parameters of a piece of the order.
    fn listed(&self, order: &[Key]) -> Vec<(Key, PartitionFetch)> {
        let wanted = |key: &Key| Some((key.clone(), self.partitions.get(key)?.wanted));
        order.iter().filter_map(wanted).collect()
    }

    /// Remembers the answer for a partition; returns true if the response mentions it.
    fn tell(&mut self, key: &Key, told: AnswerState, incremental: bool) -> bool {
        let Some(cached) = self.partitions.get_mut(key) else {
            return true;
        };
        let news = told.urgent || cached.told.as_ref().is_none_or(|before| *before != told);
        cached.served = told.urgent;
        cached.told = Some(AnswerState {
            urgent: false,
            ..told
        });
        news || !incremental
    }

    /// Splits a piece of the order into the partitions that did not fill this response, and those
    /// that did.
    ///
    /// The latter come last in the next response, so that none starves.
    fn by_turn(&self, order: Vec<Key>) -> (Vec<Key>, Vec<Key>) {
        let served = |key: &Key| self.partitions.get(key).is_some_and(|cached| cached.served);
        order.into_iter().partition(|key| !served(key))
    }
}

fn bytes_of((topic, _): &Key) -> usize {
    let name = match topic {
        TopicKey::Id(_) => 0,
        TopicKey::Name(name) => name.len(),
    };
    name.saturating_add(PARTITION_BYTES)
}

fn epoch_after(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

#[cfg(test)]
mod tests;
