//! Follows the batches in the bytes that a start gives to a segment, whatever the pieces in which
//! they come: a piece may begin within a batch.
//!
//! Invariant: the batch that holds the next byte begins at or before it. It does not judge a batch:
//! where a length makes no sense, the bytes behind it count as its own.

/// The offset and the length at the start of a batch.
const FRONT_BYTES: usize = 12;

/// Bytes before the length.
const BEFORE_LENGTH: usize = 8;

/// A walk over the bytes of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BatchWalk {
    /// Where the batch begins that holds the next byte.
    batch_at: u64,
    /// The next byte.
    at: u64,
    /// What was seen of the batch's front.
    front: Vec<u8>,
    /// How many bytes of the batch are behind its front and were not seen.
    left: u64,
}

impl BatchWalk {
    /// Starts at a batch.
    pub(super) fn at(position: u64) -> Self {
        Self {
            batch_at: position,
            at: position,
            front: Vec::new(),
            left: 0,
        }
    }

    /// Returns where the batch begins that holds the bytes at a position.
    ///
    /// Parts that do not follow what was seen begin with a batch: appends are of whole ones.
    pub(super) fn batch_of(&mut self, position: u64) -> u64 {
        if position != self.at {
            *self = Self::at(position);
        }
        self.batch_at
    }

    /// Takes the next bytes.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let wanted = if self.front.len() < FRONT_BYTES {
                FRONT_BYTES.saturating_sub(self.front.len()) as u64
            } else {
                self.left
            };
            let count = usize::try_from(wanted).unwrap_or(usize::MAX);
            let (seen, rest) = bytes.split_at_checked(count).unwrap_or((bytes, &[]));
            self.at = self.at.saturating_add(seen.len() as u64);
            bytes = rest;
            if self.front.len() < FRONT_BYTES {
                self.front.extend_from_slice(seen);
                self.left = length_in(&self.front).unwrap_or(u64::MAX);
            } else {
                self.left = self.left.saturating_sub(seen.len() as u64);
            }
            if self.front.len() == FRONT_BYTES && self.left == 0 {
                *self = Self::at(self.at);
            }
            assert!(
                self.batch_at <= self.at && self.front.len() <= FRONT_BYTES,
                "a batch begins at its next byte or before"
            );
        }
    }
}

/// Returns how many bytes of a batch are behind its front, if that is whole and makes sense.
fn length_in(front: &[u8]) -> Option<u64> {
    let length = front.get(BEFORE_LENGTH..)?.first_chunk()?;
    let length = u64::try_from(i32::from_be_bytes(*length)).ok()?;
    (length > 0).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(bytes_behind: usize) -> Vec<u8> {
        let mut batch = vec![7; FRONT_BYTES + bytes_behind];
        let length = i32::try_from(bytes_behind).unwrap();
        batch[BEFORE_LENGTH..FRONT_BYTES].copy_from_slice(&length.to_be_bytes());
        batch
    }

    #[test]
    fn the_batch_of_each_byte_is_known_whatever_the_pieces() {
        let lengths = [1, 50, 3, 200];
        let bytes: Vec<_> = lengths.iter().flat_map(|length| batch(*length)).collect();
        let starts = [0, 13, 75, 90, 302];
        for piece in 1..bytes.len() {
            let mut walk = BatchWalk::at(1000);
            let mut at: u64 = 0;
            for some in bytes.chunks(piece) {
                let start = starts.iter().rev().find(|start| **start <= at).unwrap();
                assert_eq!(walk.batch_of(1000 + at), 1000 + start, "{at} by {piece}");
                walk.pass(some);
                at += some.len() as u64;
            }
            assert_eq!(walk.batch_of(1302), 1302);
        }
    }

    #[test]
    fn a_length_that_makes_no_sense_leads_nowhere() {
        for length in [0, -1, i32::MIN] {
            let mut bytes = batch(100);
            bytes[BEFORE_LENGTH..FRONT_BYTES].copy_from_slice(&length.to_be_bytes());
            let mut walk = BatchWalk::at(0);
            walk.pass(&bytes);
            assert_eq!(walk.batch_of(112), 0, "{length}");
            assert_eq!(walk.batch_of(5000), 5000, "it begins again");
        }
    }
}
