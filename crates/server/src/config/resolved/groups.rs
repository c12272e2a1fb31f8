//! Options of the group coordinator, and the rules between their values.

use broker::group::assignor::Assignor;
use broker::group::consumer::{BoundedValue, ConsumerOptions, MigrationPolicy};
use broker::options::GroupOptions;

use super::super::problem::Problem;
use super::super::values::Values;
use super::{milliseconds, size};

const POLICY: &str = "group.consumer.migration.policy";
const ASSIGNORS: &str = "group.consumer.assignors";

/// A broker setting, and the keys of its bounds.
struct Keys {
    value: &'static str,
    min: &'static str,
    max: &'static str,
}

const SESSION: Keys = Keys {
    value: "group.consumer.session.timeout.ms",
    min: "group.consumer.min.session.timeout.ms",
    max: "group.consumer.max.session.timeout.ms",
};
const HEARTBEAT: Keys = Keys {
    value: "group.consumer.heartbeat.interval.ms",
    min: "group.consumer.min.heartbeat.interval.ms",
    max: "group.consumer.max.heartbeat.interval.ms",
};
const ASSIGNMENT: Keys = Keys {
    value: "group.consumer.assignment.interval.ms",
    min: "group.consumer.min.assignment.interval.ms",
    max: "group.consumer.max.assignment.interval.ms",
};

/// Reports values that contradict each other.
pub(super) fn check(values: &Values, problems: &mut Vec<Problem>) {
    for keys in [SESSION, HEARTBEAT, ASSIGNMENT] {
        for (low, high) in [
            (keys.min, keys.max),
            (keys.min, keys.value),
            (keys.value, keys.max),
        ] {
            if values.int(low) > values.int(high) {
                let allowed = format!("must be greater than or equal to {low}");
                problems.push(values.problem(high, allowed));
            }
        }
    }
    if values.int(HEARTBEAT.value) >= values.int(SESSION.value) {
        let allowed = format!("must be less than {}", SESSION.value);
        problems.push(values.problem(HEARTBEAT.value, allowed));
    }
    if MigrationPolicy::named(&values.string(POLICY)).is_none() {
        let allowed = "must be bidirectional, upgrade, downgrade or disabled";
        problems.push(values.problem(POLICY, allowed));
    }
    let mut assignors = values.list(ASSIGNORS);
    assignors.sort_unstable();
    if assignors.windows(2).any(|pair| pair.first() == pair.last()) {
        problems.push(values.problem(ASSIGNORS, "must not name an assignor twice"));
    }
}

/// Least bytes for groups, on a small machine too.
const STATE_BYTES_LEAST: usize = 64 << 20;

/// Returns the options of the group coordinator.
///
/// `memory` and `shards` are those of the machine: the state of groups may take an eighth of the
/// memory, divided among the shards.
pub(super) fn options(values: &Values, memory: usize, shards: usize) -> GroupOptions {
    let wait = |name| milliseconds(values.int(name));
    let protocols = values.list("group.coordinator.rebalance.protocols");
    GroupOptions {
        offsets_partitions: narrow(values, "offsets.topic.num.partitions"),
        offsets_segment_bytes: narrow(values, "offsets.topic.segment.bytes"),
        offset_metadata_bytes_max: size(values.int("offset.metadata.max.bytes")),
        offsets_retention: wait("offsets.retention.minutes") * 60_000,
        offsets_retention_check: wait("offsets.retention.check.interval.ms"),
        offset_commit_timeout: wait("offsets.commit.timeout.ms"),
        session_timeout_min: wait("group.min.session.timeout.ms"),
        session_timeout_max: wait("group.max.session.timeout.ms"),
        initial_rebalance_delay: wait("group.initial.rebalance.delay.ms"),
        members_max: size(values.int("group.max.size")),
        state_bytes_max: (memory / 8).max(STATE_BYTES_LEAST) / shards.max(1),
        consumer_protocol: protocols.contains(&"consumer"),
        consumer: consumer_options(values),
    }
}

fn consumer_options(values: &Values) -> ConsumerOptions {
    let bounded = |keys: Keys| BoundedValue {
        value: narrow(values, keys.value),
        min: narrow(values, keys.min),
        max: narrow(values, keys.max),
    };
    let mut assignors = [None; 2];
    let named = values.list(ASSIGNORS);
    let named = named.into_iter().filter_map(Assignor::named);
    for (slot, assignor) in assignors.iter_mut().zip(named) {
        *slot = Some(assignor);
    }
    ConsumerOptions {
        session_timeout_ms: bounded(SESSION),
        heartbeat_interval_ms: bounded(HEARTBEAT),
        assignment_interval_ms: bounded(ASSIGNMENT),
        members_max: size(values.int("group.consumer.max.size")),
        assignors,
        migration: MigrationPolicy::named(&values.string(POLICY))
            .unwrap_or(MigrationPolicy::Bidirectional),
    }
}

fn narrow(values: &Values, name: &str) -> i32 {
    i32::try_from(values.int(name)).unwrap_or(i32::MAX)
}
