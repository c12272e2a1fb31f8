//! The cluster as the client of a request sees it: an expression matches only topics that it may
//! describe.
//!
//! As in Kafka, the expressions of a group are looked up for all its members at once, and by the
//! rights of the member whose request does it. Only expressions ask here: a client that names a
//! topic is refused if it may not describe it.

use std::collections::BTreeSet;
use std::ops::Deref;

use wire::acl::ResourceType;
use wire::protocol::StrBytes;
use wire::types::{TopicId, Uuid};

use super::cluster::{Cluster, Topics};
use crate::access::Access;

/// A cluster, and what the client may do.
pub(crate) struct SeenCluster<C> {
    cluster: C,
    access: Access,
}

impl<C> SeenCluster<C> {
    pub(crate) fn by(access: &Access, cluster: C) -> Self {
        let access = access.clone();
        Self { cluster, access }
    }
}

impl<C: Deref<Target: Topics>> Topics for SeenCluster<C> {
    fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.cluster.topic_id(name)
    }

    fn has_partition(&self, name: &str, partition: i32) -> bool {
        self.cluster.has_partition(name, partition)
    }
}

impl<C: Deref<Target: Cluster>> Cluster for SeenCluster<C> {
    fn version(&self) -> i64 {
        self.cluster.version()
    }

    fn shape(&self, topic: &str) -> Option<(Uuid, i32)> {
        self.cluster.shape(topic)
    }

    fn name_of(&self, topic: Uuid) -> Option<StrBytes> {
        self.cluster.name_of(topic)
    }

    fn racks(&self, topic: &str) -> Vec<Vec<String>> {
        self.cluster.racks(topic)
    }

    fn topics_where(&self, test: &dyn Fn(&str) -> bool) -> BTreeSet<StrBytes> {
        let seen = |name: &str| test(name) && self.access.sees(ResourceType::Topic, name);
        self.cluster.topics_where(&seen)
    }

    fn topic_count(&self) -> usize {
        self.cluster.topic_count()
    }

    fn snapshot(&self) -> Box<dyn Cluster + Send> {
        let snapshot = self.cluster.snapshot();
        Box::new(SeenCluster::by(&self.access, snapshot))
    }

    fn group_setting(&self, group: &str, name: &str) -> Option<i64> {
        self.cluster.group_setting(group, name)
    }

    fn changed_setting(&self, name: &str) -> Option<i64> {
        self.cluster.changed_setting(name)
    }
}
