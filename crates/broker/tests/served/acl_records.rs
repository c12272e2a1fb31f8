//! Records of topics that ACLs protect: who may append and read them, and what a client gets that
//! may not, also if it could when its request began.

use broker::dispatch::{CloseReason, Reply};
use platform::sim::SimDisk;
use platform::task::spawn;
use wire::StrBytes;
use wire::acl::{Operation, ResourceType};
use wire::messages::{FetchRequest, FetchResponse, ProduceRequest, TransactionalId};
use wire::types::{ErrorCode, Uuid};

use crate::harness::asks::{error, fetch, partitions, produce, records_of};
use crate::harness::batches::{batch, transactional};
use crate::harness::client::frame;
use crate::harness::users::{CLUSTER, User, topic};
use crate::harness::{Cluster, Setup, life};

const DENIED: Option<ErrorCode> = Some(ErrorCode::TopicAuthorizationFailed);
const NOT_ITS_TRANSACTION: Option<ErrorCode> = Some(ErrorCode::TransactionalIdAuthorizationFailed);

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards).with_users(), story);
}

/// What a user's request gets for each partition that it names.
async fn appended(user: &User<'_>, request: &ProduceRequest) -> Vec<Option<ErrorCode>> {
    let answer = user.ask(9, request).await;
    let partitions = answer
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    partitions
        .map(|partition| error(partition.error_code))
        .collect()
}

/// A request for the first partition of each topic.
fn produce_to(topics: &[&str]) -> ProduceRequest {
    let each = topics.iter().map(|topic| {
        let mut request = produce(topic, -1, &[(0, batch(&["a"]))]);
        request.topic_data.remove(0)
    });
    produce("", -1, &[]).with_topic_data(each.collect())
}

#[test]
fn records_are_appended_to_the_topics_that_the_producer_may_write_to() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            cluster.create("mine", 1).await;
            cluster.create("other", 1).await;
            cluster.allow("ada", Operation::Write, topic("mine")).await;
            cluster.allow("ada", Operation::Read, topic("other")).await;
            let user = User::login(cluster, "ada").await;
            let told = appended(&user, &produce_to(&["mine", "other", "none"])).await;
            assert_eq!(told, [None, DENIED, DENIED]);
            assert_eq!(cluster.offset("mine", 0, -1).await, 1);
            assert_eq!(cluster.offset("other", 0, -1).await, 0);
            let bob = User::login(cluster, "bob").await;
            assert_eq!(appended(&bob, &produce_to(&["mine"])).await, [DENIED]);
            // An ACL that forbids outweighs those that permit.
            cluster.deny("ada", Operation::Write, topic("mine")).await;
            assert_eq!(appended(&user, &produce_to(&["mine"])).await, [DENIED]);
        });
    }
}

#[test]
fn the_id_of_a_topic_gives_no_right_to_write_to_it() {
    on(1, async |cluster| {
        cluster.create("other", 1).await;
        let user = User::login(cluster, "ada").await;
        let mut request = produce("", -1, &[(0, batch(&["a"]))]);
        for (id, code) in [
            (cluster.topic_id("other").0, DENIED),
            (Uuid::from_u128(99), Some(ErrorCode::UnknownTopicId)),
        ] {
            request.topic_data[0].topic_id = id;
            let answer = user.ask(13, &request).await;
            let answer = &answer.responses[0].partition_responses[0];
            assert_eq!(error(answer.error_code), code);
            assert_eq!(
                (answer.base_offset, answer.error_message.as_ref()),
                (-1, None)
            );
        }
    });
}

#[test]
fn a_producer_without_responses_learns_of_a_denial_by_the_end_of_its_connection() {
    on(1, async |cluster| {
        cluster.create("other", 1).await;
        let user = User::login(cluster, "ada").await;
        let request = produce("other", 0, &[(0, batch(&["a"]))]);
        let reply = user.reply(&frame(9, &request)).await;
        let expected = CloseReason::Unanswered(ErrorCode::TopicAuthorizationFailed);
        assert!(
            matches!(&reply, Reply::Close(reason) if **reason == expected),
            "{reply:?}"
        );
        let request = produce("other", 0, &[(0, transactional(1, 0, &["a"]))]);
        let reply = user.reply(&frame(9, &request)).await;
        let expected = CloseReason::Unanswered(ErrorCode::TransactionalIdAuthorizationFailed);
        assert!(
            matches!(&reply, Reply::Close(reason) if **reason == expected),
            "{reply:?}"
        );
    });
}

