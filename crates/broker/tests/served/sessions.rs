//! Fetch sessions end to end: what need not be said twice, and what happens when the two sides
//! disagree.

use platform::sim::SimDisk;
use wire::messages::fetch_request::{FetchTopic, ForgottenTopic};
use wire::messages::{FetchRequest, FetchResponse};
use wire::types::ErrorCode;

use crate::harness::asks::{error, fetch, partitions, records_of, topic_name, wanted};
use crate::harness::{Cluster, Setup, life};

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), story);
}

/// A fetch in a session that names only what changed.
fn next(session: i32, epoch: i32, changed: &[(i32, i64)]) -> FetchRequest {
    let topics = if changed.is_empty() {
        Vec::new()
    } else {
        fetch("t", changed).topics
    };
    fetch("t", &[])
        .with_topics(topics)
        .with_session_id(session)
        .with_session_epoch(epoch)
}

/// The partitions that an answer mentions.
fn mentioned(answer: &FetchResponse) -> Vec<i32> {
    assert_eq!(error(answer.error_code), None);
    let all = partitions(answer).into_iter();
    all.map(|partition| partition.partition_index).collect()
}

async fn begin(cluster: &Cluster, shard: usize) -> i32 {
    let from = [(0, 0), (1, 0), (2, 0)];
    let request = fetch("t", &from).with_session_epoch(0);
    let answer = cluster.ask_at(shard, 12, &request).await;
    assert_eq!(mentioned(&answer), [0, 1, 2], "a full answer names all");
    assert!(answer.session_id > 0);
    answer.session_id
}

#[test]
fn only_news_is_told() {
    for (shards, shard) in [(1, 0), (2, 0), (2, 1)] {
        on(shards, async |cluster| {
            cluster.create("t", 3).await;
            let id = begin(cluster, shard).await;
            let answer = cluster.ask_at(shard, 12, &next(id, 1, &[])).await;
            assert!(mentioned(&answer).is_empty());
            cluster.produce("t", 1, &["a"]).await;
            let answer = cluster.ask_at(shard, 12, &next(id, 2, &[])).await;
            assert_eq!(mentioned(&answer), [1]);
            assert_eq!(records_of(partitions(&answer)[0]).len(), 1);
            // Still unread, so still told; then read on, and no news.
            let answer = cluster.ask_at(shard, 12, &next(id, 3, &[])).await;
            assert_eq!(mentioned(&answer), [1]);
            let answer = cluster.ask_at(shard, 12, &next(id, 4, &[(1, 1)])).await;
            assert!(mentioned(&answer).is_empty());
        });
    }
}

#[test]
fn the_sessions_that_are_shown_and_their_bytes_are_those_of_all_shards() {
    on(2, async |cluster| {
        cluster.create("t", 3).await;
        let shown = || -> (i64, i64) {
            let of = |series| cluster.metric(series).unwrap().parse().unwrap();
            (
                of("kafka_server_fetchsessioncache_numincrementalfetchsessions"),
                of("forebay_fetch_session_state_bytes"),
            )
        };
        assert_eq!(shown(), (0, 0));
        let first = begin(cluster, 0).await;
        let (_, one) = shown();
        assert!(one > 0);
        let second = begin(cluster, 1).await;
        assert_eq!(shown(), (2, 2 * one));
        // The shard that answers last has one of them.
        cluster.ask_at(1, 12, &next(second, 1, &[])).await;
        assert_eq!(shown(), (2, 2 * one));
        for (shard, id, left) in [(0, first, 1), (1, second, 0)] {
            cluster.ask_at(shard, 12, &next(id, -1, &[(0, 0)])).await;
            assert_eq!(shown(), (left, left * one));
        }
    });
}

