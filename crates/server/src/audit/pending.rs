//! The events that are not written yet: equal ones joined, all of them within bounds.
//!
//! A client repeats what is denied, so a right has a line when it is asked for first, and then one
//! in each interval with the number of times. Changes by administrators are never joined: each is
//! written in its order.
//! Invariants: what is kept is bounded in number and in bytes; a class has as many new lines in a
//! second as the operator set, and an address a quarter of them, so that one client cannot crowd
//! out what others do; changes have bytes of their own, which no client without rights can take,
//! and changes of data a part of those, so that a client with rights on its own topics and groups
//! crowds out no administrator. What finds no room is counted. Pure: the time is an argument.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use broker::audit::{AuditClass, AuditDetail, AuditEvent, RECORDS_BYTES_MAX};
use broker::network::network;

/// Most events that are remembered.
const EVENTS_MAX: usize = 10_000;

/// Most bytes of all events but changes.
const BYTES_MAX: usize = 8 << 20;

/// Most bytes of changes.
const CHANGES_BYTES_MAX: usize = 16 << 20;

/// Most bytes of the changes of data among them.
const DATA_BYTES_MAX: usize = CHANGES_BYTES_MAX / 4;

/// Bytes of other changes from which on the metadata take none, where they must be written.
const ROOM_ENDS_AT: usize = CHANGES_BYTES_MAX / 4;

const _: () = assert!(
    DATA_BYTES_MAX + ROOM_ENDS_AT + RECORDS_BYTES_MAX < CHANGES_BYTES_MAX,
    "the largest change finds room until then"
);

/// The time in which new lines are counted, and in which logins are joined.
const WINDOW: Duration = Duration::from_secs(1);

/// An address has this part of the new lines of a class in a second; of IPv6 a network of 64 bits
/// counts as one, since a host has all addresses of it.
const SHARES: usize = 4;

/// How much is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingLimits {
    /// New lines of a class in a second.
    pub(super) per_second: usize,
    /// How often an event that repeats has a line.
    pub(super) repeat: Duration,
}

/// An event to be written.
#[derive(Debug)]
pub(super) struct DueEvent {
    pub(super) event: AuditEvent,
    /// When it happened first.
    pub(super) wall_ms: i64,
    /// How often it happened.
    pub(super) count: u64,
}

/// What is to be written now.
#[derive(Default, Debug)]
pub(super) struct TakenEvents {
    /// In the order in which they happened.
    pub(super) events: Vec<DueEvent>,
    /// Events that found no room since the last time.
    // Unbounded: one for each class of events.
    pub(super) dropped: BTreeMap<AuditClass, u64>,
}

#[derive(Debug)]
struct JoinedEvent {
    event: AuditEvent,
    /// When it happened first since it was written last.
    wall_ms: i64,
    /// Its place among all events.
    order: u64,
    /// How often it happened since then.
    count: u64,
    written: Option<Instant>,
}

/// The new lines of a class in this window.
#[derive(Default, Debug)]
struct NewLines {
    count: usize,
    // Bounded: by `has_share`.
    by_address: HashMap<IpAddr, usize>,
}

/// All events that are not written, and those that are not to be repeated.
#[derive(Debug)]
pub(super) struct Pending {
    limits: PendingLimits,
    hashing: [RandomState; 2],
    // Bounded: `EVENTS_MAX` and `BYTES_MAX`.
    joined: HashMap<[u64; 2], JoinedEvent>,
    bytes: usize,
    // Bounded: `CHANGES_BYTES_MAX`.
    changes: VecDeque<(u64, DueEvent)>,
    changes_bytes: usize,
    /// Those of changes of data.
    data_bytes: usize,
    /// The place of the next event among all.
    order: u64,
    // Unbounded: one for each class of events.
    new: BTreeMap<AuditClass, NewLines>,
    window: Instant,
    /// True if nothing can be forgotten before the next window.
    is_swept: bool,
    // Unbounded: one for each class of events.
    dropped: BTreeMap<AuditClass, u64>,
}

impl Pending {
    pub(super) fn new(limits: PendingLimits, now: Instant) -> Self {
        Self {
            limits,
            hashing: [RandomState::new(), RandomState::new()],
            joined: HashMap::new(),
            bytes: 0,
            changes: VecDeque::new(),
            changes_bytes: 0,
            data_bytes: 0,
            order: 0,
            new: BTreeMap::new(),
            window: now,
            is_swept: false,
            dropped: BTreeMap::new(),
        }
    }

    /// Takes an event; returns false if there is no room for it.
    pub(super) fn put(&mut self, event: AuditEvent, now: Instant, wall_ms: i64) -> bool {
        let class = event.class;
        self.order = self.order.saturating_add(1);
        let is_kept = match class {
            AuditClass::Admin => self.put_change(event, wall_ms),
            _ => self.join(event, now, wall_ms),
        };
        if !is_kept {
            let dropped = self.dropped.entry(class).or_default();
            *dropped = dropped.saturating_add(1);
        }
        is_kept
    }

    /// Returns true if a change waits to be written.
    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Returns true if the largest change of the metadata finds room.
    pub(super) fn has_room_for_changes(&self) -> bool {
        self.changes_bytes.saturating_sub(self.data_bytes) < ROOM_ENDS_AT
    }

