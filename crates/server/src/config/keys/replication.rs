//! Settings of replicas and of the metadata log.

use super::Key;

const ALONE: &str = "one node replicates from no other broker";
const OWN_LOG: &str = "the metadata log follows metadata.log.max.record.bytes.between.snapshots";

pub(super) const KEYS: &[Key] = &[
    Key::long("replica.high.watermark.checkpoint.interval.ms", "5000")
        .min(1)
        .doc(
            "How often high watermarks, recovery points and log start offsets are written \
             to their checkpoint files.",
        ),
    Key::long(
        "metadata.log.max.record.bytes.between.snapshots",
        "20971520",
    )
    .min(1)
    .doc("Bytes of metadata records after which a snapshot is written."),
    Key::long("metadata.log.reserve.bytes", "4194304")
        .range(0, 1 << 30)
        .ours()
        .doc(
            "Room on the disk that the metadata log keeps, so that topics can be deleted and settings changed when the disk \
             is full: at most a 32nd of the file system, and of the path of a tier. What makes topics and partitions leaves half \
             of it. 0: none.",
        ),
    Key::string("metadata.log.dir", "")
        .unset()
        .doc("Directory of the metadata log. Unset: the first of log.dirs."),
    Key::long("metadata.log.max.snapshot.interval.ms", "3600000")
        .min(0)
        .without_effect(OWN_LOG)
        .doc("Time after which a snapshot is written."),
    Key::int("metadata.log.segment.bytes", "1073741824")
        .min(8_388_608)
        .without_effect(OWN_LOG)
        .doc("Segment size of the metadata log."),
    Key::long("metadata.log.segment.ms", "604800000")
        .without_effect(OWN_LOG)
        .doc("Segment age of the metadata log."),
    Key::long("metadata.max.retention.bytes", "104857600")
        .without_effect(OWN_LOG)
        .doc("Bytes kept of the metadata log."),
    Key::long("metadata.max.retention.ms", "604800000")
        .without_effect(OWN_LOG)
        .doc("Age kept of the metadata log."),
    Key::int("metadata.max.idle.interval.ms", "500")
        .min(0)
        .without_effect(ALONE)
        .doc("How often an idle controller writes an empty record."),
    Key::int("num.replica.fetchers", "1")
        .min(1)
        .dynamic()
        .without_effect(ALONE)
        .doc("Threads that replicate."),
    Key::int("num.replica.alter.log.dirs.threads", "")
        .unset()
        .min(1)
        .without_effect(ALONE)
        .doc("Threads that move replicas between directories."),
    Key::int("replica.fetch.max.bytes", "1048576")
        .min(0)
        .without_effect(ALONE)
        .doc("Bytes fetched of a partition."),
    Key::int("replica.fetch.min.bytes", "1")
        .without_effect(ALONE)
        .doc("Bytes that a replica waits for."),
    Key::int("replica.fetch.response.max.bytes", "10485760")
        .min(0)
        .without_effect(ALONE)
        .doc("Bytes fetched in all."),
    Key::int("replica.fetch.wait.max.ms", "500")
        .without_effect(ALONE)
        .doc("How long a replica's fetch waits."),
    Key::int("replica.fetch.backoff.ms", "1000")
        .min(0)
        .without_effect(ALONE)
        .doc("Pause after a failed fetch."),
    Key::long("replica.lag.time.max.ms", "30000")
        .without_effect(ALONE)
        .doc("Lag after which a replica leaves the in-sync set."),
    Key::int("replica.socket.timeout.ms", "30000")
        .without_effect(ALONE)
        .doc("Timeout of a replica's requests."),
    Key::int("replica.socket.receive.buffer.bytes", "65536")
        .without_effect(ALONE)
        .doc("Receive buffer of a replica."),
];
