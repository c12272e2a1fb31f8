//! How much one answer may hold that names things of any size: groups with all that their members say, transactions with
//! all their partitions.
//!
//! A request of a few bytes for each of them can name many large ones, or one many times. What is named after the room is
//! used up is refused, to be asked for alone: the first is always told of whole. Clones share the room, on all shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wire::protocol::Encodable;
use wire::types::ErrorCode;

/// Bytes of an answer beyond which nothing more is told.
const BYTES_MAX: usize = 32 << 20;

/// What is refused for want of room.
pub(crate) const REFUSED: ErrorCode = ErrorCode::PolicyViolation;

/// The room of one answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    used: Arc<AtomicUsize>,
}

impl Room {
    /// What is told of one thing, if there is room for it; looked for only while there is some.
    pub(crate) fn tell<T: Encodable>(&self, version: i16, look: impl FnOnce() -> T) -> Option<T> {
        if self.is_full() {
            return None;
        }
        self.take(version, look())
    }

    /// The same for what was looked for already.
    pub(crate) fn take<T: Encodable>(&self, version: i16, told: T) -> Option<T> {
        // What cannot be said in a version says so when it is encoded; nobody knows how large it is.
        let bytes = told.compute_size(version).unwrap_or(BYTES_MAX);
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        (before == 0 || before.saturating_add(bytes) <= BYTES_MAX).then_some(told)
    }

    /// True when nothing more need be looked for.
    pub(crate) fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};

    fn group(bytes: usize) -> DescribedGroup {
        let member = DescribedGroupMember::default().with_member_metadata(vec![0; bytes].into());
        DescribedGroup::default().with_members(vec![member])
    }

    #[test]
    fn the_first_is_told_whole_and_what_does_not_fit_is_not() {
        let room = Room::default();
        assert!(room.tell(5, || group(BYTES_MAX * 2)).is_some());
        assert!(room.tell(5, || group(1)).is_none());
        let room = Room::default();
        let there = room.clone();
        let told = (0..100).filter(|_| there.tell(5, || group(BYTES_MAX / 10)).is_some());
        assert_eq!(told.count(), 9);
        assert!(room.is_full());
    }
}
