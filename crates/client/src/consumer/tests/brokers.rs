//! Brokers for tests of consumers: logs of one topic, one classic group whose only member leads it,
//! and its positions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use wire::StrBytes;
use wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::join_group_response::JoinGroupResponseMember;
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, FetchRequest, FetchResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListOffsetsRequest,
    ListOffsetsResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
    OffsetFetchResponse, SyncGroupRequest, SyncGroupResponse, TopicName,
};

use crate::scripted::{AskedRequest, PORT, Reply, Script, script};

const BROKERS: &[(i32, &str)] = &[(1, "a"), (2, "b")];
const TOPIC: &str = "t";

/// What the scripted brokers keep.
#[derive(Default)]
pub(super) struct BrokersState {
    /// Batches by partition: base offset, end, bytes.
    pub(super) logs: BTreeMap<i32, Vec<(i64, i64, Bytes)>>,
    /// The broker of each partition, and its epoch.
    pub(super) leaders: BTreeMap<i32, (i32, i32)>,
    pub(super) positions: BTreeMap<i32, i64>,
    /// The code of every heartbeat.
    pub(super) heartbeat_code: i16,
    /// The code of every fetch, by partition.
    pub(super) fetch_codes: BTreeMap<i32, i16>,
    /// The requests that the coordinator got: joins, commits, leaves.
    pub(super) told: Vec<String>,
    pub(super) fetches: usize,
    parts: BTreeMap<String, Bytes>,
}

pub(super) type Brokers = Rc<RefCell<BrokersState>>;

impl BrokersState {
    pub(super) fn append(&mut self, partition: i32, batch: Bytes, count: i64) {
        let log = self.logs.entry(partition).or_default();
        let base = log.last().map_or(0, |one| one.1);
        log.push((base, base + count, batch));
    }

    fn end(&self, partition: i32) -> i64 {
        let log = self.logs.get(&partition).and_then(|log| log.last());
        log.map_or(0, |one| one.1)
    }

    fn metadata(&self, asked: &AskedRequest) -> Option<Reply> {
        let leaders = self.leaders.values().copied().collect();
        asked.metadata(BROKERS, &BTreeMap::from([(TOPIC.to_owned(), leaders)]))
    }

