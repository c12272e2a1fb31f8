//! The checks of a batch that do not need the log: whether the topic accepts it, and the codec that
//! it gets.
//!
//! A batch of some kilobytes may decompress to hundreds of megabytes, and recompressing takes even
//! longer. Small batches are judged immediately, on the shard; all others are
//! [`JudgingError::Heavy`], and are judged again on another thread, where only their own connection
//! waits for them. Unlike in Kafka, records that would be large when decompressed keep their
//! producer's codec: readers understand both, and compressing them would block the shard. Pure,
//! except that it holds the topic's settings of the time.

use std::sync::Arc;

use wire::batch::compression::Compression;
use wire::batch::record::DECOMPRESSED_BYTES_MAX;
use wire::batch::validate::{ValidateLimits, validate_produced};
use wire::batch::{BatchError, BatchHeader, ValidatedBatch, WholeBatch, recompress};

use crate::topic_config::TopicConfig;

/// Bytes of decompressed records that are judged on the shard: some milliseconds, tens of them with
/// the slowest codec.
const LITTLE_BYTES: usize = 4 << 20;
/// Returns the bytes of decompressed records that are recompressed on the shard, by the speed of
/// the codec's level: some milliseconds each.
///
/// From level 13 on, zstd searches for the best encoding of each byte, at one or two megabytes a
/// second.
const fn little_recoded_bytes(codec: Compression, level: i32) -> usize {
    match (codec, level) {
        (Compression::Zstd, 13..) => 4 << 10,
        (Compression::Zstd | Compression::Gzip, 7..) => 32 << 10,
        _ => 128 << 10,
    }
}

/// The current rules of a partition; may leave the shard.
#[derive(Clone)]
pub(crate) struct Judge {
    config: Arc<TopicConfig>,
    limits: ValidateLimits,
}

/// A batch that the topic accepts.
pub(crate) struct AcceptedBatch {
    produced: ValidatedBatch,
    /// The batch with the topic's codec, and the cost of that, if it was recompressed.
    recoded: Option<(ValidatedBatch, usize)>,
}

/// Why a batch is not judged.
pub(crate) enum JudgingError {
    /// It may be large when decompressed, and must be judged elsewhere.
    Heavy,
    /// The topic refuses it.
    Refused(BatchError),
}

impl Judge {
    pub(super) fn new(config: Arc<TopicConfig>, now_ms: i64) -> Self {
        let limits = ValidateLimits {
            max_batch_bytes: config.max_message_bytes,
            decompressed_bytes_max: DECOMPRESSED_BYTES_MAX,
            now_ms,
            timestamp_before_max_ms: config.timestamp_before_max_ms,
            timestamp_after_max_ms: config.timestamp_after_max_ms,
            compacted: config.compacted,
            log_append_time: config.log_append_time,
        };
        Self { config, limits }
    }

    /// Judges a small batch.
    pub(crate) fn little(&self, batch: &WholeBatch) -> Result<AcceptedBatch, JudgingError> {
        let bytes = batch.size_bytes();
        if bytes > LITTLE_BYTES && bytes <= self.limits.max_batch_bytes {
            return Err(JudgingError::Heavy);
        }
        let limits = ValidateLimits {
            decompressed_bytes_max: LITTLE_BYTES,
            ..self.limits
        };
        let produced = validate_produced(batch, &limits).map_err(|error| match error {
            // Damaged or too large: judging the whole batch finds out which.
            BatchError::Decompress { .. } => JudgingError::Heavy,
            error => JudgingError::Refused(error),
        })?;
        let other = |(codec, _): &(Compression, i32)| {
            codec.code() != produced.batch.header().compression_code()
        };
        if let Some((codec, level)) = self.config.compression.filter(other)
            && produced.walked_bytes > little_recoded_bytes(codec, level)
        {
            return Err(JudgingError::Heavy);
        }
        Ok(AcceptedBatch {
            produced,
            recoded: None,
        })
    }

    /// Judges any batch, however long that takes, and recompresses it with the topic's codec.
    pub(crate) fn whole(&self, batch: &WholeBatch) -> Result<AcceptedBatch, BatchError> {
        let produced = validate_produced(batch, &self.limits)?;
        let recoded = recoded(produced.clone(), &self.config)?;
        Ok(AcceptedBatch {
            produced,
            recoded: Some(recoded),
        })
    }
}

impl AcceptedBatch {
    pub(super) fn header(&self) -> &BatchHeader {
        self.produced.batch.header()
    }

    /// Returns the bytes of records that judging it took on this shard.
    pub(super) fn walked_bytes(&self) -> usize {
        if self.recoded.is_some() {
            // It was judged on another thread.
            return 0;
        }
        self.produced.walked_bytes
    }

    /// Returns the batch with the topic's codec, and the total cost on this shard.
    pub(super) fn recoded(
        self,
        config: &TopicConfig,
    ) -> Result<(ValidatedBatch, usize), BatchError> {
        match self.recoded {
            Some((recoded, _elsewhere)) => Ok((recoded, 0)),
            None => recoded(self.produced, config),
        }
    }
}

