//! Transactions from end to end: what counts and what does not, which producers are fenced, and
//! that a decision outlives a crash.

use std::net::IpAddr;

use platform::sim::{Effect, Fault, SimDisk};
use wire::kafka::NewestVersion;
use wire::messages::describe_transactions_response::TransactionState;
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::{
    AddOffsetsToTxnRequest, DescribeTransactionsRequest, FindCoordinatorRequest, GroupId,
    InitProducerIdRequest, ListTransactionsRequest, TransactionalId, TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
};
use wire::types::ErrorCode;

use crate::harness::asks::{error, text, topic_name};
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life, try_life};

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), async |cluster| {
        cluster.create("t", 3).await;
        story(cluster).await;
    });
}

#[test]
fn what_is_committed_counts_and_what_is_aborted_does_not() {
    for (shards, newer) in [(1, false), (2, false), (1, true), (2, true)] {
        on(shards, async |cluster| {
            let mut writer = Transactor::begin(cluster, "id", newer).await;
            for round in 0..3 {
                for partition in 0..3 {
                    writer.write(partition, &[&format!("yes {round}")]).await;
                }
                let (_, ended) = cluster.committed_values(1).await;
                assert!(!ended, "readers wait for the open transaction");
                writer.end(true).await.unwrap();
                writer.write(1, &["no"]).await;
                writer.end(false).await.unwrap();
            }
            for partition in 0..3 {
                let found = cluster.settled_values(partition).await;
                assert_eq!(found, ["yes 0", "yes 1", "yes 2"], "{shards} {newer}");
            }
        });
    }
}

/// An id of 10,000 bytes.
fn long(name: &str, number: usize) -> TransactionalId {
    TransactionalId(text(&format!("{name}{number:09999}")))
}

/// Begins with new ids from an address until one is refused, which is to come back; returns how
/// many there are.
async fn fill(cluster: &Cluster, peer: IpAddr, name: &str) -> usize {
    for begun in 0..30 {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(long(name, begun)))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let answer = cluster.asking_from(peer, 4, &request).await;
        if let Some(code) = error(answer.error_code) {
            assert_eq!(code, ErrorCode::CoordinatorLoadInProgress);
            return begun;
        }
    }
    panic!("more than the bound is kept");
}

/// The coordinator keeps what clients call their transactions: a million names of 10 KB are 10 GB.
#[test]
fn new_transactional_ids_wait_when_those_of_their_address_or_of_all_take_what_they_may() {
    let mut setup = Setup::shards(1);
    // 200,000 bytes for transactional ids; an address may have half of them.
    setup.options.group.state_bytes_max = 400_000;
    life(&SimDisk::new(1), &setup, async |cluster| {
        cluster.create("t", 3).await;
        let mut writer = Transactor::begin(cluster, "id", false).await;
        writer.write(0, &["a"]).await;
        let refused = || {
            ["address", "all"].map(|bound| {
                let name = "forebay_transaction_coordinator_refused_total";
                let shown = cluster.metric(&format!("{name}{{bound=\"{bound}\"}}"));
                shown.unwrap().parse::<u64>().unwrap()
            })
        };
        assert_eq!(fill(cluster, [127, 0, 0, 1].into(), "a").await, 9);
        assert_eq!(refused(), [1, 0]);
        // Another one has its half all the same; then there is no room for anybody.
        assert_eq!(fill(cluster, [10, 0, 0, 1].into(), "b").await, 9);
        // Both bounds are near by then, and either may be the one that is met.
        let [address, all] = refused();
        assert_eq!(address + all, 2);
        assert_eq!(fill(cluster, [10, 0, 0, 2].into(), "c").await, 0);
        assert_eq!(refused(), [address, all + 1]);
        // What is there goes on, from any address.
        Transactor::try_begin(cluster, &long("a", 0)).await.unwrap();
        Transactor::try_begin(cluster, &long("b", 0)).await.unwrap();
        writer.write(0, &["b"]).await;
        writer.end(true).await.unwrap();
        assert_eq!(cluster.settled_values(0).await, ["a", "b"]);
    });
}

