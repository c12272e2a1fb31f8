//! Limits the size of one answer about items of any size (groups with everything their members
//! sent, transactions with all their partitions), or of a list of everything.
//!
//! A request of a few bytes for each item can name many large items, or one item many times. Items
//! beyond the room are refused, and the client asks for them separately; the first item always gets
//! a complete answer. While clients are slow to receive their answers, the room is smaller. While
//! an address holds more than it may, the room is the floor of every connection, also for the first
//! item. An item counts as a held answer of its address from when it is looked up, not only once it
//! is encoded: if the answers of an address grow too large while they are made, nothing more is
//! added. Clones share the room, on all shards.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use wire::protocol::Encodable;
use wire::types::ErrorCode;

use crate::answers::{Account, Answers, FLOOR_BYTES};

/// Largest answer, in bytes, about what a request names; nothing is added beyond it.
const BYTES_MAX: usize = 32 << 20;
/// Largest answer, in bytes, that lists everything.
const LIST_BYTES_MAX: usize = 128 << 20;
/// Largest item that is counted.
///
/// A larger one is more than any item that can be answered, so it is refused without being counted.
const COUNTED_BYTES_MAX: usize = 1 << 40;
/// Bytes that are added to the account at a time.
const STEP_BYTES: usize = FLOOR_BYTES;

const _: () = assert!(
    BYTES_MAX <= LIST_BYTES_MAX,
    "all there is has no less room than what is named"
);
const _: () = assert!(
    STEP_BYTES < BYTES_MAX,
    "an answer is counted while it is made"
);
const _: () = assert!(
    LIST_BYTES_MAX < COUNTED_BYTES_MAX,
    "all that may be told is counted"
);

/// The room of one answer.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    inner: Arc<RoomState>,
}

#[derive(Debug)]
struct RoomState {
    account: Account,
    used: AtomicUsize,
    /// An item is being answered piece by piece.
    begun: AtomicBool,
    /// The part of `used` that the account counts.
    aside: AtomicUsize,
    bytes_max: usize,
    /// The address held more than it may, before anything was added or since.
    is_over: AtomicBool,
    /// The room would be twice as large if all clients had received their answers.
    is_pressed: bool,
}

impl Room {
    /// Creates the room of an answer to `ip` about what its request names.
    pub(crate) fn of(answers: &Answers, ip: IpAddr) -> Self {
        Self::within(answers, ip, BYTES_MAX)
    }

    /// Creates the room of an answer to `ip` that lists everything.
    pub(crate) fn of_list(answers: &Answers, ip: IpAddr) -> Self {
        Self::within(answers, ip, LIST_BYTES_MAX)
    }

    /// Creates a room for tests.
    #[cfg(test)]
    pub(crate) fn some() -> Self {
        Self::of(&Answers::new(1 << 30), std::net::Ipv4Addr::LOCALHOST.into())
    }

    fn within(answers: &Answers, ip: IpAddr, bytes_max: usize) -> Self {
        let account = answers.account(ip);
        let is_over = answers.is_over(ip);
        let free = if is_over {
            0
        } else {
            answers.free_or_fair_bytes(ip) / 4
        };
        let bytes_now = bytes_max.min(free.max(FLOOR_BYTES));
        let inner = RoomState {
            account,
            used: AtomicUsize::new(0),
            begun: AtomicBool::new(false),
            aside: AtomicUsize::new(0),
            bytes_max: bytes_now,
            is_over: AtomicBool::new(is_over),
            is_pressed: bytes_now < bytes_max.min(answers.share() / 4) / 2,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns an item if there is room for it; calls `look` only while there is some.
    pub(crate) fn tell<T: Encodable>(&self, version: i16, look: impl FnOnce() -> T) -> Option<T> {
        if self.is_full() {
            return None;
        }
        self.take(version, look())
    }

    /// Returns an item that was looked up already, if there is room for it.
    pub(crate) fn take<T: Encodable>(&self, version: i16, told: T) -> Option<T> {
        // An item that `version` cannot express has no size; encoding it reports the error.
        let bytes = told.compute_size(version).unwrap_or(BYTES_MAX);
        let inner = &self.inner;
        let before = inner.add(bytes);
        let fits = before.saturating_add(bytes) <= inner.bytes_now();
        (fits || (before == 0 && !inner.is_over())).then_some(told)
    }

    /// Returns whether there is room for `bytes` more of a list; if there is not, the whole list is
    /// refused.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        self.inner.add(bytes).saturating_add(bytes) <= self.inner.bytes_now()
    }

    /// Begins an item that is answered piece by piece.
    pub(crate) fn pieces(&self) -> Pieces<'_> {
        let begun = self.inner.begun.swap(true, Ordering::Relaxed);
        Pieces {
            inner: &self.inner,
            is_first: !begun && self.inner.used.load(Ordering::Relaxed) == 0,
        }
    }

    /// Returns true if there is no room left to look up anything.
    pub(crate) fn is_full(&self) -> bool {
        self.inner.used.load(Ordering::Relaxed) >= self.inner.bytes_now()
    }

    /// Returns the error for want of room: retriable if other answers hold the memory, otherwise
    /// permanent.
    pub(crate) fn refusal(&self) -> ErrorCode {
        if self.inner.is_pressed || self.inner.is_over() {
            ErrorCode::CoordinatorLoadInProgress
        } else {
            ErrorCode::PolicyViolation
        }
    }
}

/// An item that is answered piece by piece.
pub(crate) struct Pieces<'a> {
    inner: &'a RoomState,
    is_first: bool,
}

