//! Any one disk operation of `__consumer_offsets` fails, for want of room or of a descriptor, or
//! because the disk is broken or read-only: while groups of both kinds form, beat and commit, or at
//! a start. What passes is tried again and done in the same life; what is final is named until the
//! restart. What was acknowledged is there afterwards, and nothing else.

use bytes::Bytes;
use platform::sim::{Effect, Fault, OpKind, SimDisk};
use wire::StrBytes;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest,
    JoinGroupRequest, OffsetCommitRequest, SyncGroupRequest,
};
use wire::types::ErrorCode;

use crate::harness::asks::{error, text, topic_name};
use crate::harness::{Cluster, Setup, life, try_life};
use crate::starts_refused::{EFFECTS, is_final};

const LOG: &str = "/__consumer_offsets-";
const CLASSIC: &str = "classic";
const NEWER: &str = "newer";
/// How often a client asks, with longer and longer pauses.
const TRIES: u64 = 8;

fn setup() -> Setup {
    let mut setup = Setup::shards(2);
    setup.options.group.offsets_partitions = 1;
    setup
}

/// What the clients know.
#[derive(Clone, Debug)]
struct ClientKnowledge {
    /// The only member of the classic group, and its generation, once it knows it.
    member: Option<(StrBytes, i32)>,
    /// The epoch of the only member of the other group.
    epoch: Option<i32>,
    /// The classic group's position that was acknowledged last, and the one that was asked for.
    position: i64,
    asked: i64,
}

impl ClientKnowledge {
    fn nothing() -> Self {
        Self {
            member: None,
            epoch: None,
            position: -1,
            asked: -1,
        }
    }

    /// Joins the classic group and takes all of it.
    async fn join(&mut self, cluster: &Cluster) -> Result<(), ErrorCode> {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\0"));
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(text(CLASSIC)))
            .with_session_timeout_ms(600_000)
            .with_rebalance_timeout_ms(5_000)
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        let joined = cluster.ask(3, &request).await;
        told(joined.error_code)?;
        let assignment = SyncGroupRequestAssignment::default()
            .with_member_id(joined.member_id.clone())
            .with_assignment(Bytes::from_static(b"all"));
        let request = SyncGroupRequest::default()
            .with_group_id(GroupId(text(CLASSIC)))
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone())
            .with_assignments(vec![assignment]);
        let synced = cluster.ask(3, &request).await;
        told(synced.error_code)?;
        self.member = Some((joined.member_id, joined.generation_id));
        Ok(())
    }

    async fn beat(&self, cluster: &Cluster) -> Result<(), ErrorCode> {
        let (member, generation) = self.member.clone().expect("it has joined");
        let request = HeartbeatRequest::default()
            .with_group_id(GroupId(text(CLASSIC)))
            .with_generation_id(generation)
            .with_member_id(member);
        told(cluster.ask(3, &request).await.error_code)
    }

    async fn commit(&mut self, cluster: &Cluster, position: i64) -> Result<(), ErrorCode> {
        let (member, generation) = self.member.clone().expect("it has joined");
        let partition = OffsetCommitRequestPartition::default().with_committed_offset(position);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(CLASSIC)))
            .with_generation_id_or_member_epoch(generation)
            .with_member_id(member)
            .with_topics(vec![topic]);
        self.asked = position;
        let answer = cluster.ask(8, &request).await;
        told(answer.topics[0].partitions[0].error_code)?;
        self.position = position;
        Ok(())
    }

    /// As a member of the classic group: beats and commits, and joins before that where it has to.
    async fn work(&mut self, cluster: &Cluster, position: i64) -> Result<(), ErrorCode> {
        let done = async {
            if self.member.is_none() {
                self.join(cluster).await?;
            }
            self.beat(cluster).await?;
            self.commit(cluster, position).await
        };
        let done = done.await;
        if let Err(
            ErrorCode::UnknownMemberId
            | ErrorCode::IllegalGeneration
            | ErrorCode::RebalanceInProgress,
        ) = done
        {
            self.member = None;
        }
        done
    }

    /// As a member of the other group: beats, and joins before that where it has to.
    async fn beat_newer(&mut self, cluster: &Cluster) -> Result<(), ErrorCode> {
        let before = self.epoch.take();
        let mut request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(text(NEWER)))
            .with_member_id(text("m"))
            .with_member_epoch(before.unwrap_or(0));
        if before.is_none() {
            request = request
                .with_rebalance_timeout_ms(300_000)
                .with_subscribed_topic_names(Some(vec![topic_name("t")]))
                .with_topic_partitions(Some(Vec::new()));
        }
        let answer = cluster.ask(1, &request).await;
        told(answer.error_code)?;
        assert!(answer.member_epoch >= before.unwrap_or(1), "{answer:?}");
        self.epoch = Some(answer.member_epoch);
        Ok(())
    }

    /// Groups form, beat and commit.
    async fn live(&mut self, cluster: &Cluster) -> Result<(), ErrorCode> {
        let next = self.asked + 1;
        patiently(cluster, async || self.work(cluster, next).await).await?;
        patiently(cluster, async || self.beat_newer(cluster).await).await?;
        patiently(cluster, async || self.work(cluster, next + 1).await).await
    }

    /// What was acknowledged is there, and the groups go on.
    async fn check(mut self, cluster: &Cluster, what: &str) {
        // The topic may still have to be created.
        let there = patiently(cluster, async || Ok(())).await;
        assert_eq!(there, Ok(()), "{what}");
        let found = cluster.committed(CLASSIC, "t", 0).await;
        assert!(
            (self.position..=self.asked).contains(&found),
            "{what}: {found} is found, {self:?}"
        );
        if self.member.is_some() {
            let beaten = patiently(cluster, async || self.beat(cluster).await).await;
            assert_eq!(beaten, Ok(()), "{what}: {self:?}");
        }
        if self.epoch.is_some() {
            let beaten = patiently(cluster, async || self.beat_newer(cluster).await).await;
            assert_eq!(beaten, Ok(()), "{what}: {self:?}");
        }
        let lived = self.live(cluster).await;
        assert_eq!(lived, Ok(()), "{what}: {self:?}");
        assert_eq!(cluster.committed(CLASSIC, "t", 0).await, self.asked);
    }
}

