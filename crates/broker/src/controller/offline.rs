//! Reads the metadata of a stopped broker to its end, whatever it holds, and rebuilds it.
//!
//! Reads as a start does (the newest whole snapshot, then the log from its end), but continues
//! where a start has to stop: past a damaged batch, past a record that cannot be decoded.
//! Everything that it skips is a [`Finding`]. [`read`] keeps all of it for tools; [`judge`] keeps
//! what says how a start ends. Works on bytes only: the caller reads the files, and writes what
//! [`Reading::snapshot`] returns. No text has a secret (`offline/text.rs`).

mod text;
mod users;

use std::path::Path;

use bytes::{Buf, Bytes};
use storage::checkpoint::{leader_epochs, partition_metadata};
use wire::batch::{BatchHeader, Batches, HEADER_BYTES, records};
use wire::records::control::ControlRecord;
use wire::records::metadata::{ClientQuotaRecord, ConfigRecord, MetadataRecord};
use wire::types::{LeaderEpoch, NodeId, Offset, TimestampMs, TopicId};

use super::batches::{BadBatch, QuorumRecords, is_possible};
use super::quorum_state::{self, QuorumState};
use super::snapshot::{self, SnapshotId};
use crate::image::{Image, ImagePosition, Replayer, ResourceType, entity_entries};
use crate::options::ConfigKey;
pub use users::first_users;

/// Findings that [`judge`] keeps; it counts more.
const FINDINGS_MAX: usize = 1000;

/// The files of `__cluster_metadata-0`, by name.
pub type Files = Vec<(String, Bytes)>;

/// A defect of the metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// Offset of the record or batch; in a snapshot, its index.
    pub offset: i64,
    /// True if a start fails because of it; a start skips what is not fatal.
    pub fatal: bool,
    /// True if a broker that runs leaves it so until it has written the rest.
    pub in_flight: bool,
    /// What is wrong, as text.
    pub problem: String,
}

/// One record that was decoded.
#[derive(Clone, Debug)]
pub struct DecodedRecord {
    /// The file.
    pub file: String,
    /// Its offset; in a snapshot, its index.
    pub offset: i64,
    /// The record as text, without secrets.
    pub text: String,
}

/// The result of reading.
#[derive(Debug)]
pub struct Reading {
    /// The defects, in the order of reading.
    // Bounded by `FINDINGS_MAX` where `judge` read them.
    pub findings: Vec<Finding>,
    /// Defects that were found and are not kept.
    pub more_findings: usize,
    /// The decoded records, in the order of reading; none where `judge` read them.
    pub shown: Vec<DecodedRecord>,
    keys: &'static [ConfigKey],
    image: Image,
    quorum: QuorumRecords,
    epoch: LeaderEpoch,
    end: Offset,
}

/// Reads the files of the folder, and keeps each record as text and each finding. `keys` is the
/// configuration table of brokers: values of keys that it does not have are hidden in the text.
pub fn read(files: &Files, keys: &'static [ConfigKey]) -> Reading {
    let reader = Reader {
        keys,
        ..Reader::default()
    };
    read_by(reader, files, true)
}

/// Reads the files of the folder for what a start makes of them: without the text of records, and
/// with a bounded number of findings.
///
/// `has_logs` says whether the directories hold logs of topics: beside those, a start refuses
/// metadata without a record.
pub fn judge(files: &Files, has_logs: bool) -> Reading {
    let reader = Reader {
        is_brief: true,
        ..Reader::default()
    };
    read_by(reader, files, has_logs)
}

/// Returns those of the names in the folder that [`judge`] needs: the segments, the small files,
/// and last the snapshots, the newest first.
///
/// It needs no snapshot after the first whole one ([`is_whole_snapshot`]).
pub fn needed(names: Vec<String>) -> Vec<String> {
    let (mut snapshots, mut needed): (Vec<_>, Vec<_>) = names
        .into_iter()
        .partition(|name| SnapshotId::parse(name).is_some());
    let small = [
        quorum_state::FILE_NAME,
        partition_metadata::FILE,
        leader_epochs::FILE,
    ];
    needed.retain(|name| segment_base(name).is_some() || small.contains(&name.as_str()));
    // Their names are numbers of one length, so they sort as the numbers do.
    snapshots.sort_unstable();
    needed.extend(snapshots.into_iter().rev());
    needed
}