#[test]
fn a_batch_outside_of_a_transaction_is_refused() {
    on(1, async |cluster| {
        let mut writer = Transactor::begin(cluster, "id", false).await;
        let refused = writer.send(0, &["a"]).await;
        assert_eq!(refused, Err(ErrorCode::TransactionAbortable), "not added");
        writer.write(0, &["a"]).await;
        writer.end(true).await.unwrap();
        assert_eq!(cluster.settled_values(0).await, ["a"]);
        let late = writer.send(0, &["late"]).await;
        assert_eq!(late, Err(ErrorCode::TransactionAbortable), "it has ended");
        assert_eq!(cluster.settled_values(0).await, ["a"]);
        let records = crate::harness::batches::transactional(999, 0, &["x"]);
        let nobodys = cluster.try_produce("t", 0, records).await;
        assert_eq!(nobodys, Err(ErrorCode::TransactionalIdAuthorizationFailed));
    });
}

/// With several requests in flight the first may be refused for a while, and the second must not be
/// taken before it.
#[test]
fn a_first_batch_that_overtook_another_waits_for_it() {
    on(1, async |cluster| {
        let mut first = Transactor::begin(cluster, "id", true).await;
        let mut second = Transactor::resumed(cluster, "id", first.producer, true, 1);
        let early = second.send(0, &["b"]).await;
        assert_eq!(early, Err(ErrorCode::OutOfOrderSequenceNumber));
        first.write(0, &["a"]).await;
        second.write(0, &["b"]).await;
        first.end(true).await.unwrap();
        assert_eq!(cluster.settled_values(0).await, ["a", "b"]);
    });
}

#[test]
fn a_successor_shuts_out_its_predecessor_and_aborts_its_transaction() {
    for newer in [false, true] {
        on(2, async |cluster| {
            let mut old = Transactor::begin(cluster, "id", newer).await;
            old.write(0, &["half"]).await;
            let mut new = Transactor::begin(cluster, "id", newer).await;
            assert_eq!(old.end(true).await, Err(ErrorCode::ProducerFenced));
            let refused = old.send(0, &["more"]).await;
            assert_eq!(refused, Err(ErrorCode::InvalidProducerEpoch));
            new.write(0, &["whole"]).await;
            new.end(true).await.unwrap();
            assert_eq!(cluster.settled_values(0).await, ["whole"], "{newer}");
        });
    }
}

#[test]
fn positions_count_with_the_transaction() {
    for (shards, newer) in [(1, false), (2, true)] {
        on(shards, async |cluster| {
            cluster.commit("g", "t", 0, 1).await;
            let mut writer = Transactor::begin(cluster, "id", newer).await;
            assert_eq!(writer.send_offset("g", 5).await, None);
            assert_eq!(cluster.committed("g", "t", 0).await, 1);
            let unstable = Some(ErrorCode::UnstableOffsetCommit);
            assert_eq!(cluster.stable_position("g", "t").await.err(), unstable);
            writer.end(true).await.unwrap();
            assert_eq!(settled_position(cluster).await, 5);
            assert_eq!(writer_end_without(cluster, &mut writer).await, 5);
            // A later plain commit stands, whatever becomes of the transaction.
            assert_eq!(writer.send_offset("g", 7).await, None);
            cluster.commit("g", "t", 0, 9).await;
            writer.end(true).await.unwrap();
            assert_eq!(settled_position(cluster).await, 9);
        });
    }
}

/// The producer asks for the group's coordinator only afterwards.
#[test]
fn a_group_that_nobody_has_looked_for_can_be_taken_in() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            let writer = Transactor::begin(cluster, "id", false).await;
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(writer.id.clone())
                .with_producer_id(writer.producer.0.into())
                .with_producer_epoch(writer.producer.1)
                .with_group_id(GroupId(text("g")));
            let answer = cluster.ask(3, &request).await;
            assert_eq!(error(answer.error_code), None, "{shards} shards");
        });
    }
}

async fn writer_end_without(cluster: &Cluster, writer: &mut Transactor<'_>) -> i64 {
    assert_eq!(writer.send_offset("g", 6).await, None);
    writer.end(false).await.unwrap();
    settled_position(cluster).await
}