#[test]
fn partitions_leave_and_join_a_session() {
    on(2, async |cluster| {
        cluster.create("t", 4).await;
        let id = begin(cluster, 0).await;
        let forgotten = ForgottenTopic::default()
            .with_topic(topic_name("t"))
            .with_partitions(vec![0, 1]);
        let request = next(id, 1, &[(3, 0)]).with_forgotten_topics_data(vec![forgotten]);
        let answer = cluster.ask(12, &request).await;
        assert_eq!(
            mentioned(&answer),
            [3],
            "the new one is told, the others are old"
        );
        for partition in 0..4 {
            cluster.produce("t", partition, &["a"]).await;
        }
        let mut all = mentioned(&cluster.ask(12, &next(id, 2, &[])).await);
        all.sort_unstable();
        assert_eq!(all, [2, 3]);
    });
}

#[test]
fn errors_are_told_again_and_again() {
    on(1, async |cluster| {
        cluster.create("t", 3).await;
        let id = begin(cluster, 0).await;
        let answer = cluster.ask(12, &next(id, 1, &[(0, 99)])).await;
        assert_eq!(mentioned(&answer), [0]);
        for epoch in 2..4 {
            let answer = cluster.ask(12, &next(id, epoch, &[])).await;
            assert_eq!(mentioned(&answer), [0]);
            let code = error(partitions(&answer)[0].error_code);
            assert_eq!(code, Some(ErrorCode::OffsetOutOfRange));
        }
        // Mended: told once more, because the client has to know.
        let answer = cluster.ask(12, &next(id, 4, &[(0, 0)])).await;
        assert_eq!(mentioned(&answer), [0]);
        let answer = cluster.ask(12, &next(id, 5, &[])).await;
        assert!(mentioned(&answer).is_empty());
    });
}

#[test]
fn the_two_sides_must_agree() {
    on(2, async |cluster| {
        cluster.create("t", 3).await;
        let code = async |request: &FetchRequest, version| {
            let answer = cluster.ask(version, request).await;
            assert!(answer.responses.is_empty() && answer.session_id == 0);
            error(answer.error_code)
        };
        let unknown = Some(ErrorCode::FetchSessionIdNotFound);
        assert_eq!(code(&next(12345, 1, &[]), 12).await, unknown);
        let id = begin(cluster, 0).await;
        let epoch = Some(ErrorCode::InvalidFetchSessionEpoch);
        assert_eq!(code(&next(id, 2, &[]), 12).await, epoch);
        let by_id = Some(ErrorCode::FetchSessionTopicIdError);
        assert_eq!(code(&next(id, 1, &[]), 13).await, by_id);
        // Another shard does not know it: the client begins again.
        let answer = cluster.ask_at(1, 12, &next(id, 1, &[])).await;
        assert_eq!(error(answer.error_code), unknown);
    });
}

#[test]
fn a_session_ends_when_the_client_says_so() {
    on(1, async |cluster| {
        cluster.create("t", 3).await;
        let id = begin(cluster, 0).await;
        let closing = next(id, -1, &[(0, 0)]);
        let answer = cluster.ask(12, &closing).await;
        assert_eq!((mentioned(&answer), answer.session_id), (vec![0], 0));
        let answer = cluster.ask(12, &next(id, 1, &[])).await;
        assert_eq!(
            error(answer.error_code),
            Some(ErrorCode::FetchSessionIdNotFound)
        );
    });
}

#[test]
fn a_partition_that_comes_into_being_is_news() {
    on(2, async |cluster| {
        cluster.create("t", 3).await;
        let id = begin(cluster, 0).await;
        let topic = FetchTopic::default().with_topic(topic_name("late"));
        let topic = topic.with_partitions(vec![wanted(0, 0)]);
        let request = next(id, 1, &[]).with_topics(vec![topic]);
        let answer = cluster.ask(12, &request).await;
        let code = error(partitions(&answer)[0].error_code);
        assert_eq!(code, Some(ErrorCode::UnknownTopicOrPartition));
        cluster.create("late", 1).await;
        cluster.produce("late", 0, &["a"]).await;
        let answer = cluster.ask(12, &next(id, 2, &[])).await;
        assert_eq!(mentioned(&answer), [0]);
        assert_eq!(records_of(partitions(&answer)[0]).len(), 1);
    });
}
