//! When a producer's next batch is due, and which records it contains.
//!
//! Open loop: record k is due when the schedule has reached the bytes before it. A batch contains
//! all due records that fit; it is ready when it is full or its first record has waited for the
//! linger time. A late caller finds more records due, each with its intended time: this is how
//! waiting for a slow broker counts as latency. After the end no further records become due, but
//! due ones can still be taken. Closed loop: full batches, due when they are requested. Pure: the
//! caller passes the time. Times are seconds since the load began.

use std::collections::VecDeque;
use std::sync::Arc;

use wire::batch::HEADER_BYTES;

use super::batch::record_bytes;
use super::payload::Random;
use super::schedule::Schedule;
use crate::spec;

/// Limit on the records of one batch, far below what offset deltas and arrays (32 bits) allow.
const COUNT_MAX: u32 = 1 << 20;

/// Generates sizes of values.
#[derive(Clone, Debug)]
pub(super) enum Sizes {
    Fixed(u32),
    Uniform {
        min: u32,
        max: u32,
        random: Random,
    },
    Weighted {
        sums: Vec<(f64, u32)>,
        random: Random,
    },
}

impl Sizes {
    pub(super) fn new(sizes: &spec::Sizes, seed: u64) -> Self {
        let random = Random::new(seed);
        match sizes {
            spec::Sizes::Fixed(size) => Self::Fixed(*size),
            spec::Sizes::Uniform { min, max } => Self::Uniform {
                min: *min,
                max: *max,
                random,
            },
            spec::Sizes::Weighted { weights } => {
                let mut sum = 0.0;
                let sums = weights.iter().map(|(size, weight)| {
                    sum += weight;
                    (sum, *size)
                });
                Self::Weighted {
                    sums: sums.collect(),
                    random,
                }
            }
        }
    }

    fn draw(&mut self) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { min, max, random } => {
                *min + random.below(u64::from(*max - *min) + 1) as u32
            }
            Self::Weighted { sums, random } => {
                let all = sums.last().map_or(0.0, |(sum, _)| *sum);
                let drawn = random.part() * all;
                let at = sums.partition_point(|(sum, _)| *sum <= drawn);
                sums.get(at).or(sums.last()).map_or(0, |(_, size)| *size)
            }
        }
    }
}

/// The limits that determine the end of a batch.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Bytes of each key, `None` without keys.
    pub(super) key_bytes: Option<u32>,
    /// Bytes of a full batch.
    pub(super) batch_bytes: u32,
    /// Seconds that the first record of a batch may wait.
    pub(super) linger: f64,
}

/// The records of one batch.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Take {
    /// Number of records.
    pub(super) count: u32,
    /// Sizes of their values; empty if all are equal.
    pub(super) sizes: Vec<u32>,
    /// Their keys, if they have any and these are known.
    pub(super) keys: Vec<String>,
    /// Bytes of keys and values.
    pub(super) payload_bytes: u64,
    /// When the first one was due.
    pub(super) first_due: f64,
    /// When the last one was due.
    pub(super) last_due: f64,
}

impl Take {
    /// Returns when the record at `index` was due: they are spread evenly from first to last.
    pub(super) fn due(&self, index: u32) -> f64 {
        let part = f64::from(index) / f64::from(self.count.max(2) - 1);
        let due = self.first_due + (self.last_due - self.first_due) * part;
        // The sum may be rounded up past the last one.
        due.min(self.last_due)
    }
}

/// The next step of a producer.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ProducerStep {
    /// Send these records now.
    Now(Take),
    /// Send nothing before this time.
    At(f64),
    /// Send nothing more.
    Never,
}

/// The pace of one producer.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// The schedule of all producers, and this producer's part of it.
    schedule: Option<(Arc<Schedule>, f64)>,
    sizes: Sizes,
    cut: Cut,
    /// For fixed sizes: bytes of a record, and records of a full batch.
    fixed: Option<(f64, u32)>,
    /// For other sizes: those that were drawn and not sent.
    ahead: VecDeque<u32>,
    /// No record is due from this time on.
    end: f64,
    /// Bytes of all records before the next one.
    sent: f64,
}

impl Pace {
    /// Creates a pace until `end`.
    ///
    /// `phase`, from 0 to 1, delays this producer against others by that part of the distance
    /// between records.
    pub(super) fn new(
        schedule: Option<(Arc<Schedule>, f64)>,
        sizes: Sizes,
        cut: Cut,
        end: f64,
        phase: f64,
    ) -> Self {
        let key_bytes = cut.key_bytes.unwrap_or(0);
        let mut pace = Self {
            schedule,
            fixed: None,
            ahead: VecDeque::new(),
            end,
            sent: 0.0,
            sizes,
            cut,
        };
        if let Sizes::Fixed(size) = pace.sizes {
            let each = f64::from(size + key_bytes);
            pace.fixed = Some((each, count_fitting(size, &pace.cut)));
            pace.sent = each * phase;
        }
        pace
    }

    /// Returns how many records of equal size fill a batch; `None` if sizes differ.
    pub(super) fn full_count(&self) -> Option<u32> {
        self.fixed.map(|(_, count)| count)
    }

    /// Returns whether records are due at given times (open loop) instead of on request.
    pub(super) fn is_open(&self) -> bool {
        self.schedule.is_some()
    }

