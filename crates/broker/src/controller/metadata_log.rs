//! The metadata log of a standalone broker: `__cluster_metadata-0` with its snapshots, without
//! other voters.
//!
//! This node is the only voter. Every start is an election that it wins: the epoch grows by one,
//! first in `quorum-state`, then as a leader change in the log. What is durable is committed. The
//! log writes a snapshot when it has grown enough, and deletes what lies below the newest snapshot.
//! Invariants: one append at a time (the controller's turn); a batch counts only once it is
//! durable; nothing is appended to a log that could not be read to its end.

mod error;
mod snapshots;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::clock::Instant;
use platform::{Disk, Platform};
use storage::{Durability, FailureKind, Log, LogOptions, OpenAs, Stamp, Store, folder_name};
use wire::records::control::{ControlRecord, LeaderChange, LeaderChangeVoter};
use wire::records::metadata::{MetadataRecord, MetadataVersion};
use wire::types::{LeaderEpoch, NodeId, Offset, TimestampMs, TopicId, TopicPartition, Uuid};

use crate::image::{Image, ImagePosition, Replayer};
use crate::metrics::lately::{Durations, RecentDurations};
use crate::names::METADATA_TOPIC;

use super::batches::{BadBatch, QuorumRecords, UnfitRecords, encode, encode_control, replay};
use super::quorum_state::{self, QuorumState};
use super::snapshot::{self, BOOTSTRAP_FILE_NAME, SnapshotId};
pub use error::MetadataLogError;
use error::io_error;

const READ_BYTES: usize = 1 << 20;
/// Maximum size of a change, which is one batch: as in Kafka, a longer one is refused.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// Pause after a failed snapshot before the next attempt.
const SNAPSHOT_AGAIN: Duration = Duration::from_mins(1);
/// Maximum size of a snapshot file that a start reads.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

const _: () = assert!(
    READ_BYTES <= BATCH_BYTES_MAX,
    "a read is of a batch or of several"
);

/// Where the metadata log is, and this node's identity in the cluster.
#[derive(Clone, Debug)]
pub struct Home {
    /// This node.
    pub node: NodeId,
    /// The log directory that holds the metadata log.
    pub dir: PathBuf,
    /// How to open the log.
    pub open_as: OpenAs,
    /// Ids of the usable log directories.
    pub directories: Vec<Uuid>,
    /// Bytes of metadata between two snapshots.
    pub snapshot_bytes: u64,
    /// True if there are logs of topics: an empty metadata log is not theirs.
    pub has_logs: bool,
    /// Space reserved for changes on a full disk; 0 for none.
    pub reserve_bytes: u64,
}

/// The open log.
pub(crate) struct MetadataLog<P: Platform> {
    platform: P,
    log: Rc<Log<P>>,
    home: Home,
    folder: PathBuf,
    epoch: LeaderEpoch,
    quorum: RefCell<QuorumRecords>,
    /// Bytes of records since the newest snapshot.
    unsnapshot_bytes: Cell<u64>,
    /// When to try the next snapshot, after one that could not be written.
    snapshot_again: Cell<Option<Instant>>,
    /// True while an append may or may not be durable.
    unknown: Cell<bool>,
    /// How long batches took to be committed, lately.
    commits: RefCell<RecentDurations>,
}

/// Records that are encoded and ready to be appended.
pub(crate) struct EncodedRecords {
    batch: Bytes,
    /// True if the records make the broker use more disk space; these leave half of the reserve to
    /// records that do not.
    takes_room: bool,
}

