//! The description of a consumer group that tools show.

use std::collections::BTreeMap;

use wire::messages::TopicName;
use wire::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member as Described, TopicPartitions,
};
use wire::protocol::StrBytes;
use wire::types::Uuid;

use super::ConsumerGroup;
use crate::group::assignor::{Assignor, Partitions};
use crate::group::cluster::Cluster;

impl ConsumerGroup {
    /// Describes the group; the caller adds its id.
    pub fn describe(&self, default: Assignor, cluster: &dyn Cluster) -> DescribedGroup {
        let members = self.members().map(|(id, member)| {
            let progress = self.progress(id);
            // A member holds the partitions that it is giving up until it confirms that it has.
            let mut has = Partitions::new();
            for (topic, partition) in progress.held() {
                has.entry(topic).or_default().insert(partition);
            }
            let names = member.topics.iter().cloned().map(TopicName);
            Described::default()
                .with_member_id(id.clone())
                .with_instance_id(member.instance_id.clone())
                .with_rack_id(member.rack_id.clone())
                .with_member_epoch(progress.epoch)
                .with_client_id(member.client_id.clone())
                .with_client_host(member.client_host.clone())
                .with_subscribed_topic_names(names.collect())
                .with_subscribed_topic_regex(Some(member.regex.clone()))
                .with_assignment(named(&has, cluster))
                .with_target_assignment(named(self.target(id), cluster))
                .with_member_type(i8::from(member.classic.is_none()))
        });
        DescribedGroup::default()
            .with_group_state(StrBytes::from_static_str(self.state().name()))
            .with_group_epoch(self.epoch())
            .with_assignment_epoch(self.target_epoch())
            .with_assignor_name(self.assignor_name(default))
            .with_members(members.collect())
    }

    /// Returns the assignor that most members ask for.
    fn assignor_name(&self, default: Assignor) -> StrBytes {
        let mut votes: BTreeMap<&StrBytes, usize> = BTreeMap::new();
        for (_, member) in self.members() {
            if let Some(name) = &member.assignor {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.into_iter().max_by_key(|(_, count)| *count);
        most.map_or(StrBytes::from_static_str(default.name()), |(name, _)| {
            name.clone()
        })
    }
}

fn named(partitions: &Partitions, cluster: &dyn Cluster) -> Assignment {
    let topics = partitions.iter().filter_map(|(topic, partitions)| {
        let topic: &Uuid = topic;
        let name = cluster.name_of(*topic)?;
        Some(
            TopicPartitions::default()
                .with_topic_id(*topic)
                .with_topic_name(TopicName(name))
                .with_partitions(partitions.iter().copied().collect()),
        )
    });
    Assignment::default().with_topic_partitions(topics.collect())
}
