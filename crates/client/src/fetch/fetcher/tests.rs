//! The fetcher against brokers that keep logs and sessions: what comes is complete and in order,
//! whatever gets lost.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use wire::kafka::fetch::{
    EpochEnd, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse,
};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, LeaderEpoch, NodeId, Offset, Uuid};

use super::answers::THROTTLE_MAX;
use super::*;
use crate::ask::Ask as _;
use crate::fetch::samples::batch;

const PARTITIONS: i32 = 3;
const VERSION: i16 = 17;

fn settings(reset: OffsetReset) -> FetchSettings {
    FetchSettings {
        min_bytes: 1,
        max_wait: Duration::from_millis(500),
        max_bytes: 1 << 20,
        partition_bytes: 1 << 16,
        read_committed: false,
        check_crcs: true,
        reset,
    }
}

fn pauses() -> Pauses {
    Pauses::new(Duration::from_millis(100), Duration::from_secs(1))
}

fn place(partition: i32) -> TopicPartition {
    TopicPartition {
        topic: "t".into(),
        partition,
    }
}

fn topic_id() -> TopicId {
    TopicId(Uuid::from_u128(42))
}

fn records_of(events: &[FetchEvent]) -> Vec<(i32, i64)> {
    let mut found = Vec::new();
    for event in events {
        let FetchEvent::Records { place, batches, .. } = event else {
            continue;
        };
        for batch in batches {
            let open = batch.open(1 << 20).unwrap();
            let offsets = open.records().map(|record| record.unwrap().offset);
            found.extend(offsets.map(|offset| (place.partition, offset)));
        }
    }
    found
}

/// A cluster of two brokers with the logs of a topic.
#[derive(Default)]
struct Brokers {
    /// Whole batches by partition: base offset, end, bytes.
    logs: BTreeMap<i32, Vec<(i64, i64, Bytes)>>,
    leaders: BTreeMap<i32, (i32, i32)>,
    sessions: BTreeMap<i32, BrokerSession>,
}

#[derive(Default)]
struct BrokerSession {
    id: i32,
    next_epoch: i32,
    /// Offset asked for, and the high watermark told.
    partitions: BTreeMap<i32, (i64, i64)>,
}

impl Brokers {
    fn end(&self, partition: i32) -> i64 {
        let log = self.logs.get(&partition).and_then(|log| log.last());
        log.map_or(0, |(_, end, _)| *end)
    }

    fn append(&mut self, partition: i32, count: i64) {
        let base = self.end(partition);
        let epoch = self.leaders[&partition].1;
        let log = self.logs.entry(partition).or_default();
        log.push((base, base + count, batch(base, count, epoch)));
    }

    fn leader(&self, partition: i32) -> Leader {
        let (node, epoch) = self.leaders[&partition];
        Leader { node, epoch }
    }

    fn serve(&mut self, order: &FetchOrder) -> FetchResponse {
        let mut body = BytesMut::new();
        order.request.encode(&mut body, VERSION).unwrap();
        let asked = FetchRequest::decode(&body.freeze(), VERSION).unwrap();
        let session = self.sessions.entry(order.node).or_default();
        let is_full = asked.session_epoch == 0;
        if is_full {
            session.id += 1;
            session.next_epoch = 1;
            session.partitions.clear();
        } else if (asked.session_id, asked.session_epoch) != (session.id, session.next_epoch) {
            return FetchResponse {
                error: Some(ErrorCode::FetchSessionIdNotFound),
                ..FetchResponse::default()
            };
        } else {
            session.next_epoch += 1;
        }
        for gone in asked
            .forgotten_topics
            .iter()
            .flat_map(|topic| &topic.partitions)
        {
            session.partitions.remove(gone);
        }
        for wanted in asked.topics.iter().flat_map(|topic| &topic.partitions) {
            let told = session
                .partitions
                .get(&wanted.index)
                .map_or(-1, |one| one.1);
            session
                .partitions
                .insert(wanted.index, (wanted.fetch_offset.0, told));
        }
        let session_id = session.id;
        let mut partitions = Vec::new();
        for (index, (offset, told)) in &mut session.partitions {
            let log = self.logs.get(index).map_or(&[][..], Vec::as_slice);
            let end = log.last().map_or(0, |one| one.1);
            if self.leaders[index].0 != order.node {
                partitions.push(FetchPartitionResponse::failed(
                    *index,
                    ErrorCode::NotLeaderOrFollower,
                ));
                *told = -1;
                continue;
            }
            if *offset > end {
                partitions.push(FetchPartitionResponse::failed(
                    *index,
                    ErrorCode::OffsetOutOfRange,
                ));
                continue;
            }
            let from = log.iter().filter(|(_, end, _)| end > offset).take(2);
            let records: Vec<_> = from.map(|one| one.2.clone()).collect();
            if !records.is_empty() || is_full || *told != end {
                partitions.push(FetchPartitionResponse {
                    error: None,
                    high_watermark: Offset(end),
                    last_stable_offset: Offset(end),
                    log_start_offset: Offset(0),
                    records: vec![records.concat().into()],
                    ..FetchPartitionResponse::failed(*index, ErrorCode::UnknownServerError)
                });
                *told = end;
            }
        }
        FetchResponse {
            session_id,
            topics: vec![FetchTopicResponse {
                name: StrBytes::new(),
                topic_id: topic_id(),
                partitions,
            }],
            ..FetchResponse::default()
        }
    }
}

