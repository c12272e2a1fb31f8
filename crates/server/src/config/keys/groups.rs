//! Settings of consumer groups and committed offsets.

use super::Key;

const ONE_ASSIGNMENT: &str =
    "groups of one shard are served in turn, assignments are not offloaded";
const BY_CHANGE: &str = "expressions are looked up when the topics have changed, not by the clock";

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
    Key::list("group.coordinator.rebalance.protocols", "classic,consumer")
        .several(&["classic", "consumer", "streams", "share"])
        .doc(
            "Group protocols that are served, of those there are: classic and consumer. Without \
             consumer, its requests are refused whatever group.version says.",
        ),
    Key::int("group.consumer.session.timeout.ms", "45000")
        .min(1)
        .doc("How long a member of a consumer group may be silent."),
    Key::int("group.consumer.min.session.timeout.ms", "45000")
        .min(1)
        .doc("Least session timeout that a consumer group may set for itself."),
    Key::int("group.consumer.max.session.timeout.ms", "60000")
        .min(1)
        .doc("Largest session timeout that a consumer group may set for itself."),
    Key::int("group.consumer.heartbeat.interval.ms", "5000")
        .min(1)
        .doc("How often members of a consumer group are to be heard of."),
    Key::int("group.consumer.min.heartbeat.interval.ms", "5000")
        .min(1)
        .doc("Least heartbeat interval that a consumer group may set for itself."),
    Key::int("group.consumer.max.heartbeat.interval.ms", "15000")
        .min(1)
        .doc("Largest heartbeat interval that a consumer group may set for itself."),
    Key::int("group.consumer.assignment.interval.ms", "1000")
        .min(0)
        .dynamic()
        .doc("Least time between two target assignments of a consumer group."),
    Key::int("group.consumer.min.assignment.interval.ms", "0")
        .min(0)
        .doc("Least assignment interval that a consumer group may set for itself."),
    Key::int("group.consumer.max.assignment.interval.ms", "15000")
        .min(0)
        .doc("Largest assignment interval that a consumer group may set for itself."),
    Key::int("group.consumer.max.size", "2147483647")
        .min(1)
        .doc("Members of a consumer group."),
    Key::list("group.consumer.assignors", "uniform,range")
        .several(&["uniform", "range"])
        .doc("Assignors that members may ask for, the default one first."),
    Key::string("group.consumer.migration.policy", "bidirectional").doc(
        "Which groups with members may change their protocol: bidirectional, upgrade (classic to \
         consumer), downgrade (consumer to classic), disabled.",
    ),
    Key::int("group.consumer.regex.refresh.interval.ms", "600000")
        .min(10_000)
        .without_effect(BY_CHANGE)
        .doc("How often regular expressions of consumer groups are looked up again."),
    Key::int("group.coordinator.background.threads", "2")
        .min(1)
        .without_effect(ONE_ASSIGNMENT)
        .doc("Threads for the background work of the group coordinator."),
    Key::int("group.coordinator.threads", "4")
        .min(1)
        .without_effect("shards coordinate groups, see num.shards")
        .doc("Threads that coordinate groups."),
    Key::int("group.coordinator.append.linger.ms", "-1")
        .min(-1)
        .without_effect("the flusher gathers writes by itself")
        .doc("How long a group's writes are gathered."),
];
