//! The nodes of the cluster, as registered.
//!
//! The next start of a node replaces its registration as a whole; in between, only its fencing, its
//! shutdown and its directories change, and only by records that name its epoch.

use wire::records::metadata::{
    BrokerRegistrationChangeRecord, EndpointEntry, FeatureEntry, RegisterBrokerRecord,
    RegisterControllerRecord,
};
use wire::types::Uuid;

/// A broker.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerRegistration {
    /// Node id.
    pub id: i32,
    /// Random for each start of the process.
    pub incarnation: Uuid,
    /// Version of the registration: its offset in the log.
    pub epoch: i64,
    /// Its endpoints, by listener.
    pub endpoints: Vec<EndpointEntry>,
    /// The features that it supports.
    pub features: Vec<FeatureEntry>,
    /// Its rack.
    pub rack: Option<String>,
    /// True until it serves clients.
    pub fenced: bool,
    /// True during a controlled shutdown.
    pub in_controlled_shutdown: bool,
    /// Its usable log directories.
    pub directories: Vec<Uuid>,
    /// Its cordoned log directories, which take no new partitions; `None` before it reported them.
    pub cordoned: Option<Vec<Uuid>>,
}

impl BrokerRegistration {
    /// Returns true if the broker may get and lead partitions.
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }

    pub(super) fn change(&mut self, record: &BrokerRegistrationChangeRecord) {
        match record.fenced {
            -1 => self.fenced = false,
            1 => self.fenced = true,
            _ => {}
        }
        if record.in_controlled_shutdown == 1 {
            self.in_controlled_shutdown = true;
        }
        if !record.log_dirs.is_empty() {
            self.directories.clone_from(&record.log_dirs);
        }
        if let Some(cordoned) = &record.cordoned_log_dirs {
            self.cordoned = Some(cordoned.clone());
        }
    }
}

impl From<RegisterBrokerRecord> for BrokerRegistration {
    fn from(record: RegisterBrokerRecord) -> Self {
        Self {
            id: record.broker_id,
            incarnation: record.incarnation_id,
            epoch: record.broker_epoch,
            endpoints: record.end_points,
            features: record.features,
            rack: record.rack,
            fenced: record.fenced,
            in_controlled_shutdown: record.in_controlled_shutdown,
            directories: record.log_dirs,
            cordoned: record.cordoned_log_dirs,
        }
    }
}

impl From<&BrokerRegistration> for RegisterBrokerRecord {
    fn from(broker: &BrokerRegistration) -> Self {
        Self {
            broker_id: broker.id,
            is_migrating_zk_broker: false,
            incarnation_id: broker.incarnation,
            broker_epoch: broker.epoch,
            end_points: broker.endpoints.clone(),
            features: broker.features.clone(),
            rack: broker.rack.clone(),
            fenced: broker.fenced,
            in_controlled_shutdown: broker.in_controlled_shutdown,
            log_dirs: broker.directories.clone(),
            cordoned_log_dirs: broker.cordoned.clone(),
        }
    }
}

/// A controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerRegistration(pub RegisterControllerRecord);