/// Returns true if a file of this name is a snapshot.
pub fn is_snapshot(name: &str) -> bool {
    SnapshotId::parse(name).is_some()
}

/// Returns true if these are the bytes of a snapshot that was finished and is not damaged.
pub fn is_whole_snapshot(bytes: &Bytes) -> bool {
    matches!(snapshot::read(bytes), Ok(Some(_)))
}

fn read_by(mut reader: Reader, files: &Files, has_logs: bool) -> Reading {
    let mut segments: Vec<(i64, &String, &Bytes)> = files
        .iter()
        .filter_map(|(name, bytes)| Some((segment_base(name)?, name, bytes)))
        .collect();
    segments.sort_unstable_by_key(|(base, ..)| *base);
    let start = segments.first().map_or(0, |(base, ..)| *base);
    let image = reader.snapshots(files, start);
    let from = SnapshotId::of(&image).end;
    if start > from.0 {
        let problem = format!(
            "the log begins at offset {start}, the newest whole snapshot ends at {from}: records are missing"
        );
        reader.find("", from.0, true, problem);
    }
    reader.replayer = Replayer::new(image);
    reader.end = from.max(Offset(start));
    for (place, (base, name, bytes)) in segments.iter().enumerate() {
        let behind = segments.get(place + 1);
        let bounds = SegmentBounds {
            base: Offset(*base),
            behind: behind.map(|(base, ..)| Offset(*base)),
            from,
        };
        reader.segment(name, bytes, &bounds);
    }
    reader.small_files(files);
    if reader.end == Offset::ZERO && has_logs {
        let problem =
            "neither the log nor a snapshot holds a record; beside logs of topics a start fails";
        reader.find("", 0, true, problem.to_owned());
    }
    if reader.replayer.in_transaction() {
        let problem =
            "a transaction of metadata was begun and not ended; a start undoes it".to_owned();
        reader.find_in_flight("", reader.end.0, problem);
    }
    if reader.epoch.0 >= i32::MAX - 1 {
        let problem = "its leader epochs are used up".to_owned();
        reader.find("", reader.end.0, true, problem);
        // Rebuilt metadata may restart the epochs, because no other node has a copy of this log.
        reader.epoch = LeaderEpoch(0);
    }
    Reading {
        image: reader.replayer.image().clone(),
        findings: reader.findings,
        more_findings: reader.more_findings,
        shown: reader.shown,
        keys: reader.keys,
        quorum: reader.quorum,
        epoch: reader.epoch,
        end: reader.end,
    }
}

fn segment_base(name: &str) -> Option<i64> {
    let base = name.strip_suffix(".log")?;
    let digits = base.len() == 20 && base.bytes().all(|it| it.is_ascii_digit());
    digits.then(|| base.parse().ok()).flatten()
}

/// Where a segment lies.
struct SegmentBounds {
    /// Its first offset.
    base: Offset,
    /// The first offset of the segment behind it; `None` for the last one.
    behind: Option<Offset>,
    /// The end of the snapshot: a start reads nothing below.
    from: Offset,
}

struct Reader {
    /// True if text is not kept, and findings only up to their bound.
    is_brief: bool,
    /// The configuration table, by which values are shown; without it those of brokers are hidden.
    keys: &'static [ConfigKey],
    findings: Vec<Finding>,
    more_findings: usize,
    is_fatal: bool,
    shown: Vec<DecodedRecord>,
    replayer: Replayer,
    quorum: QuorumRecords,
    epoch: LeaderEpoch,
    end: Offset,
    /// Offset that follows the last whole batch.
    next: Option<Offset>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            is_brief: false,
            keys: &[],
            findings: Vec::new(),
            more_findings: 0,
            is_fatal: false,
            shown: Vec::new(),
            replayer: Replayer::new(Image::empty()),
            quorum: QuorumRecords::default(),
            epoch: LeaderEpoch(0),
            end: Offset::ZERO,
            next: None,
        }
    }
}

impl Reader {
    fn find(&mut self, file: &str, offset: i64, fatal: bool, problem: String) {
        self.keep(Finding {
            file: file.to_owned(),
            offset,
            fatal,
            in_flight: false,
            problem,
        });
    }