impl<P: Platform> MetadataLog<P> {
    /// Opens the log, builds the image from it, and begins a new epoch.
    pub(crate) async fn open(
        platform: P,
        store: &Store<P>,
        home: Home,
    ) -> Result<(Self, Replayer), MetadataLogError> {
        let partition = TopicPartition {
            topic: METADATA_TOPIC.into(),
            partition: 0,
        };
        let folder = home.dir.join(folder_name(&partition));
        let options = log_options(home.reserve_bytes);
        let log = store
            .open_log(
                &home.dir,
                partition,
                TopicId::METADATA,
                options,
                home.open_as,
            )
            .await
            .map_err(|source| MetadataLogError::Open {
                path: folder.clone(),
                source,
            })?;
        // Changes that free space, such as deleting a topic or shortening its retention, need room
        // in this log.
        log.tiers().ignore_capacities();
        let mut unfit = UnfitRecords::default();
        let start = log.log_start_offset();
        let (image, quorum) = newest_snapshot(&platform, &folder, start, &mut unfit).await?;
        let from = SnapshotId::of(&image);
        let commits = RefCell::new(RecentDurations::since(platform.clock().now()));
        let mut this = Self {
            platform,
            log,
            home,
            folder,
            epoch: from.epoch,
            quorum: RefCell::new(quorum),
            unsnapshot_bytes: Cell::new(0),
            snapshot_again: Cell::new(None),
            unknown: Cell::new(false),
            commits,
        };
        let replayer = this.read_from(from.end, image, &mut unfit).await?;
        unfit.say(&this.home.dir);
        if this.home.has_logs && replayer.image().last_applied_offset() < Offset::ZERO {
            return Err(MetadataLogError::Empty { path: this.folder });
        }
        this.begin_epoch().await?;
        Ok((this, replayer))
    }

    /// Replays the log from `from`.
    async fn read_from(
        &self,
        from: Offset,
        image: Image,
        unfit: &mut UnfitRecords,
    ) -> Result<Replayer, MetadataLogError> {
        let log = &self.log;
        if log.log_end_offset() < from {
            // The log ends before the snapshot does, so it holds nothing that the snapshot lacks.
            log.truncate_fully_and_start_at(from).await?;
        }
        if log.log_start_offset() > from {
            let log_start = log.log_start_offset();
            let path = self.folder.clone();
            return Err(MetadataLogError::Gap {
                path,
                log_start,
                snapshot: from,
            });
        }
        let mut replayer = Replayer::new(image);
        let mut quorum = self.quorum.take();
        let end = log.log_end_offset();
        let mut next = from;
        while next < end {
            let read = log.read(next, end, READ_BYTES, true).await;
            let read = read.map_err(|source| MetadataLogError::Open {
                path: self.folder.clone(),
                source,
            })?;
            let before = next;
            // A batch may lie across two slices.
            let bytes = match <[Bytes; 1]>::try_from(read) {
                Ok([bytes]) => bytes,
                Err(slices) => slices.concat().into(),
            };
            let replayed = replay(&bytes, from, &mut replayer, &mut quorum, unfit);
            replayed.map_err(|source| self.content(source))?;
            self.count_bytes(bytes.len());
            next = next.max(replayer.image().last_applied_offset().plus(1));
            if next == before {
                break;
            }
        }
        *self.quorum.borrow_mut() = quorum;
        log.set_high_watermark(end);
        Ok(replayer)
    }

