//! Rewrites a stored batch with some of its records, for compaction.
//!
//! Base offset, last offset, producer, first sequence and leader epoch do not change, so the
//! offsets of the retained records and the producer's next sequence do not change either; nor do
//! timestamps, headers and order of the records. Records are copied as bytes; they are re-encoded
//! only where the base timestamp becomes a delete horizon.
//! Invariant: a rewritten batch is valid wherever its original was.
//! Not here: deciding which records stay, and checking CRCs.

use bytes::Bytes;

use super::compression::{self, Compression};
use super::{
    BatchHeader, COMPRESSION, DELETE_HORIZON, HEADER_BYTES, WholeBatch, first_batch, varint,
};
use crate::error::BatchError;
use crate::types::{Offset, TimestampMs};

/// A record as compaction sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawRecord<'a> {
    /// Its offset.
    pub offset: Offset,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// False for a tombstone.
    pub has_value: bool,
    attributes: u8,
    timestamp_delta: i64,
    /// Everything after the timestamp delta.
    rest: &'a [u8],
    /// The whole record, with its length prefix.
    whole: &'a [u8],
}

impl RawRecord<'_> {
    /// Returns the size of the whole record in bytes.
    pub fn bytes(&self) -> usize {
        self.whole.len()
    }
}

/// A decompressed batch, whose records can be read.
#[derive(Clone, Debug)]
pub struct OpenedBatch {
    header: BatchHeader,
    codec: Compression,
    records: Bytes,
}

impl OpenedBatch {
    /// Opens the batch at the start of `batch`, decompressing to at most `decompressed_bytes_max`.
    pub fn open(batch: &Bytes, decompressed_bytes_max: usize) -> Result<Self, BatchError> {
        let (header, whole) = first_batch(batch)?;
        let bytes = batch.slice(HEADER_BYTES..whole.len());
        let codec = Compression::from_code(header.compression_code())?;
        let records = match codec {
            Compression::None => bytes,
            codec => codec.decompress(&bytes, decompressed_bytes_max)?.into(),
        };
        Ok(Self {
            header,
            codec,
            records,
        })
    }

    /// Returns the size of the decompressed records in bytes.
    pub fn records_bytes(&self) -> usize {
        self.records.len()
    }

    /// Returns the argument for [`OpenedBatch::retain`] that keeps all records.
    ///
    /// The header may count more records than the bytes hold; reading them then fails.
    pub fn keep_all(&self) -> Vec<bool> {
        // A negative count means no records.
        let said = usize::try_from(self.header.record_count).unwrap_or(0);
        vec![true; said.min(self.records.len().saturating_add(1))]
    }

    /// Returns an iterator over the records, in order; it ends after an error.
    pub fn records(&self) -> RawRecords<'_> {
        RawRecords {
            base_offset: self.header.base_offset,
            count: self.header.record_count,
            index: 0,
            rest: &self.records,
        }
    }

    /// Returns the batch with the records that `keep` selects, in the same codec.
    ///
    /// `delete_horizon` sets the time from which the batch's tombstones and markers may be removed.
    /// With `None`, a horizon that the batch already has stays.
    ///
    /// # Panics
    /// When `keep` has fewer entries than there are records.
    pub fn retain(
        &self,
        keep: &[bool],
        delete_horizon: Option<TimestampMs>,
    ) -> Result<Bytes, BatchError> {
        let mut header = self.header;
        let base = header.base_timestamp;
        if let Some(horizon) = delete_horizon {
            header.base_timestamp = horizon;
            header.attributes |= DELETE_HORIZON;
        }
        let mut bytes = Vec::with_capacity(self.records.len());
        let mut scratch = Vec::new();
        let mut newest = TimestampMs::NONE;
        header.record_count = 0;
        let mut keep = keep.iter();
        for record in self.records() {
            let record = record?;
            if !keep.next().expect("each record stays or goes") {
                continue;
            }
            header.record_count += 1;
            let timestamp = base.0.wrapping_add(record.timestamp_delta);
            newest = newest.max(TimestampMs(timestamp));
            if delete_horizon.is_none() {
                bytes.extend_from_slice(record.whole);
                continue;
            }
            scratch.clear();
            scratch.push(record.attributes);
            let delta = timestamp.wrapping_sub(header.base_timestamp.0);
            varint::put(&mut scratch, delta);
            scratch.extend_from_slice(record.rest);
            varint::put_bytes(&mut bytes, Some(&scratch));
        }
        // The count in a header from a file can be negative.
        assert!(
            header.record_count <= self.header.record_count.max(0),
            "no record comes from nowhere"
        );
        if !header.is_log_append_time() {
            header.max_timestamp = newest;
        }
        if self.codec != Compression::None {
            bytes = self
                .codec
                .compress(&bytes)
                .map_err(|error| compression::failed(&error))?;
        }
        WholeBatch::of_records(header, &bytes).map(WholeBatch::into_bytes)
    }
}

/// Returns a batch without records in place of the batch with this header.
///
/// It keeps the offsets, and the sequence after which the producer continues.
pub fn emptied(header: &BatchHeader) -> Result<Bytes, BatchError> {
    let header = BatchHeader {
        attributes: header.attributes & !(DELETE_HORIZON | COMPRESSION),
        base_timestamp: TimestampMs::NONE,
        record_count: 0,
        ..*header
    };
    WholeBatch::of_records(header, &[]).map(WholeBatch::into_bytes)
}

