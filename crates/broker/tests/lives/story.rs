//! Bytes as a story: requests of several clients to brokers on a simulated disk, with kills, losses
//! of power, full disks, missing descriptors and jumps of the clock between.
//!
//! Any bytes are a story. What must hold: nothing panics, every broker starts, every life comes to
//! its end, and what was acknowledged to the one honest producer is there after each start, where
//! it was said to be. Requests are made from the shapes that guard their decoders, with the names
//! and ids that the broker gave before.

use std::path::Path;
use std::time::Duration;

use broker::dispatch::Reply;
use bytes::Bytes;
use platform::sim::SimDisk;
use platform::{Disk, Platform, task};
use wire::kafka::Api;
use wire::messages::{
    ConsumerGroupHeartbeatResponse, InitProducerIdResponse, JoinGroupResponse, MetadataResponse,
};
use wire::protocol::Decodable;

use crate::harness::batches::batch;
use crate::harness::{Cluster, Setup, life};
use crate::make::{self, Aim, EXTREMES, FieldPlace, ODD_TEXTS};
use crate::words::{TOPIC, Words};

/// The honest producer's; no request that is made names it.
const KEPT: &str = "kept";
const PARTITIONS: i32 = 2;
const LIVES_MAX: usize = 5;
const STEPS_MAX: usize = 200;
/// Longer than a life may take, in simulated time, jumps of the wall clock aside.
const PATIENCE: Duration = Duration::from_hours(24);

/// The bytes that are still to be told.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    /// Zero when there are no more.
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// What the honest producer was told: partition, offset, value.
#[derive(Default)]
struct Book(Vec<(i32, i64, String)>);

enum End {
    Stop,
    Kill,
    Crash,
    Over,
}

/// Tells the story; panics where something does not hold.
pub(crate) fn tell(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut setup = Setup::shards(1 + input.below(2)).with("log.retention.ms", "-1");
    setup.store.save_interval_bytes = input.one_of(&[8 << 10, 1 << 30]);
    let mut disk = SimDisk::new(u64::from(input.byte()));
    disk.set_traced(false);
    let mut book = Book::default();
    for number in 0..=LIVES_MAX {
        let last = number == LIVES_MAX || input.0.is_empty() && number > 0;
        let end = life(&disk, &setup, async |cluster| {
            let story = async {
                prepare(cluster).await;
                inspect(cluster, &book).await;
                if last {
                    return End::Over;
                }
                live(cluster, &mut input, &mut book).await
            };
            let lived = task::timeout(PATIENCE, story).await;
            lived.unwrap_or_else(|_| panic!("a life does not end"))
        });
        let seed = u64::from(input.byte());
        disk = match end {
            End::Over => return,
            End::Crash => disk.crash(seed),
            End::Stop | End::Kill => disk.kill(seed),
        };
        disk.set_traced(false);
        end_shortage(&disk);
        setup = setup.next();
    }
}

async fn prepare(cluster: &Cluster) {
    for (topic, partitions) in [(KEPT, PARTITIONS), (TOPIC, 4)] {
        cluster.try_create(topic, partitions, &[]).await;
    }
}

/// Everything that was acknowledged is there.
async fn inspect(cluster: &Cluster, book: &Book) {
    for partition in 0..PARTITIONS {
        let found = cluster.all(KEPT, partition).await;
        for (_, offset, value) in book.0.iter().filter(|told| told.0 == partition) {
            let at = found.iter().find(|record| record.0 == *offset);
            let there = at.map(|record| record.1.as_str());
            assert_eq!(there, Some(value.as_str()), "{partition} at {offset}");
        }
    }
}

async fn live(cluster: &Cluster, input: &mut Input<'_>, book: &mut Book) -> End {
    let mut words = Words::stranger(0);
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        match input.byte() {
            0..=9 => return input.one_of(&[End::Stop as u8, 1, 2]).into(),
            10..=19 => fill(cluster, u64::from(input.byte()) << 8).await,
            20..=24 => cluster.disk().set_exhausted(Some(24)),
            25..=39 => end_shortage(cluster.disk()),
            40..=49 => {
                let by = i64::from(input.byte().cast_signed()) << (input.byte() % 24);
                cluster.platform.clock().jump_ms(by);
            }
            50..=69 => cluster.pass_ms(1 << (input.byte() % 18)).await,
            70..=99 => produce(cluster, input, book).await,
            100..=109 => introduce(input, &mut words),
            _ => request(cluster, input, &mut words).await,
        }
    }
    end_shortage(cluster.disk());
    cluster.pass_ms(5_000).await;
    End::Kill
}

impl From<u8> for End {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Kill,
            2 => Self::Crash,
            _ => Self::Stop,
        }
    }
}

async fn fill(cluster: &Cluster, room_bytes: u64) {
    let disk = cluster.disk();
    if let Ok(space) = disk.space(Path::new("/")).await {
        disk.set_capacity_bytes(Some(space.total - space.free + room_bytes));
    }
}

fn end_shortage(disk: &SimDisk) {
    disk.set_capacity_bytes(None);
    disk.set_exhausted(None);
}

