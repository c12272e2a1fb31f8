//! Memory of answers on their way out, counted for the whole process.
//!
//! What clients are to be sent is held until they have taken it, which some do slowly. A fetch whose answer would be large sets
//! aside what it may read, at most an eighth of what is free, and so reads less the more is held; a small answer is always
//! possible, so that everybody gets on. Whoever sends an answer counts it until it is sent ([`Answers::hold`]).
//! Invariant: fetches never bring what is held above the bound, save for the floor of each connection and a first batch that
//! is larger. It does not know connections, nor how fast they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Answers up to this size are not counted: a connection has one at a time.
pub const FLOOR_BYTES: usize = 64 << 10;

/// The count; clones share it.
#[derive(Clone, Debug)]
pub struct Answers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    used: AtomicUsize,
    bytes_max: usize,
}

/// Bytes that count as held until this is dropped.
#[derive(Debug)]
pub(crate) struct Aside<'a> {
    answers: &'a Answers,
    bytes: usize,
}

impl Answers {
    /// Nothing held; fetches may bring it to `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                used: AtomicUsize::new(0),
                bytes_max,
            }),
        }
    }

    /// Bytes held now.
    pub fn used_bytes(&self) -> usize {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// The bound.
    pub fn bytes_max(&self) -> usize {
        self.shared.bytes_max
    }

    /// Counts bytes as held.
    pub fn hold(&self, bytes: usize) {
        self.shared.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes as sent that were held.
    pub fn release(&self, bytes: usize) {
        self.shared.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets memory aside for an answer that would have `wanted` bytes; says how many it may have.
    pub(crate) fn set_aside(&self, wanted: usize) -> (usize, Aside<'_>) {
        let mut granted = wanted;
        let mut bytes = 0;
        if wanted > FLOOR_BYTES {
            let free = self.bytes_max().saturating_sub(self.used_bytes());
            granted = wanted.min((free / 8).max(FLOOR_BYTES));
            bytes = granted.saturating_sub(FLOOR_BYTES);
            self.hold(bytes);
        }
        let answers = self;
        (granted, Aside { answers, bytes })
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.answers.release(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn answers_shrink_as_more_is_held_and_everybody_gets_some() {
        let answers = Answers::new(64 * MIB);
        let mut last = usize::MAX;
        for _ in 0..1000 {
            let (granted, aside) = answers.set_aside(55 * MIB);
            assert!(granted <= last && granted >= FLOOR_BYTES);
            last = granted;
            drop(aside);
            // A reader that does not take it.
            answers.hold(granted - FLOOR_BYTES);
        }
        assert_eq!(last, FLOOR_BYTES);
        assert!(answers.used_bytes() <= answers.bytes_max());
        assert_eq!(answers.set_aside(FLOOR_BYTES).0, FLOOR_BYTES);
    }

    #[test]
    fn what_was_set_aside_is_free_again() {
        let answers = Answers::new(64 * MIB);
        let (granted, aside) = answers.set_aside(MIB);
        assert_eq!((granted, answers.used_bytes()), (MIB, MIB - FLOOR_BYTES));
        drop(aside);
        assert_eq!(answers.used_bytes(), 0);
    }
}
