//! `compression.type` of a topic: a batch gets the codec that the topic asks for.
//!
//! Records that would be large when decompressed keep the codec of their producer, unlike in Kafka: readers read both, and
//! compressing them would hold up the shard.

use wire::batch::compression::Compression;
use wire::batch::{BatchError, Produced, recompress};

use crate::topic_config::TopicConfig;

/// Records of more bytes than this, decompressed, stay as they are: what takes a second or two to compress. From level 13 on,
/// zstd searches for the best way to write each byte, at one or two megabytes a second.
pub(super) const fn recoded_bytes_max(codec: Compression, level: i32) -> usize {
    match (codec, level) {
        (Compression::Zstd, 13..) => 2 << 20,
        _ => 16 << 20,
    }
}

/// Compressing takes so many times as long as decompressing.
const RECODING: usize = 16;

/// The batch with the codec that the topic asks for, and what that took, in bytes. It may be too large for the topic then.
pub(super) fn recoded(
    produced: Produced,
    config: &TopicConfig,
) -> Result<(Produced, usize), BatchError> {
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
