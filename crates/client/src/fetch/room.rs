//! The memory of what was fetched and is not used yet.
//!
//! Invariant: what is held beyond the bound is at most one batch for each request under way, which
//! a broker sends whole whatever the request says. Parts are given back when the last piece that
//! holds them goes, on any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The bytes that are held, and the bound.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<RoomBytes>);

#[derive(Debug)]
struct RoomBytes {
    held: AtomicUsize,
    max: usize,
    freed: Notify,
}

impl Room {
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(RoomBytes {
            held: AtomicUsize::new(0),
            max,
            freed: Notify::new(),
        }))
    }

    /// Returns how many bytes may be taken.
    pub(crate) fn free(&self) -> usize {
        self.0
            .max
            .saturating_sub(self.0.held.load(Ordering::Acquire))
    }

    /// Returns true if nothing is held.
    pub(crate) fn is_unused(&self) -> bool {
        self.0.held.load(Ordering::Acquire) == 0
    }

    /// Takes bytes, even beyond the bound.
    pub(crate) fn take(&self, bytes: usize) -> Held {
        self.0.held.fetch_add(bytes, Ordering::AcqRel);
        Held {
            bytes,
            room: self.clone(),
        }
    }

    /// Waits until something is given back.
    pub(crate) async fn freed(&self) {
        self.0.freed.notified().await;
    }
}

/// Bytes of the room.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: usize,
    room: Room,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.0.held.fetch_sub(self.bytes, Ordering::AcqRel);
        self.room.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_goes_is_given_back_and_told() {
        let room = Room::new(100);
        let held = Arc::new(room.take(70));
        assert_eq!((room.free(), room.is_unused()), (30, false));
        let large = room.take(70);
        assert_eq!(room.free(), 0);
        drop(large);
        room.freed().await;
        let other = Arc::clone(&held);
        drop(held);
        assert_eq!(room.free(), 30);
        drop(other);
        assert!(room.is_unused());
    }
}
