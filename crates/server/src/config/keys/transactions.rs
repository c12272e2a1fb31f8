//! Settings of idempotent and transactional producers.

use super::Key;

pub(super) const KEYS: &[Key] = &[
    Key::int("producer.id.expiration.ms", "86400000")
        .min(1)
        .dynamic()
        .doc(
            "How long the last sequence numbers of a silent idempotent producer are \
             remembered.",
        ),
    Key::int("producer.id.expiration.check.interval.ms", "600000")
        .min(1)
        .doc("How often producers that have been silent for that long are looked for, and forgotten."),
    Key::short("transaction.state.log.replication.factor", "3")
        .min(1)
        .without_effect("one node holds one replica")
        .doc("Replicas of __transaction_state."),
    Key::int("transaction.state.log.min.isr", "2")
        .min(1)
        .without_effect("one node holds one replica")
        .doc("In-sync replicas for __transaction_state."),
    Key::int("transaction.state.log.num.partitions", "50")
        .min(1)
        .doc("Partitions of __transaction_state, when it is created."),
    Key::int("transaction.state.log.segment.bytes", "104857600")
        .min(1)
        .doc("Segment size of __transaction_state."),
    Key::int("transaction.state.log.load.buffer.size", "5242880")
        .min(1)
        .without_effect("a megabyte is read at a time")
        .doc("Bytes read at once when a partition of __transaction_state is loaded."),
    Key::int("transaction.max.timeout.ms", "900000")
        .min(1)
        .doc("Longest time that a producer may ask for as the limit of its transactions."),
    Key::int("transactional.id.expiration.ms", "604800000")
        .min(1)
        .doc("How long an unused transactional id is remembered."),
    Key::int(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "10000",
    )
    .min(1)
    .doc("How often transactions that have taken too long are looked for, and aborted."),
    Key::int(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "3600000",
    )
    .min(1)
    .doc("How often transactional ids that have expired are looked for, and removed."),
    Key::boolean("transaction.partition.verification.enable", "true")
        .dynamic()
        .doc(
            "Ask the coordinator whether a partition is in the transaction before its first batch \
             is appended, for producers that add partitions themselves.",
        ),
];
