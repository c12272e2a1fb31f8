//! Everything that was appended to a compacted log, and what must be left of it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use storage::{CompactOptions, CompactPolicy, LogOptions};
use wire::batch::builder::BatchBuilder;
use wire::batch::record::{Record, records};
use wire::batch::{BatchHeader, Compression, crc_of};
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

use crate::world::*;

pub(crate) const POLICY: CompactPolicy = CompactPolicy {
    min_lag_ms: 0,
    max_lag_ms: i64::MAX,
    delete_retention_ms: 1_000,
    dirty_ratio_min_ppm: 0,
};

pub(crate) const ROUND: CompactOptions = CompactOptions {
    map_bytes_max: 1 << 20,
    map_load_factor: 0.9,
    buffer_bytes: 64 << 10,
    bytes_per_second_max: f64::MAX,
};

pub(crate) fn compacted_options() -> LogOptions {
    LogOptions {
        segment_bytes: 4 << 10,
        compact: true,
        delete: false,
        file_delete_delay_ms: 5,
        index_interval_bytes: 256,
        ..options()
    }
}

/// What the records of a batch are to readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Plain,
    Open,
    Committed,
    Aborted,
}

#[derive(Clone, Debug)]
pub(crate) struct AppendedRecord {
    pub(crate) record: Record,
    pub(crate) fate: Fate,
    pub(crate) producer: i64,
}

/// A batch to be appended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) codec: u8,
    /// Key and length of the value; no value for a tombstone.
    pub(crate) records: Vec<(u8, Option<u8>)>,
    /// An idempotent producer.
    pub(crate) producer: Option<i64>,
    pub(crate) transactional: bool,
    pub(crate) append_time: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) records: Vec<AppendedRecord>,
    pub(crate) sequences: BTreeMap<i64, i32>,
    pub(crate) open: BTreeSet<i64>,
    /// When each offset was first compacted.
    pub(crate) compacted_at: BTreeMap<i64, i64>,
    counter: u64,
}

impl History {
    /// Appends a batch and takes note of it.
    pub(crate) fn append(&mut self, log: &SimLog, draft: &Draft, now_ms: i64) {
        let codec = Compression::from_code(i16::from(draft.codec % 5)).unwrap();
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1))
            .compression(codec)
            .log_append_time(draft.append_time);
        if let Some(id) = draft.producer {
            let sequence = self.sequences.entry(id).or_insert(0);
            builder = builder.producer(ProducerId(id), 0, *sequence);
            builder = builder.transactional(draft.transactional);
            *sequence += i32::try_from(draft.records.len()).unwrap();
        }
        for (at, (key, value)) in (0..).zip(&draft.records) {
            self.counter += 1;
            let name = self.counter.to_be_bytes();
            let headers = [("n", Some(&name[..])), ("none", None)];
            let timestamp = TimestampMs(now_ms - 50 + at % 3);
            let value = value.map(|len| vec![name[7]; usize::from(len)]);
            builder.add(timestamp, Some(&[*key]), value.as_deref(), &headers);
        }
        let batch = builder.finish().unwrap();
        let base = log.append(&batch, EPOCH, now_ms).unwrap().base_offset;
        let fate = match draft.producer {
            Some(id) if draft.transactional => {
                self.open.insert(id);
                Fate::Open
            }
            _ => Fate::Plain,
        };
        for record in records(&batch).unwrap() {
            let mut record = record.unwrap();
            record.offset = record.offset.plus(base.0);
            let producer = draft.producer.unwrap_or(-1);
            self.records.push(AppendedRecord {
                record,
                fate,
                producer,
            });
        }
    }

    /// Ends the open transaction of a producer.
    pub(crate) fn end(&mut self, log: &SimLog, id: i64, commit: bool, now_ms: i64) {
        if !self.open.remove(&id) {
            return;
        }
        log.append(&marker(id, commit, now_ms), EPOCH, now_ms)
            .unwrap();
        for appended in &mut self.records {
            if appended.producer == id && appended.fate == Fate::Open {
                appended.fate = if commit {
                    Fate::Committed
                } else {
                    Fate::Aborted
                };
            }
        }
    }

    /// Takes note of a round that compacted everything below `to`.
    pub(crate) fn note_round(&mut self, to: i64, now_ms: i64) {
        for appended in &self.records {
            let offset = appended.record.offset.0;
            if offset < to {
                self.compacted_at.entry(offset).or_insert(now_ms);
            }
        }
    }

    /// Forgets what was not durable; the records of open transactions stay undecided.
    pub(crate) fn cut(&mut self, end: i64) {
        self.records
            .retain(|appended| appended.record.offset.0 < end);
    }

    fn newest(&self, from: i64, below: i64) -> BTreeMap<Bytes, &AppendedRecord> {
        let visible = self.records.iter().filter(|appended| {
            matches!(appended.fate, Fate::Plain | Fate::Committed)
                && (from..below).contains(&appended.record.offset.0)
        });
        visible
            .map(|appended| (appended.record.key.clone().unwrap(), appended))
            .collect()
    }

    /// Holds the log against all that was appended. Below `compacted` records may be gone, nowhere
    /// else.
    pub(crate) async fn check(&self, log: &SimLog, compacted: i64, now_ms: i64) {
        let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
        let found = read_all(log, start, end).await;
        let by_offset: BTreeMap<i64, &AppendedRecord> = self
            .records
            .iter()
            .map(|appended| (appended.record.offset.0, appended))
            .collect();
        for record in &found {
            let before = by_offset.get(&record.offset.0).map(|before| &before.record);
            assert_eq!(Some(record), before, "a record is not what it was");
        }
        let there: BTreeSet<i64> = found.iter().map(|record| record.offset.0).collect();
        for (offset, _) in by_offset.range(compacted.max(start)..end) {
            assert!(there.contains(offset), "{offset} is gone, past {compacted}");
        }
        let stable = log.stable_offset().0.min(end);
        let left = read_committed(log, start, stable).await;
        let mut state: BTreeMap<Bytes, Record> = BTreeMap::new();
        for record in left {
            state.insert(record.key.clone().unwrap(), record);
        }
        for (key, newest) in self.newest(start, stable) {
            let offset = newest.record.offset;
            match (&newest.record.value, state.remove(&key)) {
                (_, Some(left)) => assert_eq!(left, newest.record, "an old record came back"),
                (Some(_), None) => panic!("{key:?} is gone, written at {offset}"),
                (None, None) => {
                    let since = self.compacted_at.get(&offset.0).copied();
                    let kept_until = since
                        .unwrap_or(i64::MAX)
                        .saturating_add(POLICY.delete_retention_ms);
                    assert!(
                        now_ms >= kept_until,
                        "the tombstone at {offset} went too early"
                    );
                }
            }
        }
        assert!(state.is_empty(), "nobody wrote {state:?}");
    }
}