#[test]
fn a_batch_in_a_transaction_of_others_refuses_the_whole_request() {
    on(2, async |cluster| {
        cluster.create("mine", 2).await;
        cluster.allow("ada", Operation::Write, topic("mine")).await;
        let user = User::login(cluster, "ada").await;
        let id = |text| Some(TransactionalId(StrBytes::from_static_str(text)));
        let both = [(0, batch(&["a"])), (1, transactional(1, 0, &["b"]))];
        let whole = [NOT_ITS_TRANSACTION; 2];
        let request = produce("mine", -1, &both);
        assert_eq!(appended(&user, &request).await, whole);
        let request = request.with_transactional_id(id("other"));
        assert_eq!(appended(&user, &request).await, whole);
        assert_eq!(cluster.offset("mine", 0, -1).await, 0);
        // Without such a batch the id is not judged.
        let request = produce("mine", -1, &both[..1]).with_transactional_id(id("other"));
        assert_eq!(appended(&user, &request).await, [None]);
        // With the right on the id the coordinator judges the batch: there is no such producer.
        let own = (ResourceType::TransactionalId, "other");
        cluster.allow("ada", Operation::Write, own).await;
        let request = produce("mine", -1, &both[1..]).with_transactional_id(id("other"));
        let told = appended(&user, &request).await;
        assert!(
            told[0].is_some() && told != [NOT_ITS_TRANSACTION],
            "{told:?}"
        );
    });
}

/// Code (0 for none) and values of each partition of an answer.
fn read(answer: &FetchResponse) -> Vec<(i16, Vec<String>)> {
    let partitions = partitions(answer).into_iter().map(|partition| {
        let records = records_of(partition).into_iter();
        let values = records.map(|(_, value)| value).collect();
        (partition.error_code, values)
    });
    partitions.collect()
}

fn nothing() -> (i16, Vec<String>) {
    (ErrorCode::TopicAuthorizationFailed.code(), Vec::new())
}

fn some(value: &str) -> (i16, Vec<String>) {
    (0, vec![value.to_owned()])
}

fn fetch_from(topics: &[&str]) -> FetchRequest {
    let mut request = fetch("", &[]);
    request.topics.clear();
    for topic in topics {
        request.topics.extend(fetch(topic, &[(0, 0)]).topics);
    }
    request
}

#[test]
fn records_are_read_from_the_topics_that_the_client_may_read() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            for name in ["mine", "other"] {
                cluster.create(name, 1).await;
                cluster.produce(name, 0, &["a"]).await;
            }
            cluster.allow("ada", Operation::Read, topic("mine")).await;
            cluster.allow("ada", Operation::Write, topic("other")).await;
            let user = User::login(cluster, "ada").await;
            let answer = user.ask(12, &fetch_from(&["mine", "other", "none"])).await;
            assert_eq!(read(&answer), [some("a"), nothing(), nothing()]);
            let denied = partitions(&answer)[1];
            assert_eq!((denied.high_watermark, denied.log_start_offset), (-1, -1));
            // Kafka answers an empty list and no null.
            assert_eq!(denied.aborted_transactions.as_deref(), Some(&[][..]));
            let mut request = fetch_from(&["", "", ""]);
            let (mine, other) = (cluster.topic_id("mine").0, cluster.topic_id("other").0);
            let ids = [mine, other, Uuid::from_u128(99)];
            for (topic, id) in request.topics.iter_mut().zip(ids) {
                topic.topic_id = id;
            }
            let unknown = (ErrorCode::UnknownTopicId.code(), Vec::new());
            let answer = user.ask(13, &request).await;
            assert_eq!(read(&answer), [some("a"), nothing(), unknown]);
        });
    }
}

#[test]
fn a_follower_needs_a_right_on_the_cluster_and_none_on_topics() {
    on(1, async |cluster| {
        cluster.create("mine", 1).await;
        cluster.allow("ada", Operation::Read, topic("mine")).await;
        cluster
            .allow("bob", Operation::ClusterAction, CLUSTER)
            .await;
        let request = fetch_from(&["mine", "none"]).with_replica_id(2.into());
        let codes = async |name| {
            let user = User::login(cluster, name).await;
            let answer = user.ask(12, &request).await;
            let told = read(&answer).into_iter();
            told.map(|(code, _)| error(code)).collect::<Vec<_>>()
        };
        assert_eq!(codes("ada").await, [DENIED; 2]);
        assert_eq!(
            codes("bob").await,
            [Some(ErrorCode::NotLeaderOrFollower); 2]
        );
    });
}

