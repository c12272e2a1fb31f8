//! When room is made: headers that release it, and landings that make it releasable.
//!
//! Pure: what is used and what is waited for goes in, a decision comes out. Invariant: as long as a
//! caller waits for room, whatever makes some is due. It does not choose which log lands, or know
//! how old bytes are: the next layer may land earlier.

/// A header is due when it takes part in releasing this share of the ring: each costs a write, and
/// room comes back with the second.
const HEADER_SHARE: u64 = 4;

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
        self.releasable > 0 && (self.is_room_wanted || self.releasable >= self.size / HEADER_SHARE)
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