    fn put_change(&mut self, event: AuditEvent, wall_ms: i64) -> bool {
        let own = event.bytes();
        let bytes = self.changes_bytes.saturating_add(own);
        let of_data = if event.is_of_data() { own } else { 0 };
        let of_data = self.data_bytes.saturating_add(of_data);
        if bytes > CHANGES_BYTES_MAX || of_data > DATA_BYTES_MAX {
            return false;
        }
        (self.changes_bytes, self.data_bytes) = (bytes, of_data);
        let count = 1;
        let due = DueEvent {
            event,
            wall_ms,
            count,
        };
        self.changes.push_back((self.order, due));
        true
    }

    fn join(&mut self, event: AuditEvent, now: Instant, wall_ms: i64) -> bool {
        let key = self.key(&event);
        if let Some(known) = self.joined.get_mut(&key) {
            if known.count == 0 {
                (known.wall_ms, known.order) = (wall_ms, self.order);
            }
            known.count = known.count.saturating_add(1);
            return true;
        }
        if now.saturating_duration_since(self.window) >= WINDOW {
            self.begin_window(now);
        }
        let bytes = event.bytes();
        let network = network(event.origin.address);
        let has_share = self.has_share(event.class, network);
        if !has_share || !self.has_room(bytes) {
            return false;
        }
        let new = self.new.entry(event.class).or_default();
        new.count = new.count.saturating_add(1);
        let of_address = new.by_address.entry(network).or_default();
        *of_address = of_address.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        let joined = JoinedEvent {
            event,
            wall_ms,
            order: self.order,
            count: 1,
            written: None,
        };
        self.joined.insert(key, joined);
        true
    }

    /// Returns what makes two events the same: who did what from where, not by which client id. The
    /// keys of the hashes are random, so no client can make two events seem the same.
    fn key(&self, event: &AuditEvent) -> [u64; 2] {
        let AuditEvent {
            class,
            principal,
            origin,
            detail,
            is_cut,
        } = event;
        let hash = |hashing: &RandomState| {
            let mut hasher = hashing.build_hasher();
            (class, principal, origin.address, is_cut).hash(&mut hasher);
            (&origin.listener, origin.mechanism).hash(&mut hasher);
            match detail {
                AuditDetail::Login(reason) => reason.hash(&mut hasher),
                AuditDetail::Right(right) => {
                    (right.operation, right.resource_type).hash(&mut hasher);
                    (&right.name, right.is_any).hash(&mut hasher);
                }
                AuditDetail::Records(_) | AuditDetail::Changes(_) => {}
            }
            hasher.finish()
        };
        let [one, other] = &self.hashing;
        [hash(one), hash(other)]
    }

    fn begin_window(&mut self, now: Instant) {
        self.window = now;
        self.new.clear();
        self.is_swept = false;
    }

    fn has_share(&self, class: AuditClass, address: IpAddr) -> bool {
        let Some(new) = self.new.get(&class) else {
            return true;
        };
        let of_address = new.by_address.get(&address).copied().unwrap_or(0);
        let share = self.limits.per_second.div_ceil(SHARES);
        new.count < self.limits.per_second && of_address < share
    }

    /// Returns true if there is room for an event; forgets for it what was written, once in a
    /// window.
    fn has_room(&mut self, bytes: usize) -> bool {
        let is_full =
            |it: &Self| it.joined.len() >= EVENTS_MAX || it.bytes.saturating_add(bytes) > BYTES_MAX;
        if is_full(self) && !self.is_swept {
            self.is_swept = true;
            self.forget(|event| event.count == 0);
        }
        !is_full(self)
    }

    fn forget(&mut self, is_over: impl Fn(&JoinedEvent) -> bool) {
        let bytes = &mut self.bytes;
        self.joined.retain(|_, joined| {
            let stays = !is_over(joined);
            if !stays {
                *bytes = bytes.saturating_sub(joined.event.bytes());
            }
            stays
        });
    }

    /// Takes what is due; at the end of the process that is everything.
    pub(super) fn take(&mut self, now: Instant, is_ending: bool) -> TakenEvents {
        // A change is taken at once: that begins no window, or a client that makes changes had no
        // bound. What was written may be forgotten all the same.
        if now.saturating_duration_since(self.window) >= WINDOW {
            self.begin_window(now);
        }
        self.is_swept = false;
        let repeat = self.limits.repeat;
        let interval = |class| match class {
            AuditClass::Auth | AuditClass::AuthFailure => WINDOW,
            _ => repeat,
        };
        let is_old = |joined: &JoinedEvent| {
            let interval = interval(joined.event.class);
            let since = |at: Instant| now.saturating_duration_since(at) >= interval;
            joined.written.is_none_or(since)
        };
        let mut events: Vec<(u64, DueEvent)> = self.changes.drain(..).collect();
        (self.changes_bytes, self.data_bytes) = (0, 0);
        for joined in self.joined.values_mut() {
            if joined.count > 0 && (is_ending || is_old(joined)) {
                let due = DueEvent {
                    event: joined.event.clone(),
                    wall_ms: joined.wall_ms,
                    count: joined.count,
                };
                events.push((joined.order, due));
                joined.count = 0;
                joined.written = Some(now);
            }
        }
        self.forget(|joined| joined.count == 0 && is_old(joined));
        // Not by their times: a clock may be set back.
        events.sort_by_key(|(order, _)| *order);
        let events = events.into_iter().map(|(_, due)| due).collect();
        let dropped = std::mem::take(&mut self.dropped);
        TakenEvents { events, dropped }
    }
}

#[cfg(test)]
mod tests;
