//! Topics that are created because a client asks for them: the client is answered soon, whatever
//! the disk does, and no client's many questions come before another's.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use platform::sim::SimDisk;
use platform::task::{spawn, timeout};
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{MetadataRequest, MetadataResponse};
use wire::types::ErrorCode;

use crate::harness::asks::{error, topic_name};
use crate::harness::{Setup, life};

const MINE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const THEIRS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, 1));

pub(crate) fn making_topics() -> Setup {
    let mut setup = Setup::shards(2);
    setup.options.auto_create_topics = true;
    setup
}

pub(crate) fn naming<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> MetadataRequest {
    let named =
        |name: T| MetadataRequestTopic::default().with_name(Some(topic_name(name.as_ref())));
    MetadataRequest::default()
        .with_topics(Some(names.into_iter().map(named).collect()))
        .with_allow_auto_topic_creation(true)
}

pub(crate) fn codes(answer: &MetadataResponse) -> Vec<(String, Option<ErrorCode>)> {
    let topics = answer.topics.iter();
    let name = |topic: &wire::messages::metadata_response::MetadataResponseTopic| {
        topic.name.as_ref().unwrap().to_string()
    };
    topics
        .map(|topic| (name(topic), error(topic.error_code)))
        .collect()
}

async fn soon(answer: impl Future<Output = MetadataResponse>) -> MetadataResponse {
    let answer = timeout(Duration::from_secs(1), answer).await;
    answer.expect("answered within a second")
}

#[test]
fn however_many_ask_for_topics_that_cannot_be_made_each_is_soon_told_of_those_that_there_are() {
    let disk = SimDisk::new(1);
    life(&disk, &making_topics(), async |cluster| {
        cluster.create("there", 1).await;
        let log = Path::new(crate::harness::setup::DIR).join("__cluster_metadata-0");
        disk.set_hanging(&log, true);
        let not_yet = Some(ErrorCode::UnknownTopicOrPartition);
        for number in 0..12_u8 {
            // Of one network, and of many.
            for peer in [MINE, IpAddr::from([10, 1, number, 1])] {
                let missing = format!("missing{number}");
                let request = naming(["there", &missing]);
                let answer = soon(cluster.asking_from(peer, 9, &request)).await;
                let told = vec![(missing, not_yet), ("there".to_owned(), None)];
                assert_eq!(codes(&answer), told);
            }
        }
        disk.set_hanging(&log, false);
        cluster.pass_ms(60_000).await;
        // A client that was not in time for a place asks again, as clients do.
        let all: Vec<_> = (0..12).map(|number| format!("missing{number}")).collect();
        let answer = soon(cluster.asking_from(MINE, 9, &naming(all))).await;
        assert!(codes(&answer).iter().all(|(_, code)| code.is_none()));
    });
}

#[test]
fn what_another_network_asks_for_is_made_after_one_question_of_mine_not_after_all() {
    let disk = SimDisk::new(1);
    life(&disk, &making_topics(), async |cluster| {
        disk.set_latency(Duration::from_secs(1), Duration::from_secs(1));
        for question in 0..8 {
            let names = (0..10).map(|number| format!("mine{question}-{number}"));
            spawn(cluster.asking_from(MINE, 9, &naming(names)));
        }
        cluster.pass_ms(1).await;
        soon(cluster.asking_from(THEIRS, 9, &naming(["theirs"]))).await;
        let is_there = |name: &str| cluster.brokers[0].image().topic_by_name(name).is_some();
        for _ in 0..600 {
            if is_there("theirs") {
                break;
            }
            cluster.pass_ms(100).await;
        }
        let mine = (0..8).filter(|question| is_there(&format!("mine{question}-0")));
        let mine: Vec<_> = mine.collect();
        assert_eq!((is_there("theirs"), mine), (true, vec![0]));
        disk.set_latency(Duration::ZERO, Duration::ZERO);
    });
}
