//! Encodes the records of batches: from a template if all records are alike, otherwise one by one.
//!
//! Invariant: with fixed sizes, no keys and no numbers nothing is encoded, checksummed or copied
//! while a load runs: a batch of n records is the first part of one template, whose checksums are
//! known for every n. Compressed templates are made once per number of records and kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use wire::batch::Compression;

use super::batch::{Batch, Body, put_record};
use super::hook::{Numbering, PartitionPlace};
use super::pace::Take;
use super::payload::{Payload, Random};
use crate::spec::Keys;

/// Limit on the bytes of kept compressed templates.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Limit on the buffers kept for batches that are not shared.
const SPARE_MAX: usize = 16;

/// Identical records, encoded once.
#[derive(Debug)]
pub(super) struct Template {
    records: Bytes,
    /// End of each record, and the checksum of everything before it; the first entry is for no
    /// records.
    ends: Vec<(usize, u32)>,
    codec: Compression,
    compressed: Mutex<CompressedBatches>,
}

/// Compressed bytes and their checksum, by number of records.
#[derive(Debug, Default)]
struct CompressedBatches {
    by_count: HashMap<u32, (Bytes, u32)>,
    bytes: usize,
}

impl Template {
    /// Encodes `count` records of one size.
    pub(super) fn new(size: u32, count: u32, codec: Compression, payload: &mut Payload) -> Self {
        let mut records = Vec::new();
        let mut ends = vec![(0, 0)];
        for delta in 0..count {
            let start = records.len();
            put_record(&mut records, delta, None, size, |out| {
                payload.append(size as usize, out);
            });
            let before = ends.last().map_or(0, |(_, crc)| *crc);
            ends.push((
                records.len(),
                crc32c::crc32c_append(before, &records[start..]),
            ));
        }
        Self {
            records: records.into(),
            ends,
            codec,
            compressed: Mutex::default(),
        }
    }

    fn batch(&self, take: &Take) -> anyhow::Result<Batch> {
        let (end, crc) = self.ends[take.count as usize];
        let (body, crc) = match self.codec {
            Compression::None => (self.records.slice(..end), crc),
            codec => self.compressed(take.count, codec, end)?,
        };
        Ok(Batch {
            body: Body::Shared(body),
            crc,
            codec: self.codec,
            count: take.count,
            payload_bytes: take.payload_bytes,
        })
    }

    fn compressed(
        &self,
        count: u32,
        codec: Compression,
        end: usize,
    ) -> anyhow::Result<(Bytes, u32)> {
        // The kept batches are consistent after every step, so a panic elsewhere does not spoil
        // them.
        let kept = || {
            self.compressed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(found) = kept().by_count.get(&count) {
            return Ok(found.clone());
        }
        let bytes = Bytes::from(codec.compress(&self.records[..end])?);
        let made = (bytes.clone(), crc32c::crc32c(&bytes));
        let mut kept = kept();
        if kept.bytes + bytes.len() <= KEPT_BYTES_MAX {
            kept.bytes += bytes.len();
            kept.by_count.insert(count, made.clone());
        }
        Ok(made)
    }
}

/// Generates keys: decimal numbers of equal length.
#[derive(Clone, Debug)]
pub(super) struct KeyMaker {
    keys: Keys,
    next: u64,
    random: Random,
}

impl KeyMaker {
    /// Creates a generator; `start` is where a cycle begins, so that producers do not all write the
    /// same keys at the same time.
    pub(super) fn new(keys: Keys, start: u64) -> Self {
        let next = match keys {
            Keys::Cycle(count) => start % count.max(1),
            Keys::None | Keys::Random(_) => 0,
        };
        Self {
            keys,
            next,
            random: Random::new(start ^ 0x6b65_7973),
        }
    }