fn told(code: i16) -> Result<(), ErrorCode> {
    error(code).map_or(Ok(()), Err)
}

/// Asks as a client does: finds the coordinator, and asks again where that may help.
async fn patiently(
    cluster: &Cluster,
    mut attempt: impl AsyncFnMut() -> Result<(), ErrorCode>,
) -> Result<(), ErrorCode> {
    let mut last = Ok(());
    for at in 0..TRIES {
        cluster.pass_ms(1000 * at).await;
        let find = FindCoordinatorRequest::default()
            .with_coordinator_keys(vec![text(CLASSIC), text(NEWER)]);
        let found = cluster.ask(4, &find).await;
        last = match told(found.coordinators[0].error_code) {
            Ok(()) => attempt().await,
            refused => refused,
        };
        if last.is_ok() {
            return last;
        }
    }
    last
}

/// What is not served is named, where an operator looks.
pub(crate) fn is_named(cluster: &Cluster) -> bool {
    let metrics = &cluster.metrics;
    let failed =
        metrics.groups.failed_partitions.get() + metrics.failed_transaction_partitions.get();
    failed + metrics.offline_partitions.get() > 0
}

/// Two lives; in the first one operation fails; false when it did not come to that.
fn lives(fault: Fault, passes: bool) -> bool {
    let (disk, effect) = (SimDisk::new(1), fault.effect);
    let mut known = ClientKnowledge::nothing();
    life(&disk, &setup(), async |cluster| {
        cluster.create("t", 1).await;
        disk.inject(fault);
        let lived = known.live(cluster).await;
        let what = format!("{effect:?}: {:?}", disk.struck());
        if passes && !is_final(&disk, effect) {
            assert_eq!(lived, Ok(()), "{what}: {known:?}");
        }
        if lived.is_ok() {
            let shown = cluster.committed(CLASSIC, "t", 0).await;
            assert_eq!(shown, known.position, "{what}");
        } else {
            assert!(is_named(cluster), "{what}: {lived:?}");
        }
    });
    let what = format!("{effect:?}: {:?}", disk.struck());
    let struck = !disk.struck().is_empty();
    disk.clear_faults();
    life(&disk.crash(2), &setup().next(), async |cluster| {
        known.check(cluster, &what).await;
    });
    struck
}

fn fault(at: u64, effect: Effect) -> Fault {
    Fault {
        path_contains: Some(LOG.to_owned()),
        ..Fault::at(at, effect)
    }
}

#[test]
fn whatever_a_disk_refuses_groups_what_was_acknowledged_is_there_and_they_are_served_again() {
    let mut operations = 0;
    while lives(fault(operations, EFFECTS[0].0), true) {
        for (effect, passes) in &EFFECTS[1..] {
            lives(fault(operations, *effect), *passes);
        }
        operations += 1;
    }
    assert!(operations > 20, "{operations}");
    // Those of the directory above.
    for nth in 0..3 {
        for (effect, passes) in EFFECTS {
            lives(Fault::at_kind(nth, OpKind::SyncDir, effect), passes);
        }
    }
}

#[test]
fn whatever_a_disk_refuses_a_start_groups_are_whole_at_the_next_one() {
    let (disk, mut first) = (SimDisk::new(1), ClientKnowledge::nothing());
    life(&disk, &setup(), async |cluster| {
        cluster.create("t", 1).await;
        first.live(cluster).await.unwrap();
    });
    let left = disk.kill(1);
    let starts = |at: u64, effect: Effect, passes: bool| {
        let (disk, mut known) = (left.kill(2), first.clone());
        disk.inject(fault(at, effect));
        let started = try_life(&disk, &setup().next(), async |cluster| {
            let lived = known.live(cluster).await;
            let what = format!("{effect:?}: {:?}", disk.struck());
            if passes && !is_final(&disk, effect) {
                assert_eq!(lived, Ok(()), "{what}: {known:?}");
            }
            assert!(lived.is_ok() || is_named(cluster), "{what}: {lived:?}");
        });
        let what = format!("{effect:?}: {:?}", disk.struck());
        if let Err(said) = started {
            assert!(said.contains('/'), "{what}: no file is named in: {said}");
        }
        let struck = !disk.struck().is_empty();
        disk.clear_faults();
        life(&disk.crash(3), &setup().next().next(), async |cluster| {
            known.check(cluster, &what).await;
        });
        struck
    };
    let mut operations = 0;
    while starts(operations, EFFECTS[0].0, true) {
        for (effect, passes) in &EFFECTS[1..] {
            starts(operations, *effect, *passes);
        }
        operations += 1;
    }
    assert!(operations > 10, "{operations}");
}