    /// Begins a new epoch in `quorum-state`, as the only voter.
    async fn begin_epoch(&mut self) -> Result<(), MetadataLogError> {
        let path = self.folder.join(quorum_state::FILE_NAME);
        let known = match self.platform.disk().read_file(&path).await {
            Ok(bytes) => match QuorumState::parse(&bytes) {
                Some(known) => known,
                None => self.without_quorum_state(&path).await?,
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => QuorumState::NEW,
            Err(error) => return Err(io_error("read", &path, error)),
        };
        let logged = self.log.latest_epoch().unwrap_or(LeaderEpoch(0));
        let last = known.epoch.max(logged).max(self.epoch);
        let next = last.0.checked_add(1).filter(|next| *next < i32::MAX);
        let next = next.ok_or_else(|| MetadataLogError::Epochs {
            path: self.folder.clone(),
        })?;
        self.epoch = LeaderEpoch(next);
        let state = QuorumState {
            epoch: self.epoch,
            ..known
        };
        let written = self
            .platform
            .disk()
            .replace_file(&path, &state.encode(self.home.node))
            .await;
        written.map_err(|error| io_error("write", &path, error))?;
        self.log.start_epoch(self.epoch);
        Ok(())
    }

    /// Sets aside a file that does not contain an epoch; the log knows every epoch in which a
    /// record was written.
    async fn without_quorum_state(&self, path: &Path) -> Result<QuorumState, MetadataLogError> {
        let aside = path.with_extension("damaged");
        tracing::error!(file = %path.display(), aside = %aside.display(),
            "not a file of Kafka's quorum state: set aside, the log says which epoch it is");
        let renamed = self.platform.disk().rename(path, &aside).await;
        renamed.map_err(|error| io_error("rename", path, error))?;
        let voters_in_log = self.quorum.borrow().voters.is_some();
        Ok(QuorumState {
            version: i32::from(voters_in_log),
            ..QuorumState::NEW
        })
    }

    /// Refuses ACLs that an authorizer could not enforce.
    pub(crate) fn check_acls(&self, image: &Image) -> Result<(), MetadataLogError> {
        match image.acls().unplaced().next() {
            None => Ok(()),
            Some((_, source)) => Err(MetadataLogError::Acl {
                path: self.folder.clone(),
                source,
            }),
        }
    }

    /// Appends the leader change that begins the epoch.
    pub(crate) async fn append_leader_change(&self) -> Result<ImagePosition, MetadataLogError> {
        let me = LeaderChangeVoter {
            voter_id: self.home.node.0,
            ..LeaderChangeVoter::default()
        };
        let change = LeaderChange {
            leader_id: self.home.node.0,
            voters: vec![me.clone()],
            granting_voters: vec![me],
            ..LeaderChange::default()
        };
        let at = (Offset::ZERO, self.epoch);
        let batch = encode_control(&[ControlRecord::LeaderChange(change)], at, self.now());
        self.append_batch(&batch.map_err(|source| self.content(source))?)
            .await
    }

    /// Encodes records as one batch, and refuses those that are too long for one.
    pub(crate) fn encoded(
        &self,
        records: &[MetadataRecord],
        level: MetadataVersion,
    ) -> Result<EncodedRecords, MetadataLogError> {
        let at = (Offset::ZERO, self.epoch);
        let batch = encode(records, level, at, self.now(), BATCH_BYTES_MAX);
        let batch = batch.map_err(|source| match source {
            BadBatch::TooLarge(bytes_max) => MetadataLogError::TooLarge(bytes_max),
            source => self.content(source),
        })?;
        Ok(EncodedRecords {
            batch,
            takes_room: records.iter().any(takes_room),
        })
    }

    /// Appends records, waits until they are durable, and returns the position of the log.
    pub(crate) async fn append(
        &self,
        encoded: &EncodedRecords,
    ) -> Result<ImagePosition, MetadataLogError> {
        if encoded.takes_room {
            self.leave_reserve(encoded.batch.len()).await?;
        }
        self.append_batch(&encoded.batch).await
    }

    /// Refuses records that take more room on a full disk: half of the reserve is for changes that
    /// free some.
    async fn leave_reserve(&self, batch_bytes: usize) -> Result<(), MetadataLogError> {
        let half = self.home.reserve_bytes / 2;
        let batch_bytes = u64::try_from(batch_bytes).unwrap_or(u64::MAX);
        let needed = half.saturating_add(batch_bytes);
        if half == 0 || self.log.reserved_bytes() >= needed {
            return Ok(());
        }
        match self.log.reserve().await {
            Err(error)
                if error.kind() == FailureKind::Full && self.log.reserved_bytes() < needed =>
            {
                Err(error.into())
            }
            // A file system need not support reservation.
            _ => Ok(()),
        }
    }

    /// Makes the reserve as large as the disk allows; runs at a start, before other writers take
    /// the space.
    pub(crate) async fn reserve(&self) {
        if let Err(error) = self.log.reserve().await {
            tracing::warn!(%error, reserved_bytes = self.log.reserved_bytes(),
                "there is little room for changes of the metadata on a full disk");
        }
    }

    /// Returns the bytes reserved for changes on a full disk.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.log.reserved_bytes()
    }

