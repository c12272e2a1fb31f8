//! Records between the thread that reads them and the producer that sends them: all that were read
//! are handed over together.
//!
//! To wake the other side costs more than to read a record. A record is there for the producer as
//! soon as it was read, so a slow input delays none; while the producer is at work, more are read.
//!
//! Invariants: records come in the order in which they were read, and the error of the input after
//! all of them; what was read and not taken has at most [`BYTES_MAX`] bytes, and one record.

use std::mem::take;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::ensure;
use tokio::sync::Notify;

use super::Record;

/// Bytes that are read ahead.
const BYTES_MAX: usize = 1 << 20;
/// What a record takes beside its bytes, about.
const RECORD_BYTES: usize = 128;

/// A record, or why the input ends.
type ReadRecord = anyhow::Result<Record>;

#[derive(Default)]
struct ReadAhead {
    queue: Mutex<Queue>,
    /// The reader waits for room.
    taken: Condvar,
    /// The producer waits for records.
    read: Notify,
}

#[derive(Default)]
struct Queue {
    // Bounded: `BYTES_MAX`.
    records: Vec<ReadRecord>,
    bytes: usize,
    /// The input has ended.
    is_over: bool,
    /// The producer is gone.
    is_left: bool,
}

/// The end of the thread that reads.
pub(super) struct ReaderEnd(Arc<ReadAhead>);

/// The end of the producer.
pub(super) struct ProducerEnd(Arc<ReadAhead>);

/// Makes the two ends.
pub(super) fn ends() -> (ReaderEnd, ProducerEnd) {
    let shared = Arc::new(ReadAhead::default());
    (ReaderEnd(Arc::clone(&shared)), ProducerEnd(shared))
}

impl ReadAhead {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReaderEnd {
    /// Hands over a record, and waits until there is room for it; fails if the producer is gone.
    pub(super) fn give(&self, record: ReadRecord) -> anyhow::Result<()> {
        let bytes = record.as_ref().map_or(RECORD_BYTES, size_bytes);
        let is_full = |queue: &mut Queue| queue.bytes >= BYTES_MAX && !queue.is_left;
        let queue = self.0.taken.wait_while(self.0.queue(), is_full);
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        ensure!(!queue.is_left, "the command has ended");
        let was_empty = queue.records.is_empty();
        queue.bytes = queue.bytes.saturating_add(bytes);
        queue.records.push(record);
        drop(queue);
        if was_empty {
            self.0.read.notify_one();
        }
        Ok(())
    }
}

impl Drop for ReaderEnd {
    fn drop(&mut self) {
        self.0.queue().is_over = true;
        self.0.read.notify_one();
    }
}

impl ProducerEnd {
    /// Waits for records, and returns all that there are; `None` at the end of the input.
    pub(super) async fn take(&self) -> Option<Vec<ReadRecord>> {
        loop {
            let (records, is_over) = {
                let mut queue = self.0.queue();
                queue.bytes = 0;
                (take(&mut queue.records), queue.is_over)
            };
            if !records.is_empty() {
                self.0.taken.notify_one();
                return Some(records);
            }
            if is_over {
                return None;
            }
            self.0.read.notified().await;
        }
    }
}

impl Drop for ProducerEnd {
    fn drop(&mut self) {
        self.0.queue().is_left = true;
        self.0.taken.notify_one();
    }
}

/// Returns the memory that a record takes, about.
fn size_bytes(record: &Record) -> usize {
    let of = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::capacity);
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| name.capacity().saturating_add(of(value)));
    let parts = [RECORD_BYTES, of(&record.key), of(&record.value)];
    parts
        .into_iter()
        .chain(headers)
        .fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn record(bytes: usize) -> Record {
        Record {
            value: Some(vec![b'x'; bytes]),
            ..Record::default()
        }
    }

    #[tokio::test]
    async fn a_slow_input_delays_no_record_and_its_error_comes_last() {
        let (reader, producer) = ends();
        for number in 1..=3 {
            reader.give(Ok(record(number))).unwrap();
            let taken = producer.take().await.unwrap();
            assert_eq!(taken.len(), 1);
        }
        reader.give(Ok(record(4))).unwrap();
        reader.give(Err(anyhow::anyhow!("line 5"))).unwrap();
        drop(reader);
        let taken = producer.take().await.unwrap();
        assert!(taken.len() == 2 && taken[0].is_ok() && taken[1].is_err());
        assert!(producer.take().await.is_none());
    }

    #[tokio::test]
    async fn what_is_read_ahead_is_bounded_and_handed_over_together() {
        let (reader, producer) = ends();
        let reading = thread::spawn(move || {
            for _ in 0..10_000 {
                reader.give(Ok(record(1000))).unwrap();
            }
        });
        // It reads as far as it may.
        thread::sleep(Duration::from_millis(200));
        let (mut records, mut times) = (0, 0);
        while let Some(taken) = producer.take().await {
            assert!(taken.len() <= BYTES_MAX / 1000 + 1);
            records += taken.len();
            times += 1;
            // Meanwhile it reads again.
            thread::sleep(Duration::from_millis(20));
        }
        reading.join().unwrap();
        assert_eq!(records, 10_000);
        assert!(times < 1000, "{times}");
    }

    #[test]
    fn a_reader_that_waits_for_room_ends_with_the_producer() {
        let (reader, producer) = ends();
        let reading = thread::spawn(
            move || {
                while reader.give(Ok(record(BYTES_MAX / 4))).is_ok() {}
            },
        );
        thread::sleep(Duration::from_millis(50));
        drop(producer);
        reading.join().unwrap();
    }
}
