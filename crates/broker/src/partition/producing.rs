//! A produced batch at its partition, from its checks to its acknowledgement: it is judged, taken
//! into the log, and acknowledged when the log has progressed far enough.
//!
//! Only this file decides when a produced batch is refused and when it counts as acknowledged.
//! [`Judge`] checks what does not need the log: whether the topic accepts the batch, and the codec
//! that it gets. It is pure, except that it holds the topic's settings of the time.
//! A batch of some kilobytes may decompress to hundreds of megabytes, and recompressing takes even
//! longer. Small batches are judged immediately, on the shard; all others are
//! [`JudgingError::Heavy`], and are judged again on another thread, where only their own connection
//! waits for them. Unlike in Kafka, records that would be large when decompressed keep their
//! producer's codec: readers understand both, and compressing them would block the shard.
//! Not here: appends of coordinators (`partition.rs`), whether a transaction is open
//! (`partition/verifying.rs`), offsets (`storage`).

use std::sync::Arc;

use platform::clock::Instant;
use platform::task::timeout_at;
use platform::{Clock, Platform};
use storage::log::producer_state::{Origin, ProducerCheck};
use storage::{LogAppendInfo, Observer, Stamp};
use wire::batch::compression::Compression;
use wire::batch::record::DECOMPRESSED_BYTES_MAX;
use wire::batch::validate::{ValidateLimits, validate_produced};
use wire::batch::{BatchError, BatchHeader, ValidatedBatch, WholeBatch, recompress};
use wire::types::{ErrorCode, Offset, TimestampMs};

use super::{Isolation, Partition, TransactionProof};
use crate::error::AppendError;
use crate::topic_config::TopicConfig;

/// How far an append must have progressed before it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acks {
    /// It is not answered.
    None,
    /// The write has completed: the records survive a killed process.
    Leader,
    /// It is below the high watermark: the records survive what the topic's durability promises.
    All,
}

/// The answer for an accepted append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptedAppend {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// Append time for topics that use it, otherwise none; for a duplicate that of the first copy.
    pub log_append_time: TimestampMs,
    /// The cost of judging it: bytes of decompressed records, and more for those that were
    /// recompressed.
    pub work_bytes: usize,
}

impl<P: Platform> Partition<P> {
    /// Appends a batch of a producer. Decides and copies; does not wait, so that appends keep the
    /// order of calls.
    ///
    /// Judges the batch on the shard, whatever its size.
    ///
    /// `min.insync.replicas` cannot refuse here: it counts no more replicas than a partition has,
    /// which is one.
    pub fn append(&self, batch: &WholeBatch, clock: &Clock) -> Result<AcceptedAppend, AppendError> {
        let now_ms = clock.wall_ms();
        let judged = self.judge(now_ms)?.whole(batch)?;
        self.take(judged, TransactionProof::Unasked, now_ms)
    }

    /// Returns how batches are judged now, before [`Partition::take`].
    pub(crate) fn judge(&self, now_ms: i64) -> Result<Judge, AppendError> {
        // Before any check of sequences: a gap that comes from appends which a failed log refused
        // is not the producer's error.
        self.takes_appends()?;
        Ok(Judge::new(self.config(), now_ms))
    }

    /// Appends a batch that was judged, on the shard or elsewhere, and that the coordinator may
    /// have verified; checks again what was true then.
    pub(crate) fn take(
        &self,
        judged: AcceptedBatch,
        verified: TransactionProof,
        now_ms: i64,
    ) -> Result<AcceptedAppend, AppendError> {
        self.takes_appends()?;
        let config = self.config();
        let header = *judged.header();
        match self.log.check_producer(&header, Origin::Client)? {
            ProducerCheck::New => {}
            ProducerCheck::Duplicate(before) => {
                return Ok(AcceptedAppend {
                    base_offset: before.base_offset(),
                    last_offset: before.last_offset,
                    log_append_time: before.timestamp,
                    work_bytes: judged.walked_bytes(),
                });
            }
        }
        self.check_verified(&header, verified)?;
        let (produced, work_bytes) = judged.recoded(&config)?;
        // Checks the size as written, because the topic's codec may enlarge the batch.
        if produced.batch.size_bytes() > config.segment_bytes() {
            return Err(ErrorCode::RecordListTooLarge.into());
        }
        let log_append_time = config.log_append_time.then_some(TimestampMs(now_ms));
        let stamp = Stamp {
            leader_epoch: self.leader_epoch.get(),
            log_append_time,
        };
        let LogAppendInfo {
            base_offset,
            last_offset,
            ..
        } = self.log.append(&produced.batch, stamp, now_ms)?;
        assert!(
            base_offset <= last_offset,
            "a batch has a first and a last record"
        );
        self.note_opened(produced.batch.header());
        // With CreateTime, an answer carries -1.
        let log_append_time = log_append_time.unwrap_or(TimestampMs::NONE);
        Ok(AcceptedAppend {
            base_offset,
            last_offset,
            log_append_time,
            work_bytes,
        })
    }

    /// Waits until an append has progressed as far as `acks` requires, the log has failed, or the
    /// deadline passes.
    pub async fn acknowledged(
        &self,
        accepted: AcceptedAppend,
        acks: Acks,
        deadline: Instant,
    ) -> Result<(), ErrorCode> {
        let end = accepted.last_offset.plus(1);
        let reached = || match acks {
            Acks::None => true,
            Acks::Leader => self.log.written_offset() >= end,
            Acks::All => self.high_watermark.get() >= end,
        };
        loop {
            // Registered before the check, so that no progress is missed in between.
            let progress = self.progress.notified();
            if reached() {
                return Ok(());
            }
            if self.log.failed().is_some() {
                return Err(ErrorCode::KafkaStorageError);
            }
            if self.closed.get() {
                return Err(ErrorCode::NotLeaderOrFollower);
            }
            if timeout_at(deadline, progress).await.is_err() {
                return Err(ErrorCode::RequestTimedOut);
            }
        }
    }

    pub(super) fn takes_appends(&self) -> Result<(), AppendError> {
        if self.closed.get() || self.leaving.get() {
            return Err(ErrorCode::NotLeaderOrFollower.into());
        }
        match self.log.failed() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    pub(super) fn advance_high_watermark(&self) {
        let safe = self.log.committed_offset();
        assert!(safe <= self.log.log_end_offset(), "it is in the log");
        if safe > self.high_watermark.get() {
            self.high_watermark.set(safe);
            self.log.set_high_watermark(safe);
        }
    }
}

impl<P: Platform> Observer for Partition<P> {
    fn progressed(&self) {
        self.advance_high_watermark();
        self.count_offline();
        self.progress.notify_waiters();
        for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted] {
            let waiting = self.waiting_at(isolation);
            if waiting.count() > 0 {
                let between = |from, to| self.log.available_bytes(from, to, usize::MAX);
                waiting.advance(self.readable_end(isolation), between);
            }
        }
        self.count_change();
    }
}

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
    fn new(config: Arc<TopicConfig>, now_ms: i64) -> Self {
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
    fn header(&self) -> &BatchHeader {
        self.produced.batch.header()
    }

    /// Returns the bytes of records that judging it took on this shard.
    fn walked_bytes(&self) -> usize {
        if self.recoded.is_some() {
            // It was judged on another thread.
            return 0;
        }
        self.produced.walked_bytes
    }

    /// Returns the batch with the topic's codec, and the total cost on this shard.
    fn recoded(self, config: &TopicConfig) -> Result<(ValidatedBatch, usize), BatchError> {
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
