//! Checks batches as they pass, so that a copy is verified without a second read.
//!
//! It checks every batch's length, format, offset, epoch and CRC, in pieces of any size.
//! It does not read or write anything.

use wire::batch::{BatchHeader, CRC_START, HEADER_BYTES};
use wire::crc;
use wire::types::{LeaderEpoch, Offset};

use crate::segment::scan::{ExpectedBatch, NO_BATCH};

/// The reason and the position of damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damage {
    /// The position of the batch.
    pub(crate) position: u64,
    /// The reason.
    pub(crate) reason: &'static str,
}

/// The check of a segment's batches as they pass.
pub(crate) struct Verifier {
    expected: ExpectedBatch,
    size: u64,
    /// The start of the current batch.
    position: u64,
    header: [u8; HEADER_BYTES],
    filled: usize,
    body: Option<Body>,
}

/// The rest of a batch whose header has passed.
struct Body {
    header: BatchHeader,
    left: usize,
    crc: u32,
}

impl Verifier {
    /// Creates the check of a segment of `size` bytes that begins at `base`.
    pub(crate) fn new(base: Offset, size: u64) -> Self {
        let expected = ExpectedBatch {
            offset: base,
            gaps: true,
            epoch: LeaderEpoch(i32::MIN),
        };
        Self {
            expected,
            size,
            position: 0,
            header: [0; HEADER_BYTES],
            filled: 0,
            body: None,
        }
    }

    /// Checks the next bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<(), Damage> {
        while !bytes.is_empty() {
            match &mut self.body {
                None => bytes = self.take_header(bytes)?,
                Some(body) => {
                    // Bounded: the lesser of both.
                    let (part, rest) = bytes.split_at(body.left.min(bytes.len()));
                    body.crc = crc::crc32c_append(body.crc, part);
                    body.left -= part.len();
                    bytes = rest;
                    self.end_batch()?;
                }
            }
        }
        Ok(())
    }

    /// Ends the check after all bytes, and returns the offset after the last batch.
    pub(crate) fn finish(self) -> Result<Offset, Damage> {
        if self.filled > 0 || self.body.is_some() || self.position != self.size {
            return Err(self.damage("the file is shorter than its batches"));
        }
        Ok(self.expected.offset)
    }

    fn damage(&self, reason: &'static str) -> Damage {
        Damage {
            position: self.position,
            reason,
        }
    }

    fn take_header<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Damage> {
        // Bounded: the lesser of both.
        let (part, rest) = bytes.split_at((HEADER_BYTES - self.filled).min(bytes.len()));
        self.header[self.filled..][..part.len()].copy_from_slice(part);
        self.filled += part.len();
        assert!(
            self.filled <= HEADER_BYTES && self.position <= self.size,
            "what is taken is within the segment"
        );
        if self.filled == HEADER_BYTES {
            let header = BatchHeader::parse(&self.header).ok_or_else(|| self.damage(NO_BATCH))?;
            if let Some(reason) = self.expected.refuses(&header) {
                return Err(self.damage(reason));
            }
            if self.position + header.size_bytes as u64 > self.size {
                return Err(self.damage("a batch is longer than the rest of the segment"));
            }
            let covered = &self.header[CRC_START..];
            self.body = Some(Body {
                left: header.size_bytes - HEADER_BYTES,
                crc: crc::crc32c_append(0, covered),
                header,
            });
            self.filled = 0;
            self.end_batch()?;
        }
        Ok(rest)
    }

    fn end_batch(&mut self) -> Result<(), Damage> {
        let Some(body) = self.body.take_if(|body| body.left == 0) else {
            return Ok(());
        };
        if body.crc != body.header.crc {
            return Err(self.damage("the CRC is wrong"));
        }
        self.position += body.header.size_bytes as u64;
        self.expected = self.expected.after(&body.header);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wire::batch::builder::BatchBuilder;
    use wire::types::TimestampMs;

    use super::*;

    fn batches() -> Vec<u8> {
        let batch = |base: i64, bytes: usize| {
            let mut builder = BatchBuilder::new(Offset(base), LeaderEpoch(3));
            builder.add(TimestampMs(1), Some(b"key"), Some(&vec![7; bytes]), &[]);
            builder.finish().unwrap()
        };
        [batch(10, 500), batch(11, 0), batch(15, 70_000)].concat()
    }

    fn verify(bytes: &[u8], size: usize, piece: usize) -> Result<Offset, Damage> {
        let mut verifier = Verifier::new(Offset(10), size as u64);
        for piece in bytes.chunks(piece) {
            verifier.take(piece)?;
        }
        verifier.finish()
    }

    #[test]
    fn whole_batches_pass_in_pieces_of_any_size() {
        let bytes = batches();
        for piece in [1, 7, 61, 4096, 1 << 20] {
            assert_eq!(
                verify(&bytes, bytes.len(), piece),
                Ok(Offset(16)),
                "{piece}"
            );
        }
    }

    #[test]
    fn any_flipped_bit_and_any_missing_byte_is_found() {
        let bytes = batches();
        for at in (8..bytes.len()).step_by(101) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(verify(&damaged, bytes.len(), 4096).is_err(), "byte {at}");
        }
        assert!(verify(&bytes[..bytes.len() - 1], bytes.len(), 4096).is_err());
        assert!(verify(&bytes, bytes.len() - 1, 4096).is_err());
    }
}
