//! The settings that an owner passes to a log and a store: plain values without defaults and
//! parsing.
//!
//! [`LogOptions`] has the settings that a topic can change at run time; `Log::set_options` replaces
//! them as a whole.

use wire::types::Offset;

/// When a record counts as safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Safe after a sync: the record survives a power loss. Every flush syncs.
    Synced,
    /// Safe after the write on enough replicas. Syncs happen only by `flush_messages`, `flush_ms`,
    /// roll and close.
    Replicated,
}

/// Settings of one log, named after Kafka's topic settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// `segment.bytes`: a segment is rolled before it grows beyond this.
    pub segment_bytes: u32,
    /// `segment.ms`: the age of a segment's first record at which the segment is rolled.
    pub segment_ms: Option<u64>,
    /// `segment.jitter.ms`: the upper bound of the random value that is subtracted from
    /// `segment_ms`.
    pub segment_jitter_ms: u64,
    /// `index.interval.bytes`: bytes between two entries of the offset index.
    pub index_interval_bytes: u32,
    /// `segment.index.bytes`: a segment is rolled when one of its indexes would outgrow this.
    pub index_bytes_max: u32,
    /// `retention.ms`; `None` keeps records for ever.
    pub retention_ms: Option<i64>,
    /// `retention.bytes`; `None` means no limit.
    pub retention_bytes: Option<u64>,
    /// `flush.messages`: with [`Durability::Replicated`], the number of records after which a sync
    /// is forced.
    pub flush_messages: u64,
    /// `flush.ms`: with [`Durability::Replicated`], the age of the oldest unsynced record at which
    /// a sync is forced.
    pub flush_ms: u64,
    /// `max.message.bytes`: the bound of one batch. It sizes reads of the tail; the caller checks
    /// appends.
    pub max_batch_bytes: usize,
    /// True when `cleanup.policy` has `delete`: retention applies.
    pub delete: bool,
    /// True when `cleanup.policy` has `compact`: batches of sealed segments may leave gaps between
    /// their offsets.
    pub compact: bool,
    /// When records count as safe.
    pub durability: Durability,
    /// `preallocate`: reserve room ahead of the appends.
    pub preallocate: bool,
    /// Room kept behind the end of the active segment's file for when the disk is full; 0 for none.
    pub reserve_bytes: u64,
    /// `file.delete.delay.ms`: how long a deleted segment keeps its bytes for reads in progress.
    pub file_delete_delay_ms: u64,
    /// `producer.id.expiration.ms`: the idle time after which a producer's sequence is forgotten.
    pub producer_id_expiration_ms: i64,
    /// `storage.tier.min` and `storage.tier.max`: positions of the fastest and the slowest tier
    /// that may hold segments; `None` means all tiers.
    pub tier_pins: Option<(usize, usize)>,
}

/// What the owner knows about a log before it is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenAs {
    /// True after a clean shutdown: the log trusts lengths and indexes.
    pub clean: bool,
    /// From `recovery-point-offset-checkpoint`: everything below was synced, and its segments were
    /// sealed or indexed. 0 if unknown.
    pub recovery_point: Offset,
    /// From `log-start-offset-checkpoint`. 0 if unknown.
    pub log_start: Offset,
    /// From `cleaner-offset-checkpoint`: everything below was compacted. `None` for a log that was
    /// never compacted.
    pub compacted: Option<Offset>,
}

/// Settings of a store, which is the part of a shard that all its logs share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreOptions {
    /// `log.cache.bytes`, this shard's part: memory for bytes that are already on disk and may be
    /// read again.
    pub cache_bytes_max: usize,
    /// The part of the cache that is used from the start. The cache grows beyond it with appends
    /// and when readers ask for evicted bytes.
    pub cache_bytes_start: usize,
    /// Memory for bytes that are not written yet, in addition to the cache. The sum bounds the
    /// shard's chunk memory.
    pub unwritten_bytes_max: usize,
    /// Bytes of a chunk of a busy log's tail; a multiple of the block size.
    pub chunk_bytes: usize,
    /// Free chunks that are kept touched, so that appends do not wait for page faults.
    pub reserve_chunks: usize,
    /// The step in which room is reserved ahead of the appends.
    pub allocate_step_bytes: u64,
    /// The number of appended bytes after which a log saves its indexes, producers and recovery
    /// point.
    pub save_interval_bytes: u64,
    /// The most bytes that are read ahead of a sequential reader, 0 for none; in steps of a chunk,
    /// from a quarter of the cache.
    pub read_ahead_bytes_max: usize,
    /// The most sealed segments whose file and indexes are kept open.
    pub open_segments_max: usize,
}
