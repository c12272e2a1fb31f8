//! The settings of topics: those of Kafka 4.3, and `durability`.

use crate::options::ConfigKind;

/// The valid values of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Check {
    /// Any value of the right kind.
    Any,
    /// At least this number.
    AtLeast(i64),
    /// Between these numbers, inclusive.
    Between(i64, i64),
    /// Between the first two numbers, inclusive, or the third.
    BetweenOr(i64, i64, i64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Some of these words, each at most once.
    ListOf(&'static [&'static str]),
    /// The name of a tier, or empty.
    Tier,
    /// `*` or pairs of partition and broker.
    ThrottledReplicas,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Definition {
    /// Kafka's name.
    pub(crate) name: &'static str,
    /// Type of its values.
    pub(crate) kind: ConfigKind,
    /// Value if it is not set.
    pub(crate) default: &'static str,
    /// Broker keys that set it, the strongest first, each with the milliseconds of its unit (1 for
    /// none).
    pub(crate) broker_keys: &'static [(&'static str, i64)],
    /// Its valid values.
    pub(crate) check: Check,
    /// Its documentation.
    pub(crate) doc: &'static str,
}

impl Definition {
    /// Returns true for a setting that is shown only where it is set, like Kafka's internal ones.
    pub(crate) fn is_internal(&self) -> bool {
        self.name.starts_with("internal.")
    }
}

/// Returns the definition of `name`.
pub(crate) fn definition(name: &str) -> Option<&'static Definition> {
    DEFINITIONS
        .iter()
        .find(|definition| definition.name == name)
}

const MINUTE: i64 = 60_000;
const HOUR: i64 = 3_600_000;

macro_rules! definitions {
    ($($name:literal $kind:ident = $default:literal,
        from [$($key:literal $(* $unit:ident)?),*], $check:expr, $doc:literal;)*) => {
        /// All settings, in Kafka's order.
        pub(crate) const DEFINITIONS: &[Definition] = &[$(
            Definition {
                name: $name,
                kind: ConfigKind::$kind,
                default: $default,
                broker_keys: &[$(($key, unit!($($unit)?))),*],
                check: $check,
                doc: $doc,
            },
        )*];
    };
}
macro_rules! unit {
    () => {
        1
    };
    ($unit:ident) => {
        $unit
    };
}

