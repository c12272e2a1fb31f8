//! Changes the codec of a batch, where the topic's `compression.type` differs from the producer's
//! codec.
//!
//! The records stay the same byte for byte; attributes, length and CRC change. Not for control
//! batches, which are never compressed.

use super::{
    BatchHeader, COMPRESSION, Compression, HEADER_BYTES, ValidatedBatch, WholeBatch, compression,
};
use crate::error::BatchError;

/// Returns the batch compressed with `codec` at `level`.
///
/// A batch that already has this codec is returned unchanged, whatever its level. Decompresses to
/// at most `decompressed_bytes_max`. The result may exceed the topic's maximum: the caller checks
/// its size again, as Kafka does.
pub fn recompress(
    produced: ValidatedBatch,
    codec: Compression,
    level: Option<i32>,
    decompressed_bytes_max: usize,
) -> Result<ValidatedBatch, BatchError> {
    let header = *produced.batch.header();
    let had = Compression::from_code(header.compression_code())?;
    if had == codec {
        return Ok(produced);
    }
    // Bounded: a whole batch has its header.
    let (_, records) = produced.batch.bytes().split_at(HEADER_BYTES);
    let records = had.decompress(records, decompressed_bytes_max)?;
    let records = codec
        .compress_at(level, &records)
        .map_err(|error| compression::failed(&error))?;
    let header = BatchHeader {
        attributes: header.attributes & !COMPRESSION | codec.code(),
        ..header
    };
    let batch = WholeBatch::of_records(header, &records)?;
    Ok(ValidatedBatch {
        batch,
        walked_bytes: produced.walked_bytes,
    })
}

#[cfg(test)]
mod tests {
    use crate::batch::*;
    use crate::types::TimestampMs;

    #[test]
    fn every_codec_becomes_every_other() {
        let all = [
            Compression::None,
            Compression::Gzip,
            Compression::Snappy,
            Compression::Lz4,
            Compression::Zstd,
        ];
        for from in all {
            for to in all {
                let mut batch = BatchBuilder::new(Offset(0), LeaderEpoch(-1))
                    .compression(from)
                    .producer(ProducerId(4), 1, 9);
                batch.add(TimestampMs(5), Some(b"k"), Some(&[1; 500]), &[]);
                batch.add(TimestampMs(6), None, None, &[]);
                let batch = batch.finish().unwrap();
                let before = records(&batch).unwrap().map(Result::unwrap);
                let now = recompress(
                    ValidatedBatch {
                        batch: WholeBatch::first_of(&batch).unwrap(),
                        walked_bytes: 0,
                    },
                    to,
                    (to == Compression::Gzip).then_some(9),
                    1 << 20,
                )
                .unwrap();
                let (header, bytes) = (now.batch.header(), now.batch.bytes());
                validate_stored(header, bytes).unwrap();
                assert_eq!(header.compression_code(), to.code());
                assert_eq!(header.base_sequence, 9);
                assert!(before.eq(records(bytes).unwrap().map(Result::unwrap)));
                assert_eq!(from == to, *bytes == batch);
            }
        }
    }
}
