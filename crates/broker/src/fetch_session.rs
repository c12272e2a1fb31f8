//! Incremental fetch sessions (KIP-227): what a client asked for last time, so that it need not repeat it, and what it
//! was told last time, so that we need not repeat it.
//!
//! States of a session: created by a full fetch with epoch 0; continued by fetches with epochs 1, 2, ...; closed by
//! epoch -1, by an empty set of partitions, or by eviction when all slots are taken.
//! Invariants: at most `sessions_max` sessions, whose partitions take at most [`BYTES_MAX`] in all: a session that would
//! need more is not begun, or ends, and its client fetches without one; a session's id names the shard that keeps it (`id % shards`), so a
//! client that comes back to another shard is told that its session is unknown and starts a new one. An id may be drawn again
//! once its session is gone: whoever kept it over an await asks for the session's number, too, which no other has.
//! Pure: time and randomness are passed in. Sessions of very many partitions are worked on in turns (`turns.rs`).

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
use wire::types::{ErrorCode, LeaderEpoch, Offset, TopicId};

use crate::many::MANY;

mod turns;

pub(crate) use turns::{Asked, answer, resolve};

/// A session that was not used for so long may be evicted by a new one.
const EVICTABLE_AFTER: Duration = Duration::from_mins(2);
/// The epoch of a fetch that wants a new session.
const INITIAL_EPOCH: i32 = 0;
/// The epoch of a fetch that wants no session.
const FINAL_EPOCH: i32 = -1;

/// Memory that the sessions of one shard may take, names of topics counted for each partition: 30 bytes of a request
/// become ten times as many here.
pub const BYTES_MAX: usize = 64 << 20;
/// What a partition takes beside its topic's name: two keys, what is wanted, what was told, its node of the map.
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
    /// The topic of a request that names topics by id, or else by name.
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

/// What a fetch asks of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Leader epoch the client believes in, or none.
    pub current_leader_epoch: LeaderEpoch,
    /// Where to read from.
    pub fetch_offset: Offset,
    /// Epoch of the last record the client has (followers), or none.
    pub last_fetched_epoch: LeaderEpoch,
    /// Log start offset of a follower, -1 for consumers.
    pub log_start_offset: Offset,
    /// Most bytes the client takes.
    pub max_bytes: i32,
}

/// What a client was told of a partition, beside records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// High watermark.
    pub high_watermark: Offset,
    /// Log start offset.
    pub log_start_offset: Offset,
    /// Something that has to be told however often it stays the same: records, an error, a divergence.
    pub urgent: bool,
}

/// How a fetch request stands towards sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionClaim {
    /// Session id, 0 for none.
    pub id: i32,
    /// Epoch within the session.
    pub epoch: i32,
}

/// The fetch after sessions were taken into account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// Session id of the response, 0 for none.
    pub id: i32,
    /// Which session it is: another may have the id by the time that this is answered.
    serial: u64,
    /// Partitions to read, in order.
    pub partitions: Vec<(Key, Wanted)>,
    /// Only what changed is put into the response.
    pub incremental: bool,
}

struct Cached {
    wanted: Wanted,
    told: Option<Told>,
    /// The last answer brought something of it that fills answers.
    served: bool,
}

struct Session {
    /// Its number, which is never given out again.
    serial: u64,
    /// The epoch that the next request must carry.
    next_epoch: i32,
    by_id: bool,
    content: Content,
    /// Somebody works on the content, which is not here meanwhile.
    is_out: bool,
    /// What the content takes, here or not.
    bytes: usize,
    used: Instant,
}

/// What a session remembers.
#[derive(Default)]
struct Content {
    // Bounded: `BYTES_MAX` for all sessions.
    partitions: BTreeMap<Key, Cached>,
    order: Vec<Key>,
    /// What the partitions take.
    bytes: usize,
}

/// The sessions of one shard.
pub struct FetchSessions {
    // Bounded: `make_room` by `max.incremental.fetch.session.cache.slots` and `BYTES_MAX`.
    sessions: BTreeMap<i32, Session>,
    sessions_max: usize,
    /// What all sessions take.
    bytes: usize,
    /// How many were begun.
    begun: u64,
    shard: usize,
    shards: usize,
    evictions: u64,
}

impl FetchSessions {
    /// No sessions yet; `shard` of `shards` keeps at most `sessions_max`.
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

    /// Sessions kept now.
    pub fn count(&self) -> usize {
        self.sessions.len()
    }

    /// Memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Partitions that a session remembers, at most; looked for only if all together are very many.
    pub fn partitions(&self, id: i32) -> usize {
        let all = self.bytes / PARTITION_BYTES;
        if all <= MANY {
            return all;
        }
        let session = self.sessions.get(&id);
        session.map_or(0, |session| session.bytes / PARTITION_BYTES)
    }

