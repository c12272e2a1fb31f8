//! When room is made: headers that release and reserve it, and landings that make it releasable.
//!
//! Pure: what is used and what is waited for goes in, a decision comes out. Invariant: as long as a
//! caller waits for room, whatever makes some is due. It does not choose which log lands, or know
//! how old bytes are: the next layer may land earlier.

/// A header is due when it takes part in releasing this share of the ring: each costs a write, and
/// room comes back with the second.
const HEADER_SHARE: u64 = 4;

/// A header is due when it releases as much, whatever the size of the ring: a start after a crash
/// replays what is not released.
const HEADER_BYTES: u64 = 16 << 20;

/// A header is due when less than this share of what it reserves is left for commits, and when it
/// would add as much: so that none waits for it.
const RESERVE_SHARE: u64 = 4;

/// Landing is due when this share of the ring, or of the memory, is used.
const LANDING_SHARE: u64 = 2;

/// What is used of a ring and of the memory behind it, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Load {
    /// The size of the ring.
    pub(super) size: u64,
    /// What is not released of it.
    pub(super) used: u64,
    /// What headers with the present head would release.
    pub(super) releasable: u64,
    /// What a header reserves for the next commits.
    pub(super) reserve: u64,
    /// What is left of what both headers reserve.
    pub(super) reserved: u64,
    /// What headers would add to it now.
    pub(super) reservable: u64,
    /// True when a caller waits for that.
    pub(super) is_reserve_wanted: bool,
    /// The bound of the bytes that are handed in and not landed.
    pub(super) unlanded_max: u64,
    /// These bytes.
    pub(super) unlanded: u64,
    /// True when a caller waits for room in the ring, or for its release.
    pub(super) is_room_wanted: bool,
    /// True when a caller waits to hand in.
    pub(super) is_memory_wanted: bool,
}

impl Load {
    /// Returns true when a header is to be written.
    pub(super) fn is_header_due(&self) -> bool {
        let enough = (self.size / HEADER_SHARE).min(HEADER_BYTES);
        let releases = self.releasable > 0 && (self.is_room_wanted || self.releasable >= enough);
        releases || self.is_reserve_due()
    }

    fn is_reserve_due(&self) -> bool {
        let little = self.reserve / RESERVE_SHARE;
        let is_low = self.reserved < little && self.reservable >= little;
        self.reservable > 0 && (self.is_reserve_wanted || is_low)
    }

    /// Returns true when logs are to land, if any can.
    pub(super) fn is_landing_due(&self) -> bool {
        let unreleasable = self.used.saturating_sub(self.releasable);
        self.is_room_wanted
            || self.is_memory_wanted
            || unreleasable >= self.size / LANDING_SHARE
            || self.unlanded >= self.unlanded_max / LANDING_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::{HEADER_BYTES, Load};
    use crate::journal::BLOCK;

    fn releasing(size: u64, releasable: u64) -> Load {
        Load {
            size,
            used: releasable,
            releasable,
            reserve: size,
            reserved: size,
            reservable: releasable,
            is_reserve_wanted: false,
            unlanded_max: 64 << 20,
            unlanded: 0,
            is_room_wanted: false,
            is_memory_wanted: false,
        }
    }

    #[test]
    fn what_a_start_has_to_replay_does_not_grow_with_the_ring() {
        for size in [1 << 20, 64 << 20, 512 << 20, 64 << 30] {
            let due = (1..).map(|quarter| quarter << 18);
            let mut due = due.filter(|bytes| releasing(size, *bytes).is_header_due());
            assert_eq!(due.next(), Some((size / 4).min(HEADER_BYTES)), "{size}");
            assert!(!releasing(size, 0).is_header_due(), "nothing is released");
        }
    }

    #[test]
    fn headers_reserve_more_before_commits_wait_for_it() {
        let (size, reserve) = (512 << 20, 32 << 20);
        let load = |reserved, reservable, is_reserve_wanted| Load {
            reserve,
            reserved,
            reservable,
            is_reserve_wanted,
            ..releasing(size, 0)
        };
        let low = reserve / 4;
        assert!(load(low - BLOCK, low, false).is_header_due());
        assert!(!load(low, low, false).is_header_due(), "enough is left");
        // A ring that is nearly full has little to reserve, each time that a log lands.
        assert!(!load(0, low - BLOCK, false).is_header_due());
        assert!(load(0, BLOCK, true).is_header_due(), "a caller waits");
        assert!(!load(0, 0, true).is_header_due(), "there is none");
    }
}
