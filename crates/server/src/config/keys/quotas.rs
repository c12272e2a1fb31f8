//! Settings of how usage is measured against quotas, and of how large a push of client metrics may
//! be.
//!
//! The quotas and subscriptions themselves are metadata.

use super::Key;

pub(super) const KEYS: &[Key] = &[
    Key::int("quota.window.num", "11").min(1).doc(
        "Samples of usage that are remembered for quotas of bytes and of time. What was used is \
         spread over all of them but one.",
    ),
    Key::int("quota.window.size.seconds", "1")
        .min(1)
        .doc("Time of one sample of usage, for quotas of bytes and of time."),
    Key::int("controller.quota.window.num", "11").min(1).doc(
        "Samples of usage that are remembered for controller_mutation_rate: as many changes as \
         the quota allows in all of them may come at once.",
    ),
    Key::int("controller.quota.window.size.seconds", "1")
        .min(1)
        .doc("Time of one sample of usage, for controller_mutation_rate."),
    Key::int("telemetry.max.bytes", "1048576")
        .min(1)
        .doc("Largest push of what a client measured, compressed (kafka-client-metrics)."),
];
