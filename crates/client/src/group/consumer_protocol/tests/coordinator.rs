//! A coordinator of one consumer group in miniature: no timeouts, one topic.

use std::collections::{BTreeMap, BTreeSet};

use wire::StrBytes;
use wire::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::topic_id;

const UNKNOWN_MEMBER: i16 = 25;
const FENCED: i16 = 110;

/// What the coordinator knows of a member.
#[derive(Default)]
struct KnownMember {
    epoch: i32,
    previous_epoch: i32,
    /// What the member may have.
    assigned: BTreeSet<i32>,
    /// What the member has to give up, until it reports partitions without these.
    revoking: BTreeSet<i32>,
}

impl KnownMember {
    fn held(&self) -> BTreeSet<i32> {
        self.assigned.union(&self.revoking).copied().collect()
    }
}

pub(super) struct Coordinator {
    size: i32,
    epoch: i32,
    members: BTreeMap<String, KnownMember>,
    targets: BTreeMap<String, BTreeSet<i32>>,
}

impl Coordinator {
    pub(super) fn new(size: i32) -> Self {
        Self {
            size,
            epoch: 0,
            members: BTreeMap::new(),
            targets: BTreeMap::new(),
        }
    }

    pub(super) fn take(
        &mut self,
        beat: &ConsumerGroupHeartbeatRequest,
    ) -> ConsumerGroupHeartbeatResponse {
        let answer = ConsumerGroupHeartbeatResponse::default();
        let id = beat.member_id.as_str().to_owned();
        let owned = beat.topic_partitions.as_ref().map(|topics| {
            let partitions = topics.iter().flat_map(|topic| &topic.partitions);
            partitions.copied().collect::<BTreeSet<_>>()
        });
        if beat.member_epoch < 0 {
            self.members.remove(&id);
            self.retarget();
            return answer.with_member_epoch(beat.member_epoch);
        }
        if beat.member_epoch == 0 && !self.members.contains_key(&id) {
            self.members.insert(id.clone(), KnownMember::default());
            self.retarget();
        }
        let Some(member) = self.members.get_mut(&id) else {
            return answer.with_error_code(UNKNOWN_MEMBER);
        };
        let is_known = beat.member_epoch == member.epoch || beat.member_epoch == 0;
        let owns_no_more = owned
            .as_ref()
            .is_some_and(|owned| owned.is_subset(&member.assigned));
        let is_before = beat.member_epoch == member.previous_epoch && owns_no_more;
        if !is_known && !is_before {
            return answer.with_error_code(FENCED);
        }
        let before = member.assigned.clone();
        let is_full = beat.rebalance_timeout_ms >= 0;
        self.reconcile(&id, owned.as_ref());
        let member = &self.members[&id];
        let assigned = (is_full || member.assigned != before).then(|| {
            let topic = TopicPartitions::default()
                .with_topic_id(topic_id().0)
                .with_partitions(member.assigned.iter().copied().collect());
            Assignment::default().with_topic_partitions(vec![topic])
        });
        answer
            .with_member_id(Some(StrBytes::from_string(id)))
            .with_member_epoch(member.epoch)
            .with_heartbeat_interval_ms(1000)
            .with_assignment(assigned)
    }

    /// Divides again: a new epoch.
    fn retarget(&mut self) {
        self.epoch += 1;
        self.targets.clear();
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for partition in 0..self.size {
            let turn = usize::try_from(partition).unwrap().checked_rem(ids.len());
            if let Some(turn) = turn {
                let target = self.targets.entry(ids[turn].clone()).or_default();
                target.insert(partition);
            }
        }
    }

    fn reconcile(&mut self, id: &str, owned: Option<&BTreeSet<i32>>) {
        let target = self.targets.get(id).cloned().unwrap_or_default();
        let others = self.members.iter().filter(|(other, _)| *other != id);
        let taken: BTreeSet<_> = others.flat_map(|(_, other)| other.held()).collect();
        let member = self.members.get_mut(id).unwrap();
        let may_have = |some: &BTreeSet<i32>| owned.is_none_or(|owned| !owned.is_disjoint(some));
        if !member.revoking.is_empty() {
            if may_have(&member.revoking) {
                return;
            }
            member.revoking.clear();
        }
        let gone: BTreeSet<_> = member.assigned.difference(&target).copied().collect();
        member.assigned.retain(|one| target.contains(one));
        if !gone.is_empty() && may_have(&gone) {
            member.revoking = gone;
            return;
        }
        if member.epoch != self.epoch {
            member.previous_epoch = member.epoch;
            member.epoch = self.epoch;
        }
        member.assigned = target.difference(&taken).copied().collect();
    }
}