/// Returns the bytes of decompressed records above which a batch keeps its codec: as many as take a
/// second or two to compress.
///
/// From level 13 on, zstd searches for the best encoding of each byte, at one or two megabytes a
/// second.
const fn recoded_bytes_max(codec: Compression, level: i32) -> usize {
    match (codec, level) {
        (Compression::Zstd, 13..) => 2 << 20,
        _ => 16 << 20,
    }
}

/// The time of compressing, as a multiple of that of decompressing.
const RECODING: usize = 16;

/// Returns the batch with the topic's codec, and the cost of that, in bytes; an error if it is too
/// large for the topic then.
fn recoded(
    produced: ValidatedBatch,
    config: &TopicConfig,
) -> Result<(ValidatedBatch, usize), BatchError> {
    let walked_bytes = produced.walked_bytes;
    let Some((codec, level)) = config.compression else {
        return Ok((produced, walked_bytes));
    };
    let bytes_max = recoded_bytes_max(codec, level);
    if walked_bytes > bytes_max {
        return Ok((produced, walked_bytes));
    }
    let recoded = recompress(produced, codec, Some(level), bytes_max)?;
    let (size_bytes, bytes_max) = (recoded.batch.size_bytes(), config.max_message_bytes);
    if size_bytes > bytes_max {
        return Err(BatchError::TooLarge {
            size_bytes,
            bytes_max,
        });
    }
    Ok((recoded, walked_bytes.saturating_mul(RECODING)))
}

#[cfg(test)]
mod tests {
    use wire::batch::builder::BatchBuilder;
    use wire::types::{LeaderEpoch, Offset, TimestampMs};

    use super::*;
    use crate::image::Image;
    use crate::topic_config::tests::options;

    const NOW: i64 = 1_000_000;

    fn batch(codec: Compression, records: usize, value: &[u8]) -> WholeBatch {
        let builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
        let mut builder = builder.compression(codec);
        for _ in 0..records {
            builder.add(TimestampMs(NOW), None, Some(value), &[]);
        }
        builder.finish_whole().unwrap()
    }

    fn judge_of(compression: Option<(Compression, i32)>) -> Judge {
        let mut config = TopicConfig::resolve(&Image::empty(), &options(), "t");
        config.compression = compression;
        config.max_message_bytes = 100 << 20;
        Judge::new(Arc::new(config), NOW)
    }

    fn is_heavy(judge: &Judge, batch: &WholeBatch) -> bool {
        matches!(judge.little(batch), Err(JudgingError::Heavy))
    }

    #[test]
    fn what_decompresses_to_much_is_not_judged_on_the_shard() {
        let judge = judge_of(None);
        let plain = batch(Compression::None, 100, b"value");
        let much = vec![0; LITTLE_BYTES + 1];
        assert!(!is_heavy(&judge, &plain));
        for codec in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
            assert!(!is_heavy(&judge, &batch(codec, 100, b"value")));
            let bomb = batch(codec, 1, &much);
            assert!(bomb.size_bytes() < 100_000 && is_heavy(&judge, &bomb));
            assert!(judge.whole(&bomb).is_ok());
            assert!(is_heavy(&judge, &batch(codec, 1_000_000, b"")));
        }
    }

    #[test]
    fn a_new_codec_for_more_than_a_little_is_given_elsewhere() {
        let largest = 128 << 10;
        for (codec, level, little_bytes) in [
            (Compression::Zstd, 3, largest),
            (Compression::Zstd, 22, 4 << 10),
            (Compression::Gzip, 9, 32 << 10),
            (Compression::Lz4, 17, largest),
        ] {
            let judge = judge_of(Some((codec, level)));
            let little = batch(Compression::None, 1, &vec![0; little_bytes - 100]);
            assert!(!is_heavy(&judge, &little), "{codec:?} {level}");
            let more = batch(Compression::None, 1, &vec![0; little_bytes + 1]);
            assert!(is_heavy(&judge, &more), "{codec:?} {level}");
            let same = batch(codec, 1, &vec![0; largest + 1]);
            assert!(!is_heavy(&judge, &same), "{codec:?} {level}");
        }
        let judge = judge_of(Some((Compression::Zstd, 19)));
        let more = batch(Compression::None, 1, &vec![0; largest + 1]);
        let judged = judge.whole(&more).ok().and_then(|judged| judged.recoded);
        assert!(judged.is_some_and(|(recoded, _)| recoded.batch.size_bytes() < 1000));
    }

    #[test]
    fn a_batch_that_would_take_its_new_codec_seconds_keeps_its_own() {
        let records = batch(Compression::Gzip, 1, &vec![0; 3 << 20]);
        for (level, codec) in [(3, Compression::Zstd), (22, Compression::Gzip)] {
            let judge = judge_of(Some((Compression::Zstd, level)));
            let judged = judge.whole(&records).unwrap();
            let (recoded, _) = judged.recoded.unwrap();
            assert_eq!(
                recoded.batch.header().compression_code(),
                codec.code(),
                "{level}"
            );
        }
    }
}
