//! One producer: passes records to the client when they are due, and counts delivery reports.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Message as _};

use super::{CONNECT_WITHIN, LOOK_EVERY, begin, settings};
use crate::load::by_key::ByKey;
use crate::load::hook::PartitionPlace;
use crate::load::pace::{ProducerStep, Take};
use crate::load::plan::ByHand;
use crate::load::producer::{LATE_SECONDS, claim, say_overdue};
use crate::load::tally::Totals;
use crate::load::worker::{Event, Worker};
use crate::spec::{Codec, Produce, Sizes};

/// Longest wait for the last delivery reports.
const LAST_WITHIN: Duration = Duration::from_mins(1);
/// The same after the load was stopped.
const STOPPED_WITHIN: Duration = Duration::from_secs(4);
/// The client's own maximum of bytes per request.
const REQUEST_BYTES_MAX: u64 = 1_000_000_000;
/// Room for the framing of records.
const FRAME_BYTES: u64 = 64 << 10;

/// A record that was passed to the client.
struct SentRecord {
    place: PartitionPlace,
    number: u64,
    bytes: u64,
    due: f64,
}

/// The delivery report of a record.
struct Report {
    sent: Box<SentRecord>,
    at: Instant,
    /// The record's offset, or why it was not delivered.
    result: Result<i64, KafkaError>,
}

/// Collects reports until the polling thread processes them.
#[derive(Default)]
struct Reports(Mutex<Vec<Report>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<SentRecord>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<SentRecord>) {
        let report = Report {
            sent,
            at: Instant::now(),
            result: match result {
                Ok(message) => Ok(message.offset()),
                Err((error, _)) => Err(error.clone()),
            },
        };
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reports.push(report);
    }
}

/// Runs a producer from its start to its end.
pub(super) fn run(worker: Worker, hand: ByHand) -> Totals {
    let connected = connect(&worker);
    let (ready, client) = match connected {
        Ok(client) => (Ok(()), Some(client)),
        Err(error) => (Err(error), None),
    };
    if let (true, Some(client)) = (begin(&worker, ready), client) {
        let mut producer = Producer {
            worker: &worker,
            client,
            hand,
            value: Vec::new(),
            numbers: std::collections::HashMap::new(),
            turn: 0,
            turn_bytes: 0,
        };
        producer.produce();
        producer.wait_for_last();
    }
    // Without a receiver the load has ended.
    let _ = worker.events.send(Event::ProducerDone);
    worker.tally.into_inner().end()
}

fn connect(worker: &Worker) -> anyhow::Result<BaseProducer<Reports>> {
    let Some(produce) = &worker.load.produce else {
        anyhow::bail!("a producer of a load that does not write");
    };
    let client: BaseProducer<Reports> =
        configured(settings(worker), produce).create_with_context(Reports::default())?;
    let topic = worker.cluster.topics.first().map(String::as_str);
    client.client().fetch_metadata(topic, CONNECT_WITHIN)?;
    Ok(client)
}

fn configured(mut settings: ClientConfig, produce: &Produce) -> ClientConfig {
    let largest = match &produce.record {
        Sizes::Fixed(size) => *size,
        Sizes::Uniform { max, .. } => *max,
        Sizes::Weighted { weights } => weights.iter().map(|(size, _)| *size).max().unwrap_or(0),
    };
    let request = u64::from(produce.batch_bytes.max(largest)) + FRAME_BYTES;
    let request = request.clamp(1_000_000, REQUEST_BYTES_MAX);
    // Room for what is in flight, and as much again to be gathered meanwhile.
    let queued = 2 * u64::from(produce.in_flight_max) * request.div_ceil(1024);
    let codec = match produce.compression {
        Codec::None => "none",
        Codec::Gzip => "gzip",
        Codec::Snappy => "snappy",
        Codec::Lz4 => "lz4",
        Codec::Zstd => "zstd",
    };
    settings
        .set("acks", produce.acks.to_string())
        .set("enable.idempotence", produce.idempotent.to_string())
        .set(
            "max.in.flight.requests.per.connection",
            produce.in_flight_max.to_string(),
        )
        .set("compression.type", codec)
        .set("linger.ms", produce.linger_ms.to_string())
        .set("batch.size", produce.batch_bytes.max(1).to_string())
        .set("batch.num.messages", "1000000")
        .set("message.max.bytes", request.to_string())
        .set("queue.buffering.max.messages", "0")
        .set(
            "queue.buffering.max.kbytes",
            queued.min(2_000_000_000).to_string(),
        );
    settings
}

struct Producer<'a> {
    worker: &'a Worker,
    client: BaseProducer<Reports>,
    hand: ByHand,
    value: Vec<u8>,
    numbers: std::collections::HashMap<PartitionPlace, u64>,
    /// The index of the current place, and the bytes sent to it in this turn.
    turn: usize,
    turn_bytes: u64,
}

