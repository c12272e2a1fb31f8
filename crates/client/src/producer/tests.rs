//! A producer against scripted brokers that keep logs: what is written arrives once and in order,
//! whatever happens to connections, leaders and answers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use platform::runtime::run_simulated;
use platform::sim::{SimNet, Towards};
use wire::batch::BatchHeader;
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, InitProducerIdRequest, InitProducerIdResponse,
    ProduceRequest, ProduceResponse,
};
use wire::protocol::Request;

use super::*;
use crate::scripted::{AskedRequest, PORT, Reply, cluster, later, script, serve};
use crate::settings::Acks;

mod transactions;

const SECOND: Duration = Duration::from_secs(1);
const BROKERS: &[(i32, &str)] = &[(1, "a"), (2, "b")];

/// What two brokers have: leaders, and the log of each partition of the topic `t`.
#[derive(Default)]
struct World {
    leaders: BTreeMap<String, Vec<(i32, i32)>>,
    logs: BTreeMap<i32, Log>,
    /// Answers to the next Produce requests, instead of the log's.
    next: Vec<i16>,
    /// The number of Produce requests that came.
    requests: usize,
    ids: i64,
    /// The newest version of Produce that brokers serve, if it is not any.
    produce_max: Option<i16>,
}

#[derive(Default)]
struct Log {
    values: Vec<String>,
    epoch: i16,
    next: i32,
}

impl Log {
    /// Appends a batch as a broker does: error and base offset.
    fn append(&mut self, bytes: &Bytes) -> (i16, i64) {
        let header = BatchHeader::parse(bytes).unwrap();
        let values: Vec<_> = wire::batch::records(bytes)
            .unwrap()
            .map(|record| String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap())
            .collect();
        if header.producer_id.0 >= 0 {
            if header.producer_epoch > self.epoch {
                (self.epoch, self.next) = (header.producer_epoch, 0);
            }
            if header.base_sequence < self.next {
                let place = self.values.iter().position(|value| *value == values[0]);
                let offset = place.expect("a copy of what is there");
                return (0, i64::try_from(offset).unwrap());
            }
            if header.base_sequence > self.next {
                return (45, -1);
            }
            self.next += header.record_count;
        }
        let offset = i64::try_from(self.values.len()).unwrap();
        self.values.extend(values);
        (0, offset)
    }
}

/// What all scripted brokers keep.
type SharedWorld = Rc<RefCell<World>>;

/// Answers metadata, identities and records.
fn answer(world: &SharedWorld, host: &str, asked: &AskedRequest) -> Option<Reply> {
    let mut world = world.borrow_mut();
    let world = &mut *world;
    if let Some(reply) = asked.metadata(BROKERS, &world.leaders) {
        return Some(reply);
    }
    if let Some(max) = world.produce_max
        && asked.api == <ApiVersionsRequest as Request>::KEY
    {
        return asked.to(|_: ApiVersionsRequest| {
            let ranges = (0..100).map(|key| {
                let is_produce = key == <ProduceRequest as Request>::KEY;
                ApiVersion::default()
                    .with_api_key(key)
                    .with_max_version(if is_produce { max } else { i16::MAX })
            });
            ApiVersionsResponse::default().with_api_keys(ranges.collect())
        });
    }
    let introduced = asked.to(|_: InitProducerIdRequest| {
        world.ids += 1;
        InitProducerIdResponse::default()
            .with_producer_id(world.ids.into())
            .with_producer_epoch(0)
    });
    introduced.or_else(|| {
        let request = asked.request::<ProduceRequest>()?;
        world.requests += 1;
        let forced = if world.next.is_empty() {
            0
        } else {
            world.next.remove(0)
        };
        let answer = world.produce(host, &request, forced);
        if request.acks == 0 {
            return Some(Reply::Silence);
        }
        Some(Reply::Answer(asked.answer::<ProduceRequest>(&answer)))
    })
}

