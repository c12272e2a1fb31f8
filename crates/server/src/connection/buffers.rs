//! Reusable buffers for request bodies: memory that was touched before is several times faster than
//! fresh memory.
//!
//! A buffer returns when the last [`Bytes`] of its frame is dropped, on any thread; hence the lock,
//! which is held for a push or a pop. Invariant: at most `kept_bytes_max` are kept for later. This
//! does not bound the memory in use: the budget does.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Capacities are multiples of this.
const STEP_BYTES: usize = 64 << 10;

/// Buffers of one shard; clones share them.
#[derive(Clone, Debug)]
pub struct Buffers {
    kept: Arc<Mutex<FreeBuffers>>,
}

/// Buffers that wait for their next use, and a bound on their bytes.
#[derive(Debug)]
struct FreeBuffers {
    free: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

/// A buffer being filled.
#[derive(Debug)]
pub(super) struct Buffer {
    /// What it holds so far. Its capacity is at least what was asked for.
    pub(super) bytes: Vec<u8>,
    home: Buffers,
}

impl Buffers {
    /// Keeps up to `kept_bytes_max` for later.
    pub fn new(kept_bytes_max: usize) -> Self {
        let kept = FreeBuffers {
            free: Vec::new(),
            bytes: 0,
            bytes_max: kept_bytes_max,
        };
        Self {
            kept: Arc::new(Mutex::new(kept)),
        }
    }

    /// Returns an empty buffer with room for `len` bytes: the smallest kept one that fits and is
    /// not much too large, else a fresh one.
    pub(super) fn take(&self, len: usize) -> Buffer {
        self.take_kept(len).unwrap_or_else(|| self.fresh(len))
    }

    /// Returns a kept buffer with room for `len` bytes, if there is one.
    pub(super) fn take_kept(&self, len: usize) -> Option<Buffer> {
        let bytes = self.lock().take(len)?;
        Some(self.buffer(bytes))
    }

    /// Returns a fresh buffer with room for `len` bytes.
    pub(super) fn fresh(&self, len: usize) -> Buffer {
        self.buffer(Vec::with_capacity(len.next_multiple_of(STEP_BYTES)))
    }

    fn buffer(&self, bytes: Vec<u8>) -> Buffer {
        Buffer {
            bytes,
            home: self.clone(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FreeBuffers> {
        // Nothing under the lock panics half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FreeBuffers {
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let most = len.saturating_mul(4).max(4 * STEP_BYTES);
        let fits = |(_, free): &(usize, &Vec<u8>)| (len..=most).contains(&free.capacity());
        // Among equal ones, take the one that came back last: it may still be in the processor's
        // cache.
        let (at, _) = self
            .free
            .iter()
            .enumerate()
            .rev()
            .filter(fits)
            .min_by_key(|(_, b)| b.capacity())?;
        let bytes = self.free.remove(at);
        self.bytes -= bytes.capacity();
        Some(bytes)
    }

    fn put(&mut self, mut bytes: Vec<u8>) {
        if self.bytes + bytes.capacity() <= self.bytes_max {
            bytes.clear();
            self.bytes += bytes.capacity();
            self.free.push(bytes);
        }
    }
}

impl Buffer {
    /// Returns the contents for reading; the memory returns to the pool when the last clone is
    /// dropped.
    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.home.lock().put(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_the_last_reader_is_gone() {
        let buffers = Buffers::new(1 << 20);
        let mut buffer = buffers.take(100_000);
        buffer.bytes.extend_from_slice(&vec![7; 100_000]);
        let memory = buffer.bytes.as_ptr();
        let frame = buffer.freeze();
        let part = frame.slice(5..10);
        drop(frame);
        let other = buffers.take(100_000);
        assert_ne!(other.bytes.as_ptr(), memory, "still being read");
        assert_eq!(&part[..], [7; 5]);
        drop(part);
        let again = buffers.take(90_000);
        assert_eq!(again.bytes.as_ptr(), memory);
        assert!(again.bytes.is_empty());
    }

    #[test]
    fn more_than_the_bound_is_not_kept() {
        let buffers = Buffers::new(2 * STEP_BYTES);
        drop((buffers.take(1), buffers.take(1), buffers.take(1)));
        assert_eq!(buffers.lock().bytes, 2 * STEP_BYTES);
        drop(buffers.take(1 << 20));
        assert_eq!(buffers.lock().bytes, 2 * STEP_BYTES);
    }

    #[test]
    fn a_small_request_does_not_take_a_huge_buffer() {
        let buffers = Buffers::new(1 << 30);
        drop(buffers.take(64 << 20));
        assert!(buffers.take(20_000).bytes.capacity() < 1 << 20);
    }
}
