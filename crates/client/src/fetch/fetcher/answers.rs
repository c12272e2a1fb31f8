//! Takes the answers to fetches: what each has for each partition, and what its errors mean.
//!
//! Invariant: the fetcher ignores a partition that it did not ask for, and one that has changed
//! since it asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use wire::kafka::fetch::{FetchPartitionResponse, FetchResponse, FetchTopicResponse};
use wire::types::{ErrorCode, TopicId, TopicPartition};

use super::{FetchEvent, Fetcher, UnderWay};
use crate::error::Refusal;
use crate::fetch::reading::{PartitionReading, Position, Whence, asks_for_another_leader};
use crate::fetch::taking::{Checks, take};
use crate::pauses::{Pauses, later};
use crate::settings::OffsetReset;

/// Longest pause that a broker can ask for by its throttle time.
pub(super) const THROTTLE_MAX: Duration = Duration::from_mins(1);
/// Answers without records, and before their time, that are taken in a row without a pause.
const EMPTY_MAX: u32 = 10;
/// The pause after them.
const EMPTY_PAUSE: Duration = Duration::from_millis(10);

impl Fetcher {
    /// Takes the answer to the fetch from this broker.
    pub(crate) fn answered(
        &mut self,
        node: i32,
        answer: FetchResponse,
        now: Instant,
    ) -> Vec<FetchEvent> {
        let pauses = self.pauses;
        let max_wait = self.settings.max_wait;
        let Some(broker) = self.brokers.get_mut(&node) else {
            return Vec::new();
        };
        let Some(under_way) = broker.under_way.take() else {
            return Vec::new();
        };
        let throttle_ms = u64::try_from(answer.throttle_time_ms).unwrap_or(0);
        let throttle = Duration::from_millis(throttle_ms).min(THROTTLE_MAX);
        broker.not_before = (!throttle.is_zero()).then(|| later(now, throttle));
        if !broker.session.answered(answer.error, answer.session_id) {
            broker.failures = broker.failures.saturating_add(1);
            // A session that is gone is begun again at once, but not for ever.
            if broker.failures > 1 {
                broker.not_before = Some(pauses.next(broker.failures, now));
            }
            return under_way.stale();
        }
        broker.failures = 0;
        let is_early = now < later(under_way.since, max_wait);
        let is_empty = answer.records_bytes() == 0 && throttle.is_zero();
        broker.empty = if is_empty && is_early {
            broker.empty.saturating_add(1)
        } else {
            0
        };
        if broker.empty > EMPTY_MAX {
            broker.not_before = Some(later(now, EMPTY_PAUSE));
        }
        self.take_topics(answer.topics, under_way, now)
    }

    fn take_topics(
        &mut self,
        topics: Vec<FetchTopicResponse>,
        mut under_way: UnderWay,
        now: Instant,
    ) -> Vec<FetchEvent> {
        let mut events = Vec::new();
        for topic in topics {
            let name = match under_way.ids.get(&topic.topic_id) {
                Some(name) if topic.topic_id != TopicId::ZERO => Arc::clone(name),
                _ => topic.name.as_str().into(),
            };
            for answer in topic.partitions {
                let place = TopicPartition {
                    topic: Arc::clone(&name),
                    partition: answer.index,
                };
                // A partition that the fetcher did not ask for, or that is there twice, is ignored.
                if let Some(serial) = under_way.serials.remove(&place) {
                    self.take_partition(place, serial, answer, now, &mut events);
                }
            }
        }
        // The others have nothing new.
        for (place, serial) in &under_way.serials {
            if let Some(reading) = self.current(place, *serial) {
                reading.answered();
            }
        }
        events
    }