impl World {
    fn produce(&mut self, host: &str, request: &ProduceRequest, forced: i16) -> ProduceResponse {
        let mut topics = Vec::new();
        for topic in &request.topic_data {
            let leaders = self
                .leaders
                .get(topic.name.as_str())
                .cloned()
                .unwrap_or_default();
            let partitions = topic.partition_data.iter().map(|data| {
                let leader = leaders.get(usize::try_from(data.index).unwrap());
                let is_here = leader.is_some_and(|(id, _)| BROKERS.contains(&(*id, host)));
                let (error, offset) = match forced {
                    0 if !is_here => (6, -1),
                    0 => {
                        let log = self.logs.entry(data.index).or_default();
                        log.append(data.records.as_ref().unwrap())
                    }
                    forced => (forced, -1),
                };
                PartitionProduceResponse::default()
                    .with_index(data.index)
                    .with_error_code(error)
                    .with_base_offset(offset)
                    .with_log_append_time_ms(-1)
            });
            topics.push(
                TopicProduceResponse::default()
                    .with_name(topic.name.clone())
                    .with_partition_responses(partitions.collect()),
            );
        }
        ProduceResponse::default().with_responses(topics)
    }
}

/// What became of each record, in the order of the reports.
type SharedReports = Rc<RefCell<Vec<(String, Report)>>>;

struct Bench {
    net: SimNet,
    world: SharedWorld,
    producer: Producer,
    told: SharedReports,
}

impl Bench {
    fn new(leaders: &[(i32, i32)], change: impl FnOnce(&mut ProducerSettings)) -> Self {
        let (net, world) = (
            SimNet::new(Duration::from_millis(1)),
            SharedWorld::default(),
        );
        world
            .borrow_mut()
            .leaders
            .insert("t".to_owned(), leaders.to_vec());
        let shown = Rc::clone(&world);
        let brokers = script(move |host, asked| answer(&shown, host, asked));
        serve(&net, "a", &brokers);
        serve(&net, "b", &brokers);
        let mut settings = ProducerSettings {
            batch_records: 10,
            ..ProducerSettings::default()
        };
        change(&mut settings);
        Self {
            producer: Producer::new(cluster(&net, "a"), settings),
            net,
            world,
            told: SharedReports::default(),
        }
    }

    fn record(value: &str, partition: Option<i32>) -> Record {
        let value = Bytes::copy_from_slice(value.as_bytes());
        let mut record = Record::new("t".into(), Some(value));
        record.partition = partition;
        record
    }

    async fn send(&self, values: std::ops::Range<u32>, partition: Option<i32>) {
        for value in values {
            let value = format!("{value:04}");
            let told = Rc::clone(&self.told);
            let record = Self::record(&value, partition);
            let done = move |report| told.borrow_mut().push((value, report));
            self.producer.send(record, done).await.unwrap();
        }
    }

    fn log(&self, partition: i32) -> Vec<String> {
        let world = self.world.borrow();
        world
            .logs
            .get(&partition)
            .map(|log| log.values.clone())
            .unwrap_or_default()
    }

    /// Checks that all records of a range are in the log of partition 0 once, in order, and that
    /// their reports have their offsets.
    fn all_there(&self, values: std::ops::Range<u32>) {
        let wanted: Vec<_> = values.map(|value| format!("{value:04}")).collect();
        assert_eq!(self.log(0), wanted);
        let told = self.told.borrow();
        assert_eq!(told.len(), wanted.len());
        for (value, report) in told.iter() {
            let offset = report.result.as_ref().unwrap().offset.unwrap();
            assert_eq!(*value, wanted[usize::try_from(offset).unwrap()]);
        }
    }
}

fn run<F: AsyncFnOnce()>(test: F) {
    run_simulated(test()).unwrap();
}