async fn settled_position(cluster: &Cluster) -> i64 {
    for _ in 0..200 {
        match cluster.stable_position("g", "t").await {
            Ok(position) => return position,
            Err(ErrorCode::UnstableOffsetCommit | ErrorCode::CoordinatorLoadInProgress) => {
                cluster.pass_ms(20).await;
            }
            Err(code) => panic!("{code:?}"),
        }
    }
    panic!("the position never settles");
}

async fn described(cluster: &Cluster, id: &str) -> TransactionState {
    let request = DescribeTransactionsRequest::default()
        .with_transactional_ids(vec![TransactionalId(text(id))]);
    cluster.ask(0, &request).await.transaction_states.remove(0)
}

#[test]
fn transactional_ids_are_listed_and_described() {
    on(2, async |cluster| {
        let mut writer = Transactor::begin(cluster, "one", true).await;
        let _other = Transactor::begin(cluster, "two", true).await;
        writer.write(2, &["a"]).await;
        let one = described(cluster, "one").await;
        assert_eq!(
            (one.error_code, one.transaction_state.as_str()),
            (0, "Ongoing")
        );
        assert_eq!(
            (one.topics[0].topic.as_str(), &one.topics[0].partitions[..]),
            ("t", &[2][..])
        );
        let none = described(cluster, "none").await;
        let not_found = ErrorCode::TransactionalIdNotFound;
        assert_eq!(error(none.error_code), Some(not_found));
        let list = async |states: &[&str]| {
            let states = states.iter().map(|state| text(state)).collect();
            let request = ListTransactionsRequest::default().with_state_filters(states);
            let answer = cluster.ask(1, &request).await;
            let mut ids: Vec<String> = answer
                .transaction_states
                .iter()
                .map(|it| it.transactional_id.0.to_string())
                .collect();
            ids.sort();
            (ids, answer.unknown_state_filters.len())
        };
        assert_eq!(list(&[]).await, (vec!["one".into(), "two".into()], 0));
        assert_eq!(list(&["Ongoing", "Odd"]).await, (vec!["one".into()], 1));
        assert_eq!(list(&["CompleteCommit"]).await.0, Vec::<String>::new());
    });
}

#[test]
fn what_takes_too_long_is_aborted() {
    on(2, async |cluster| {
        let mut writer = Transactor::begin(cluster, "id", true).await;
        writer.write(0, &["slow"]).await;
        cluster.pass_ms(75_000).await;
        assert_eq!(cluster.settled_values(0).await, Vec::<String>::new());
        let late = writer.end(true).await;
        assert_eq!(late, Err(ErrorCode::InvalidTxnState), "it is aborted");
        assert_eq!(
            described(cluster, "id").await.transaction_state.as_str(),
            "CompleteAbort"
        );
    });
}

/// What a marker of some coordinator comes to, in the newest version of the request.
async fn mark(cluster: &Cluster, producer: (i64, i16), protocol: i8) -> Option<ErrorCode> {
    let topic = WritableTxnMarkerTopic::default()
        .with_name(topic_name("t"))
        .with_partition_indexes(vec![0]);
    let marker = WritableTxnMarker::default()
        .with_producer_id(producer.0.into())
        .with_producer_epoch(producer.1)
        .with_topics(vec![topic]);
    let request = NewestVersion {
        message: WriteTxnMarkersRequest::default().with_markers(vec![marker]),
        more: vec![protocol],
    };
    let answer = cluster.ask(2, &request).await.message;
    error(answer.markers[0].topics[0].partitions[0].error_code)
}

#[test]
fn a_marker_of_the_newer_protocol_has_a_newer_epoch() {
    on(1, async |cluster| {
        let mut producer = Transactor::begin(cluster, "tx", true).await;
        producer.write(0, &["a"]).await;
        let (id, epoch) = producer.producer;
        let refused = mark(cluster, (id, epoch), 2).await;
        assert_eq!(refused, Some(ErrorCode::InvalidProducerEpoch));
        assert_eq!(
            mark(cluster, (id, epoch), -1).await,
            Some(ErrorCode::UnknownServerError)
        );
        assert_eq!(mark(cluster, (id, epoch + 1), 2).await, None);
        // Written again, as by a coordinator that heard no answer.
        assert_eq!(mark(cluster, (id, epoch + 1), 2).await, None);
    });
}