    /// Returns the bytes of every key, or `None` if records have none.
    pub(super) fn key_bytes(keys: Keys) -> Option<u32> {
        match keys {
            Keys::None => None,
            Keys::Cycle(count) | Keys::Random(count) => {
                Some(count.saturating_sub(1).checked_ilog10().unwrap_or(0).max(7) + 1)
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<String> {
        let number = match self.keys {
            Keys::None => return None,
            Keys::Cycle(count) => {
                let number = self.next;
                self.next = (number + 1) % count.max(1);
                number
            }
            Keys::Random(count) => self.random.below(count),
        };
        let width = Self::key_bytes(self.keys).unwrap_or(0) as usize;
        Some(format!("{number:0width$}"))
    }
}

/// Encodes the records of one producer.
pub(super) struct Encoder {
    /// Set if all records are alike; then only this is used.
    pub(super) template: Option<Arc<Template>>,
    /// Size of values if a take does not list sizes.
    pub(super) fixed: u32,
    /// Codec of batches.
    pub(super) codec: Compression,
    /// Contents of values.
    pub(super) payload: Payload,
    /// Numbering of records.
    pub(super) numbering: Option<Box<dyn Numbering>>,
    /// Buffers for reuse.
    pub(super) spare: Vec<Vec<u8>>,
}

impl Encoder {
    /// Returns the batch of the records in `take`; `number` is that of the first record.
    pub(super) fn batch(
        &mut self,
        take: &Take,
        place: PartitionPlace,
        number: u64,
    ) -> anyhow::Result<Batch> {
        if let Some(template) = &self.template {
            return template.batch(take);
        }
        let mut records = self.spare.pop().unwrap_or_default();
        records.clear();
        for delta in 0..take.count {
            let size = take
                .sizes
                .get(delta as usize)
                .copied()
                .unwrap_or(self.fixed);
            let key = take.keys.get(delta as usize).map(String::as_bytes);
            let value = put_record(&mut records, delta, key, size, |out| {
                self.payload.append(size as usize, out);
            });
            if let Some(numbering) = &mut self.numbering {
                numbering.number(place, number + u64::from(delta), &mut records[value]);
            }
        }
        if self.codec != Compression::None {
            let compressed = self.codec.compress(&records)?;
            self.spare.push(std::mem::replace(&mut records, compressed));
        }
        Ok(Batch {
            crc: crc32c::crc32c(&records),
            body: Body::Own(records),
            codec: self.codec,
            count: take.count,
            payload_bytes: take.payload_bytes,
        })
    }

    /// Takes back the buffer of a batch for reuse.
    pub(super) fn done_with(&mut self, batch: Batch) {
        if let Body::Own(buffer) = batch.body
            && self.spare.len() < SPARE_MAX
        {
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::batch::{BatchHeader, iter, records};

    use super::super::batch::Identity;
    use super::*;

    fn take(count: u32) -> Take {
        Take {
            count,
            ..Take::default()
        }
    }

    fn read(batch: &Batch) -> Vec<wire::batch::Record> {
        let header = batch.header(Identity::NONE, -1, 5);
        let whole = Bytes::from([&header, batch.body.bytes()].concat());
        let parsed = BatchHeader::parse(&whole).unwrap();
        assert_eq!(iter::validate_stored(&parsed, &whole), Ok(()));
        records(&whole).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn every_part_of_a_template_is_a_batch() {
        for codec in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let template = Template::new(1000, 20, codec, &mut Payload::new(8.0, 1 << 16, 1));
            for count in [1, 7, 20, 7] {
                let read = read(&template.batch(&take(count)).unwrap());
                assert_eq!(read.len(), count as usize);
                assert!(
                    read.iter()
                        .all(|record| record.value.as_ref().unwrap().len() == 1000)
                );
            }
        }
    }

    struct CountingKeys;

    impl Numbering for CountingKeys {
        fn first_number(&mut self, _: PartitionPlace) -> u64 {
            0
        }

        fn number(&mut self, _: PartitionPlace, number: u64, value: &mut [u8]) {
            value[..8].copy_from_slice(&number.to_be_bytes());
        }

        fn acknowledged(&mut self, _: PartitionPlace, _: u64, _: u32, _: i64) {}

        fn given_up(&mut self, _: PartitionPlace, _: u64, _: u32) {}
    }

    #[test]
    fn records_of_their_own_have_sizes_keys_and_numbers() {
        for codec in [Compression::None, Compression::Gzip] {
            let mut encoder = Encoder {
                template: None,
                fixed: 0,
                codec,
                payload: Payload::new(4.0, 1 << 16, 1),
                numbering: Some(Box::new(CountingKeys)),
                spare: Vec::new(),
            };
            let sizes = vec![8, 100, 3000, 9];
            let mut keys = KeyMaker::new(Keys::Cycle(3), 1);
            let take = Take {
                sizes: sizes.clone(),
                keys: (0..4).filter_map(|_| keys.next()).collect(),
                ..take(4)
            };
            let place = PartitionPlace {
                topic: 0,
                partition: 0,
            };
            let batch = encoder.batch(&take, place, 70).unwrap();
            let keys = ["00000001", "00000002", "00000000", "00000001"];
            for (index, record) in read(&batch).iter().enumerate() {
                let value = record.value.as_ref().unwrap();
                assert_eq!(value.len(), sizes[index] as usize);
                assert_eq!(value[..8], (70 + index as u64).to_be_bytes());
                assert_eq!(record.key.as_deref(), Some(keys[index].as_bytes()));
            }
            encoder.done_with(batch);
        }
    }
}