#[test]
fn records_arrive_in_order_and_are_told_where() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |_| {});
        bench.send(0..95, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        bench.all_there(0..95);
        assert!(bench.world.borrow().requests < 20, "they went in batches");
        assert_eq!(bench.producer.unsettled(), 0);
    });
}

#[test]
fn a_leader_that_moves_is_followed() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |_| {});
        bench.send(0..20, Some(0)).await;
        bench
            .world
            .borrow_mut()
            .leaders
            .insert("t".to_owned(), vec![(2, 1)]);
        bench.send(20..60, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        bench.all_there(0..60);
        assert_eq!(bench.net.open("b", PORT), 1);
    });
}

#[test]
fn lost_answers_and_connections_neither_lose_nor_double_records() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |_| {});
        for round in 0..5 {
            bench.send(round * 40..round * 40 + 40, Some(0)).await;
            // Requests arrive, answers do not.
            bench.net.stall("a", PORT, Towards::Client, true);
            tokio::time::sleep(SECOND / 20).await;
            bench.net.reset("a", PORT);
        }
        bench.producer.flush(later()).await.unwrap();
        bench.all_there(0..200);
    });
}

#[test]
fn a_broker_that_hangs_is_given_up_and_nothing_is_doubled() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |_| {});
        bench.send(0..10, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        bench.net.stall("a", PORT, Towards::Client, true);
        let began = Instant::now();
        bench.send(10..20, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        let request = bench.producer.shared().cluster().settings().request_timeout;
        let took = began.elapsed();
        // Another broker tells who leads, although the first one hangs.
        assert!(took >= request && took < request + 5 * SECOND, "{took:?}");
        bench.all_there(0..20);
    });
}

#[test]
fn lost_state_of_the_broker_begins_anew() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |_| {});
        bench.send(0..10, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        bench.world.borrow_mut().next = vec![59];
        bench.send(10..20, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        bench.all_there(0..20);
        assert_eq!(bench.world.borrow().logs[&0].epoch, 1);
    });
}

#[test]
fn a_record_that_is_refused_is_told_and_the_others_go_on() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |_| {});
        bench.world.borrow_mut().next = vec![87];
        bench.send(0..1, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        let refused = bench.told.borrow_mut().remove(0).1.result.unwrap_err();
        assert_eq!(refused.to_string(), "INVALID_RECORD");
        bench.send(0..10, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        bench.all_there(0..10);
    });
}

#[test]
fn a_batch_that_is_too_large_for_the_broker_arrives_in_parts() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |_| {});
        bench.world.borrow_mut().next = vec![10];
        bench.send(0..10, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        bench.all_there(0..10);
        assert_eq!(bench.world.borrow().requests, 3);
    });
}

#[test]
fn nobody_there_is_told_when_the_time_is_over() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |settings| settings.delivery_timeout = 5 * SECOND);
        bench.send(0..1, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        bench.net.silence("a", PORT, true);
        bench.net.silence("b", PORT, true);
        bench.net.reset("a", PORT);
        let began = Instant::now();
        bench.send(1..3, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        assert!(began.elapsed() <= 6 * SECOND, "{:?}", began.elapsed());
        let told = bench.told.borrow();
        assert_eq!(told.len(), 3);
        assert!(told[1..].iter().all(|(_, report)| report.result.is_err()));
    });
}

#[test]
fn a_broker_that_cannot_take_records_fails_all_of_them_at_once() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |_| {});
        bench.world.borrow_mut().produce_max = Some(2);
        let began = Instant::now();
        bench.send(0..30, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        assert!(began.elapsed() < 5 * SECOND, "{:?}", began.elapsed());
        let told = bench.told.borrow();
        assert_eq!(told.len(), 30);
        assert!(told.iter().all(|(_, report)| report.result.is_err()));
    });
}

#[test]
fn an_identity_that_is_none_is_not_used() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |_| {});
        bench.world.borrow_mut().ids = -9;
        bench.send(0..10, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        assert!(bench.log(0).is_empty());
        let told = bench.told.borrow();
        assert!(told.iter().all(|(_, report)| report.result.is_err()));
    });
}

