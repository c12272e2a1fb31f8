//! Settings of tiers: their names, paths and capacities, and when segments move.
//!
//! `storage.tier.<name>.*` are families of keys, one member for each name in `storage.tiers`. The
//! second half are the names of the two generations of Pafka for the same settings;
//! `resolved/tiers.rs` maps them.

use broker::options::ConfigKind;

use super::Key;

pub(super) const KEYS: &[Key] = &[
    Key::list("storage.tiers", "").unset().not_empty().ours().doc(
        "Names of the tiers, the fastest first. New records go to the first; sealed segments move \
         down when it fills (docs/tiers.md). Unset: the log directories are the only tier.",
    ),
    Key::list("storage.tier.<name>.paths", "").unset().not_empty().ours().doc(
        "Directories of a tier, separated by commas. Those of the first tier are the log \
         directories.",
    ),
    Key::string("storage.tier.<name>.medium", "file")
        .one_of(&["file", "dax"])
        .ours()
        .doc(
            "What a tier is on: file (any file system) or dax (persistent memory, mapped; it \
             refuses to start where the mount is not DAX, unless the tier is volatile).",
        ),
    Key::list("storage.tier.<name>.capacity", "whole").not_empty().ours().doc(
        "How much of each path may be used: bytes (500000000000, 500GB, 465GiB), a share of the \
         file system (80%), or whole. One value for all paths, or one for each. What the file \
         system has left bounds it in any case.",
    ),
    Key::string("storage.tier.<name>.durability", "durable")
        .one_of(&["durable", "volatile"])
        .ours()
        .doc(
            "Whether what was synced to a tier outlives the power. Say volatile of memory that \
             looks like a disk (tmpfs): acknowledged records that are only there are lost with it.",
        ),
    Key::long("storage.tier.<name>.read.bytes.per.second", "").unset().min(1).ours().doc(
        "Rate at which each path of a tier reads, where it is known. `forebay tier status \
         --format json` tells it; nothing is slowed down to it.",
    ),
    Key::long("storage.tier.<name>.write.bytes.per.second", "").unset().min(1).ours().doc(
        "Rate at which each path of a tier writes, where it is known. Used to choose between \
         paths until it has been measured.",
    ),
    Key::of("storage.migrate.threshold", ConfigKind::Double, "0.5").range(-1, 1).ours().doc(
        "Share of a tier above which its oldest sealed segments move down. -1 switches movement \
         off; new segments still go to the next tier when one is full.",
    ),
    Key::of("storage.migrate.hysteresis", ConfigKind::Double, "0.05").range(0, 1).ours().doc(
        "How far below the threshold the newest segments of the lower tier move up again. Make it \
         at least two segments of the smallest tier.",
    ),
    Key::of("storage.migrate.reserve", ConfigKind::Double, "0.05").range(0, 1).ours().doc(
        "Share of a tier that sealed segments leave to those being written. Above it they move \
         down whatever else holds: young ones, and such as are being read.",
    ),
    Key::int("storage.migrate.threads", "1").range(1, 64).ours().doc(
        "Segments that move at a time.",
    ),
    Key::long("storage.migrate.bytes.per.second", "-1").min(-1).ours().doc(
        "Most bytes that all moves together copy in a second; -1 is without bound.",
    ),
    Key::long("storage.migrate.residency.ms", "60000").min(0).ours().doc(
        "How long a segment stays at least on a tier that it was moved to.",
    ),
    Key::long("storage.migrate.heat.ms", "60000").min(0).ours().doc(
        "A segment that was read from its disk within this time does not move down.",
    ),
    Key::long("storage.migrate.horizon.ms", "30000").min(0).ours().doc(
        "A tier that will be full within this time begins to move earlier than at the threshold, \
         and faster, the nearer that is.",
    ),
    Key::of("log.pmem.pool.ratio", ConfigKind::Double, "0.8").range(0, 1).doc(
        "Where the first tier is on medium dax: share of each of its paths that segments, and \
         files made in advance for the next ones, take together. The files are as long as \
         log.segment.bytes, are made in the background, and make way when room is short; 0 makes \
         none. Pafka's name.",
    ),
    Key::string("log.channel.type", "")
        .unset()
        .one_of(&["file", "pmem", "tiered", "mix"])
        .doc(
            "Default of the topic setting channel.type. Pafka's name: without storage.tiers, \
             tiered makes tiers of storage.tiers.types, storage.tiers.first.paths and \
             storage.tiers.second.paths; mix (its older name) of storage.pmem.path and \
             storage.hdd.path; pmem one tier of storage.tiers.first.paths or storage.pmem.path.",
        ),
    Key::list("storage.tiers.types", "NVME,HDD")
        .several(&["PMEM", "NVME", "SSD", "HDD"])
        .doc(
            "Kinds of the first and the second tier, which also name them, in lower case. PMEM is \
             medium dax. Pafka's name, used with log.channel.type=tiered.",
        ),
    Key::list("storage.tiers.first.paths", "").unset().not_empty().doc(
        "Directories of the first tier. Pafka's name, used with log.channel.type=tiered or pmem.",
    ),
    Key::list("storage.tiers.first.sizes", "-1").not_empty().doc(
        "Bytes of each directory of the first tier; -1 is the whole device. Pafka's name.",
    ),
    Key::list("storage.tiers.second.paths", "").unset().not_empty().doc(
        "Directories of the second tier. Pafka's name, used with log.channel.type=tiered.",
    ),
    Key::string("storage.pmem.path", "/pmem").not_empty().doc(
        "Directory of the first tier. Pafka's older name, used with log.channel.type=mix or pmem.",
    ),
    Key::list("storage.pmem.size", "-1").not_empty().doc(
        "Bytes of storage.pmem.path; -1 is the whole device. Pafka's older name.",
    ),
    Key::string("storage.hdd.path", "/hdd").not_empty().doc(
        "Directory of the second tier. Pafka's older name, used with log.channel.type=mix.",
    ),
    Key::list("cordoned.log.dirs", "").per_broker().doc(
        "Data directories on which nothing new is placed: no partitions, no segments. What is \
         there stays and is served. `*` is all of them.",
    ),
];
