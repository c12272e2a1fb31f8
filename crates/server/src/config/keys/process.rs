//! Settings of the process: shards, clock, logging. None of them is Kafka's.

use super::Key;

pub(super) const KEYS: &[Key] = &[
    Key::int("num.shards", "")
        .unset()
        .range(1, 1024)
        .ours()
        .doc(
            "Threads that serve connections and own partitions. Unset: one per core that \
             the process may use.",
        ),
    Key::string("process.cpus", "").ours().doc(
        "CPUs that the process may use, as a list such as 2-7,10, or as @FILE whose first line is one: all of its threads, \
             the kernel's workers for its disks, and the number of shards follow. For keeping it off the CPUs that take \
             the interrupts of network cards (`forebay tune`). Empty: all that it was started with.",
    ),
    Key::boolean("shards.pinned", "false")
        .ours()
        .doc("Bind each shard to one core, of those that the process may use."),
    Key::long("shard.watchdog.ms", "30000").min(0).ours().doc(
        "A shard that has not moved for so long is stuck: its stack is logged and the process \
             ends with SIGABRT, for a supervisor to start it again. 0: never.",
    ),
    Key::long("clock.step.threshold.ms", "3600000")
        .min(1000)
        .dynamic()
        .ours()
        .doc(
            "A wall clock that moves against the monotonic clock by more than this was set: a step.",
        ),
    Key::long("clock.step.hold.ms", "86400000")
        .min(0)
        .dynamic()
        .ours()
        .doc(
            "How long the wall clock has to run steadily after a step before anything is deleted for its age by it. 0: it \
             is believed at once.",
        ),
    Key::string("log.format", "text")
        .one_of(&["text", "json"])
        .ours()
        .doc("Form of log lines, on standard error."),
    Key::string("log.level", "info").not_empty().ours().doc(
        "What is logged: error, warn, info, debug, trace, or filters such as \
             info,broker=debug.",
    ),
];
