//! The options of the broker that settings give by themselves.
//!
//! What is known only when the broker starts (node id, ports, directories) is left empty.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::options::{BrokerOptions, QuotaOptions, TransactionOptions};
use broker::quota::Windows;
use platform::clock::steps::StepSettings;
use wire::types::NodeId;

use super::super::keys;
use super::super::values::Values;
use super::{groups, milliseconds, shown, size};
use crate::machine::Machine;

/// Returns the options of the broker, except what is known only later: node id, endpoints and
/// directories.
pub(super) fn broker_options(values: &Values, machine: &Machine) -> BrokerOptions {
    let shards = values.number("num.shards").map_or(machine.cores, size);
    let narrow = |name| i32::try_from(values.int(name)).unwrap_or(i32::MAX);
    BrokerOptions {
        node_id: NodeId(0),
        rack: values
            .text("broker.rack")
            .filter(|rack| !rack.is_empty())
            .map(str::to_owned),
        endpoints: Vec::new(),
        logins: BTreeMap::new(),
        authorizer: None,
        audit: broker::audit::Audit::default(),
        stores: None,
        log_dirs: Vec::new(),
        tiers: Vec::new(),
        lower_dirs: Vec::new(),
        journal: None,
        auto_create_topics: values.is("auto.create.topics.enable"),
        delete_topics: values.is("delete.topic.enable"),
        num_partitions: narrow("num.partitions"),
        default_replication_factor: i16::try_from(values.int("default.replication.factor"))
            .unwrap_or(i16::MAX),
        fetch_bytes_max: size(values.int("fetch.max.bytes")),
        fetch_sessions_max: size(values.int("max.incremental.fetch.session.cache.slots")),
        retention_check: milliseconds(values.int("log.retention.check.interval.ms")),
        checkpoint_interval: milliseconds(
            values.int("replica.high.watermark.checkpoint.interval.ms"),
        ),
        group: groups::options(values, machine.memory_bytes, shards),
        transaction: transaction_options(values),
        quota: QuotaOptions {
            rates: windows(values, "quota.window.num", "quota.window.size.seconds"),
            mutations: windows(
                values,
                "controller.quota.window.num",
                "controller.quota.window.size.seconds",
            ),
        },
        telemetry_bytes_max: size(values.int("telemetry.max.bytes")),
        metadata_snapshot_bytes: values
            .int("metadata.log.max.record.bytes.between.snapshots")
            .unsigned_abs(),
        clock: StepSettings {
            threshold_ms: values.int("clock.step.threshold.ms"),
            hold_ms: values.int("clock.step.hold.ms"),
        },
        metadata_reserve_bytes: values.int("metadata.log.reserve.bytes").unsigned_abs(),
        static_settings: shown::static_settings(values),
        config_keys: keys::for_broker(&values.list("storage.tiers")),
    }
}

pub(super) fn windows(values: &Values, samples: &str, seconds: &str) -> Windows {
    Windows {
        samples: u32::try_from(values.int(samples)).unwrap_or(1),
        window: Duration::from_secs(values.int(seconds).unsigned_abs()),
    }
}

fn transaction_options(values: &Values) -> TransactionOptions {
    let narrow = |name| i32::try_from(values.int(name)).unwrap_or(i32::MAX);
    let wait = |name| milliseconds(values.int(name));
    TransactionOptions {
        partitions: narrow("transaction.state.log.num.partitions"),
        segment_bytes: narrow("transaction.state.log.segment.bytes"),
        timeout_max: wait("transaction.max.timeout.ms"),
        id_expiration: wait("transactional.id.expiration.ms"),
        abort_check: wait("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expiration_check: wait("transaction.remove.expired.transaction.cleanup.interval.ms"),
        producer_expiration_check: wait("producer.id.expiration.check.interval.ms"),
        verify_partitions: values.is("transaction.partition.verification.enable"),
    }
}
