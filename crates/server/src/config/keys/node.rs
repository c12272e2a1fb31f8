//! Settings of the node itself, and of topics whose creator left something open.

use super::Key;

const ONE_NODE: &str = "one node is its own controller";

pub(super) const KEYS: &[Key] = &[
    Key::int("node.id", "1").unset().min(0).doc(
        "Number of this node. Unset: the one in meta.properties of an existing \
             directory, else 1.",
    ),
    Key::int("broker.id", "-1")
        .min(-1)
        .doc("Older name of node.id; -1 means not set."),
    Key::list("process.roles", "broker,controller")
        .several(&["broker", "controller"])
        .doc(
            "Roles of this node. It is always both: a node under separate controllers \
             refuses to start.",
        ),
    Key::string("cluster.id", "")
        .unset()
        .not_empty()
        .ours()
        .doc(
            "Cluster id written into a fresh data directory. Unset: a random one. An \
             existing directory must agree.",
        ),
    Key::string("broker.rack", "")
        .unset()
        .doc("Rack of this broker; clients use it to read from a near replica."),
    Key::int("num.partitions", "1").min(1).doc(
        "Partitions of a topic whose creator did not say how many, and of topics \
             created by use.",
    ),
    Key::int("default.replication.factor", "1").min(1).doc(
        "Replicas of a topic whose creator did not say how many. One node can hold \
             one.",
    ),
    Key::boolean("auto.create.topics.enable", "true").doc(
        "Create a topic when a client that allows it asks for the metadata of a name \
             that is not there.",
    ),
    Key::boolean("delete.topic.enable", "true").doc("Allow topics to be deleted."),
    Key::int("min.insync.replicas", "1")
        .min(1)
        .dynamic()
        .doc("In-sync replicas that must be there for acks=all to be taken."),
    Key::string("compression.type", "producer")
        .one_of(&["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
        .dynamic()
        .doc(
            "Compression of stored batches; producer keeps what came. Default of the \
             topic setting.",
        ),
    Key::int("compression.gzip.level", "-1")
        .range(-1, 9)
        .dynamic()
        .doc("Level for gzip; -1 is the codec's own."),
    Key::int("compression.lz4.level", "9")
        .range(1, 17)
        .dynamic()
        .doc("Level for lz4. Accepted; this codec has one level here."),
    Key::int("compression.zstd.level", "3")
        .range(-131_072, 22)
        .dynamic()
        .doc("Level for zstd."),
    Key::boolean("unclean.leader.election.enable", "false")
        .dynamic()
        .doc(
            "Let a replica that fell behind become leader. Default of the topic setting; \
             with one replica there is none.",
        ),
    Key::list("controller.listener.names", "").unset().doc(
        "Listeners meant for controllers. They are not opened: this node talks to its \
             controller in memory.",
    ),
    Key::list("controller.quorum.voters", "").doc(
        "Voters of the controller quorum, id@host:port. More than one refuses to \
             start.",
    ),
    Key::list("controller.quorum.bootstrap.servers", "")
        .doc("Where controllers are found. More than one refuses to start."),
    Key::boolean("auto.leader.rebalance.enable", "true")
        .without_effect(ONE_NODE)
        .doc("Give leadership back to preferred replicas."),
    Key::boolean("controlled.shutdown.enable", "true")
        .without_effect(ONE_NODE)
        .doc("Move leaders away before stopping."),
    Key::int("broker.heartbeat.interval.ms", "2000")
        .without_effect(ONE_NODE)
        .doc("Time between heartbeats."),
    Key::int("broker.session.timeout.ms", "9000")
        .without_effect(ONE_NODE)
        .doc("Silence after which a controller fences a broker."),
];
