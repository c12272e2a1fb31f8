//! The cluster as group decisions see it: topics, partitions, settings. Every decision gets it as
//! an argument; groups do not keep it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::protocol::StrBytes;
use wire::types::{NodeId, TopicId, Uuid};

use crate::image::{Image, ResourceType};

/// The topics and partitions that exist.
pub trait Topics {
    /// Returns the topic's id, or `None` without such a topic.
    fn topic_id(&self, name: &str) -> Option<TopicId>;
    /// Returns true when the topic has this partition.
    fn has_partition(&self, name: &str, partition: i32) -> bool;
}

/// The current state of the cluster.
pub trait Cluster: Topics {
    /// Returns a number that grows with every change of the cluster.
    fn version(&self) -> i64;
    /// Returns the id and the partition count of a topic.
    fn shape(&self, topic: &str) -> Option<(Uuid, i32)>;
    /// Returns the name of a topic.
    fn name_of(&self, topic: Uuid) -> Option<StrBytes>;
    /// Returns, for each partition of a topic, the sorted racks of its replicas.
    fn racks(&self, topic: &str) -> Vec<Vec<String>>;
    /// Returns the topics whose names pass a test.
    fn topics_where(&self, test: &dyn Fn(&str) -> bool) -> BTreeSet<StrBytes>;
    /// Returns the number of topics.
    fn topic_count(&self) -> usize;
    /// Returns a snapshot that another thread can use.
    fn snapshot(&self) -> Box<dyn Cluster + Send>;
    /// Returns a setting of the group itself.
    fn group_setting(&self, group: &str, name: &str) -> Option<i64>;
    /// Returns a broker setting that was changed dynamically.
    fn changed_setting(&self, name: &str) -> Option<i64>;
}

/// The cluster metadata of a broker.
pub struct MetadataView {
    pub(crate) image: Arc<Image>,
    pub(crate) node: NodeId,
}

impl Topics for Image {
    fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.topic_by_name(name).map(|topic| topic.id)
    }

    fn has_partition(&self, name: &str, partition: i32) -> bool {
        self.topic_by_name(name)
            .is_some_and(|topic| topic.partitions.contains_key(&partition))
    }
}

impl Topics for MetadataView {
    fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.image.topic_id(name)
    }

    fn has_partition(&self, name: &str, partition: i32) -> bool {
        self.image.has_partition(name, partition)
    }
}

impl Cluster for MetadataView {
    fn version(&self) -> i64 {
        self.image.last_applied_offset().0
    }

    fn shape(&self, topic: &str) -> Option<(Uuid, i32)> {
        let topic = self.image.topic_by_name(topic)?;
        let count = topic.partition_count();
        Some((topic.id.0, count))
    }

    fn name_of(&self, topic: Uuid) -> Option<StrBytes> {
        let topic = self.image.topic_by_id(TopicId(topic))?;
        Some(StrBytes::from_string(topic.name.to_string()))
    }

    fn racks(&self, topic: &str) -> Vec<Vec<String>> {
        let racks: BTreeMap<i32, &String> = self
            .image
            .brokers()
            .filter_map(|broker| Some((broker.id, broker.rack.as_ref()?)))
            .collect();
        let Some(topic) = self.image.topic_by_name(topic) else {
            return Vec::new();
        };
        let partitions = topic.partitions.values().map(|partition| {
            let found = partition
                .replicas
                .iter()
                .filter_map(|replica| racks.get(replica));
            let mut found: Vec<String> = found.map(|rack| (*rack).clone()).collect();
            found.sort();
            found
        });
        partitions.collect()
    }

    fn topics_where(&self, test: &dyn Fn(&str) -> bool) -> BTreeSet<StrBytes> {
        let names = self.image.topics().map(|topic| &topic.name);
        names
            .filter(|name| test(name))
            .map(|name| StrBytes::from_string(name.to_string()))
            .collect()
    }

    fn topic_count(&self) -> usize {
        self.image.topics().count()
    }

    fn snapshot(&self) -> Box<dyn Cluster + Send> {
        Box::new(Self {
            image: Arc::clone(&self.image),
            node: self.node,
        })
    }

    fn group_setting(&self, group: &str, name: &str) -> Option<i64> {
        self.image
            .setting(ResourceType::GROUP, group, name)?
            .trim()
            .parse()
            .ok()
    }

    fn changed_setting(&self, name: &str) -> Option<i64> {
        let own = self.node.0.to_string();
        let all = [own.as_str(), ""];
        let mut found = all
            .iter()
            .filter_map(|broker| self.image.setting(ResourceType::BROKER, broker, name));
        found.next()?.trim().parse().ok()
    }
}

#[cfg(test)]
pub(super) mod fake {
    //! A cluster for tests: topics by name, with ids derived from the names.

    use super::{BTreeMap, BTreeSet, Cluster, StrBytes, TopicId, Topics, Uuid};

    #[derive(Clone, Debug, Default)]
    pub(crate) struct FakeCluster {
        pub(crate) topics: BTreeMap<String, i32>,
        pub(crate) version: i64,
        pub(crate) group_settings: BTreeMap<String, i64>,
    }

    /// Returns the id of the topic with this name.
    pub(crate) fn id_of(name: &str) -> Uuid {
        let bits = name
            .bytes()
            .fold(1_u128, |bits, byte| bits << 8 | u128::from(byte));
        Uuid::from_u128(bits)
    }

    impl FakeCluster {
        pub(crate) fn of(topics: &[(&str, i32)]) -> Self {
            let topics = topics
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count));
            Self {
                topics: topics.collect(),
                ..Self::default()
            }
        }
    }

    impl Topics for FakeCluster {
        fn topic_id(&self, name: &str) -> Option<TopicId> {
            self.topics.get(name).map(|_| TopicId(id_of(name)))
        }

        fn has_partition(&self, name: &str, partition: i32) -> bool {
            let count = self.topics.get(name).copied().unwrap_or(0);
            (0..count).contains(&partition)
        }
    }

    impl Cluster for FakeCluster {
        fn version(&self) -> i64 {
            self.version
        }

        fn shape(&self, topic: &str) -> Option<(Uuid, i32)> {
            Some((id_of(topic), *self.topics.get(topic)?))
        }

        fn name_of(&self, topic: Uuid) -> Option<StrBytes> {
            let mut names = self.topics.keys();
            let name = names.find(|name| id_of(name) == topic)?;
            Some(StrBytes::from_string(name.clone()))
        }

        fn racks(&self, _: &str) -> Vec<Vec<String>> {
            Vec::new()
        }

        fn topics_where(&self, test: &dyn Fn(&str) -> bool) -> BTreeSet<StrBytes> {
            let names = self.topics.keys().filter(|name| test(name));
            names
                .map(|name| StrBytes::from_string(name.clone()))
                .collect()
        }

        fn topic_count(&self) -> usize {
            self.topics.len()
        }

        fn snapshot(&self) -> Box<dyn Cluster + Send> {
            Box::new(self.clone())
        }

        fn group_setting(&self, _: &str, name: &str) -> Option<i64> {
            self.group_settings.get(name).copied()
        }

        fn changed_setting(&self, _: &str) -> Option<i64> {
            None
        }
    }
}
