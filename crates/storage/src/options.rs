//! What a log and a store are told by whoever owns them; plain values, no defaults, no parsing.
//!
//! Settings that a topic can change at run time are in [`LogOptions`]; `Log::set_options` replaces them as a whole.

use wire::types::Offset;

/// When a record counts as safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// After a sync: survives the loss of power. Every flush syncs.
    Synced,
    /// After the write, and on enough replicas: syncs only by `flush_messages`, `flush_ms`, roll and close.
    Replicated,
}

/// Settings of one log, named as Kafka's topic settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// `segment.bytes`: a segment is rolled before it grows beyond this.
    pub segment_bytes: u32,
    /// `segment.ms`: age of its first record at which a segment is rolled.
    pub segment_ms: Option<u64>,
    /// `segment.jitter.ms`: upper bound of what is subtracted at random from `segment_ms`.
    pub segment_jitter_ms: u64,
    /// `index.interval.bytes`: bytes between two entries of the offset index.
    pub index_interval_bytes: u32,
    /// `segment.index.bytes`: a segment is rolled when one of its indexes would outgrow this.
    pub index_bytes_max: u32,
    /// `retention.ms`; `None` keeps records for ever.
    pub retention_ms: Option<i64>,
    /// `retention.bytes`; `None` is without limit.
    pub retention_bytes: Option<u64>,
    /// `flush.messages`: with [`Durability::Replicated`], records after which a sync is forced.
    pub flush_messages: u64,
    /// `flush.ms`: with [`Durability::Replicated`], age of the oldest unsynced record at which a sync is forced.
    pub flush_ms: u64,
    /// `max.message.bytes`: bound of one batch; reads of the tail are sized by it, appends are checked by the caller.
    pub max_batch_bytes: usize,
    /// True when `cleanup.policy` has `delete`: retention applies.
    pub delete: bool,
    /// True when `cleanup.policy` has `compact`: batches of sealed segments may leave gaps between their offsets.
    pub compact: bool,
    /// When records count as safe.
    pub durability: Durability,
    /// `preallocate`: reserve room ahead of the appends.
    pub preallocate: bool,
    /// Room that is kept in the active segment's file behind its end, for when the disk is full; 0 for none.
    pub reserve_bytes: u64,
    /// `file.delete.delay.ms`: how long a deleted segment keeps its bytes for readers that are under way.
    pub file_delete_delay_ms: u64,
    /// `producer.id.expiration.ms`: idle time after which a producer's sequence is forgotten.
    pub producer_id_expiration_ms: i64,
    /// `storage.tier.min` and `storage.tier.max`: positions of the fastest and the slowest tier that segments may be
    /// on; `None`: all.
    pub tier_pins: Option<(usize, usize)>,
}

/// What the owner knows about a log directory before it is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenAs {
    /// True after a clean shutdown: lengths and indexes are trusted.
    pub clean: bool,
    /// From `recovery-point-offset-checkpoint`: everything below was synced and its segments sealed or indexed. 0 if unknown.
    pub recovery_point: Offset,
    /// From `log-start-offset-checkpoint`. 0 if unknown.
    pub log_start: Offset,
    /// From `cleaner-offset-checkpoint`: everything below has been compacted. `None` for a log that never was.
    pub compacted: Option<Offset>,
}

/// Settings of a store, the part of a shard that all its logs share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreOptions {
    /// `log.cache.bytes`, this shard's part: memory for bytes that are on disk already and may be read again.
    pub cache_bytes_max: usize,
    /// The part of it that is used from the beginning; the rest when readers come for what is no longer in memory.
    pub cache_bytes_start: usize,
    /// Memory for bytes that are not written yet, beside the cache. The sum bounds the shard's chunk memory.
    pub unwritten_bytes_max: usize,
    /// Bytes of a chunk of a busy log's tail; a multiple of the block size.
    pub chunk_bytes: usize,
    /// Chunks that are kept touched and free, so that appends do not meet fresh memory.
    pub reserve_chunks: usize,
    /// Step in which room is reserved ahead of the appends.
    pub allocate_step_bytes: u64,
    /// Appended bytes after which a log saves its indexes, producers and recovery point.
    pub save_interval_bytes: u64,
    /// Most bytes that are read ahead of a sequential reader, 0 for none; in steps of a chunk, from a quarter of the cache.
    pub read_ahead_bytes_max: usize,
    /// Sealed segments whose file and indexes are kept open.
    pub open_segments_max: usize,
}
