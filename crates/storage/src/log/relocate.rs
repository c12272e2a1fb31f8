//! Moves a log to another log directory: a copy beside it, then a switch by renaming.
//!
//! The copy (`<topic>-<partition>.<unique>-future`, as Kafka names it) takes the sealed segments
//! while the log serves; the active one is copied when the log has been closed, which is why it is
//! rolled before. Order of the switch: everything in the copy is synced, the copy says where it
//! came from (`moved.metadata`), it gets the log's name, the old folder loses it. Invariant: from
//! the renaming on both folders hold the same until the old one is gone, and the one with the note
//! is the log; before it the copy does not count, and a start removes it. A renaming that may not
//! be durable is taken back, durably; where that fails, too, the log is left to the next start
//! (`is_undecided`).
//! Segments on other tiers' paths stay where they are; their notes are copied.
//! It does not: decide when to move or who waits, or open the log in its new place
//! (`Store::open_log`).

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;
use platform::disk::{Disk, IoClass};
use platform::task;
use wire::types::{Offset, Uuid};

use super::Log;
use crate::checkpoint::moved_log::{self, MovedLog};
use crate::checkpoint::{leader_epochs, partition_metadata};
use crate::error::{Error, Result};
use crate::log::flush::{SHORTAGE_RETRY_INTERVAL, journaled};
use crate::segment::Segment;
use crate::segment::naming::{self, Name, Role, file_path};
use crate::store::LogPoints;
use crate::tier::copy::{self, Original, Trouble};
use crate::tier::pace::MoveRate;

/// Longest of the small files that are copied with a log.
const COPIED_BYTES_MAX: u64 = 256 << 20;
/// Longest note of a move that is read.
const NOTE_BYTES_MAX: u64 = 4 << 10;
/// How often what fails for want of descriptors is tried, where it cannot be left as it is.
const TRIES: usize = 40;
const INDEXES: [Role; 3] = [Role::OffsetIndex, Role::TimeIndex, Role::TxnIndex];

/// A copy under way.
///
/// Dropping it leaves a folder that [`Relocation::abandon`] removes, or the next start.
pub struct Relocation<P: Platform> {
    log: Rc<Log<P>>,
    /// Tells its note from those of other moves.
    id: Uuid,
    /// The log directory that the log goes to.
    dir: PathBuf,
    /// The folder of the copy.
    folder: PathBuf,
    copied: RefCell<Vec<CopiedSegment<P>>>,
    bytes: Cell<u64>,
    cancelled: Cell<bool>,
    /// Either folder may count after a start: neither may be written to before.
    undecided: Cell<bool>,
    /// The new name of the folder that the log has left.
    retired: RefCell<Option<PathBuf>>,
    /// The rate of what is copied while the log serves.
    rate: Arc<MoveRate>,
}

/// A segment whose copy is whole, as long as the log has this segment and it was not truncated
/// since.
struct CopiedSegment<P: Platform> {
    segment: Rc<Segment<P>>,
    cuts: u32,
}