    /// Returns the number of records that were due by `now` and were not taken; they never will be.
    pub(super) fn overdue(&mut self, now: f64) -> u64 {
        let Some((schedule, part)) = &self.schedule else {
            return 0;
        };
        let due = schedule.bytes_by(now.min(self.end)) * part;
        if let Some((each, _)) = self.fixed {
            return ((due - self.sent) / each).ceil().max(0.0) as u64;
        }
        let keys = self.cut.key_bytes.unwrap_or(0);
        let mut records = 0;
        while self.sent < due {
            let size = self.ahead.pop_front();
            let size = size.unwrap_or_else(|| self.sizes.draw());
            // An empty record must still advance the loop.
            self.sent += f64::from(size + keys).max(1.0);
            records += 1;
        }
        records
    }

    /// Returns what to send at `now`.
    pub(super) fn next(&mut self, now: f64) -> ProducerStep {
        if now >= self.end && self.schedule.is_none() {
            return ProducerStep::Never;
        }
        // After the end no more records become due, and none lingers.
        let now = now.min(self.end);
        match self.fixed {
            Some((each, full)) => self.next_fixed(now, each, full),
            None => self.next_drawn(now),
        }
    }

    fn next_fixed(&mut self, now: f64, each: f64, full: u32) -> ProducerStep {
        let key_and_value = each as u64;
        let take = |count: u32, first_due, last_due| {
            ProducerStep::Now(Take {
                count,
                sizes: Vec::new(),
                keys: Vec::new(),
                payload_bytes: key_and_value * u64::from(count),
                first_due,
                last_due,
            })
        };
        let Some((schedule, part)) = &self.schedule else {
            return take(full, now, now);
        };
        let due = |bytes: f64| schedule.time_of(bytes / part, self.end);
        let Some(first_due) = due(self.sent).filter(|due| *due < self.end) else {
            return ProducerStep::Never;
        };
        let full_at = due(self.sent + each * f64::from(full - 1)).unwrap_or(f64::INFINITY);
        let ready = full_at.min(first_due + self.cut.linger).min(self.end);
        if now < ready {
            return ProducerStep::At(ready);
        }
        let due_bytes = schedule.bytes_by(now) * part - self.sent;
        let due_records = if now < self.end {
            (due_bytes / each).floor() + 1.0
        } else {
            // A record that is due exactly at the end is not sent.
            (due_bytes / each).ceil()
        };
        let count = if each > 0.0 {
            (due_records.max(1.0) as u64).min(u64::from(full)) as u32
        } else {
            1
        };
        let last_due = due(self.sent + each * f64::from(count - 1)).unwrap_or(now);
        self.sent += each * f64::from(count);
        take(count, first_due, last_due)
    }

    fn next_drawn(&mut self, now: f64) -> ProducerStep {
        let count = self.draw_batch();
        let keys = self.cut.key_bytes.unwrap_or(0);
        let mut take = Take {
            first_due: now,
            last_due: now,
            ..Take::default()
        };
        if let Some((schedule, part)) = &self.schedule {
            let due = |bytes: f64| schedule.time_of(bytes / part, self.end);
            let Some(first_due) = due(self.sent).filter(|due| *due < self.end) else {
                return ProducerStep::Never;
            };
            let last = self
                .ahead
                .range(..count - 1)
                .map(|size| f64::from(size + keys));
            let full_at = due(self.sent + last.sum::<f64>());
            let linger_end = first_due + self.cut.linger;
            let ready = full_at.map_or(linger_end, |full| full.min(linger_end));
            let ready = ready.min(self.end);
            if now < ready {
                return ProducerStep::At(ready);
            }
            take.first_due = first_due;
            let due_by_now = schedule.bytes_by(now) * part;
            let mut before = self.sent;
            for size in self.ahead.range(..count) {
                let at_the_end = now >= self.end && before >= due_by_now;
                if take.count > 0 && (before > due_by_now || at_the_end) {
                    break;
                }
                take.count += 1;
                take.last_due = before;
                before += f64::from(size + keys);
            }
            take.last_due = due(take.last_due).unwrap_or(now);
        } else {
            take.count = count as u32;
        }
        take.sizes = self.ahead.drain(..take.count as usize).collect();
        let sizes = take.sizes.iter().map(|size| u64::from(size + keys));
        take.payload_bytes = sizes.sum();
        self.sent += take.payload_bytes as f64;
        ProducerStep::Now(take)
    }

    /// Draws sizes until a batch is full; returns its number of records.
    fn draw_batch(&mut self) -> usize {
        let mut bytes = HEADER_BYTES as u64;
        for count in 0..COUNT_MAX {
            if count as usize == self.ahead.len() {
                let size = self.sizes.draw();
                self.ahead.push_back(size);
            }
            let size = self.ahead[count as usize];
            bytes += u64::from(record_bytes(count, self.cut.key_bytes, size));
            if bytes > u64::from(self.cut.batch_bytes) {
                return (count as usize).max(1);
            }
        }
        COUNT_MAX as usize
    }
}

/// Returns how many records of one size fit a batch, at least one.
fn count_fitting(size: u32, cut: &Cut) -> u32 {
    let mut bytes = HEADER_BYTES as u64;
    for count in 0..COUNT_MAX {
        bytes += u64::from(record_bytes(count, cut.key_bytes, size));
        if bytes > u64::from(cut.batch_bytes) {
            return count.max(1);
        }
    }
    COUNT_MAX
}

#[cfg(test)]
mod tests;
