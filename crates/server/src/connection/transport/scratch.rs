//! The memory in which a shard opens and seals records.
//!
//! Many records are received, or sent, by one system call, so it is larger than a record; it is
//! used within one call only, so all connections of a shard share it, and an idle connection holds
//! none. A shard without TLS never makes it. What connections hold of records beside it is counted
//! here, for the metric.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use prometheus_client::metrics::gauge::Gauge;

/// Largest plaintext of a record.
pub(super) const RECORD_BYTES: usize = 16 << 10;

/// Largest record on the wire: TLS 1.2 allows 2048 bytes more than the plaintext, and five before.
pub(super) const WIRE_RECORD_BYTES: usize = RECORD_BYTES + 2048 + 5;

/// Bytes that a record adds to its plaintext, at least and at most, in the suites there are.
pub(super) const OVERHEAD_BYTES_MIN: usize = 21;
pub(super) const OVERHEAD_BYTES_MAX: usize = 32;

/// Bytes of records that a connection keeps because they are not whole. A message of a handshake
/// is as long as four records at most, and counts with its records until it is whole.
pub(super) const KEPT_BYTES_MAX: usize = 80 << 10;

/// Most bytes that are received or sent by one system call.
pub(super) const PIECE_BYTES: usize = 256 << 10;

const SCRATCH_BYTES: usize = PIECE_BYTES + KEPT_BYTES_MAX;

/// Plaintext that is sealed before any of it is sent: what a connection holds when its peer does
/// not read.
pub(super) const SEALED_BYTES_MAX: usize = 128 << 10;

/// The memory of a shard; clones share it.
#[derive(Clone, Debug)]
pub struct Scratch {
    // Bounded: `SCRATCH_BYTES`.
    bytes: Rc<RefCell<Vec<u8>>>,
    /// What connections hold of records, of all shards.
    held: Gauge,
}

/// What a connection holds of records, as far as it is counted.
#[derive(Debug)]
pub(super) struct HeldCount {
    held: Gauge,
    bytes: usize,
}

impl Scratch {
    /// Memory of a shard that is made when it is first used. `held` counts what is kept beside it.
    pub fn new(held: Gauge) -> Self {
        Self {
            bytes: Rc::default(),
            held,
        }
    }

    /// Returns the memory, for as long as nothing else is called with it.
    pub(super) fn bytes(&self) -> RefMut<'_, Vec<u8>> {
        let mut bytes = self.bytes.borrow_mut();
        if bytes.is_empty() {
            bytes.resize(SCRATCH_BYTES, 0);
        }
        assert!(bytes.len() == SCRATCH_BYTES, "it never changes its size");
        bytes
    }

    /// Returns the count of a connection.
    pub(super) fn count(&self) -> HeldCount {
        HeldCount {
            held: self.held.clone(),
            bytes: 0,
        }
    }
}

impl HeldCount {
    /// Says how much it is now.
    pub(super) fn is(&mut self, bytes: usize) {
        if bytes != self.bytes {
            self.held.inc_by(signed(bytes) - signed(self.bytes));
            self.bytes = bytes;
        }
    }
}

impl Drop for HeldCount {
    fn drop(&mut self) {
        self.is(0);
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