impl<P: Platform> Relocation<P> {
    /// Makes the folder of a copy of `log` in the log directory `dir`.
    ///
    /// Until the switch, the copying is limited to `rate`.
    pub async fn begin(log: &Rc<Log<P>>, dir: &Path, rate: Arc<MoveRate>) -> Result<Self> {
        let store = log.store();
        let platform = &store.shared.platform;
        let id = Uuid::from_u64_pair(platform.random_u64(), platform.random_u64());
        let folder = dir.join(naming::future_folder_name(&log.partition, id));
        let home = dir.join(naming::folder_name(&log.partition));
        match store.disk().list(&home).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("list", &home)(error)),
            Ok(_) => {
                let taken = std::io::Error::from(ErrorKind::AlreadyExists);
                return Err(Error::io("move a log to", &home)(taken));
            }
        }
        let created = store.disk().create_dir(&folder).await;
        created.map_err(Error::io("create", &folder))?;
        let owner = folder.join(partition_metadata::FILE);
        let bytes = partition_metadata::encode(log.topic_id);
        let written = store.disk().replace_file(&owner, &bytes).await;
        written.map_err(Error::io("write", &owner))?;
        Ok(Self {
            log: Rc::clone(log),
            id,
            dir: dir.to_path_buf(),
            folder,
            copied: RefCell::default(),
            bytes: Cell::new(0),
            cancelled: Cell::new(false),
            undecided: Cell::new(false),
            retired: RefCell::default(),
            rate,
        })
    }

    /// Returns the log directory that the log goes to.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the bytes of records that have been copied.
    pub fn copied_bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Returns the largest end of the copied segments; the log start if there is none yet.
    pub fn copied_end(&self) -> Offset {
        let copied = self.copied.borrow();
        let ends = copied.iter().map(|copied| copied.segment.next());
        ends.max().unwrap_or_else(|| self.log.log_start_offset())
    }

    /// Ends the copying at the next step.
    pub fn cancel(&self) {
        self.cancelled.set(true);
    }

    /// Returns true when the copy has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }

    /// Returns true when only a start can find out in which directory the log is.
    ///
    /// The log must not be opened before.
    pub fn is_undecided(&self) -> bool {
        self.undecided.get()
    }

    /// Copies the sealed segments that have not been copied; returns the bytes at home that are
    /// left.
    pub async fn catch_up(&self) -> Result<u64> {
        for segment in self.sealed() {
            self.copy(&segment, &self.rate).await?;
        }
        let segments = self.log.segments.all();
        let left = segments.iter().filter(|segment| self.is_wanted(segment));
        Ok(left
            .map(|segment| segment.size())
            .fold(0, u64::saturating_add))
    }

    /// Completes the copy of the log, which has been closed, and gives it the log's name.
    ///
    /// Until this has succeeded the log is where it was; afterwards it is in the new directory, and
    /// [`Relocation::retire`] removes the old copy.
    pub async fn switch(&self, from: Uuid) -> Result<LogPoints> {
        if !self.log.is_closed() || self.is_cancelled() {
            return Err(Error::Closed);
        }
        let rest: Vec<_> = {
            let segments = self.log.segments.all();
            let wanted = segments.iter().filter(|segment| self.is_wanted(segment));
            wanted.cloned().collect()
        };
        // The log takes no writes meanwhile: the copying goes as fast as it can.
        let unlimited = MoveRate::default();
        for segment in rest {
            self.copy(&segment, &unlimited).await?;
        }
        self.copy_small_files().await?;
        self.remove_overtaken().await?;
        let points = self.log.points();
        let moved = MovedLog {
            from,
            recovery_point: points.recovery_point,
            log_start: points.log_start,
            compacted: points.compacted,
            id: Some(self.id),
        };
        let disk = self.log.store.disk();
        let note = self.folder.join(moved_log::FILE);
        let written = disk.replace_file(&note, &moved_log::encode(&moved)).await;
        written.map_err(Error::io("write", &note))?;
        let synced = disk.sync_dir(&self.folder).await;
        synced.map_err(Error::dir_sync(&self.folder))?;
        // A start would put what an earlier stay has left in the journal of the directory over it.
        let id = (&self.log.partition, self.log.topic_id);
        drop(journaled::before_opening(&self.log.store, &self.dir, id).await?);
        let home = self.dir.join(naming::folder_name(&self.log.partition));
        let renamed = disk.rename(&self.folder, &home).await;
        renamed.map_err(Error::io("rename", &self.folder))?;
        let synced = self.patiently(async || self.sync(&self.dir).await).await;
        if let Err(error) = synced {
            if let Err(again) = self.take_back(&home).await {
                self.undecided.set(true);
                tracing::error!(folder = %home.display(), %error, %again,
                    "neither a move nor its end is durable: the log is offline until the next start");
            }
            return Err(error);
        }
        self.log.store.forget(&self.log);
        Ok(points)
    }

    /// Takes the log's name from the copy, and before that the note that would make it the log.
    ///
    /// Both are durable when it returns.
    async fn take_back(&self, home: &Path) -> Result<()> {
        let disk = self.log.store.disk();
        let note = home.join(moved_log::FILE);
        self.patiently(async || super::files::remove(disk, &note).await)
            .await?;
        self.patiently(async || self.sync(home).await).await?;
        let renamed = disk.rename(home, &self.folder).await;
        renamed.map_err(Error::io("rename", home))?;
        self.patiently(async || self.sync(&self.dir).await).await
    }

    async fn sync(&self, dir: &Path) -> Result<()> {
        let synced = self.log.store.disk().sync_dir(dir).await;
        synced.map_err(Error::dir_sync(dir))
    }

    /// Repeats an attempt while the machine is short of descriptors or memory.
    ///
    /// The attempt must be repeatable.
    async fn patiently(&self, mut attempt: impl AsyncFnMut() -> Result<()>) -> Result<()> {
        for _ in 1..TRIES {
            match attempt().await {
                Err(error) if error.is_exhausted() => {
                    self.log.store.close_unused_files();
                    self.log.store.clock().sleep(SHORTAGE_RETRY_INTERVAL).await;
                }
                result => return result,
            }
        }
        attempt().await
    }

    /// Takes the name from the folder that the log has left, and removes it after
    /// `file.delete.delay.ms`.
    ///
    /// The loss of the name is durable when it returns. After a failure it may be called again.
    pub async fn retire(&self) -> Result<()> {
        let log = &self.log;
        let store = log.store.clone();
        let known = self.retired.borrow().clone();
        let gone = if let Some(gone) = known {
            gone
        } else {
            let platform = &store.shared.platform;
            let unique = Uuid::from_u64_pair(platform.random_u64(), platform.random_u64());
            let gone = naming::deleted_folder_name(&log.partition, unique);
            let gone = log.dir.join(gone);
            let renamed = store.disk().rename(&log.folder, &gone).await;
            renamed.map_err(Error::io("rename", &log.folder))?;
            self.retired.replace(Some(gone.clone()));
            gone
        };
        self.sync(&log.dir).await?;
        let delay = Duration::from_millis(log.options().file_delete_delay_ms);
        let store = store.clone();
        task::spawn(async move {
            store.clock().sleep(delay).await;
            if let Err(error) = store.disk().remove_dir_in_pieces(&gone).await {
                // The next start removes it.
                tracing::warn!(folder = %gone.display(), %error, "the folder of a log that has moved stays");
            }
            store.shared.room_made.notify_waiters();
        });
        Ok(())
    }

    /// Returns true when the folder that the log has left has lost its name, durably or not.
    pub fn is_unnamed(&self) -> bool {
        self.retired.borrow().is_some()
    }

    /// Removes the note: the old folder is gone, and the checkpoints name the log.
    ///
    /// The log may have moved on and back since, or another topic's log may be there: the note of
    /// another move stays. The caller keeps the name from being given away meanwhile.
    pub async fn settle(&self) -> Result<()> {
        let disk = self.log.store.disk();
        let home = self.dir.join(naming::folder_name(&self.log.partition));
        let note = home.join(moved_log::FILE);
        let found = match disk.read_file_within(&note, NOTE_BYTES_MAX).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found.map_err(Error::io("read", &note))?,
        };
        let moved = moved_log::parse(&note, &found);
        if moved.is_ok_and(|moved| moved.id == Some(self.id)) {
            super::files::remove(disk, &note).await?;
        }
        Ok(())
    }

    /// Removes a copy that is not wanted any more.
    pub async fn abandon(&self) {
        self.cancel();
        match self.log.store.disk().remove_dir(&self.folder).await {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(folder = %self.folder.display(), %error, "a copy that is not wanted stays");
            }
            _ => {}
        }
    }

    /// Returns true for a segment at home whose copy is missing or out of date.
    fn is_wanted(&self, segment: &Rc<Segment<P>>) -> bool {
        let copied = self.copied.borrow();
        let has = copied
            .iter()
            .any(|copied| Rc::ptr_eq(&copied.segment, segment) && copied.cuts == segment.cuts());
        !has && self.log.is_home(&segment.folder) && !segment.is_absent()
    }

    fn sealed(&self) -> Vec<Rc<Segment<P>>> {
        let segments = self.log.segments.all();
        let sealed = segments.iter().filter(|segment| segment.is_sealed());
        let wanted = sealed.filter(|segment| self.is_wanted(segment) && !segment.are_names_lent());
        wanted.cloned().collect()
    }

    async fn copy(&self, segment: &Rc<Segment<P>>, rate: &MoveRate) -> Result<()> {
        let disk = self.log.store.disk();
        let (cuts, size) = (segment.cuts(), segment.size());
        // The switch seals the active segment.
        let sealed_ms = if segment.is_sealed() {
            segment.sealed_ms()
        } else {
            self.log.store.clock().wall_ms()
        };
        let target = file_path(&self.folder, segment.base, Role::Log);
        let source = segment.path(Role::Log);
        let done = async {
            let file = segment.file(disk).await.map_err(Trouble::Source)?;
            let original = Original {
                file: &file,
                path: &source,
                base: segment.base,
                size,
                sealed_ms,
                // An operator has asked for it, and waits.
                class: IoClass::Foreground,
            };
            let goes_on = || !self.is_cancelled() && self.is_there(segment, cuts);
            copy::data(&self.log.store, original, &target, rate, goes_on).await?;
            for role in INDEXES {
                let index = self.copy_file(&naming::file_name(segment.base, role)).await;
                index.map_err(Trouble::Target)?;
            }
            Ok(())
        };
        // It was deleted, or moved to another tier, while it waited for its turn.
        if !self.is_there(segment, cuts) {
            return Ok(());
        }
        let result: Result<(), Trouble> = done.await;
        if self.is_cancelled() {
            return Err(Error::Closed);
        }
        if !self.is_there(segment, cuts) {
            // Retention, compaction or another tier has it; the switch removes what there is of the
            // copy.
            return Ok(());
        }
        match result {
            Ok(()) => {
                self.bytes.set(self.bytes.get() + size);
                let segment = Rc::clone(segment);
                self.copied
                    .borrow_mut()
                    .push(CopiedSegment { segment, cuts });
                Ok(())
            }
            Err(Trouble::Overtaken) => Ok(()),
            Err(Trouble::Damaged(damage)) => {
                segment.take_offline(damage.reason);
                self.log.store.shared.metrics.corruptions.inc();
                Err(Error::Corrupt {
                    path: source,
                    position: damage.position,
                    reason: damage.reason,
                })
            }
            Err(Trouble::Source(error) | Trouble::Target(error) | Trouble::Home(error)) => {
                Err(error)
            }
        }
    }

    /// Returns true while the log has the segment and it has not been truncated.
    fn is_there(&self, segment: &Rc<Segment<P>>, cuts: u32) -> bool {
        let segments = self.log.segments.all();
        segment.cuts() == cuts && segments.iter().any(|other| Rc::ptr_eq(other, segment))
    }

    /// Copies producer snapshots, checkpoints and notes: everything at home but segments.
    async fn copy_small_files(&self) -> Result<()> {
        let log = &self.log;
        let entries = log.store.disk().list(&log.folder).await;
        for entry in entries.map_err(Error::io("list", &log.folder))? {
            let wanted = match naming::classify(&entry.name) {
                Name::Segment(_, Role::Snapshot) | Name::Away(..) | Name::Owed(_) => true,
                Name::Checkpoint => {
                    [partition_metadata::FILE, leader_epochs::FILE].contains(&entry.name.as_str())
                }
                _ => false,
            };
            if wanted && !entry.is_dir {
                self.copy_file(&entry.name).await?;
            }
        }
        Ok(())
    }

    async fn copy_file(&self, name: &str) -> Result<()> {
        let disk = self.log.store.disk();
        let (from, to) = (self.log.folder.join(name), self.folder.join(name));
        match disk.read_file_within(&from, COPIED_BYTES_MAX).await {
            Ok(bytes) => {
                let written = disk.replace_file(&to, &bytes).await;
                written.map_err(Error::io("write", &to))
            }
            // A segment without aborted transactions has no index of them; any other index is
            // rebuilt.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                super::files::remove(disk, &to).await
            }
            Err(error) => Err(Error::io("read", &from)(error)),
        }
    }

    /// Removes from the copy what the log no longer has.
    async fn remove_overtaken(&self) -> Result<()> {
        let disk = self.log.store.disk();
        let entries = disk.list(&self.folder).await;
        for entry in entries.map_err(Error::io("list", &self.folder))? {
            let stays = match naming::classify(&entry.name) {
                Name::Segment(base, role) if role != Role::Snapshot => {
                    let segments = self.log.segments.all();
                    let mut home = segments.iter();
                    home.any(|segment| segment.base == base && self.log.is_home(&segment.folder))
                }
                Name::Leftover => false,
                _ => true,
            };
            if !stays {
                super::files::remove(disk, &self.folder.join(&entry.name)).await?;
            }
        }
        Ok(())
    }
}