/// Kafka keeps the partitions of a marker in a map.
#[test]
fn a_partition_named_a_hundred_times_gets_one_marker() {
    on(1, async |cluster| {
        let mut producer = Transactor::begin(cluster, "tx", true).await;
        producer.write(0, &["a"]).await;
        let (id, epoch) = producer.producer;
        let topic = WritableTxnMarkerTopic::default()
            .with_name(topic_name("t"))
            .with_partition_indexes([[0; 100], [7; 100]].concat());
        let marker = WritableTxnMarker::default()
            .with_producer_id(id.into())
            .with_producer_epoch(epoch + 1)
            .with_topics(vec![topic; 3]);
        let request = NewestVersion {
            message: WriteTxnMarkersRequest::default().with_markers(vec![marker]),
            more: vec![2],
        };
        let before = cluster.offset("t", 0, -1).await;
        let answer = cluster.ask(2, &request).await.message;
        assert_eq!(answer.markers[0].topics.len(), 1);
        let partitions = &answer.markers[0].topics[0].partitions;
        let told: Vec<_> = partitions
            .iter()
            .map(|told| (told.partition_index, error(told.error_code)))
            .collect();
        let missing = Some(ErrorCode::UnknownTopicOrPartition);
        assert_eq!(told, [(0, None), (7, missing)]);
        assert_eq!(cluster.offset("t", 0, -1).await, before + 1);
    });
}

#[test]
fn ids_that_nobody_uses_are_forgotten() {
    let mut setup = Setup::shards(1);
    setup.options.transaction.id_expiration = std::time::Duration::from_mins(1);
    let disk = SimDisk::new(1);
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        Transactor::begin(cluster, "id", true).await;
        assert_eq!(described(cluster, "id").await.error_code, 0);
        cluster.pass_ms(3_700_000).await;
        let gone = described(cluster, "id").await;
        assert_eq!(
            error(gone.error_code),
            Some(ErrorCode::TransactionalIdNotFound)
        );
        cluster.stop().await;
    });
    life(&disk, &setup.next(), async |cluster| {
        let gone = settled_description(cluster, "id").await;
        assert_eq!(
            error(gone.error_code),
            Some(ErrorCode::TransactionalIdNotFound)
        );
    });
}

async fn settled_description(cluster: &Cluster, id: &str) -> TransactionState {
    for _ in 0..200 {
        let state = described(cluster, id).await;
        if error(state.error_code) != Some(ErrorCode::CoordinatorLoadInProgress) {
            return state;
        }
        cluster.pass_ms(20).await;
    }
    panic!("transactional ids never load");
}

#[test]
fn a_topic_that_is_deleted_keeps_no_transaction_from_ending() {
    on(1, async |cluster| {
        let mut writer = Transactor::begin(cluster, "id", true).await;
        writer.write(0, &["a"]).await;
        assert_eq!(cluster.delete("t").await, None);
        writer.end(true).await.unwrap();
        for _ in 0..100 {
            if described(cluster, "id").await.transaction_state.as_str() == "CompleteCommit" {
                return;
            }
            cluster.pass_ms(20).await;
        }
        panic!("it never completes");
    });
}

#[test]
fn an_open_transaction_survives_a_restart_and_goes_on() {
    for newer in [false, true] {
        let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
        let (producer, disk) = life(&disk, &setup, async |cluster| {
            cluster.create("t", 3).await;
            let mut writer = Transactor::begin(cluster, "id", newer).await;
            writer.write(0, &["a"]).await;
            assert_eq!(writer.send_offset("g", 3).await, None);
            (writer.producer, cluster.disk().kill(3))
        });
        life(&disk, &setup.next(), async |cluster| {
            settled_description(cluster, "id").await;
            let unstable = Some(ErrorCode::UnstableOffsetCommit);
            let mut position = cluster.stable_position("g", "t").await.err();
            while position == Some(ErrorCode::CoordinatorLoadInProgress) {
                cluster.pass_ms(20).await;
                position = cluster.stable_position("g", "t").await.err();
            }
            assert_eq!(position, unstable);
            let mut writer = Transactor::resumed(cluster, "id", producer, newer, 1);
            writer.write(0, &["b"]).await;
            writer.end(true).await.unwrap();
            assert_eq!(cluster.settled_values(0).await, ["a", "b"]);
            assert_eq!(settled_position(cluster).await, 3);
        });
    }
}