async fn produce(cluster: &Cluster, input: &mut Input<'_>, book: &mut Book) {
    let partition = i32::from(input.byte()) % PARTITIONS;
    let value = format!("{} {}", book.0.len(), "v".repeat(16 * input.below(200)));
    let asked = cluster.try_produce(KEPT, partition, batch(&[&value]));
    // It may have to wait for a shortage to end that only a later step ends.
    let told = task::timeout(Duration::from_secs(10), asked).await;
    if let Ok(Ok(offset)) = told {
        book.0.push((partition, offset, value));
    }
}

/// Another client speaks: names of its own, and the answers that it gets from here on.
fn introduce(input: &mut Input<'_>, words: &mut Words) {
    *words = Words::stranger(u64::from(input.byte()));
    let own = input.below(3);
    for name in ["group_id", "groups", "coordinator_keys", "key"] {
        words.name(name, &format!("g{own}"));
    }
    words.name("consumer_group", &format!("c{own}"));
    for name in ["transactional_id", "transactional_ids"] {
        words.name(name, &format!("x{own}"));
    }
    if input.below(2) == 0 {
        words.name("group_instance_id", &format!("i{}", input.below(2)));
    }
    words.say("validate_only", 0).without("assignments");
    words.say("rebalance_timeout_ms", EXTREMES[input.below(5)]);
    words.in_transaction = input.below(2) == 0;
}

async fn request(cluster: &Cluster, input: &mut Input<'_>, words: &mut Words) {
    let api = input.one_of(Api::ALL);
    let versions = api.versions();
    let spread = usize::try_from(versions.end() - versions.start() + 1).unwrap_or(1);
    let version = versions.start() + i16::try_from(input.below(spread)).unwrap_or(0);
    let aim = aim(&make::places(api, version), input);
    let body = make::body(api, version, &aim, words);
    // What is before the length is of the connection.
    let frame = Bytes::from(make::frame(api, version, 1, &body)).slice(4..);
    let shard = input.below(cluster.brokers.len());
    let reply = cluster.reply(shard, &frame);
    if input.below(4) == 0 {
        task::spawn(reply);
        return;
    }
    // Who has waited long enough goes, wherever the broker was.
    let patience = Duration::from_micros(1 << input.below(24));
    if let Ok(Reply::Send(response)) = task::timeout(patience, reply).await {
        learn(api, version, &response.to_bytes(), words);
    }
}

fn aim(places: &[FieldPlace], input: &mut Input<'_>) -> Aim {
    let place = places.get(input.below(places.len()));
    let path = place.map(|place| place.path.clone()).unwrap_or_default();
    match input.byte() % 8 {
        0 => Aim::Many {
            path,
            count: input.below(256),
            distinct: input.below(2) == 0,
        },
        1 => Aim::Long {
            path,
            bytes: 16 * input.below(256),
        },
        2 => Aim::Extreme {
            path: Some(path).filter(|_| input.below(4) > 0),
            which: input.below(EXTREMES.len()),
        },
        3 => Aim::Odd {
            path: Some(path).filter(|_| input.below(4) > 0),
            which: input.below(ODD_TEXTS.len()),
        },
        _ => Aim::Plain,
    }
}

/// Takes from an answer what later requests can name.
fn learn(api: Api, version: i16, answer: &Bytes, words: &mut Words) {
    // The length and the correlation id, and where there are some, no tagged fields.
    let head = 8 + usize::try_from(api.response_header_version(version)).unwrap_or(0);
    if answer.len() < head {
        return;
    }
    let mut body = answer.slice(head..);
    match api {
        Api::JoinGroup => {
            if let Ok(joined) = JoinGroupResponse::decode(&mut body, version) {
                words.name("member_id", &joined.member_id);
                let generation = i64::from(joined.generation_id);
                words.say("generation_id", generation);
                words.say("generation_id_or_member_epoch", generation);
            }
        }
        Api::InitProducerId => {
            if let Ok(known) = InitProducerIdResponse::decode(&mut body, version) {
                for name in ["producer_id", "v3_and_below_producer_id"] {
                    words.say(name, known.producer_id.0);
                }
                for name in ["producer_epoch", "v3_and_below_producer_epoch"] {
                    words.say(name, i64::from(known.producer_epoch));
                }
            }
        }
        Api::ConsumerGroupHeartbeat => {
            if let Ok(beat) = ConsumerGroupHeartbeatResponse::decode(&mut body, version) {
                words.say("consumer_epoch", i64::from(beat.member_epoch));
                if let Some(member) = &beat.member_id {
                    words.name("consumer_member", member);
                }
            }
        }
        Api::Metadata => {
            if let Ok(metadata) = MetadataResponse::decode(&mut body, version)
                && let Some(topic) = metadata.topics.first()
                && topic
                    .name
                    .as_ref()
                    .is_some_and(|name| name.as_str() == TOPIC)
            {
                words.identify("topic_id", topic.topic_id.into_bytes());
            }
        }
        _ => {}
    }
}