    async fn append_batch(&self, batch: &Bytes) -> Result<ImagePosition, MetadataLogError> {
        let stamp = Stamp {
            leader_epoch: self.epoch,
            log_append_time: None,
        };
        if self.unknown.get() {
            return Err(self.trouble());
        }
        let began = self.platform.clock().now();
        let appended = self
            .log
            .append(batch, stamp, self.platform.clock().wall_ms())?;
        // From here the batch may be on disk: nothing is appended after it until it is known to be
        // durable.
        self.unknown.set(true);
        self.log.flush_for_good().await?;
        self.unknown.set(false);
        self.log.set_high_watermark(appended.last_offset.plus(1));
        let now = self.platform.clock().now();
        let took = now.saturating_duration_since(began);
        self.commits.borrow_mut().note(took, now);
        self.count_bytes(batch.len());
        Ok(ImagePosition {
            offset: appended.last_offset,
            epoch: self.epoch,
            timestamp: appended.max_timestamp,
        })
    }

    /// Returns how long batches took to be committed, lately.
    pub(crate) fn commits(&self) -> Durations {
        let now = self.platform.clock().now();
        self.commits.borrow_mut().noted(now)
    }

    /// Returns the log directory that holds the log.
    pub(crate) fn dir(&self) -> &Path {
        self.log.dir()
    }

    /// Returns true while the log holds accepted batches until the disk has room for them.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.log.failed().is_some_and(|error| error.is_passing())
    }

    /// Returns true if an append did not come to its end: until the next start the broker does not
    /// know whether its records are there. Asked during a turn, when no append is under way.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.unknown.get()
    }

    /// Returns the reason why nothing can be appended.
    pub(crate) fn trouble(&self) -> MetadataLogError {
        let unknown = || storage::Error::Failed {
            reason: "an append before did not come to its end".into(),
        };
        self.log.failed().unwrap_or_else(unknown).into()
    }

    /// Returns the offset that the next record will have.
    pub(crate) fn end_offset(&self) -> Offset {
        self.log.log_end_offset()
    }

    /// Returns the directory under which the log names this node as a voter; nil if it names none.
    pub(crate) fn voter_directory(&self) -> Uuid {
        let quorum = self.quorum.borrow();
        let voters = quorum
            .voters
            .as_ref()
            .map_or(&[][..], |voters| &voters.voters);
        let me = voters
            .iter()
            .find(|voter| voter.voter_id == self.home.node.0);
        me.map_or(Uuid::nil(), |voter| voter.voter_directory_id)
    }

    /// Returns the epoch of this run.
    pub(crate) fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Returns the records that a new cluster begins with, from `bootstrap.checkpoint`.
    ///
    /// Writes that file if it is missing, so that Kafka can be started on the directory. A damaged
    /// file is an error only for a log that is `new`.
    pub(crate) async fn bootstrap(
        &self,
        default: Vec<MetadataRecord>,
        new: bool,
    ) -> Result<Vec<MetadataRecord>, MetadataLogError> {
        let path = self.home.dir.join(BOOTSTRAP_FILE_NAME);
        let disk = self.platform.disk();
        match disk.read_file(&path).await {
            Ok(bytes) => match snapshot::read(&bytes.into()) {
                Ok(found) => Ok(found.map_or(default, |found| found.records)),
                Err(source) if new => Err(MetadataLogError::Content { path, source }),
                Err(source) => {
                    tracing::error!(file = %path.display(), error = %source, "damaged, and not needed any more");
                    Ok(default)
                }
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let bytes = snapshot::write(
                    &default,
                    MetadataVersion::V4_3,
                    &QuorumRecords::default(),
                    LeaderEpoch(0),
                    TimestampMs(0),
                );
                let bytes = bytes.map_err(|source| self.content(source))?;
                let written = disk.replace_file(&path, &bytes).await;
                written.map_err(|error| io_error("write", &path, error))?;
                Ok(default)
            }
            Err(error) => Err(io_error("read", &path, error)),
        }
    }

    /// Closes the log as a clean stop does.
    pub(crate) async fn close(&self) -> Result<(), MetadataLogError> {
        Ok(self.log.close().await?)
    }

    fn count_bytes(&self, bytes: usize) {
        let more = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.unsnapshot_bytes
            .set(self.unsnapshot_bytes.get().saturating_add(more));
    }

    fn now(&self) -> TimestampMs {
        TimestampMs(self.platform.clock().wall_ms())
    }

    fn content(&self, source: BadBatch) -> MetadataLogError {
        MetadataLogError::Content {
            path: self.folder.clone(),
            source,
        }
    }
}