#[test]
fn without_acknowledgements_records_are_told_when_they_are_written() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |settings| {
            (settings.acks, settings.idempotent) = (Acks::None, false);
        });
        bench.send(0..30, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        tokio::time::sleep(SECOND).await;
        assert_eq!(bench.log(0).len(), 30);
        let told = bench.told.borrow();
        let none = |(_, report): &(String, Report)| {
            report
                .result
                .as_ref()
                .is_ok_and(|receipt| receipt.offset.is_none())
        };
        assert!(told.iter().all(none));
    });
}

#[test]
fn order_is_kept_without_sequences_when_a_batch_is_sent_again() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |settings| {
            (settings.acks, settings.idempotent) = (Acks::Leader, false);
        });
        bench.world.borrow_mut().next = vec![0, 6, 6, 0, 6];
        bench.send(0..95, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        bench.all_there(0..95);
    });
}

#[test]
fn keys_go_where_all_clients_send_them_and_others_are_spread() {
    run(async || {
        let bench = Bench::new(&[(1, 0), (2, 0), (1, 0)], |settings| {
            settings.batch_bytes = 300;
        });
        let mut keyed = Bench::record("x", None);
        keyed.key = Some(Bytes::from_static(b"21"));
        let (partition, receipt) = bench.producer.write(keyed).await.unwrap();
        assert_eq!(
            partition,
            i32::try_from(partitioner::of_key(b"21", 3)).unwrap()
        );
        assert_eq!(receipt.offset, Some(0));
        let all = BTreeMap::from([("t".to_owned(), vec![(1, 0), (2, 0), (1, 0)])]);
        assert_eq!(bench.world.borrow().leaders, all);
        let wrong = bench.producer.write(Bench::record("x", Some(3))).await;
        let wrong = wrong.unwrap_err().to_string();
        assert_eq!(wrong, "partition 3: topic t has 3 partitions");
    });
}

#[test]
fn memory_is_bounded_and_a_record_larger_than_it_goes_alone() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |settings| {
            settings.buffer_bytes = 1000;
            settings.max_block = SECOND;
        });
        bench.send(0..1, Some(0)).await;
        bench.producer.flush(later()).await.unwrap();
        bench.net.stall("a", PORT, Towards::Client, true);
        let large = "x".repeat(5000);
        let (taken, was_taken) = (Rc::new(Cell::new(0)), Rc::default());
        let count: Rc<Cell<u32>> = Rc::clone(&was_taken);
        let _ = taken;
        let done = move |_| count.set(count.get() + 1);
        let sent = bench
            .producer
            .send(Bench::record(&large, Some(0)), done)
            .await;
        assert_eq!(sent, Ok(()));
        let full = bench
            .producer
            .send(Bench::record("y", Some(0)), |_| {})
            .await;
        assert_eq!(full, Err(ClientError::Full));
        bench.net.stall("a", PORT, Towards::Client, false);
        bench.producer.flush(later()).await.unwrap();
        assert_eq!(was_taken.get(), 1);
        assert!(
            bench
                .producer
                .send(Bench::record("y", Some(0)), |_| {})
                .await
                .is_ok()
        );
    });
}

#[test]
fn a_producer_that_goes_fails_what_it_has() {
    run(async || {
        let bench = Bench::new(&[(1, 0)], |settings| settings.linger = 10 * SECOND);
        bench.send(0..3, Some(0)).await;
        let (told, producer) = (Rc::clone(&bench.told), bench.producer.clone());
        drop(bench);
        drop(producer);
        tokio::time::sleep(SECOND).await;
        let told = told.borrow();
        assert_eq!(told.len(), 3);
        let closed = |(_, report): &(String, Report)| report.result == Err(ClientError::Closed);
        assert!(told.iter().all(closed));
    });
}
