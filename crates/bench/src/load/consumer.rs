//! The positions of a consumer's partitions, and the processing of fetched batches.
//!
//! This module only decides; `consume.rs` sends and waits. Invariant: a position is the offset
//! after the last counted record, and no record before it is counted again.

use std::collections::HashMap;

use anyhow::Context as _;
use bytes::Bytes;
use wire::batch::{BatchHeader, records};
use wire::messages::FetchRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::types::ErrorCode;

use super::cluster::topic_name;
use super::fetch_wire::Reading;
use super::hook::{ConsumerCheck, PartitionPlace};
use super::tally::ArrivedRecords;
use super::worker::Worker;
use crate::spec::Consume;

/// A partition that is consumed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) place: PartitionPlace,
    /// Offset of the next record.
    pub(super) position: i64,
    /// The position that the broker's fetch session knows.
    told: Option<i64>,
}

/// The readers that share a connection.
pub(super) struct Readers<'a> {
    worker: &'a Worker,
    all: Vec<Reader>,
    by_place: HashMap<PartitionPlace, usize>,
    topics: HashMap<&'a str, u32>,
    checking: Option<Box<dyn ConsumerCheck>>,
    session: Session,
    current: usize,
    /// A leader moved, or a position no longer exists: positions and leaders must be looked up.
    pub(super) lost: bool,
}

/// A fetch session: the broker remembers the partitions and positions, and requests carry only
/// changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Session {
    /// The next request creates the session.
    Wanted,
    /// Open with this id; the epoch is that of the next request.
    Open { id: i32, epoch: i32 },
    /// The broker created none.
    Refused,
}

impl<'a> Readers<'a> {
    pub(super) fn new(
        worker: &'a Worker,
        positions: &[(PartitionPlace, i64)],
        checking: Option<Box<dyn ConsumerCheck>>,
    ) -> Self {
        let readers = positions.iter().map(|&(place, position)| Reader {
            place,
            position,
            told: None,
        });
        let places = positions.iter().enumerate();
        let names = worker.cluster.topics.iter().zip(0..);
        Self {
            worker,
            all: readers.collect(),
            by_place: places.map(|(index, (place, _))| (*place, index)).collect(),
            topics: names.map(|(name, index)| (name.as_str(), index)).collect(),
            checking,
            session: Session::Wanted,
            current: 0,
            lost: false,
        }
    }

    /// Returns the positions reached.
    pub(super) fn positions(&self) -> Vec<(PartitionPlace, i64)> {
        let positions = self
            .all
            .iter()
            .map(|reader| (reader.place, reader.position));
        positions.collect()
    }

    /// Returns the next request.
    pub(super) fn request(&mut self, consume: &Consume, version: i16) -> FetchRequest {
        let (id, epoch) = match self.session {
            _ if version < 7 => (0, -1),
            Session::Wanted => (0, 0),
            Session::Open { id, epoch } => (id, epoch),
            Session::Refused => (0, -1),
        };
        let whole = epoch <= 0;
        let mut topics: Vec<FetchTopic> = Vec::new();
        let mut last = None;
        for reader in &mut self.all {
            if !whole && reader.told == Some(reader.position) {
                continue;
            }
            reader.told = Some(reader.position);
            if last != Some(reader.place.topic) {
                last = Some(reader.place.topic);
                let name = &self.worker.cluster.topics[reader.place.topic as usize];
                topics.push(FetchTopic::default().with_topic(topic_name(name)));
            }
            let partition = FetchPartition::default()
                .with_partition(reader.place.partition.cast_signed())
                .with_current_leader_epoch(-1)
                .with_fetch_offset(reader.position)
                .with_partition_max_bytes(consume.partition_max_bytes.cast_signed());
            if let Some(topic) = topics.last_mut() {
                topic.partitions.push(partition);
            }
        }
        FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(consume.max_wait_ms.cast_signed())
            .with_min_bytes(consume.min_bytes.cast_signed())
            .with_max_bytes(consume.max_bytes.cast_signed())
            .with_session_id(id)
            .with_session_epoch(epoch)
            .with_topics(topics)
    }

    /// Returns whether every reader has reached its end in `to`.
    pub(super) fn have_read(&self, to: &std::collections::BTreeMap<PartitionPlace, i64>) -> bool {
        let behind = |reader: &Reader| {
            to.get(&reader.place)
                .is_some_and(|end| reader.position < *end)
        };
        !self.all.iter().any(behind)
    }
}

impl Reading for Readers<'_> {
    fn begins(&mut self, error: i16, session_id: i32) {
        self.session = match (ErrorCode::try_from_code(error), self.session) {
            (None, _) if session_id == 0 => Session::Refused,
            (None, Session::Open { id, epoch }) if id == session_id => Session::Open {
                id,
                // The epoch after the largest one is 1; 0 would open another session.
                epoch: epoch.checked_add(1).unwrap_or(1),
            },
            (None, _) => Session::Open {
                id: session_id,
                epoch: 1,
            },
            (Some(error), _) => {
                let mut tally = self.worker.tally.borrow_mut();
                tally.error(format!("consume: {error:?}"));
                Session::Wanted
            }
        };
    }

    fn partition(&mut self, topic: &str, index: i32, error: i16) -> anyhow::Result<()> {
        let place = self.topics.get(topic).map(|topic| PartitionPlace {
            topic: *topic,
            partition: index.cast_unsigned(),
        });
        let reader = place.and_then(|place| self.by_place.get(&place));
        self.current = *reader.context("an answer for a partition nobody asked for")?;
        if let Some(error) = ErrorCode::try_from_code(error) {
            self.lost = true;
            let mut tally = self.worker.tally.borrow_mut();
            tally.error(format!("consume: {error:?}"));
        }
        Ok(())
    }

    fn batch(
        &mut self,
        header: &BatchHeader,
        bytes: u64,
        whole: Option<&Bytes>,
    ) -> anyhow::Result<()> {
        let reader = &mut self.all[self.current];
        let (from, next) = (reader.position, header.next_offset().0);
        if next <= from {
            return Ok(());
        }
        reader.position = next;
        if header.is_control() {
            return Ok(());
        }
        let count = u64::try_from(header.record_count).unwrap_or(0);
        // The first batch may start before the position.
        let known = u64::try_from(from - header.base_offset.0)
            .unwrap_or(0)
            .min(count);
        let arrived = ArrivedRecords {
            records: count - known,
            bytes: bytes - bytes / count.max(1) * known,
            wire_bytes: header.size_bytes as u64,
        };
        let now = self.worker.now();
        let age_ms = self.worker.clock.get().wall_ms(now) - header.max_timestamp.0 as f64;
        let shared = &self.worker.shared;
        shared.add_read(arrived.records, arrived.bytes);
        self.worker
            .tally
            .borrow_mut()
            .read(now, arrived, age_ms / 1e3);
        if let (Some(checking), Some(whole)) = (&mut self.checking, whole) {
            let place = reader.place;
            for record in records(whole)? {
                let record = record?;
                if record.offset.0 >= from {
                    let (key, value) = (record.key.as_deref(), record.value.as_deref());
                    checking.read(place, record.offset.0, key, value);
                }
            }
        }
        Ok(())
    }
}