    /// Sessions evicted so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Decides what a fetch reads: what it names itself, or what its session remembers with its changes applied.
    pub fn resolve(
        &mut self,
        claim: SessionClaim,
        by_id: bool,
        named: Vec<(Key, Wanted)>,
        forgotten: &[Key],
        now: Instant,
        random: u64,
    ) -> Result<Resolved, ErrorCode> {
        if claim.epoch == FINAL_EPOCH || claim.epoch == INITIAL_EPOCH {
            self.remove(claim.id);
            let wants_session = claim.epoch == INITIAL_EPOCH && !named.is_empty();
            let place = wants_session
                .then(|| self.create(by_id, &named, now, random))
                .flatten();
            // Without a session the id is 0, which tells the client so.
            let (id, serial) = place.unwrap_or_default();
            return Ok(Resolved {
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
        Ok(Resolved {
            id: self.id_of((claim.id, serial), is_empty),
            serial,
            partitions,
            incremental: true,
        })
    }

    /// The session that a fetch which is neither its first nor its last claims.
    fn claimed(&mut self, claim: SessionClaim, by_id: bool) -> Result<&mut Session, ErrorCode> {
        let session = self
            .sessions
            .get_mut(&claim.id)
            .ok_or(ErrorCode::FetchSessionIdNotFound)?;
        // Who works on it has not been answered: nobody can know the next epoch.
        if session.next_epoch != claim.epoch || session.is_out {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.by_id != by_id {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        Ok(session)
    }

    /// The session that was here under an id, unless that is gone.
    fn same(&mut self, (id, serial): (i32, u64)) -> Option<&mut Session> {
        let session = self.sessions.get_mut(&id);
        session.filter(|session| session.serial == serial)
    }

    /// The session's id in the answer: one that is empty or has become too large is answered once more, and told that it is
    /// over.
    fn id_of(&mut self, place: (i32, u64), is_empty: bool) -> i32 {
        if is_empty || self.bytes > BYTES_MAX {
            self.remove_same(place);
            return 0;
        }
        place.0
    }

    /// Decides which partitions an answer mentions, and remembers what they were told. The answer of an incremental
    /// fetch leaves out what the client knows already. One whose session is gone is told that it is over.
    pub fn answer(&mut self, resolved: &mut Resolved, told: &[Told]) -> Vec<bool> {
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
        let tell = |((key, _), told): (&(Key, Wanted), &Told)| {
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

    /// Nothing is told this time: what was there to tell stays, and a session that would have begun
    /// does not. Gives the session id of the answer.
    pub fn withhold(&mut self, resolved: &Resolved) -> i32 {
        let place = (resolved.id, resolved.serial);
        if !resolved.incremental {
            self.remove_same(place);
        }
        self.same(place).map_or(0, |_| place.0)
    }

    /// Ends a session, unless that is gone, whoever has its id by now.
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

    /// A session takes other bytes than before.
    fn weigh(&mut self, before: usize, now: usize) {
        assert!(self.bytes >= before, "the sum of what sessions take");
        self.bytes = self.bytes.saturating_sub(before).saturating_add(now);
    }

    fn create(
        &mut self,
        by_id: bool,
        named: &[(Key, Wanted)],
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

    /// Makes an empty session, for whose partitions there is room. Gives its id and its number.
    fn place(
        &mut self,
        by_id: bool,
        named: &[(Key, Wanted)],
        now: Instant,
        random: u64,
    ) -> Option<(i32, u64)> {
        // Each is named once: see the handler.
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

    /// True when there is a free slot and memory for it, if need be that of sessions unused for longest.
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
    /// What holds between requests.
    fn check(&self) {
        let (order, known) = (self.order.len(), self.partitions.len());
        assert_eq!(order, known, "each partition has one place in the order");
        assert!(
            self.bytes >= known.saturating_mul(PARTITION_BYTES),
            "each partition is weighed"
        );
    }

    /// A fetch names a partition.
    fn name(&mut self, key: Key, wanted: Wanted) {
        if let Some(cached) = self.partitions.get_mut(&key) {
            cached.wanted = wanted;
            return;
        }
        self.bytes = self.bytes.saturating_add(bytes_of(&key));
        self.order.push(key.clone());
        let cached = Cached {
            wanted,
            told: None,
            served: false,
        };
        self.partitions.insert(key, cached);
    }

    /// A partition leaves the session; the order has it until it is [`Self::remembered`].
    fn forget(&mut self, key: &Key) {
        if self.partitions.remove(key).is_some() {
            assert!(self.bytes >= bytes_of(key), "it was weighed as it came");
            self.bytes = self.bytes.saturating_sub(bytes_of(key));
        }
    }

    /// Those of a piece of the order that are still in the session.
    fn remembered(&self, mut order: Vec<Key>) -> Vec<Key> {
        order.retain(|key| self.partitions.contains_key(key));
        order
    }

    /// What is wanted of a piece of the order.
    fn listed(&self, order: &[Key]) -> Vec<(Key, Wanted)> {
        let wanted = |key: &Key| Some((key.clone(), self.partitions.get(key)?.wanted));
        order.iter().filter_map(wanted).collect()
    }

    /// Remembers what is told of a partition; true if the answer mentions it.
    fn tell(&mut self, key: &Key, told: Told, incremental: bool) -> bool {
        let Some(cached) = self.partitions.get_mut(key) else {
            return true;
        };
        let news = told.urgent || cached.told.as_ref().is_none_or(|before| *before != told);
        cached.served = told.urgent;
        cached.told = Some(Told {
            urgent: false,
            ..told
        });
        news || !incremental
    }

    /// A piece of the order, what filled this answer apart: that comes last in the next one, so that none starves.
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