pub(crate) fn marker(id: i64, commit: bool, now_ms: i64) -> Bytes {
    let mut marker = BatchBuilder::new(Offset(0), LeaderEpoch(-1))
        .control(true)
        .transactional(true)
        .producer(ProducerId(id), 0, -1);
    let (key, value) = ([0, 0, 0, u8::from(commit)], [0; 6]);
    marker.add(TimestampMs(now_ms), Some(&key), Some(&value), &[]);
    marker.finish().unwrap()
}

/// The batches from `from` on, as a fetch gives them.
pub(crate) async fn batches(log: &SimLog, from: i64, below: i64) -> Vec<(BatchHeader, Bytes)> {
    let mut found: Vec<(BatchHeader, Bytes)> = Vec::new();
    let mut at = from;
    while at < below {
        let slices = log
            .read(Offset(at), Offset(below), 3000, true)
            .await
            .unwrap();
        let mut rest: Bytes = slices.concat().into();
        if rest.is_empty() {
            break;
        }
        while !rest.is_empty() {
            let header = BatchHeader::parse(&rest).unwrap();
            let batch = rest.split_to(header.size_bytes);
            assert_eq!(crc_of(&batch), header.crc);
            assert!(header.next_offset().0 > at, "{header:?} at {at}");
            at = header.next_offset().0;
            found.push((header, batch));
        }
    }
    found
}

/// The records that a reader of everything sees.
pub(crate) async fn read_all(log: &SimLog, from: i64, below: i64) -> Vec<Record> {
    let batches = batches(log, from, below).await;
    let data = batches.iter().filter(|(header, _)| !header.is_control());
    data.flat_map(|(_, batch)| records(batch).unwrap().map(Result::unwrap))
        .filter(|record| record.offset.0 >= from)
        .collect()
}

/// The records that a consumer at `read_committed` sees, by the rule of Kafka's clients: with
/// what the index of aborted transactions says, until a producer's next abort marker.
pub(crate) async fn read_committed(log: &SimLog, from: i64, below: i64) -> Vec<Record> {
    let mut aborted = log
        .aborted_transactions(Offset(from), Offset(below))
        .await
        .unwrap();
    aborted.sort_by_key(|txn| txn.first_offset);
    let (mut aborted, mut skipped) = (aborted.into_iter().peekable(), BTreeSet::new());
    let mut found = Vec::new();
    for (header, batch) in batches(log, from, below).await {
        while let Some(txn) = aborted.next_if(|txn| txn.first_offset <= header.last_offset()) {
            skipped.insert(txn.producer_id);
        }
        if header.is_control() {
            let first = records(&batch).unwrap().next();
            let is_abort = first.is_some_and(|record| record.unwrap().key.unwrap()[3] == 0);
            if is_abort {
                skipped.remove(&header.producer_id);
            }
        } else if !(header.is_transactional() && skipped.contains(&header.producer_id)) {
            found.extend(records(&batch).unwrap().map(Result::unwrap));
        }
    }
    found.retain(|record| record.offset.0 >= from);
    found
}

/// Makes everything appended durable, and decided as far as transactions let it be.
pub(crate) async fn settle(log: &SimLog) {
    log.flush().await.unwrap();
    log.set_high_watermark(log.durable_offset());
}

/// A round over everything but the active segment.
pub(crate) async fn compact(log: &SimLog, history: &mut History, now_ms: i64) -> i64 {
    log.compaction().begin_compacting();
    // What was rolled is sealed by then.
    log.save().await.unwrap();
    let round = log.compact(&POLICY, &ROUND).await.unwrap();
    let to = log.compaction().compacted_offset().unwrap().0;
    if round.is_some() {
        history.note_round(to, now_ms);
    }
    to
}
