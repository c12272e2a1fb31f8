//! What a log takes in one append: a batch whose header is known, or bytes copied from a leader, in which batches follow one another.
//!
//! It does not: judge them (`append.rs`).

use bytes::Bytes;
use wire::batch::{BatchHeader, WholeBatch};

/// Batches that a log takes: one, whose header is known, or bytes in which they follow one another.
pub trait Batches {
    /// Bytes of all.
    fn size_bytes(&self) -> usize;

    /// One after the other, each with its header; `None` is the last where the rest is no whole batch.
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

/// The batch that `bytes` begin with.
fn split_batch(bytes: &[u8]) -> Option<(BatchHeader, &[u8])> {
    let header = BatchHeader::parse(bytes)?;
    Some((header, bytes.get(..header.size_bytes)?))
}
