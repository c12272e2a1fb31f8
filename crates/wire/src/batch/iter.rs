//! Iterates over the batches in a run of bytes, as stored in a segment or a record set.
//!
//! The iterator reads only the fixed parts. [`validate_stored`] is the cheap check of whole batches
//! for recovery and reads. A partial batch at the end is an error of the iterator;
//! [`Batches::complete_len`] returns where whole batches end. Not here: records.

use super::{BatchHeader, crc_of, first_batch};
use crate::error::BatchError;

/// Iterator over whole batches; it ends after an error.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

impl<'a> Batches<'a> {
    /// Iterates over `bytes`, which must start with a batch.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number of bytes up to the end of the last whole batch.
    ///
    /// The bytes after it are a partial batch or not a batch.
    pub fn complete_len(&self) -> usize {
        let complete_len = self
            .clone()
            .map_while(Result::ok)
            .map(|(_, batch)| batch.len())
            .sum(); // Bounded: lengths of bytes in memory.
        assert!(
            complete_len <= self.rest.len(),
            "batches lie one behind the other"
        );
        complete_len
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<(BatchHeader, &'a [u8]), BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let first = first_batch(self.rest);
        self.rest = match &first {
            Ok((_, batch)) => self.rest.split_at(batch.len()).1, // Bounded: it was there.
            Err(_) => &[],
        };
        Some(first)
    }
}

/// Checks that `batch` is one whole batch of the stored format: size, magic, CRC.
///
/// `header` is the fixed part of `batch`. Does not read records.
pub fn validate_stored(header: &BatchHeader, batch: &[u8]) -> Result<(), BatchError> {
    if header.size_bytes != batch.len() {
        return Err(BatchError::Incomplete {
            have: batch.len(),
            need: header.size_bytes,
        });
    }
    if header.magic != 2 {
        return Err(BatchError::Magic {
            magic: header.magic,
        });
    }
    check_crc(header, batch)
}

/// Checks only the CRC.
pub fn check_crc(header: &BatchHeader, batch: &[u8]) -> Result<(), BatchError> {
    let computed = crc_of(batch);
    if header.crc == computed {
        Ok(())
    } else {
        Err(BatchError::Crc {
            stored: header.crc,
            computed,
        })
    }
}