/// A fetcher and its brokers.
struct Story {
    fetcher: Fetcher,
    brokers: Brokers,
    now: Instant,
    expected: BTreeMap<i32, i64>,
    ends: BTreeMap<i32, i64>,
}

impl Story {
    fn new() -> Self {
        let mut story = Self {
            fetcher: Fetcher::new(settings(OffsetReset::Earliest), None, pauses()),
            brokers: Brokers::default(),
            now: Instant::now(),
            expected: BTreeMap::new(),
            ends: BTreeMap::new(),
        };
        for partition in 0..PARTITIONS {
            story.brokers.leaders.insert(partition, (partition % 2, 1));
            story.fetcher.begin(place(partition), Whence::Start);
            story.expected.insert(partition, 0);
        }
        story
    }

    fn look(&mut self) {
        for order in self.fetcher.lookups(self.now) {
            let at = (&order.place, order.serial);
            match order.lookup {
                Lookup::Leader => {
                    let leader = self.brokers.leader(order.place.partition);
                    self.fetcher.led(at, (leader, topic_id()));
                }
                Lookup::Offset(Whence::End, _) => {
                    let end = self.brokers.end(order.place.partition);
                    self.fetcher.found(at, end);
                }
                Lookup::Offset(..) => {
                    self.fetcher.found(at, 0);
                }
            }
        }
    }

    fn take(&mut self, events: &[FetchEvent]) {
        for (partition, offset) in records_of(events) {
            let expected = self.expected.get_mut(&partition).unwrap();
            assert_eq!(*expected, offset, "partition {partition}");
            *expected += 1;
        }
        for event in events {
            if let FetchEvent::End { place, offset } = event {
                assert_eq!(self.expected[&place.partition], *offset);
                self.ends.insert(place.partition, *offset);
            }
        }
    }

    /// Sends one fetch, if one is due; it is answered or lost.
    fn fetch(&mut self, is_lost: bool) -> bool {
        self.look();
        let Some(order) = self.fetcher.next_fetch(1 << 20, self.now) else {
            return false;
        };
        let answer = self.brokers.serve(&order);
        let events = if is_lost {
            self.fetcher.failed(order.node, self.now)
        } else {
            self.fetcher.answered(order.node, answer, self.now)
        };
        self.take(&events);
        true
    }

    fn wait(&mut self) {
        self.now += Duration::from_secs(2);
    }