impl Pieces<'_> {
    /// Returns whether there is room for a piece of `bytes`.
    ///
    /// All pieces of the first item fit, unless its address holds too much by now.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        let inner = self.inner;
        let before = inner.add(bytes);
        let fits = before.saturating_add(bytes) <= inner.bytes_now();
        fits || (self.is_first && !inner.is_over())
    }
}

impl RoomState {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns the size of the room now.
    fn bytes_now(&self) -> usize {
        if self.is_over() {
            self.bytes_max.min(FLOOR_BYTES)
        } else {
            self.bytes_max
        }
    }

    /// Takes bytes, and returns how many were taken before.
    ///
    /// A size above `COUNTED_BYTES_MAX` takes nothing and never fits.
    fn add(&self, bytes: usize) -> usize {
        if bytes > COUNTED_BYTES_MAX {
            return usize::MAX;
        }
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let now = before.saturating_add(bytes);
        let counted = self.aside.load(Ordering::Relaxed);
        if now > counted.saturating_add(STEP_BYTES) {
            // Two shards that get here at once count too much, until the answer is complete.
            self.aside.fetch_add(now - counted, Ordering::Relaxed);
            self.account.hold(now - counted);
            if before > 0 && self.account.is_over() {
                self.is_over.store(true, Ordering::Relaxed);
            }
        }
        before
    }
}

impl Drop for RoomState {
    fn drop(&mut self) {
        self.account.release(self.aside.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};

    const ME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn group(bytes: usize) -> DescribedGroup {
        let member = DescribedGroupMember::default().with_member_metadata(vec![0; bytes].into());
        DescribedGroup::default().with_members(vec![member])
    }

    #[test]
    fn the_first_is_told_whole_and_what_does_not_fit_is_not() {
        let answers = Answers::new(1 << 30);
        let room = Room::of(&answers, ME);
        assert!(room.tell(5, || group(BYTES_MAX * 2)).is_some());
        assert!(room.tell(5, || group(1)).is_none());
        assert!(answers.used_bytes() > BYTES_MAX);
        drop(room);
        assert_eq!(answers.used_bytes(), 0);
        let room = Room::of(&answers, ME);
        let there = room.clone();
        let told = (0..100).filter(|_| there.tell(5, || group(BYTES_MAX / 10)).is_some());
        assert_eq!(told.count(), 9);
        assert!(room.is_full());
        assert_eq!(room.refusal(), ErrorCode::PolicyViolation);
    }

    #[test]
    fn what_has_no_size_is_refused_and_not_counted() {
        let answers = Answers::new(1 << 30);
        let room = Room::of_list(&answers, ME);
        assert!(!room.has(usize::MAX) && !room.has(usize::MAX - 1));
        assert_eq!(answers.used_bytes(), 0);
        assert!(!room.is_full() && room.has(1000));
    }

    #[test]
    fn what_is_told_in_pieces_is_counted_as_it_is_found() {
        let answers = Answers::new(64 << 20);
        let slow = answers.account(ME);
        let room = Room::of(&answers, ME);
        let first = room.pieces();
        assert!(
            (0..17).all(|_| first.has(1 << 20)),
            "the first is told whole"
        );
        assert!(answers.used_bytes() >= 16 << 20);
        assert!(!room.pieces().has(1));
        // The pieces of the first item fit until its address holds more than it may.
        slow.hold(20 << 20);
        assert!(!first.has(1 << 20));
        assert_eq!(room.refusal(), ErrorCode::CoordinatorLoadInProgress);
        drop(room);
        slow.release(20 << 20);
        assert_eq!(answers.used_bytes(), 0);
    }

    #[test]
    fn while_others_do_not_read_there_is_room_for_little() {
        let answers = Answers::new(64 << 20);
        let slow = answers.account(IpAddr::from([10, 0, 0, 1]));
        assert!(Room::of_list(&answers, ME).has(8 << 20));
        slow.hold(60 << 20);
        // A quarter of the fair share of one of two addresses.
        let room = Room::of_list(&answers, ME);
        assert!(room.has(2 << 20) && !room.has(1));
        drop(room);
        slow.hold(10 << 20);
        assert!(Room::of_list(&answers, ME).has(2 << 20));
        let room = || Room::of(&answers, IpAddr::from([10, 0, 0, 1]));
        let of_slow = room();
        assert!(of_slow.tell(5, || group(1000)).is_some());
        assert!(of_slow.tell(5, || group(FLOOR_BYTES)).is_none());
        assert!(room().tell(5, || group(FLOOR_BYTES)).is_none());
        assert_eq!(of_slow.refusal(), ErrorCode::CoordinatorLoadInProgress);
        slow.release(70 << 20);
    }

    #[test]
    fn what_one_address_is_told_at_once_leaves_the_others_their_answers() {
        let answers = Answers::new(64 << 20);
        let greedy = IpAddr::from([10, 0, 0, 1]);
        let mut rooms: Vec<_> = (0..50)
            .map(|_| (Room::of_list(&answers, greedy), true))
            .collect();
        // Each room has 8 MiB.
        for _ in 0..(8 << 20) / FLOOR_BYTES {
            for (room, fits) in &mut rooms {
                *fits = *fits && room.has(FLOOR_BYTES);
            }
        }
        assert!(rooms.iter().all(|(_, fits)| !fits));
        let (first, _) = &rooms[0];
        assert_eq!(first.refusal(), ErrorCode::CoordinatorLoadInProgress);
        assert!(answers.used_bytes() <= (32 << 20) + 50 * 2 * FLOOR_BYTES);
        assert!(answers.is_over(greedy) && !answers.is_over(ME));
        assert!(Room::of_list(&answers, ME).has(1 << 20));
        drop(rooms);
        assert_eq!(answers.used_bytes(), 0);
    }
}