    fn list(&self, asked: &AskedRequest) -> Option<Reply> {
        asked.to(|request: ListOffsetsRequest| {
            let topics = request.topics.into_iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|one| {
                    let end = self.end(one.partition_index);
                    ListOffsetsPartitionResponse::default()
                        .with_partition_index(one.partition_index)
                        .with_offset(if one.timestamp == -1 { end } else { 0 })
                });
                ListOffsetsTopicResponse::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            ListOffsetsResponse::default().with_topics(topics.collect())
        })
    }

    /// Answers without sessions: everything is asked for each time.
    fn fetch(&mut self, host: &str, asked: &AskedRequest) -> Option<Reply> {
        let request = asked.request::<FetchRequest>()?;
        self.fetches += 1;
        let node = BROKERS.iter().find(|(_, name)| *name == host).unwrap().0;
        let mut has_news = false;
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|wanted| {
                let index = wanted.partition;
                let code = if self.leaders[&index].0 == node {
                    self.fetch_codes.get(&index).copied().unwrap_or(0)
                } else {
                    6
                };
                let log = self.logs.get(&index).map_or(&[][..], Vec::as_slice);
                let from = log.iter().filter(|(_, end, _)| *end > wanted.fetch_offset);
                let first = from.take(1).map(|one| one.2.clone());
                let records: Vec<_> = first.filter(|_| code == 0).collect();
                has_news |= !records.is_empty() || code != 0;
                PartitionData::default()
                    .with_partition_index(index)
                    .with_error_code(code)
                    .with_high_watermark(self.end(index))
                    .with_last_stable_offset(self.end(index))
                    .with_aborted_transactions(None)
                    .with_records(Some(records.concat().into()))
            });
            FetchableTopicResponse::default()
                .with_topic(topic.topic.clone())
                .with_partitions(partitions.collect())
        });
        let topics = topics.collect();
        let answer = FetchResponse::default().with_responses(topics);
        let frame = asked.answer::<FetchRequest>(&answer);
        let wait_ms = u64::try_from(request.max_wait_ms).unwrap();
        Some(if has_news {
            Reply::Answer(frame)
        } else {
            Reply::Later(Duration::from_millis(wait_ms), frame)
        })
    }

    fn coordinator(asked: &AskedRequest) -> Option<Reply> {
        asked.to(|request: FindCoordinatorRequest| {
            let found = request.coordinator_keys.into_iter().map(|key| {
                Coordinator::default()
                    .with_key(key)
                    .with_node_id(1.into())
                    .with_host(StrBytes::from_static_str("a"))
                    .with_port(PORT.into())
            });
            FindCoordinatorResponse::default().with_coordinators(found.collect())
        })
    }

    fn group(&mut self, asked: &AskedRequest) -> Option<Reply> {
        let member = StrBytes::from_static_str("m");
        let told = &mut self.told;
        asked
            .to(|_: ConsumerGroupHeartbeatRequest| {
                told.push("beat".to_owned());
                ConsumerGroupHeartbeatResponse::default().with_error_code(35)
            })
            .or_else(|| {
                asked.to(|request: JoinGroupRequest| {
                    told.push("join".to_owned());
                    let metadata = request.protocols[0].metadata.clone();
                    let me = JoinGroupResponseMember::default()
                        .with_member_id(member.clone())
                        .with_metadata(metadata);
                    JoinGroupResponse::default()
                        .with_generation_id(1)
                        .with_protocol_name(Some(request.protocols[0].name.clone()))
                        .with_leader(member.clone())
                        .with_member_id(member.clone())
                        .with_members(vec![me])
                })
            })
            .or_else(|| {
                asked.to(|request: SyncGroupRequest| {
                    let parts = request.assignments.into_iter();
                    self.parts = parts
                        .map(|one| (one.member_id.to_string(), one.assignment))
                        .collect();
                    let mine = self.parts.get("m").cloned().unwrap_or_default();
                    SyncGroupResponse::default().with_assignment(mine)
                })
            })
            .or_else(|| {
                asked.to(|_: HeartbeatRequest| {
                    HeartbeatResponse::default().with_error_code(self.heartbeat_code)
                })
            })
            .or_else(|| {
                asked.to(|_: LeaveGroupRequest| {
                    told.push("leave".to_owned());
                    LeaveGroupResponse::default()
                })
            })
    }

    fn offsets(&mut self, asked: &AskedRequest) -> Option<Reply> {
        asked
            .to(|request: OffsetCommitRequest| {
                let topics = request.topics.into_iter().map(|topic| {
                    let partitions = topic.partitions.into_iter().map(|one| {
                        let (partition, offset) = (one.partition_index, one.committed_offset);
                        self.told.push(format!("commit {partition}: {offset}"));
                        self.positions.insert(partition, offset);
                        OffsetCommitResponsePartition::default().with_partition_index(partition)
                    });
                    OffsetCommitResponseTopic::default()
                        .with_name(topic.name)
                        .with_partitions(partitions.collect())
                });
                OffsetCommitResponse::default().with_topics(topics.collect())
            })
            .or_else(|| {
                asked.to(|request: OffsetFetchRequest| {
                    let indexes = request.groups[0].topics.as_ref().unwrap()[0]
                        .partition_indexes
                        .iter();
                    let partitions = indexes.map(|index| {
                        let offset = self.positions.get(index).copied().unwrap_or(-1);
                        OffsetFetchResponsePartitions::default()
                            .with_partition_index(*index)
                            .with_committed_leader_epoch(-1)
                            .with_committed_offset(offset)
                    });
                    let topic = OffsetFetchResponseTopics::default()
                        .with_name(TopicName(StrBytes::from_static_str(TOPIC)))
                        .with_partitions(partitions.collect());
                    let group = OffsetFetchResponseGroup::default().with_topics(vec![topic]);
                    OffsetFetchResponse::default().with_groups(vec![group])
                })
            })
    }
}

/// Makes the script of both brokers.
pub(super) fn brokers(leaders: &[(i32, i32)]) -> (Brokers, Script) {
    let kept = Brokers::default();
    kept.borrow_mut().leaders = (0..).zip(leaders.iter().copied()).collect();
    let ours = Rc::clone(&kept);
    let script = script(move |host, asked| {
        let mut kept = ours.borrow_mut();
        kept.metadata(asked)
            .or_else(|| kept.list(asked))
            .or_else(|| kept.fetch(host, asked))
            .or_else(|| BrokersState::coordinator(asked))
            .or_else(|| kept.group(asked))
            .or_else(|| kept.offsets(asked))
    });
    (kept, script)
}
