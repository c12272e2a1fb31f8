//! A whole batch together with its parsed fixed part, so that the fixed part is parsed only once.
//!
//! Invariant: the header matches the first bytes of the batch, and its length is that of the batch.
//! Not here: taking a batch from a producer (`validate.rs`), and reading records.

use bytes::Bytes;

use super::{BatchHeader, HEADER_BYTES, LENGTH_END, at, compression, crc_of, first_batch, put};
use crate::crc;
use crate::error::BatchError;

const BYTES_MAX: usize = i32::MAX as usize + LENGTH_END;

/// The bytes of exactly one batch, with its parsed header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WholeBatch {
    header: BatchHeader,
    bytes: Bytes,
}

impl WholeBatch {
    /// Returns the batch at the start of `bytes`; more bytes may follow it.
    pub fn first_of(bytes: &Bytes) -> Result<Self, BatchError> {
        let (header, batch) = first_batch(bytes)?;
        Ok(Self::of_parts(header, bytes.slice(..batch.len())))
    }

    /// Returns a batch from its fixed part and its bytes.
    pub(super) fn of_parts(header: BatchHeader, bytes: Bytes) -> Self {
        assert_eq!(
            header.size_bytes,
            bytes.len(),
            "the header is that of the batch"
        );
        debug_assert_eq!(BatchHeader::parse(&bytes), Some(header));
        Self { header, bytes }
    }

    /// Returns a batch of this header and these records, which are compressed as the header says.
    ///
    /// Sets the header's length and CRC. Fails when the records are longer than a length field can
    /// hold.
    pub(super) fn of_records(header: BatchHeader, records: &[u8]) -> Result<Self, BatchError> {
        check_length(records.len())?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + records.len());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend_from_slice(records);
        Self::of_room(header, bytes)
    }

    /// Does the same with the records behind the room for the fixed part, which is filled.
    pub(super) fn of_room(header: BatchHeader, mut bytes: Vec<u8>) -> Result<Self, BatchError> {
        let size_bytes = bytes.len();
        // Bounded: the caller has made room.
        let (room, records) = bytes.split_at_mut(HEADER_BYTES);
        check_length(records.len())?;
        let mut header = BatchHeader {
            size_bytes,
            ..header
        };
        let mut fixed = header.to_bytes();
        header.crc = crc::crc32c_append(crc_of(&fixed), records);
        put::<{ at::CRC }, _>(&mut fixed, header.crc.to_be_bytes());
        room.copy_from_slice(&fixed);
        // Else a reference to it would carry its capacity along.
        bytes.shrink_to_fit();
        Ok(Self::of_parts(header, bytes.into()))
    }

    /// Returns the records: the bytes after the fixed part.
    pub fn records(&self) -> &[u8] {
        self.bytes.split_at(HEADER_BYTES).1 // Bounded: a batch has its fixed part.
    }

    /// Returns the fixed part.
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Returns the length of the batch in bytes.
    pub const fn size_bytes(&self) -> usize {
        self.header.size_bytes
    }

    /// Returns the bytes of the batch.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the bytes of the batch.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// Refuses records that are longer than a length field can hold.
fn check_length(records_bytes: usize) -> Result<(), BatchError> {
    if records_bytes > BYTES_MAX - HEADER_BYTES {
        let reason = "the records are longer than a batch can be";
        return Err(compression::failed(&std::io::Error::other(reason)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::batch::{Batches, validate_stored};

    proptest! {
        #[test]
        fn the_header_is_what_the_bytes_say(
            fixed in prop::array::uniform32(any::<u8>()), more in prop::array::uniform29(any::<u8>()),
            records in prop::collection::vec(any::<u8>(), 0..100), behind: u8,
        ) {
            let mut fixed = [&fixed[..], &more].concat();
            fixed[at::LENGTH..LENGTH_END].copy_from_slice(&1000_i32.to_be_bytes());
            fixed[at::MAGIC] = 2;
            let header = BatchHeader::parse(&fixed).unwrap();
            prop_assert_eq!(&header.to_bytes()[..], &fixed);
            let batch = WholeBatch::of_records(header, &records).unwrap();
            prop_assert_eq!(BatchHeader::parse(batch.bytes()), Some(*batch.header()));
            prop_assert_eq!(batch.bytes().len(), HEADER_BYTES + records.len());
            prop_assert!(validate_stored(batch.header(), batch.bytes()).is_ok());
            prop_assert!(batch.bytes().ends_with(&records));
            let run = Bytes::from([batch.bytes(), &[behind][..]].concat());
            prop_assert_eq!(WholeBatch::first_of(&run), Ok(batch.clone()));
            prop_assert_eq!(Batches::new(&run).complete_len(), batch.bytes().len());
            let only = BatchHeader { size_bytes: 1012, crc: header.crc, ..*batch.header() };
            prop_assert_eq!(only, header, "what the records do not change stays");
        }
    }
}