impl Producer<'_> {
    fn produce(&mut self) {
        loop {
            let now = self.worker.now();
            if self.worker.is_produced() {
                return;
            }
            if now >= self.worker.end() + LATE_SECONDS {
                say_overdue(self.hand.pace.overdue(now), self.worker);
                return;
            }
            match self.hand.pace.next(now) {
                ProducerStep::Never => return,
                ProducerStep::At(time) => {
                    let wait = self.worker.clock.get().until(time);
                    self.poll(wait.min(LOOK_EVERY));
                }
                ProducerStep::Now(mut take) => {
                    if !claim(&self.worker.shared, &mut take) {
                        return;
                    }
                    for index in 0..take.count {
                        self.send(&take, index);
                    }
                    if let Some(by_key) = &mut self.hand.by_key {
                        by_key.turn();
                    }
                    self.poll(Duration::ZERO);
                }
            }
        }
    }

    /// Passes one record to the client; waits while the client's queue is full.
    fn send(&mut self, take: &Take, index: u32) {
        let due = take.due(index);
        let drawn = self.hand.by_key.as_mut().and_then(ByKey::draw);
        let (key, place) = match drawn {
            Some((key, place)) => (Some(key), place),
            None => (None, self.place()),
        };
        let size = take
            .sizes
            .get(index as usize)
            .copied()
            .unwrap_or(self.hand.fixed);
        self.value.clear();
        self.hand.payload.append(size as usize, &mut self.value);
        let mut number = 0;
        if let Some(numbering) = &mut self.hand.numbering {
            let next = self
                .numbers
                .entry(place)
                .or_insert_with(|| numbering.first_number(place));
            number = *next;
            *next += 1;
            numbering.number(place, number, &mut self.value);
        }
        let bytes = (self.value.len() + key.as_ref().map_or(0, String::len)) as u64;
        self.turn_bytes += bytes;
        let mut sent = Box::new(SentRecord {
            place,
            number,
            bytes,
            due,
        });
        let value = std::mem::take(&mut self.value);
        loop {
            let topic = &self.worker.cluster.topics[place.topic as usize];
            let mut record = BaseRecord::with_opaque_to(topic, sent)
                .partition(place.partition.cast_signed())
                .timestamp(self.worker.clock.get().wall_ms(due) as i64)
                .payload(value.as_slice());
            if let Some(key) = &key {
                record = record.key(key.as_str());
            }
            let Err((error, record)) = self.client.send(record) else {
                break;
            };
            sent = record.delivery_opaque;
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            if !full || self.worker.is_over() {
                self.failed(&sent, &error);
                break;
            }
            self.poll(LOOK_EVERY);
        }
        self.value = value;
    }

    /// Returns the current place; the next place takes over after the bytes of a batch.
    fn place(&mut self) -> PartitionPlace {
        let batch = self.worker.load.produce.as_ref();
        if self.turn_bytes >= batch.map_or(1, |produce| u64::from(produce.batch_bytes)) {
            self.turn += 1;
            self.turn_bytes = 0;
        }
        self.hand.places[self.turn % self.hand.places.len()]
    }

    /// Lets the client work, and counts its reports.
    fn poll(&mut self, wait: Duration) {
        self.client.poll(wait);
        self.count();
    }

    fn count(&mut self) {
        let reports = {
            let context = self.client.context();
            std::mem::take(&mut *context.0.lock().unwrap_or_else(PoisonError::into_inner))
        };
        for report in reports {
            let SentRecord {
                place,
                number,
                bytes,
                due,
            } = *report.sent;
            match report.result {
                Ok(offset) => {
                    let at = self.worker.now() - report.at.elapsed().as_secs_f64();
                    let mut tally = self.worker.tally.borrow_mut();
                    tally.delivered(at, bytes, due);
                    if let Some(numbering) = &mut self.hand.numbering {
                        numbering.acknowledged(place, number, 1, offset);
                    }
                }
                Err(error) => self.failed(&report.sent, &error),
            }
        }
        self.worker.tally.borrow_mut().advance(self.worker.now());
    }

    fn failed(&mut self, sent: &SentRecord, error: &KafkaError) {
        let what = match error.rdkafka_error_code() {
            Some(code) => format!("produce: {code:?}"),
            None => format!("produce: {error}"),
        };
        self.worker.tally.borrow_mut().error(what);
        if let Some(numbering) = &mut self.hand.numbering {
            numbering.given_up(sent.place, sent.number, 1);
        }
    }

    /// Waits for records in flight.
    fn wait_for_last(&mut self) {
        let stopped = self.worker.is_produced();
        let within = if stopped { STOPPED_WITHIN } else { LAST_WITHIN };
        let deadline = Instant::now() + within;
        while self.client.in_flight_count() > 0
            && Instant::now() < deadline
            && !self.worker.is_over()
        {
            // A timeout is expected; failed records have reports.
            let _ = self.client.flush(LOOK_EVERY);
            self.count();
        }
        let left = self.client.in_flight_count();
        if left > 0 {
            let left = u64::try_from(left).unwrap_or(0);
            let mut tally = self.worker.tally.borrow_mut();
            tally.errors("produce: no answer before the end", left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_accepts_every_load() {
        let text = "seconds = 1\n[topics]\ncount = 1\npartitions = 1\n[produce]\nproducers = 1\n\
                    record = 100\nbatch_bytes = 1000\nacks = -1\nin_flight_max = 5\n";
        let load: crate::spec::Load = toml::from_str(text).unwrap();
        let sound = load.produce.unwrap();
        let codecs = [
            Codec::None,
            Codec::Gzip,
            Codec::Snappy,
            Codec::Lz4,
            Codec::Zstd,
        ];
        for compression in codecs {
            for (record, batch_bytes) in [(100, 1), (240_000, 1 << 20), (100 << 20, 2_147_000_000)]
            {
                let produce = Produce {
                    compression,
                    record: Sizes::Fixed(record),
                    batch_bytes,
                    idempotent: record > 100,
                    ..sound.clone()
                };
                let client: Result<BaseProducer<Reports>, _> =
                    configured(ClientConfig::new(), &produce)
                        .create_with_context(Reports::default());
                assert!(client.is_ok(), "{produce:?}: {:?}", client.err());
            }
        }
    }
}