    /// Lets everything come.
    fn settle(&mut self) {
        for _ in 0..200 {
            let ends = (0..PARTITIONS).map(|one| (one, self.brokers.end(one)));
            if ends.collect::<BTreeMap<_, _>>() == self.expected {
                break;
            }
            self.wait();
            for _ in 0..4 {
                self.fetch(false);
            }
        }
        for (partition, expected) in &self.expected {
            assert_eq!(
                *expected,
                self.brokers.end(*partition),
                "partition {partition}"
            );
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Happens {
    Append(i32, i64),
    Fetch,
    Lost,
    Moved(i32),
    Forgotten(i32),
    Seek(i32, i64),
    SeekWhileUnderWay(i32, i64),
    Wait,
}

fn happens() -> impl Strategy<Value = Happens> {
    let partition = 0..PARTITIONS;
    prop_oneof![
        3 => (partition.clone(), 1i64..5).prop_map(|(one, count)| Happens::Append(one, count)),
        5 => Just(Happens::Fetch),
        1 => Just(Happens::Lost),
        1 => partition.clone().prop_map(Happens::Moved),
        1 => (0..2i32).prop_map(Happens::Forgotten),
        1 => (partition.clone(), 0i64..20).prop_map(|(one, to)| Happens::Seek(one, to)),
        1 => (partition, 0i64..20).prop_map(|(one, to)| Happens::SeekWhileUnderWay(one, to)),
        2 => Just(Happens::Wait),
    ]
}

proptest! {
    #[test]
    fn every_record_comes_once_and_in_order(
        all in proptest::collection::vec(happens(), 1..80),
    ) {
        let mut story = Story::new();
        for one in all {
            match one {
                Happens::Append(partition, count) => story.brokers.append(partition, count),
                Happens::Fetch => {
                    story.fetch(false);
                }
                Happens::Lost => {
                    story.fetch(true);
                }
                Happens::Moved(partition) => {
                    let leader = story.brokers.leaders.get_mut(&partition).unwrap();
                    *leader = (1 - leader.0, leader.1 + 1);
                }
                Happens::Forgotten(node) => drop(story.brokers.sessions.remove(&node)),
                Happens::Seek(partition, to) => {
                    let to = to.min(story.brokers.end(partition));
                    story.fetcher.begin(place(partition), Whence::At(to, None));
                    story.expected.insert(partition, to);
                }
                Happens::SeekWhileUnderWay(partition, to) => {
                    story.look();
                    if let Some(order) = story.fetcher.next_fetch(1 << 20, story.now) {
                        let answer = story.brokers.serve(&order);
                        let to = to.min(story.brokers.end(partition));
                        story.fetcher.begin(place(partition), Whence::At(to, None));
                        story.expected.insert(partition, to);
                        let events = story.fetcher.answered(order.node, answer, story.now);
                        story.take(&events);
                    }
                }
                Happens::Wait => story.wait(),
            }
        }
        story.settle();
    }
}

/// Returns a fetcher of one partition whose leader is known, and the node.
fn one(reset: OffsetReset, whence: Whence) -> (Fetcher, Instant) {
    let mut fetcher = Fetcher::new(settings(reset), None, pauses());
    let now = Instant::now();
    fetcher.begin(place(0), whence);
    for order in fetcher.lookups(now) {
        let leader = Leader { node: 1, epoch: 5 };
        fetcher.led((&order.place, order.serial), (leader, topic_id()));
    }
    (fetcher, now)
}

fn answer(partition: FetchPartitionResponse) -> FetchResponse {
    FetchResponse {
        session_id: 9,
        topics: vec![FetchTopicResponse {
            name: StrBytes::new(),
            topic_id: topic_id(),
            partitions: vec![partition],
        }],
        ..FetchResponse::default()
    }
}

fn with_records(records: Bytes, high_watermark: i64) -> FetchPartitionResponse {
    FetchPartitionResponse {
        error: None,
        high_watermark: Offset(high_watermark),
        last_stable_offset: Offset(high_watermark),
        records: vec![records],
        preferred_read_replica: NodeId(-1),
        ..FetchPartitionResponse::failed(0, ErrorCode::UnknownServerError)
    }
}

#[test]
fn the_end_is_told_once_at_each_position() {
    let (mut fetcher, now) = one(OffsetReset::Earliest, Whence::At(0, None));
    let mut told = Vec::new();
    for (records, end) in [
        (batch(0, 2, 5), 4),
        (batch(2, 2, 5), 4),
        (Bytes::new(), 4),
        (batch(4, 1, 5), 5),
    ] {
        fetcher.next_fetch(100, now).unwrap();
        for event in fetcher.answered(1, answer(with_records(records, end)), now) {
            if let FetchEvent::End { offset, .. } = event {
                told.push(offset);
            }
        }
    }
    assert_eq!(told, [4, 5]);
}

#[test]
fn a_log_that_was_cut_moves_the_position_back_and_says_so() {
    let (mut fetcher, now) = one(OffsetReset::Earliest, Whence::At(0, None));
    fetcher.next_fetch(100, now).unwrap();
    fetcher.answered(1, answer(with_records(batch(0, 10, 5), 10)), now);
    let order = fetcher.next_fetch(100, now).unwrap();
    let mut body = BytesMut::new();
    order.request.encode(&mut body, VERSION).unwrap();
    let asked = FetchRequest::decode(&body.freeze(), VERSION).unwrap();
    let wanted = asked.topics[0].partitions[0];
    assert_eq!(
        (wanted.fetch_offset.0, wanted.last_fetched_epoch.0),
        (10, 5)
    );
    let mut cut = with_records(Bytes::new(), 8);
    cut.diverging_epoch = Some(EpochEnd {
        epoch: LeaderEpoch(4),
        end_offset: Offset(6),
    });
    let events = fetcher.answered(1, answer(cut), now);
    let (from, to) = (10, 6);
    let place = place(0);
    assert_eq!(events, [FetchEvent::Truncated { place, from, to }]);
    let (_, position) = fetcher.positions().next().unwrap();
    let epoch = Some(4);
    assert_eq!(position, Some(Position { offset: 6, epoch }));
}

#[test]
fn out_of_range_is_reset_or_stops() {
    let out = || FetchPartitionResponse::failed(0, ErrorCode::OffsetOutOfRange);
    for (reset, whence) in [
        (OffsetReset::Earliest, Whence::Start),
        (OffsetReset::Latest, Whence::End),
    ] {
        let (mut fetcher, now) = one(reset, Whence::At(100, None));
        fetcher.next_fetch(100, now).unwrap();
        assert_eq!(fetcher.answered(1, answer(out()), now), []);
        let lookups = fetcher.lookups(now);
        assert!(matches!(lookups[0].lookup, Lookup::Offset(found, _) if found == whence));
        fetcher.found((&lookups[0].place, lookups[0].serial), 7);
        assert!(fetcher.next_fetch(100, now).is_some());
    }
    let (mut fetcher, now) = one(OffsetReset::Error, Whence::At(100, None));
    fetcher.next_fetch(100, now).unwrap();
    let (offset, place) = (100, place(0));
    let events = fetcher.answered(1, answer(out()), now);
    assert_eq!(
        events,
        [FetchEvent::NoPosition {
            place: place.clone(),
            offset
        }]
    );
    assert!(fetcher.next_fetch(100, now).is_none() && fetcher.lookups(now).is_empty());
    fetcher.begin(place, Whence::At(3, None));
    assert!(fetcher.next_fetch(100, now).is_some());
}

#[test]
fn what_is_refused_is_tried_again_after_a_pause_and_remembered_until_it_works() {
    let (mut fetcher, mut now) = one(OffsetReset::Earliest, Whence::At(0, None));
    for pause_ms in [100, 200, 400, 800, 1000, 1000] {
        fetcher.next_fetch(100, now).unwrap();
        let refused = FetchPartitionResponse::failed(0, ErrorCode::UnknownServerError);
        let events = fetcher.answered(1, answer(refused), now);
        assert!(
            matches!(&events[..], [FetchEvent::Refused { .. }]),
            "{events:?}"
        );
        assert!(fetcher.next_fetch(100, now).is_none());
        let due = fetcher.wake_at(now).unwrap();
        assert_eq!(due - now, Duration::from_millis(pause_ms));
        assert_eq!(fetcher.refusals().count(), 1);
        now = due;
    }
    fetcher.next_fetch(100, now).unwrap();
    fetcher.answered(1, answer(with_records(batch(0, 1, 5), 1)), now);
    assert_eq!(fetcher.refusals().count(), 0);
}

#[test]
fn what_nobody_asked_for_is_ignored() {
    let (mut fetcher, now) = one(OffsetReset::Earliest, Whence::At(0, None));
    fetcher.next_fetch(100, now).unwrap();
    let mut stranger = with_records(batch(0, 1, 5), 1);
    stranger.index = 8;
    let mut all = answer(with_records(batch(0, 1, 5), 3));
    let again = with_records(batch(1, 1, 5), 3);
    all.topics[0].partitions.extend([stranger, again]);
    let events = fetcher.answered(1, all.clone(), now);
    assert_eq!(records_of(&events), [(0, 0)]);
    assert_eq!(fetcher.answered(1, all.clone(), now), []);
    assert_eq!(fetcher.answered(7, all, now), []);
}

#[test]
fn a_broker_that_answers_nothing_at_once_is_not_asked_without_a_pause() {
    let (mut fetcher, now) = one(OffsetReset::Earliest, Whence::At(0, None));
    let empty = || FetchResponse {
        session_id: 9,
        ..FetchResponse::default()
    };
    let mut asked = 0;
    while fetcher.next_fetch(100, now).is_some() {
        fetcher.answered(1, empty(), now);
        asked += 1;
        assert!(asked < 100);
    }
    assert!(fetcher.wake_at(now).is_some());
    let mut slow = empty();
    slow.throttle_time_ms = i32::MAX;
    let now = now + Duration::from_secs(1);
    fetcher.next_fetch(100, now).unwrap();
    fetcher.answered(1, slow, now);
    assert_eq!(fetcher.wake_at(now), Some(now + THROTTLE_MAX));
}

#[test]
fn partitions_without_records_are_not_fetched_without_a_pause() {
    let (mut fetcher, now) = one(OffsetReset::Earliest, Whence::At(0, None));
    let mut asked = 0;
    while fetcher.next_fetch(100, now).is_some() {
        fetcher.answered(1, answer(with_records(Bytes::new(), 0)), now);
        asked += 1;
        assert!(asked < 100);
    }
    assert!(fetcher.wake_at(now).is_some());
}

#[test]
fn a_broker_that_contradicts_itself_is_not_asked_without_a_pause() {
    let out = FetchPartitionResponse::failed(0, ErrorCode::OffsetOutOfRange);
    let diverging = |end_offset| {
        let mut cut = with_records(Bytes::new(), 8);
        cut.diverging_epoch = Some(EpochEnd {
            epoch: LeaderEpoch(4),
            end_offset: Offset(end_offset),
        });
        cut
    };
    for contradiction in [out, diverging(-1), diverging(90), diverging(100)] {
        let (mut fetcher, now) = one(OffsetReset::Latest, Whence::At(100, Some(5)));
        let mut asked = 0;
        while fetcher.next_fetch(100, now).is_some() {
            fetcher.answered(1, answer(contradiction.clone()), now);
            for order in fetcher.lookups(now) {
                fetcher.found((&order.place, order.serial), i64::MAX);
            }
            asked += 1;
            assert!(asked < 100, "{contradiction:?}");
        }
        assert!(fetcher.wake_at(now).is_some());
        assert_eq!(asked, 2, "the first time nothing waits: {contradiction:?}");
    }
}

#[test]
fn brokers_take_turns_and_share_the_room() {
    let mut fetcher = Fetcher::new(settings(OffsetReset::Earliest), None, pauses());
    let now = Instant::now();
    for partition in 0..2 {
        fetcher.begin(place(partition), Whence::At(0, None));
    }
    for order in fetcher.lookups(now) {
        let node = order.place.partition + 1;
        let leader = Leader { node, epoch: 5 };
        fetcher.led((&order.place, order.serial), (leader, topic_id()));
    }
    // There is never room for another fetch before this one is answered.
    let asked = (0..6).map(|_| {
        let order = fetcher.next_fetch(1000, now).unwrap();
        assert_eq!(order.bytes_max, 500);
        fetcher.answered(order.node, FetchResponse::default(), now);
        order.node
    });
    assert_eq!(asked.collect::<Vec<_>>(), [1, 2, 1, 2, 1, 2]);
}
