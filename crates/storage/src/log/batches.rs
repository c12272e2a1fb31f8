//! What a log takes in one append: one batch with a known header, or bytes copied from a leader
//! that hold consecutive batches.
//!
//! It does not: judge them (`append.rs`).

use bytes::Bytes;
use wire::batch::{BatchHeader, WholeBatch};

/// The batches of an append: one with a known header, or bytes that hold consecutive batches.
pub trait Batches {
    /// Returns the bytes of all batches.
    fn size_bytes(&self) -> usize;

    /// Returns the batches in order, each with its header.
    ///
    /// The last item is `None` where the rest of the bytes is not a whole batch.
    fn each(&self) -> impl Iterator<Item = Option<(BatchHeader, &[u8])>> + Clone;
}

impl Batches for WholeBatch {
    fn size_bytes(&self) -> usize {
        self.size_bytes()
    }

    fn each(&self) -> impl Iterator<Item = Option<(BatchHeader, &[u8])>> + Clone {
        std::iter::once(Some((*self.header(), &self.bytes()[..])))
    }
}

impl Batches for Bytes {
    fn size_bytes(&self) -> usize {
        self.len()
    }

    fn each(&self) -> impl Iterator<Item = Option<(BatchHeader, &[u8])>> + Clone {
        let mut rest: &[u8] = self;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let batch = split_batch(rest);
            rest = match batch {
                Some((_, batch)) => rest.split_at(batch.len()).1, // Bounded: it was split off there.
                None => &[],
            };
            Some(batch)
        })
    }
}

/// Returns the batch that `bytes` begin with.
fn split_batch(bytes: &[u8]) -> Option<(BatchHeader, &[u8])> {
    let header = BatchHeader::parse(bytes)?;
    Some((header, bytes.get(..header.size_bytes)?))
}