/// Iterator over the records of an opened batch.
#[derive(Clone, Debug)]
pub struct RawRecords<'a> {
    base_offset: Offset,
    count: i32,
    index: i32,
    rest: &'a [u8],
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = Result<RawRecord<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            return None;
        }
        let index = self.index;
        let record = take_record(&mut self.rest, self.base_offset);
        self.index = if record.is_some() {
            index + 1
        } else {
            i32::MAX
        };
        Some(record.ok_or(BatchError::Framing {
            index,
            reason: "its fields do not fit its length",
        }))
    }
}

fn take_record<'a>(bytes: &mut &'a [u8], base_offset: Offset) -> Option<RawRecord<'a>> {
    let start = *bytes;
    let body = take_bytes(bytes)??;
    let whole = start.get(..start.len() - bytes.len())?;
    let (&attributes, mut body) = body.split_first()?;
    let timestamp_delta = varint::take(&mut body)?;
    let rest = body;
    let offset_delta = varint::take(&mut body)?;
    let key = take_bytes(&mut body)?;
    let has_value = take_bytes(&mut body)?.is_some();
    Some(RawRecord {
        offset: Offset(base_offset.0.wrapping_add(offset_delta)),
        key,
        has_value,
        attributes,
        timestamp_delta,
        rest,
        whole,
    })
}

/// Reads a length and that many bytes, or null.
#[allow(clippy::option_option, reason = "cut short, null, or bytes")]
fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match varint::take(bytes)? {
        -1 => Some(None),
        length => {
            let length = usize::try_from(length).ok()?;
            let (taken, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Some(Some(taken))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::batch::builder::BatchBuilder;
    use crate::batch::record::{Record, records};
    use crate::types::{LeaderEpoch, ProducerId};

    const BYTES_MAX: usize = 1 << 20;

    fn batch(codec: Compression, append_time: bool) -> Bytes {
        let mut builder = BatchBuilder::new(Offset(100), LeaderEpoch(3))
            .compression(codec)
            .log_append_time(append_time)
            .producer(ProducerId(7), 2, 40);
        for at in 0..9_u8 {
            let value = [at; 40];
            let value = (at % 3 != 0).then_some(&value[..]);
            let header = [at];
            let headers = [("h", Some(&header[..]))];
            let timestamp = TimestampMs(1_000_000 + i64::from(at % 5) * 777);
            builder.add(timestamp, Some(&[at / 2]), value, &headers);
        }
        builder.finish().unwrap()
    }

    fn contents(batch: &Bytes) -> Vec<Record> {
        records(batch).unwrap().map(Result::unwrap).collect()
    }

    proptest! {
        #[test]
        fn what_stays_is_what_it_was(
            keep in prop::collection::vec(any::<bool>(), 9),
            code in 0..5_i16,
            append_time: bool,
            horizon in prop::option::of(0..i64::MAX),
        ) {
            let codec = Compression::from_code(code).unwrap();
            let before = batch(codec, append_time);
            let opened = OpenedBatch::open(&before, BYTES_MAX).unwrap();
            let after = opened.retain(&keep, horizon.map(TimestampMs)).unwrap();
            let (old, new) = (
                BatchHeader::parse(&before).unwrap(),
                BatchHeader::parse(&after).unwrap(),
            );
            let expected: Vec<_> = contents(&before)
                .into_iter()
                .zip(&keep)
                .filter_map(|(record, keep)| keep.then_some(record))
                .collect();
            prop_assert_eq!(&contents(&after), &expected);
            prop_assert!(crate::batch::validate_stored(&new, &after).is_ok());
            prop_assert_eq!(new.delete_horizon(), horizon.map(TimestampMs));
            prop_assert_eq!(
                (new.base_offset, new.last_offset(), new.last_sequence(), new.leader_epoch),
                (old.base_offset, old.last_offset(), old.last_sequence(), old.leader_epoch)
            );
            prop_assert_eq!(new.compression_code(), code);
            // A second rewrite keeps the horizon.
            let again = OpenedBatch::open(&after, BYTES_MAX).unwrap();
            let all = vec![true; expected.len()];
            prop_assert_eq!(&contents(&again.retain(&all, None).unwrap()), &expected);
        }

        #[test]
        fn any_records_give_records_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..100), count in 0..50_i32,
        ) {
            let header = BatchHeader::parse(&batch(Compression::None, false)).unwrap();
            let whole = WholeBatch::of_records(BatchHeader { record_count: count, ..header }, &bytes).unwrap();
            let whole = whole.into_bytes();
            let opened = OpenedBatch::open(&whole, BYTES_MAX).unwrap();
            prop_assert!(opened.records().count() <= usize::try_from(count).unwrap());
        }
    }

    #[test]
    #[should_panic(expected = "each record stays or goes")]
    fn no_record_goes_because_nothing_was_said_of_it() {
        let opened = OpenedBatch::open(&batch(Compression::None, false), BYTES_MAX).unwrap();
        let _ = opened.retain(&[true; 8], None);
    }

    #[test]
    fn an_emptied_batch_keeps_its_place() {
        let before = batch(Compression::Zstd, false);
        let old = BatchHeader::parse(&before).unwrap();
        let after = emptied(&old).unwrap();
        let new = BatchHeader::parse(&after).unwrap();
        crate::batch::validate_stored(&new, &after).unwrap();
        assert_eq!(
            (new.base_offset, new.last_offset(), new.last_sequence()),
            (Offset(100), Offset(108), 48)
        );
        assert_eq!((new.record_count, after.len()), (0, HEADER_BYTES));
        assert_eq!(
            (new.producer_id, new.max_timestamp),
            (ProducerId(7), old.max_timestamp)
        );
        assert!(contents(&after).is_empty());
    }
}