/// What was answered before the power went.
#[derive(Default)]
struct AnsweredResults {
    committed: Vec<String>,
    aborted: Vec<String>,
    /// The position that the last committed transaction has.
    position: i64,
}

async fn transact(cluster: &Cluster, told: &mut AnsweredResults) -> Option<()> {
    let mut writer = Transactor::try_begin_patiently(cluster, "id", true).await?;
    for round in 0..4 {
        let value = format!("value {round}");
        for partition in 0..2 {
            writer.send(partition, &[&value]).await.ok()?;
        }
        let commit = round % 2 == 0;
        if writer.send_offset("g", round).await.is_some() {
            return None;
        }
        writer.end(commit).await.ok()?;
        if commit {
            told.committed.push(value);
            told.position = round;
        } else {
            told.aborted.push(value);
        }
    }
    Some(())
}

#[test]
fn a_decision_that_was_answered_stands_wherever_the_power_goes() {
    let setup = Setup::shards(1);
    let mut k = 0;
    loop {
        let disk = SimDisk::new(k);
        let mut told = AnsweredResults {
            position: -1,
            ..AnsweredResults::default()
        };
        life(&disk, &setup, async |cluster| {
            cluster.create("t", 2).await;
            cluster.commit("other", "t", 0, 1).await;
            cluster.stop().await;
        });
        disk.inject(Fault::at(k, Effect::PowerOff));
        let whole = try_life(&disk, &setup.next(), async |cluster| {
            transact(cluster, &mut told).await.is_some()
        });
        let disk = disk.crash(k);
        life(&disk, &setup.next().next(), async |cluster| {
            settled_description(cluster, "id").await;
            // Whatever was open when the power went is ended by the successor.
            Transactor::begin(cluster, "id", true).await;
            for partition in 0..2 {
                let found = cluster.settled_values(partition).await;
                for value in &told.committed {
                    assert!(
                        found.contains(value),
                        "k={k}: {value} was committed: {found:?}"
                    );
                }
                for value in &told.aborted {
                    assert!(
                        !found.contains(value),
                        "k={k}: {value} was aborted: {found:?}"
                    );
                }
            }
            let both = (
                cluster.settled_values(0).await,
                cluster.settled_values(1).await,
            );
            assert_eq!(both.0, both.1, "k={k}: all partitions or none");
            let position = settled_position(cluster).await;
            assert!(
                position >= told.position,
                "k={k}: {position} < {}",
                told.position
            );
            assert!(
                [-1, 0, 2].contains(&position),
                "k={k}: {position} was aborted"
            );
        });
        if whole == Ok(true) {
            break;
        }
        k += 1;
    }
    assert!(k > 30, "the power went {k} times");
}

/// Found by asking Kafka the same: an error of the request comes before an error of its sender.
#[test]
fn positions_of_nobody_are_refused_for_what_is_wrong_with_them_first() {
    on(1, async |cluster| {
        Transactor::begin(cluster, "id", false).await;
        let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
        cluster.ask(4, &find).await;
        let asked = async |group: &str, topic: &str, partition: i32| {
            let partition = TxnOffsetCommitRequestPartition::default()
                .with_partition_index(partition)
                .with_committed_offset(1);
            let topic = TxnOffsetCommitRequestTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(vec![partition]);
            let request = TxnOffsetCommitRequest::default()
                .with_transactional_id(TransactionalId(text("nobody")))
                .with_group_id(GroupId(text(group)))
                .with_producer_id(1.into())
                .with_generation_id(-1)
                .with_topics(vec![topic]);
            let answer = cluster.ask(3, &request).await;
            error(answer.topics[0].partitions[0].error_code)
        };
        assert_eq!(asked("", "t", 0).await, Some(ErrorCode::InvalidGroupId));
        let unknown = Some(ErrorCode::UnknownTopicOrPartition);
        assert_eq!(asked("g", "missing", 0).await, unknown);
        assert_eq!(asked("g", "t", 9).await, unknown);
        let nobody = Some(ErrorCode::InvalidProducerIdMapping);
        assert_eq!(asked("g", "t", 0).await, nobody);
    });
}