#[test]
fn a_session_gives_no_right_that_its_client_has_lost() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            for name in ["a", "b"] {
                cluster.create(name, 1).await;
                cluster.produce(name, 0, &[name]).await;
                cluster.allow("ada", Operation::Read, topic(name)).await;
            }
            let user = User::login(cluster, "ada").await;
            let request = fetch_from(&["a", "b"]).with_session_epoch(0);
            let answer = user.ask(12, &request).await;
            assert_eq!(read(&answer), [some("a"), some("b")]);
            let id = answer.session_id;
            assert!(id > 0);
            let next = |epoch| {
                let request = fetch_from(&[]).with_session_id(id);
                request.with_session_epoch(epoch)
            };
            cluster.deny("ada", Operation::Read, topic("b")).await;
            let answer = user.ask(12, &next(1)).await;
            assert_eq!(answer.session_id, id, "the session goes on");
            let mut told = read(&answer);
            told.sort();
            assert_eq!(told, [some("a"), nothing()]);
            cluster.remove_acls("ada", topic("b")).await;
            let mut told = read(&user.ask(12, &next(2)).await);
            told.sort();
            assert_eq!(told, [some("a"), nothing()], "nothing permits it");
            cluster.allow("ada", Operation::Read, topic("b")).await;
            let mut told = read(&user.ask(12, &next(3)).await);
            told.sort();
            assert_eq!(told, [some("a"), some("b")]);
        });
    }
}

#[test]
fn a_session_is_told_to_and_ended_by_nobody_but_its_creator() {
    on(1, async |cluster| {
        for name in ["a", "b"] {
            cluster.create(name, 1).await;
            cluster.allow("ada", Operation::Read, topic(name)).await;
        }
        let ada = User::login(cluster, "ada").await;
        let request = fetch_from(&["a", "b"]).with_session_epoch(0);
        let id = ada.ask(12, &request).await.session_id;
        assert!(id > 0);
        let of_session = |topics: &[&str], epoch| {
            let request = fetch_from(topics).with_session_id(id);
            request.with_session_epoch(epoch)
        };
        let bob = User::login(cluster, "bob").await;
        let unknown = ErrorCode::FetchSessionIdNotFound.code();
        for epoch in [1, 2, 7] {
            let told = bob.ask(12, &of_session(&[], epoch)).await;
            let told = (told.error_code, told.session_id, told.responses.len());
            assert_eq!(told, (unknown, 0, 0), "epoch {epoch}");
        }
        // These would end it.
        for (topics, epoch) in [(&[][..], -1), (&[], 0), (&["a"], 0)] {
            let told = bob.ask(12, &of_session(topics, epoch)).await;
            assert_eq!(told.error_code, 0);
            assert!(told.session_id != id);
        }
        cluster.produce("b", 0, &["b"]).await;
        let told = ada.ask(12, &of_session(&[], 1)).await;
        assert_eq!((told.error_code, told.session_id), (0, id));
        assert_eq!(read(&told), [some("b")]);
        // On another connection, too.
        let again = User::login(cluster, "ada").await;
        let told = again.ask(12, &of_session(&[], 2)).await;
        assert_eq!((told.error_code, told.session_id), (0, id));
    });
}

#[test]
fn a_fetch_that_waits_gets_nothing_that_was_denied_meanwhile() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            for name in ["a", "b"] {
                cluster.create(name, 1).await;
                cluster.allow("ada", Operation::Read, topic(name)).await;
            }
            let user = User::login(cluster, "ada").await;
            let request = fetch_from(&["a", "b"]).with_max_wait_ms(60_000);
            let waiting = spawn(user.asking(12, &request));
            cluster.pass_ms(10).await;
            cluster.deny("ada", Operation::Read, topic("a")).await;
            cluster.pass_ms(10).await;
            assert!(!waiting.is_finished(), "it waits for records");
            cluster.produce("a", 0, &["secret"]).await;
            cluster.pass_ms(10).await;
            assert!(waiting.is_finished());
            let told = read(&waiting.await.unwrap());
            assert_eq!(told, [nothing(), (0, Vec::new())]);
        });
    }
}

#[test]
fn a_fetch_that_waits_is_not_disturbed_by_acls_of_others() {
    on(1, async |cluster| {
        cluster.create("a", 1).await;
        cluster.allow("ada", Operation::Read, topic("a")).await;
        let user = User::login(cluster, "ada").await;
        let request = fetch_from(&["a"]).with_max_wait_ms(60_000);
        let waiting = spawn(user.asking(12, &request));
        cluster.pass_ms(10).await;
        cluster.deny("bob", Operation::Read, topic("a")).await;
        cluster.produce("a", 0, &["for ada"]).await;
        let told = read(&waiting.await.unwrap());
        assert_eq!(told, [some("for ada")]);
    });
}