definitions! {
    "segment.bytes" Int = "1073741824", from ["log.segment.bytes"], Check::AtLeast(1_048_576),
        "Size at which a segment is sealed and the next one begun.";
    "internal.segment.bytes" Int = "", from [], Check::Any,
        "Segment size without the bound of segment.bytes, over which it wins; for tests.";
    "segment.ms" Long = "604800000",
        from ["log.roll.ms", "log.roll.hours" * HOUR], Check::AtLeast(1),
        "Age at which a segment is sealed even if it is not full, so that retention can reach it.";
    "segment.jitter.ms" Long = "0",
        from ["log.roll.jitter.ms", "log.roll.jitter.hours" * HOUR], Check::AtLeast(0),
        "Upper bound of a random time taken off segment.ms, so that not all partitions roll \
         together.";
    "segment.index.bytes" Int = "10485760", from ["log.index.size.max.bytes"], Check::AtLeast(4),
        "Size that the indexes of a segment may reach before it is sealed.";
    "flush.messages" Long = "9223372036854775807",
        from ["log.flush.interval.messages"], Check::AtLeast(1),
        "With durability=replicated, records after which the log is synced.";
    "flush.ms" Long = "9223372036854775807",
        from ["log.flush.interval.ms", "log.flush.scheduler.interval.ms"], Check::AtLeast(0),
        "With durability=replicated, time after which a record is synced.";
    "retention.bytes" Long = "-1", from ["log.retention.bytes"], Check::Any,
        "Size that a partition may reach before its oldest segments are deleted; -1 is without \
         limit.";
    "retention.ms" Long = "604800000",
        from ["log.retention.ms", "log.retention.minutes" * MINUTE, "log.retention.hours" * HOUR],
        Check::AtLeast(-1),
        "Age at which records are deleted, segment by segment; -1 keeps them for ever.";
    "max.message.bytes" Int = "1048588", from ["message.max.bytes"], Check::AtLeast(0),
        "Largest batch of records that producers may send, compressed if they compress.";
    "index.interval.bytes" Int = "4096", from ["log.index.interval.bytes"], Check::AtLeast(0),
        "Bytes of records between two entries of the offset index.";
    "delete.retention.ms" Long = "86400000",
        from ["log.cleaner.delete.retention.ms"], Check::AtLeast(0),
        "How long a compacted topic keeps the marker of a deleted key.";
    "min.compaction.lag.ms" Long = "0",
        from ["log.cleaner.min.compaction.lag.ms"], Check::AtLeast(0),
        "Age below which a record is never compacted away.";
    "max.compaction.lag.ms" Long = "9223372036854775807",
        from ["log.cleaner.max.compaction.lag.ms"], Check::AtLeast(1),
        "Age at which a record is due for compaction.";
    "file.delete.delay.ms" Long = "60000", from ["log.segment.delete.delay.ms"], Check::AtLeast(0),
        "Time between taking a segment out of the log and deleting its files.";
    "min.cleanable.dirty.ratio" Double = "0.5",
        from ["log.cleaner.min.cleanable.ratio"], Check::Between(0, 1),
        "Part of a compacted log that must be uncompacted before it is compacted again.";
    "cleanup.policy" List = "delete",
        from ["log.cleanup.policy"], Check::ListOf(&["compact", "delete"]),
        "What becomes of old records: deleted by age and size, compacted by key, both, or (empty) \
         kept.";
    "unclean.leader.election.enable" Boolean = "false",
        from ["unclean.leader.election.enable"], Check::Any,
        "Whether a replica that lags may become leader when no other is left, which loses records.";
    "min.insync.replicas" Int = "1", from ["min.insync.replicas"], Check::AtLeast(1),
        "In-sync replicas without which records with acks=all are refused.";
    "compression.type" String = "producer", from ["compression.type"],
        Check::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]),
        "Compression of the stored batches; \"producer\" keeps what the producer chose.";
    "compression.gzip.level" Int = "-1",
        from ["compression.gzip.level"], Check::BetweenOr(1, 9, -1),
        "Level when compression.type is gzip.";
    "compression.lz4.level" Int = "9", from ["compression.lz4.level"], Check::Between(1, 17),
        "Level when compression.type is lz4.";
    "compression.zstd.level" Int = "3",
        from ["compression.zstd.level"], Check::Between(-131_072, 22),
        "Level when compression.type is zstd.";
    "preallocate" Boolean = "false", from ["log.preallocate"], Check::Any,
        "Whether a new segment reserves its whole size on disk.";
    "message.timestamp.type" String = "CreateTime", from ["log.message.timestamp.type"],
        Check::OneOf(&["CreateTime", "LogAppendTime"]),
        "Whether a record's timestamp is the producer's or the time of its arrival.";
    "message.timestamp.before.max.ms" Long = "9223372036854775807",
        from ["log.message.timestamp.before.max.ms"], Check::AtLeast(0),
        "How far behind the broker's clock a producer's timestamp may be.";
    "message.timestamp.after.max.ms" Long = "3600000",
        from ["log.message.timestamp.after.max.ms"], Check::AtLeast(0),
        "How far ahead of the broker's clock a producer's timestamp may be.";
    "leader.replication.throttled.replicas" List = "", from [], Check::ThrottledReplicas,
        "Replicas whose reads from the leader are throttled: partition:broker pairs, or * for all.";
    "follower.replication.throttled.replicas" List = "", from [], Check::ThrottledReplicas,
        "Replicas whose writes on the follower are throttled: partition:broker pairs, or * for \
         all.";
    "remote.storage.enable" Boolean = "false", from [], Check::Any,
        "Kafka's tiered storage, which this broker does not have; only false is accepted.";
    "local.retention.ms" Long = "-2", from ["log.local.retention.ms"], Check::AtLeast(-2),
        "With Kafka's tiered storage, age of records on local disk; -2 is retention.ms.";
    "local.retention.bytes" Long = "-2", from ["log.local.retention.bytes"], Check::AtLeast(-2),
        "With Kafka's tiered storage, size of a partition on local disk; -2 is retention.bytes.";
    "remote.log.copy.disable" Boolean = "false", from [], Check::Any,
        "With Kafka's tiered storage, whether nothing more is copied to it.";
    "remote.log.delete.on.disable" Boolean = "false", from [], Check::Any,
        "With Kafka's tiered storage, whether disabling it deletes what it holds.";
    "durability" String = "synced", from ["durability"], Check::OneOf(&["synced", "replicated"]),
        "When acks=all is answered: \"synced\" after the records survive a loss of power on this \
         broker, \"replicated\" after they are written on every in-sync replica.";
    "channel.type" String = "tiered", from ["log.channel.type"],
        Check::OneOf(&["file", "pmem", "tiered", "mix"]),
        "Tiers of the topic, in Pafka's words: \"pmem\" the first only, \"file\" the last only, \
         \"tiered\" or \"mix\" all. storage.tier.min and storage.tier.max say it more finely.";
    "storage.tier.min" String = "", from [], Check::Tier,
        "Fastest tier that segments of the topic may be on, by its name in storage.tiers; empty: \
         as channel.type says.";
    "storage.tier.max" String = "", from [], Check::Tier,
        "Slowest tier that segments of the topic may be on; when none up to it has room, new \
         segments still go further down. Empty: as channel.type says.";
}