    /// Notes what a start skips, and what a broker that runs is about to complete.
    fn find_in_flight(&mut self, file: &str, offset: i64, problem: String) {
        self.keep(Finding {
            file: file.to_owned(),
            offset,
            fatal: false,
            in_flight: true,
            problem,
        });
    }

    /// Keeps a finding; beyond the bound only the first that is fatal, in the place of another.
    fn keep(&mut self, finding: Finding) {
        let is_first_fatal = finding.fatal && !self.is_fatal;
        self.is_fatal |= finding.fatal;
        if !self.is_brief || self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
            return;
        }
        self.more_findings = self.more_findings.saturating_add(1);
        if is_first_fatal && let Some(last) = self.findings.last_mut() {
            *last = finding;
        }
    }

    /// Checks the other files that a start reads.
    fn small_files(&mut self, files: &Files) {
        for (name, bytes) in files {
            let path = Path::new(name);
            match name.as_str() {
                quorum_state::FILE_NAME if QuorumState::parse(bytes).is_none() => {
                    let problem = "not a file of Kafka's quorum state; a start sets it aside";
                    self.find(name, 0, false, problem.to_owned());
                }
                partition_metadata::FILE => match partition_metadata::parse(path, bytes) {
                    Ok(TopicId::METADATA) => {}
                    Ok(id) => self.find(name, 0, true, format!("the log of another topic: {id}")),
                    Err(error) => self.find(name, 0, true, error.to_string()),
                },
                leader_epochs::FILE => {
                    if let Err(error) = leader_epochs::parse(path, bytes) {
                        self.find(name, 0, false, error.to_string());
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the image of the newest whole snapshot.
    ///
    /// If only a damaged one covers what lies below the log, returns what can be read of it. A
    /// damaged one is fatal only then.
    fn snapshots(&mut self, files: &Files, log_start: i64) -> Image {
        let mut named: Vec<(SnapshotId, &String, &Bytes)> = files
            .iter()
            .filter_map(|(name, bytes)| Some((SnapshotId::parse(name)?, name, bytes)))
            .collect();
        named.sort_unstable_by_key(|(id, ..)| *id);
        let (mut usable, mut damaged) = (None, Vec::new());
        for (id, name, bytes) in named.into_iter().rev() {
            match snapshot::read(bytes) {
                Ok(Some(_)) => {
                    let covers = damaged.is_empty() || id.end.0 >= log_start;
                    usable = covers.then_some((id, name, bytes));
                    break;
                }
                Ok(None) => {
                    let problem = "not finished; a start does not use it".to_owned();
                    self.find_in_flight(name, 0, problem);
                }
                Err(error) => damaged.push((error, (id, name, bytes))),
            }
        }
        // Without a snapshot, a start reads the log from its first record.
        let is_fatal = usable.is_none() && log_start > 0;
        for (error, (_, name, _)) in &damaged {
            self.find(name, 0, is_fatal, error.to_string());
        }
        let newest_damaged = damaged.into_iter().next().filter(|_| is_fatal);
        match usable.or(newest_damaged.map(|(_, file)| file)) {
            Some((id, name, bytes)) => self.salvage(id, name, bytes),
            None => Image::empty(),
        }
    }

    /// Returns the image of the readable batches of a snapshot.
    fn salvage(&mut self, id: SnapshotId, name: &str, bytes: &Bytes) -> Image {
        self.replayer = Replayer::new(Image::empty());
        let mut place = 0;
        for batch in Batches::new(bytes) {
            let Ok((header, batch)) = batch else { break };
            let damaged = wire::batch::iter::check_crc(&header, batch).is_err();
            if damaged || !is_possible(&header) {
                continue;
            }
            self.batch(name, &header, &bytes.slice_ref(batch), place);
            place = header.last_offset().0.saturating_add(1);
        }
        self.epoch = self.epoch.max(id.epoch);
        let mut image = self.replayer.image().clone();
        image.advance(ImagePosition {
            offset: Offset(id.end.0 - 1),
            epoch: id.epoch,
            timestamp: TimestampMs(0),
        });
        image
    }

    fn segment(&mut self, name: &str, bytes: &Bytes, bounds: &SegmentBounds) {
        let from = bounds.from;
        let mut rest = bytes.clone();
        while !rest.is_empty() {
            let header = BatchHeader::parse(&rest);
            let whole =
                header.filter(|it| it.size_bytes >= HEADER_BYTES && it.size_bytes <= rest.len());
            let Some(header) = whole else {
                let problem = format!("{} bytes are no batch", rest.len());
                // Before the first batch of a segment, damage is at its base.
                let offset = self.next.unwrap_or(bounds.base);
                if self.skip_damage(name, &mut rest, offset, problem, bounds) {
                    continue;
                }
                return;
            };
            // Bounded: a whole batch, checked above.
            let batch = rest.slice(..header.size_bytes);
            if !is_possible(&header) {
                let problem = BadBatch::Absurd(header.base_offset).to_string();
                self.find(name, header.base_offset.0, true, problem);
                rest.advance(header.size_bytes);
                continue;
            }
            if let Err(error) = wire::batch::iter::check_crc(&header, &batch) {
                let problem = BadBatch::Batch(header.base_offset, error).to_string();
                if self.skip_damage(name, &mut rest, header.base_offset, problem, bounds) {
                    continue;
                }
                return;
            }
            rest.advance(header.size_bytes);
            if header.base_offset < self.end && header.base_offset >= from {
                let problem = "an offset that was there before".to_owned();
                self.find(name, header.base_offset.0, true, problem);
                continue;
            }
            if let Some(next) = self.next.filter(|next| header.base_offset > *next) {
                let problem = format!("the records from offset {next} on are missing");
                self.find(name, next.0, header.base_offset > from, problem);
            }
            self.next = Some(header.next_offset());
            self.end = self.end.max(header.next_offset());
            self.epoch = self.epoch.max(header.leader_epoch);
            if header.base_offset >= from {
                self.batch(name, &header, &batch, header.base_offset.0);
            }
        }
    }

    /// Skips bytes that are not a batch, up to the next whole batch. Returns false if there is
    /// none.
    ///
    /// In the last segment, such bytes without a whole batch after them are the batch that was
    /// being written when the process ended, and a start truncates them. If whole batches follow, a
    /// start fails, unless all that is damaged lies below the end of the snapshot, in a sealed
    /// segment: a recovery checks the last one from its beginning.
    fn skip_damage(
        &mut self,
        name: &str,
        rest: &mut Bytes,
        offset: Offset,
        problem: String,
        bounds: &SegmentBounds,
    ) -> bool {
        self.next = None;
        let from = bounds.from;
        let behind = rest.get(1..).unwrap_or_default(); // Nothing follows the last byte.
        let Some(skipped) = storage::first_batch(behind, self.end) else {
            let is_zeros = rest.iter().all(|byte| *byte == 0);
            match bounds.behind {
                _ if is_zeros => {}
                None => self.find_in_flight(name, offset.0, problem),
                Some(behind) => self.find(name, offset.0, behind > from, problem),
            }
            return false;
        };
        assert!(
            skipped < behind.len(),
            "a batch that was found is in what was searched"
        );
        let follows = BatchHeader::parse(&behind[skipped..]);
        let is_resumed = follows.is_some_and(|it| it.base_offset <= from);
        let is_below = bounds.behind.is_some() && offset < from && is_resumed;
        let problem = format!("{problem}; whole batches follow");
        self.find(name, offset.0, !is_below, problem);
        rest.advance(skipped + 1);
        true
    }

    fn batch(&mut self, name: &str, header: &BatchHeader, batch: &Bytes, first: i64) {
        let each = match records(batch) {
            Ok(each) => each,
            Err(error) => return self.find(name, first, true, error.to_string()),
        };
        for (at, record) in (first..).zip(each) {
            let record = match record {
                Ok(record) => record,
                Err(error) => return self.find(name, at, true, error.to_string()),
            };
            let Some(value) = record.value else {
                self.find(name, at, true, "a record without a value".to_owned());
                continue;
            };
            if header.is_control() {
                match ControlRecord::decode(&record.key.unwrap_or_default(), &value) {
                    Ok(control) => {
                        self.show(name, at, || format!("{control:?}"));
                        self.quorum.note(vec![control]);
                    }
                    Err(error) => self.find(name, at, true, error.to_string()),
                }
                continue;
            }
            match MetadataRecord::decode(&value) {
                Ok(record) => self.apply(name, at, record, header),
                Err(error) => self.find(name, at, true, error.to_string()),
            }
        }
    }

    fn apply(&mut self, name: &str, at: i64, record: MetadataRecord, header: &BatchHeader) {
        let keys = self.keys;
        self.show(name, at, || text::record(&record, keys));
        let applied = ImagePosition {
            offset: Offset(at),
            epoch: header.leader_epoch,
            timestamp: header.max_timestamp,
        };
        let mut unfit = None;
        let replayer = &mut self.replayer;
        replayer.replay([record], applied, |_, error| unfit = Some(error));
        if let Some(error) = unfit {
            self.find(name, at, false, error.to_string());
        }
    }

    fn show(&mut self, file: &str, offset: i64, text: impl FnOnce() -> String) {
        if self.is_brief {
            return;
        }
        self.shown.push(DecodedRecord {
            file: file.to_owned(),
            offset,
            text: text(),
        });
    }
}

impl Reading {
    /// Returns true if a start fails.
    pub fn is_fatal(&self) -> bool {
        self.findings.iter().any(|finding| finding.fatal)
    }

    /// Returns true if no record was found.
    pub fn is_empty(&self) -> bool {
        self.end == Offset::ZERO
    }

    /// Returns the metadata, as far as they were decoded.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Returns the topics that were decoded, with their partition counts.
    pub fn topics(&self) -> impl Iterator<Item = (&str, usize)> {
        let topics = self.image.topics();
        topics.map(|topic| (topic.name.as_ref(), topic.partitions.len()))
    }

    /// Removes every dynamic value called `key`: of brokers, groups and client metrics, of topics
    /// (or of `topic` only), and as a quota. Returns a line for each, without secrets.
    pub fn reset(&mut self, key: &str, topic: Option<&str>) -> Vec<String> {
        let mut said = Vec::new();
        let mut records: Vec<MetadataRecord> = Vec::new();
        let kinds = [
            (ResourceType::BROKER, "broker"),
            (ResourceType::TOPIC, "topic"),
            (ResourceType::GROUP, "group"),
            (ResourceType::CLIENT_METRICS, "client metrics"),
        ];
        for (kind, word) in kinds {
            for name in self.image.configured(kind) {
                let wanted = topic.is_none_or(|topic| kind == ResourceType::TOPIC && topic == name);
                let Some(value) = self.image.setting(kind, name, key).filter(|_| wanted) else {
                    continue;
                };
                let of = if name.is_empty() { "(all)" } else { name };
                let setting = text::setting(self.keys, kind, key, value);
                said.push(format!("{word} {of:?}: {setting}"));
                let record = ConfigRecord {
                    resource_type: kind.0,
                    resource_name: name.to_owned(),
                    name: key.to_owned(),
                    value: None,
                };
                records.push(record.into());
            }
        }
        for (entity, quotas) in self.image.quotas().iter().filter(|_| topic.is_none()) {
            let Some(value) = quotas.get(key) else {
                continue;
            };
            said.push(format!("quota of {entity:?}: {key}={value}"));
            let record = ClientQuotaRecord {
                entity: entity_entries(entity),
                key: key.to_owned(),
                value: 0.0,
                remove: true,
            };
            records.push(record.into());
        }
        for record in records {
            if let Err(error) = self.image.replay(record) {
                said.push(format!("not taken back: {error}"));
            }
        }
        said
    }

    /// Returns the name and bytes of a snapshot that replaces all that was read, from which a start
    /// continues.
    pub fn snapshot(&self) -> Result<(String, Vec<u8>), BadBatch> {
        let end = Offset(self.end.0.max(1));
        let id = SnapshotId {
            end,
            epoch: self.epoch,
        };
        let image = &self.image;
        let (records, level) = (image.records(), image.metadata_version());
        let time = image.applied().timestamp;
        let bytes = snapshot::write(&records, level, &self.quorum, id.epoch, time)?;
        Ok((id.file_name(), bytes))
    }

    /// Returns the name and bytes of `quorum-state` for a rebuilt folder.
    pub fn quorum_state(&self, node: NodeId) -> (&'static str, Vec<u8>) {
        let state = QuorumState {
            epoch: self.epoch,
            version: i32::from(self.quorum.voters.is_some()),
        };
        (quorum_state::FILE_NAME, state.encode(node))
    }
}