/// Returns true for a record that creates logs, or that clients can cause at any time.
fn takes_room(record: &MetadataRecord) -> bool {
    use MetadataRecord::{Partition, ProducerIds, Topic};
    matches!(record, Topic(_) | Partition(_) | ProducerIds(_))
}

/// Returns the snapshots in the folder, oldest first.
async fn snapshots<P: Platform>(
    platform: &P,
    folder: &Path,
) -> Result<Vec<SnapshotId>, MetadataLogError> {
    let listed = platform.disk().list(folder).await;
    let listed = listed.map_err(|error| io_error("list", folder, error))?;
    let mut found: Vec<_> = listed
        .iter()
        .filter_map(|entry| SnapshotId::parse(&entry.name))
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// Returns the image of the newest snapshot that is whole, or the empty image.
///
/// Skips a damaged or unfinished snapshot and leaves its file. Nothing is lost if an older snapshot
/// or the log itself, which begins at `log_start`, covers the same records; otherwise the start
/// fails with the error of the damaged one.
async fn newest_snapshot<P: Platform>(
    platform: &P,
    folder: &Path,
    log_start: Offset,
    unfit: &mut UnfitRecords,
) -> Result<(Image, QuorumRecords), MetadataLogError> {
    let mut damaged = None;
    for id in snapshots(platform, folder).await?.into_iter().rev() {
        let path = folder.join(id.file_name());
        let bytes = platform.disk().read_file_within(&path, SNAPSHOT_BYTES_MAX);
        let bytes = bytes.await;
        let bytes = bytes.map_err(|error| io_error("read", &path, error))?;
        match snapshot::read(&bytes.into()) {
            Ok(Some(found)) if damaged.is_none() || id.end >= log_start => {
                return Ok(found.image(id, unfit));
            }
            Ok(Some(_)) => break,
            Ok(None) => {
                tracing::warn!(snapshot = %path.display(), "an unfinished snapshot is not used");
            }
            Err(source) => {
                tracing::error!(snapshot = %path.display(), error = %source, "a damaged snapshot is not used");
                damaged.get_or_insert(MetadataLogError::Content { path, source });
            }
        }
    }
    match damaged {
        Some(error) if log_start > Offset::ZERO => Err(error),
        _ => Ok((Image::empty(), QuorumRecords::default())),
    }
}

/// Returns the options of the metadata log: it keeps everything above its newest snapshot, and
/// syncs every append.
fn log_options(reserve_bytes: u64) -> LogOptions {
    LogOptions {
        segment_bytes: 1 << 30,
        segment_ms: None,
        segment_jitter_ms: 0,
        index_interval_bytes: 4096,
        index_bytes_max: 10 << 20,
        retention_ms: None,
        retention_bytes: None,
        flush_messages: 1,
        flush_ms: 0,
        max_batch_bytes: BATCH_BYTES_MAX,
        delete: true,
        compact: false,
        durability: Durability::Synced,
        preallocate: false,
        reserve_bytes,
        file_delete_delay_ms: 60_000,
        producer_id_expiration_ms: i64::MAX,
        // The broker cannot run without the metadata, so the log stays out of the slower tiers,
        // which may fail.
        tier_pins: Some((0, 0)),
    }
}
