//! Settings of consumer groups and committed offsets.

use super::Key;

const CLASSIC: &str = "only the classic group protocol is there yet";

pub(super) const KEYS: &[Key] = &[
    Key::int("offsets.topic.num.partitions", "50")
        .min(1)
        .doc("Partitions of __consumer_offsets, when it is created."),
    Key::short("offsets.topic.replication.factor", "1")
        .min(1)
        .without_effect("one node holds one replica")
        .doc("Replicas of __consumer_offsets."),
    Key::int("offsets.topic.segment.bytes", "104857600")
        .min(1)
        .doc("Segment size of __consumer_offsets."),
    Key::int("offsets.topic.compression.codec", "0")
        .range(0, 4)
        .doc("Compression of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."),
    Key::int("offset.metadata.max.bytes", "4096")
        .min(0)
        .doc("Largest text that a client may store beside a committed offset."),
    Key::int("offsets.load.buffer.size", "5242880")
        .min(1)
        .doc("Bytes read at once when a group partition is loaded."),
    Key::int("offsets.retention.minutes", "10080")
        .min(1)
        .doc("How long offsets of a group without members are kept."),
    Key::long("offsets.retention.check.interval.ms", "600000")
        .min(1)
        .doc("How often stale offsets are looked for."),
    Key::int("offsets.commit.timeout.ms", "5000")
        .min(1)
        .doc("How long a commit may wait to be durable."),
    Key::int("group.min.session.timeout.ms", "6000")
        .min(0)
        .doc("Least session timeout that a member may ask for."),
    Key::int("group.max.session.timeout.ms", "1800000")
        .min(0)
        .doc("Largest session timeout that a member may ask for."),
    Key::int("group.initial.rebalance.delay.ms", "3000")
        .min(0)
        .doc("How long a new group waits for more members before its first assignment."),
    Key::int("group.max.size", "2147483647")
        .min(1)
        .doc("Members of a group."),
    Key::list("group.coordinator.rebalance.protocols", "classic")
        .several(&["classic", "consumer", "streams", "share"])
        .without_effect(CLASSIC)
        .doc("Group protocols that are served."),
    Key::int("group.coordinator.threads", "4")
        .min(1)
        .without_effect("shards coordinate groups, see num.shards")
        .doc("Threads that coordinate groups."),
    Key::int("group.coordinator.append.linger.ms", "-1")
        .min(-1)
        .without_effect("the flusher gathers writes by itself")
        .doc("How long a group's writes are gathered."),
];