    fn take_partition(
        &mut self,
        place: TopicPartition,
        serial: u64,
        mut answer: FetchPartitionResponse,
        now: Instant,
        events: &mut Vec<FetchEvent>,
    ) {
        let (pauses, committed) = (self.pauses, self.settings.read_committed);
        let checks = Checks {
            crc: self.settings.check_crcs,
            committed,
        };
        let Some(reading) = self.current(&place, serial) else {
            return;
        };
        let Some(position) = reading.position else {
            return;
        };
        if let Some(end) = answer.diverging_epoch {
            let to = (end.end_offset.0, end.epoch.0);
            events.extend(self.diverged(place, position, to, now));
            return;
        }
        if let Some(code) = answer.error {
            if code == ErrorCode::OffsetOutOfRange {
                events.extend(self.out_of_range(place, position.offset, now));
            } else {
                events.extend(refuse(&place, reading, code.into(), pauses, now));
            }
            return;
        }
        reading.answered();
        let records = answer.records.pop().unwrap_or_default();
        let aborted = answer.aborted_transactions.unwrap_or_default();
        let taken = take(&records, aborted, position.offset, checks);
        if let Some(error) = taken.damage {
            reading.damaged(|failures| pauses.next(failures, now));
            let offset = position.offset;
            events.push(FetchEvent::Damaged {
                place,
                offset,
                error,
            });
            return;
        }
        let position = Position {
            offset: taken.next,
            epoch: taken.epoch.or(position.epoch),
        };
        reading.position = Some(position);
        let stable = answer.last_stable_offset.0;
        let end = if committed && stable >= 0 {
            stable
        } else {
            answer.high_watermark.0
        };
        let ended = reading.ends(end);
        if !taken.batches.is_empty() {
            events.push(FetchEvent::Records {
                place: place.clone(),
                batches: taken.batches,
                position,
            });
        }
        if let Some(offset) = ended {
            events.push(FetchEvent::End { place, offset });
        }
    }

    /// Takes that the leader's log differs from what was read, which ends at this offset and epoch.
    fn diverged(
        &mut self,
        place: TopicPartition,
        position: Position,
        (offset, epoch): (i64, i32),
        now: Instant,
    ) -> Option<FetchEvent> {
        let from = position.offset;
        if offset < 0 {
            return self.out_of_range(place, from, now);
        }
        let serial = self.next_serial();
        let is_error = self.settings.reset == OffsetReset::Error;
        let pauses = self.pauses;
        let reading = self.readings.get_mut(&place)?;
        reading.misplaced(|failures| pauses.next(failures, now));
        if offset >= from {
            // The broker contradicts itself: go on without the epoch.
            reading.begin(serial, Whence::At(from, None));
            return None;
        }
        if is_error {
            reading.stop(serial);
            let offset = from;
            return Some(FetchEvent::NoPosition { place, offset });
        }
        reading.begin(serial, Whence::At(offset, (epoch >= 0).then_some(epoch)));
        let to = offset;
        Some(FetchEvent::Truncated { place, from, to })
    }

    fn out_of_range(
        &mut self,
        place: TopicPartition,
        offset: i64,
        now: Instant,
    ) -> Option<FetchEvent> {
        let serial = self.next_serial();
        let (policy, pauses) = (self.settings.reset, self.pauses);
        let reading = self.readings.get_mut(&place)?;
        reading.misplaced(|failures| pauses.next(failures, now));
        if reading.reset(serial, policy) {
            return None;
        }
        reading.stop(serial);
        Some(FetchEvent::NoPosition { place, offset })
    }

    /// Takes that the fetch from this broker has no answer.
    pub(crate) fn failed(&mut self, node: i32, now: Instant) -> Vec<FetchEvent> {
        let pauses = self.pauses;
        let Some(broker) = self.brokers.get_mut(&node) else {
            return Vec::new();
        };
        broker.session.lost();
        broker.failures = broker.failures.saturating_add(1);
        let again = pauses.next(broker.failures, now);
        broker.not_before = Some(again);
        let events = broker.under_way.take().map(UnderWay::stale);
        let led = self.readings.values_mut().filter(|reading| {
            let leader = reading.leader;
            leader.is_some_and(|leader| leader.node == node)
        });
        led.for_each(|reading| reading.lost(again));
        events.unwrap_or_default()
    }
}

impl UnderWay {
    fn stale(self) -> Vec<FetchEvent> {
        let topics: BTreeSet<_> = self.serials.into_keys().map(|place| place.topic).collect();
        topics.into_iter().map(FetchEvent::Stale).collect()
    }
}

pub(super) fn refuse(
    place: &TopicPartition,
    reading: &mut PartitionReading,
    refusal: Refusal,
    pauses: Pauses,
    now: Instant,
) -> Vec<FetchEvent> {
    let mut events = Vec::new();
    if asks_for_another_leader(refusal.code) {
        events.push(FetchEvent::Stale(Arc::clone(&place.topic)));
    }
    events.push(FetchEvent::Refused {
        place: place.clone(),
        refusal: refusal.clone(),
    });
    reading.refused(refusal, |failures| pauses.next(failures, now));
    events
}
