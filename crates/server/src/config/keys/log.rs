//! Settings of partition logs. Most are defaults of topic settings and may change while the broker
//! runs.

use super::Key;

const ONE_INTERVAL: &str = "all checkpoints follow replica.high.watermark.checkpoint.interval.ms";
const FLUSHER: &str = "the flusher runs when there is something to flush";

pub(super) const KEYS: &[Key] = &[
    Key::list("log.dir", "forebay-data").not_empty().doc(
        "Data directories, used when log.dirs is not set. A fresh one is formatted at \
             start. The default is relative to the working directory.",
    ),
    Key::list("log.dirs", "")
        .unset()
        .not_empty()
        .doc(
            "Data directories, separated by commas. One that is new beside others that are used needs one \
             start with `--format-new-log-dirs`, and one that is gone for good one with \
             `--forget-missing-log-dirs`: without, it is taken for a file system that is not mounted.",
        ),
    Key::string("durability", "synced")
        .one_of(&["synced", "replicated"])
        .dynamic()
        .ours()
        .doc(
            "What acks=all waits for: synced (on disk, survives power loss) or replicated \
             (written, as Kafka does). Default of the topic setting.",
        ),
    Key::long("log.cache.bytes", "-1")
        .min(-1)
        .ours()
        .doc(
            "Bound on the memory for the newest bytes of the logs, which readers at the end \
             get without touching the disk. It is taken little by little, with what is \
             written and as readers show that they need it, not at the start. Up to a quarter of it is used to read ahead of \
             sequential readers of old records. -1: a quarter of the memory of the \
             machine (or of the container), at least 256 MiB.",
        ),
    Key::string("disk.engine", "auto")
        .one_of(&["auto", "io_uring", "threads"])
        .ours()
        .doc(
            "How files are read and written: io_uring, a pool of threads, or the first \
             that works (auto).",
        ),
    Key::int("message.max.bytes", "1048588")
        .min(0)
        .dynamic()
        .doc("Largest record batch. Default of the topic setting."),
    Key::int("log.segment.bytes", "1073741824")
        .min(1_048_576)
        .dynamic()
        .doc("Size at which a segment is rolled."),
    Key::long("log.roll.ms", "")
        .unset()
        .min(1)
        .dynamic()
        .doc("Age at which a segment is rolled. Unset: log.roll.hours."),
    Key::int("log.roll.hours", "168")
        .min(1)
        .doc("Age at which a segment is rolled, in hours."),
    Key::long("log.roll.jitter.ms", "")
        .unset()
        .min(0)
        .dynamic()
        .doc(
            "Up to this much is taken off the age, at random. Unset: \
             log.roll.jitter.hours.",
        ),
    Key::int("log.roll.jitter.hours", "0")
        .min(0)
        .doc("As log.roll.jitter.ms, in hours."),
    Key::long("log.retention.ms", "")
        .unset()
        .min(-1)
        .dynamic()
        .doc("How long records are kept; -1 for ever. Unset: log.retention.minutes."),
    Key::int("log.retention.minutes", "").unset().min(-1).doc(
        "How long records are kept, in minutes; -1 for ever. Unset: \
             log.retention.hours.",
    ),
    Key::int("log.retention.hours", "168")
        .min(-1)
        .doc("How long records are kept, in hours; -1 for ever."),
    Key::long("log.retention.bytes", "-1")
        .min(-1)
        .dynamic()
        .doc("Bytes kept of a partition; -1 is no bound."),
    Key::long("log.retention.check.interval.ms", "300000")
        .min(1)
        .doc("How often logs are looked through for segments to delete."),
    Key::list("log.cleanup.policy", "delete")
        .several(&["compact", "delete"])
        .dynamic()
        .doc(
            "What happens to old segments: delete by age and size, compact by key, or \
             both.",
        ),
    Key::int("log.index.interval.bytes", "4096")
        .min(0)
        .dynamic()
        .doc("Bytes of a log between two index entries."),
    Key::int("log.index.size.max.bytes", "10485760")
        .min(4)
        .dynamic()
        .doc("Largest offset index of a segment."),
    Key::long("log.flush.interval.messages", "9223372036854775807")
        .min(1)
        .dynamic()
        .doc("Records after which a log is synced, where durability is replicated."),
    Key::long("log.flush.interval.ms", "")
        .unset()
        .min(0)
        .dynamic()
        .doc(
            "Time after which a log is synced, where durability is replicated. Unset: \
             log.flush.scheduler.interval.ms.",
        ),
    Key::long("log.flush.scheduler.interval.ms", "9223372036854775807")
        .without_effect(FLUSHER)
        .doc("How often logs are looked at for flushing."),
    Key::int("log.flush.offset.checkpoint.interval.ms", "60000")
        .min(0)
        .without_effect(ONE_INTERVAL)
        .doc("How often recovery points are written."),
    Key::int("log.flush.start.offset.checkpoint.interval.ms", "60000")
        .min(0)
        .without_effect(ONE_INTERVAL)
        .doc("How often log start offsets are written."),
    Key::boolean("log.preallocate", "false")
        .dynamic()
        .doc("Reserve the whole of a segment when it is created."),
    Key::long("log.segment.delete.delay.ms", "60000")
        .min(0)
        .dynamic()
        .doc("How long a deleted file stays on disk, for readers that still have it open."),
    Key::string("log.message.timestamp.type", "CreateTime")
        .one_of(&["CreateTime", "LogAppendTime"])
        .dynamic()
        .doc("Whose clock stamps records: the producer's or this broker's."),
    Key::long("log.message.timestamp.before.max.ms", "9223372036854775807")
        .min(0)
        .dynamic()
        .doc("How far before the broker's clock a record's timestamp may lie."),
    Key::long("log.message.timestamp.after.max.ms", "3600000")
        .min(0)
        .dynamic()
        .doc("How far after the broker's clock a record's timestamp may lie."),
    Key::int("num.recovery.threads.per.data.dir", "2")
        .min(1)
        .dynamic()
        .without_effect("each shard recovers its own logs")
        .doc("Threads that recover logs at start."),
    Key::long("log.local.retention.ms", "-2")
        .min(-2)
        .dynamic()
        .without_effect("there is no tiered storage yet")
        .doc("How long tiered segments stay local."),
    Key::long("log.local.retention.bytes", "-2")
        .min(-2)
        .dynamic()
        .without_effect("there is no tiered storage yet")
        .doc("Bytes of tiered segments that stay local."),
    Key::boolean("log.cleaner.enable", "true")
        .doc("Compact the logs of topics whose cleanup.policy says so."),
    Key::int("log.cleaner.threads", "1")
        .min(0)
        .dynamic()
        .doc(
            "Logs that are compacted at the same time; they share memory and rate. Each is compacted \
             on the shard that owns it.",
        ),
    Key::of(
        "log.cleaner.io.max.bytes.per.second",
        broker::options::ConfigKind::Double,
        "1.7976931348623157E308",
    )
    .dynamic()
    .doc("Bytes that compaction reads and writes in a second."),
    Key::long("log.cleaner.dedupe.buffer.size", "134217728")
        .dynamic()
        .doc(
            "Memory for the newest offset of each key, 24 bytes a key, of all logs that are \
             compacted at the same time. Taken only while it is needed and no more than that; where \
             it is short, a log takes more rounds.",
        ),
    Key::int("log.cleaner.io.buffer.size", "524288")
        .min(0)
        .dynamic()
        .doc("Memory for reading and writing, of all logs that are compacted at the same time."),
    Key::of(
        "log.cleaner.io.buffer.load.factor",
        broker::options::ConfigKind::Double,
        "0.9",
    )
    .dynamic()
    .doc("Part of log.cleaner.dedupe.buffer.size that may be used; fuller is slower."),
    Key::long("log.cleaner.backoff.ms", "15000")
        .min(0)
        .dynamic()
        .doc("How long a shard waits when none of its logs is due for compaction; at least 100 ms."),
    Key::long("log.cleaner.delete.retention.ms", "86400000")
        .min(0)
        .dynamic()
        .doc("How long deletion markers stay in a compacted log. Default of the topic setting."),
    Key::long("log.cleaner.min.compaction.lag.ms", "0")
        .min(0)
        .dynamic()
        .doc("How long a record is safe from compaction. Default of the topic setting."),
    Key::long("log.cleaner.max.compaction.lag.ms", "9223372036854775807")
        .min(1)
        .dynamic()
        .doc("How long a record may escape compaction. Default of the topic setting."),
    Key::of(
        "log.cleaner.min.cleanable.ratio",
        broker::options::ConfigKind::Double,
        "0.5",
    )
    .range(0, 1)
    .dynamic()
    .doc(
        "Share of a log that must be stale before it is compacted. Default of the topic setting.",
    ),
];
