//! Prepared segment files on persistent memory: the next segment of a busy log gets one by a
//! rename, with all of its room already reserved.
//!
//! Reserving room is expensive there, because blocks are zeroed and synced before they are stored
//! to. A path of the first tier has one pool for all shards; its files lie in the path itself,
//! numbered. `keeper` creates and takes them. The pool is a queue of numbers: the files
//! `taken..made` are waiting. One shard makes files; any shard takes or gives up files, and the
//! shard that moved `taken` past a number owns that file.
//! Invariants: segments and pool together use no more than the configured share of the path, and
//! the file system keeps some room. A waiting file is complete, durable and all zeros, and its name
//! in the pool is durably removed before anything is stored to it, so that a pool file found at
//! start never held records.
//! It does not access a disk.

use std::sync::atomic::{AtomicU64, Ordering};

use platform::disk::BLOCK_BYTES;
use platform::sync::Notify;

mod keeper;

/// The settings of pools.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PoolOptions {
    /// `log.pmem.pool.ratio`: the share of a path's capacity that segments and pool may use
    /// together.
    pub ratio: f64,
    /// The length of a file, which is that of most segments.
    pub file_bytes: u64,
}

/// The pool of one path.
#[derive(Debug)]
pub(crate) struct Pool {
    options: PoolOptions,
    /// The number of the first waiting file.
    taken: AtomicU64,
    /// The number of the next file to be made.
    made: AtomicU64,
    /// Notified when a file was taken.
    wanted: Notify,
}

/// The current room of a path, in bytes.
#[derive(Clone, Copy, Debug)]
struct Room {
    capacity: u64,
    /// Used by segments.
    used: u64,
    /// Free on the file system.
    free: u64,
}

/// The next action for the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Make,
    GiveUp,
    Rest,
}

impl Pool {
    /// Creates an empty pool; `None` if the options want none.
    pub(crate) fn new(options: PoolOptions) -> Option<Self> {
        let file_bytes = options.file_bytes.next_multiple_of(BLOCK_BYTES as u64);
        (options.ratio > 0.0 && file_bytes > 0).then(|| Self {
            options: PoolOptions {
                file_bytes,
                ..options
            },
            taken: AtomicU64::new(0),
            made: AtomicU64::new(0),
            wanted: Notify::new(),
        })
    }

    /// Returns the number of waiting files.
    fn waiting(&self) -> u64 {
        let taken = self.taken.load(Ordering::Acquire);
        // Never negative: `made` was at least that high when `taken` was set.
        self.made.load(Ordering::Acquire).saturating_sub(taken)
    }

    /// Returns the bytes of the waiting files.
    pub(crate) fn bytes(&self) -> u64 {
        self.waiting() * self.options.file_bytes
    }

    /// Returns true when a segment of at most `segment_bytes` can use a file of the pool.
    fn suits(&self, segment_bytes: u64) -> bool {
        segment_bytes >= self.options.file_bytes / 2
    }

    /// Returns the number of a file that now belongs to the caller.
    fn take(&self) -> Option<u64> {
        let made = self.made.load(Ordering::Acquire);
        let next = |taken: u64| (taken < made).then_some(taken + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        let taken = self.taken.fetch_update(set, fetch, next).ok();
        assert!(
            taken.is_none_or(|taken| taken < made),
            "only a file that was made is taken"
        );
        if taken.is_some() {
            self.wanted.notify_one();
        }
        taken
    }

    fn step(&self, room: Room) -> Step {
        let file_bytes = self.options.file_bytes;
        let limit = share(room.capacity, self.options.ratio);
        let together = room.used.saturating_add(self.bytes());
        let scarce = room.free < file_bytes / 2;
        if self.waiting() > 0 && (together > limit || scarce) {
            Step::GiveUp
        } else if together.saturating_add(file_bytes) <= limit && room.free / 2 >= file_bytes {
            Step::Make
        } else {
            Step::Rest
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share, from 0 to 1, of a number of bytes"
)]
fn share(bytes: u64, ratio: f64) -> u64 {
    (bytes as f64 * ratio) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(waiting: u64) -> Pool {
        let options = PoolOptions {
            ratio: 0.8,
            file_bytes: 4096,
        };
        let pool = Pool::new(options).unwrap();
        pool.made.store(waiting, Ordering::Relaxed);
        pool
    }

    fn check(waiting: u64, used: u64, free: u64, expected: Step) {
        let room = Room {
            capacity: 100 * 4096,
            used: used * 4096,
            free,
        };
        assert_eq!(pool(waiting).step(room), expected);
    }

    #[test]
    fn segments_and_pool_together_take_their_share_and_no_more() {
        check(0, 0, u64::MAX, Step::Make);
        check(49, 30, u64::MAX, Step::Make);
        check(50, 30, u64::MAX, Step::Rest);
        check(51, 30, u64::MAX, Step::GiveUp);
        check(0, 90, u64::MAX, Step::Rest);
    }

    #[test]
    fn the_file_system_keeps_some_room() {
        check(3, 0, 2 * 4096, Step::Make);
        check(3, 0, 2 * 4096 - 1, Step::Rest);
        check(3, 0, 2047, Step::GiveUp);
        check(0, 0, 0, Step::Rest);
    }

    #[test]
    fn no_file_is_taken_twice() {
        let pool = pool(2);
        assert_eq!((pool.take(), pool.take()), (Some(0), Some(1)));
        assert_eq!((pool.take(), pool.bytes()), (None, 0));
        pool.made.store(3, Ordering::Relaxed);
        assert_eq!(pool.take(), Some(2));
    }

    #[test]
    fn a_share_of_nothing_is_no_pool() {
        let of = |ratio, file_bytes| Pool::new(PoolOptions { ratio, file_bytes }).is_some();
        assert!(!of(0.0, 4096) && !of(0.5, 0) && of(0.5, 1));
    }
}
