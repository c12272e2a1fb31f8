//! Logs that are written through journals, as plain bytes: what is known of them from outside, and
//! the files that they have.
//!
//! A log has a history of contents. A start has to find one of those from the last acknowledged
//! one on. As with the logs of a store, a folder says whose it is, and has its first segment, under
//! durable names, before the log has parts in a ring: a start takes a segment before the first one
//! that it finds for deleted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use platform::buf::AlignedBuf;
use platform::disk::{Disk, DiskFile, Open};
use platform::sim::{SimDisk, SimFile};
use platform::sync::{OwnedSemaphorePermit, Semaphore};

use super::*;
use crate::checkpoint::partition_metadata;
use crate::journal::committer::{Acknowledgement, Committer, HeldLanding, Lander};
use crate::journal::error::JournalError;
use crate::journal::submission::{OwnedChange, OwnedPart};
use crate::segment::naming::{Name, Role, classify, file_path};

pub(super) const DIR: &str = "/log";

/// The bytes of the segments, by base offset, without empty ones; `None` is no log.
pub(super) type Content = Option<BTreeMap<i64, Vec<u8>>>;

/// A mistake of those who use journals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StoryBug {
    /// A landing ends before the segments are synced.
    LandWithoutSync,
    /// A landing ends before the names of new segments are synced.
    LandWithoutNames,
    /// A log has parts in the ring before the name of its first segment is durable.
    FirstWithoutName,
    /// A truncation leaves nothing in the journal.
    TruncateWithoutCut,
    /// A log is appended to past the journal while its cut may be read back.
    AppendPastCut,
    /// A log is made again while parts of the one before it may be read back.
    MakeAgainAtOnce,
}

/// What is known of a log.
pub(super) struct KnownLog {
    pub(super) number: u128,
    /// The base of the segment that grows.
    pub(super) active: i64,
    pub(super) history: Vec<Content>,
    /// Of the history: the last one that was acknowledged.
    pub(super) acknowledged: usize,
    /// The last of the history is being written past the journal: parts of it may be there.
    pub(super) is_past_journal: bool,
}

pub(super) type KnownLogs = Rc<RefCell<Vec<KnownLog>>>;

impl KnownLog {
    pub(super) fn new(number: u128) -> Self {
        Self {
            number,
            active: 0,
            history: vec![None],
            acknowledged: 0,
            is_past_journal: false,
        }
    }

    pub(super) fn id(&self) -> LogId {
        log(self.number)
    }

    pub(super) fn folder(&self) -> PathBuf {
        Path::new(DIR).join(format!("topic{}-0", self.number))
    }

    pub(super) fn newest(&self) -> &Content {
        self.history.last().unwrap()
    }

    pub(super) fn push(&mut self, content: Content) -> usize {
        self.history.push(content);
        self.history.len() - 1
    }

    /// Compares what a start has found; the log continues from there.
    pub(super) async fn check(&mut self, disk: &SimDisk) -> Result<(), String> {
        let Ok(mut found) = content_of(disk, &self.folder()).await else {
            return Ok(()); // The power is off.
        };
        let acknowledged = &self.history[self.acknowledged];
        if self.is_past_journal && begins_with(&found, acknowledged) {
            // A recovery of the log cuts off what is no batch.
            cut_off(disk, &self.folder(), &found, acknowledged);
            found = acknowledged.clone();
        }
        let possible = &self.history[self.acknowledged..];
        if !possible.contains(&found) {
            return Err(format!(
                "log {} is {}, which is none of {:?}",
                self.number,
                shown(&found),
                possible.iter().map(shown).collect::<Vec<_>>()
            ));
        }
        let last = found.as_ref().and_then(|found| found.keys().next_back());
        self.active = last.copied().unwrap_or(0);
        *self = Self {
            history: vec![found],
            ..Self {
                active: self.active,
                ..Self::new(self.number)
            }
        };
        Ok(())
    }
}

fn shown(content: &Content) -> String {
    let Some(content) = content else {
        return "gone".to_owned();
    };
    let lengths = content.iter().map(|(base, bytes)| {
        let first: Vec<_> = bytes.iter().take(3).collect();
        format!("{base}:{}:{first:?}", bytes.len())
    });
    lengths.collect::<Vec<_>>().join(" ")
}

/// Returns true if one content continues the other.
fn begins_with(longer: &Content, shorter: &Content) -> bool {
    let (Some(longer), Some(shorter)) = (longer, shorter) else {
        return false;
    };
    let mut shorter = shorter.iter();
    shorter.all(|(base, bytes)| {
        let found = longer.get(base);
        found.is_some_and(|found| found.starts_with(bytes))
    })
}

fn cut_off(disk: &SimDisk, folder: &Path, found: &Content, to: &Content) {
    for base in found.iter().flatten().map(|(base, _)| base) {
        let path = file_path(folder, Offset(*base), Role::Log);
        let bytes = to.as_ref().and_then(|to| to.get(base));
        disk.put(&path, bytes.map_or(&[], Vec::as_slice)).unwrap();
    }
}

/// Returns what the files of a log hold; they never hold zeros of its own.
async fn content_of(disk: &SimDisk, folder: &Path) -> std::io::Result<Content> {
    let entries = match disk.list(folder).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        listed => listed?,
    };
    let mut content = BTreeMap::new();
    for entry in entries {
        let Name::Segment(base, Role::Log) = classify(&entry.name) else {
            continue;
        };
        let mut bytes = disk.contents(&folder.join(&entry.name))?;
        while bytes.pop_if(|last| *last == 0).is_some() {}
        if !bytes.is_empty() {
            content.insert(base.0, bytes);
        }
    }
    Ok(Some(content))
}

/// A log that is served.
pub(super) struct LiveLog {
    pub(super) disk: SimDisk,
    pub(super) at: usize,
    pub(super) known: KnownLogs,
    pub(super) committer: Committer<SimFile>,
    /// The holder may write to its segments.
    pub(super) writing: Arc<Semaphore>,
    /// What was handed in and not acknowledged: of the history.
    pub(super) handed_in: RefCell<Option<(Acknowledgement, usize)>>,
    /// How long the files are.
    pub(super) landed: RefCell<BTreeMap<i64, usize>>,
    pub(super) last_part: Cell<Option<Sequence>>,
    pub(super) last_cut: Cell<Option<Sequence>>,
    /// It may have parts.
    pub(super) is_named: Cell<bool>,
    pub(super) planted: Option<StoryBug>,
}

pub(super) type StoryResult<T> = Result<T, Box<dyn std::error::Error>>;

impl LiveLog {
    pub(super) fn id(&self) -> LogId {
        self.known.borrow()[self.at].id()
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.known.borrow()[self.at].folder()
    }

    pub(super) fn newest(&self) -> Content {
        self.known.borrow()[self.at].newest().clone()
    }

    pub(super) fn push(&self, content: Content) -> usize {
        self.known.borrow_mut()[self.at].push(content)
    }

    pub(super) fn acknowledge(&self, number: usize) {
        let known = &mut self.known.borrow_mut()[self.at];
        known.acknowledged = known.acknowledged.max(number);
    }

    /// Returns true when the files have everything.
    pub(super) fn is_landed(&self) -> bool {
        let landed = self.landed.borrow();
        let newest = self.newest();
        let mut all = newest.iter().flatten();
        all.all(|(base, bytes)| landed.get(base) == Some(&bytes.len()))
    }

    /// Takes bytes to the journal; returns when they are durable.
    pub(super) async fn commit(&self, parts: Vec<OwnedPart>, content: Content) -> StoryResult<()> {
        let number = self.push(content);
        let acknowledgement = self.committer.hand_in(parts).await?;
        *self.handed_in.borrow_mut() = Some((acknowledgement, number));
        let answer = std::future::poll_fn(|context| {
            let mut handed_in = self.handed_in.borrow_mut();
            let Some((acknowledgement, _)) = handed_in.as_mut() else {
                return Poll::Ready(None);
            };
            let answer = Pin::new(acknowledgement).poll(context);
            answer.map(Some)
        });
        if let Some(answer) = answer.await {
            let taken = self.handed_in.borrow_mut().take();
            self.settled(answer?, taken.unwrap().1);
        }
        Ok(())
    }

    /// Takes note of what is durable.
    fn settle(&self) {
        let mut handed_in = self.handed_in.borrow_mut();
        let Some((acknowledgement, number)) = handed_in.as_mut() else {
            return;
        };
        let (answer, number) = (acknowledgement.now(), *number);
        if answer.is_none() {
            return;
        }
        // An answer is taken once, also that the journal has failed.
        *handed_in = None;
        drop(handed_in);
        if let Some(Ok(sequence)) = answer {
            self.settled(sequence, number);
        }
    }

    fn settled(&self, sequence: Sequence, number: usize) {
        self.last_part.set(Some(sequence));
        self.acknowledge(number);
    }

    /// Writes a segment's bytes from where the file ends; syncs it.
    async fn write(&self, base: i64, bytes: &[u8]) -> std::io::Result<()> {
        let path = file_path(&self.folder(), Offset(base), Role::Log);
        let landed = self.landed.borrow().get(&base).copied();
        let file = match self.disk.open(&path, Open::Write).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.disk.open(&path, Open::Create).await?
            }
            opened => opened?,
        };
        let from = landed.unwrap_or(0) / 4096 * 4096;
        let mut blocks = AlignedBuf::zeroed((bytes.len() - from).next_multiple_of(4096));
        blocks[..bytes.len() - from].copy_from_slice(&bytes[from..]);
        file.write_at(from as u64, vec![blocks.freeze()]).await?;
        if self.planted != Some(StoryBug::LandWithoutSync) {
            file.sync().await?;
        }
        self.landed.borrow_mut().insert(base, bytes.len());
        Ok(())
    }

    /// Writes to the files what they lack of a content; durable when it returns.
    pub(super) async fn write_all(&self, content: &Content) -> std::io::Result<()> {
        for (base, bytes) in content.iter().flatten() {
            let landed = self.landed.borrow().get(base).copied().unwrap_or(0);
            if landed < bytes.len() {
                self.write(*base, bytes).await?;
            }
        }
        if self.planted == Some(StoryBug::LandWithoutNames) {
            return Ok(());
        }
        self.disk.sync_dir(&self.folder()).await
    }

    /// Cuts the files back to a position of a segment, which stays, durably.
    pub(super) async fn cut_files(&self, segment: i64, position: usize) -> std::io::Result<()> {
        let mut landed = self.landed.borrow().clone();
        let behind = landed.split_off(&(segment + 1));
        for base in behind.into_keys().rev() {
            let path = file_path(&self.folder(), Offset(base), Role::Log);
            self.disk.remove_file(&path).await?;
            self.landed.borrow_mut().remove(&base);
        }
        if landed
            .get(&segment)
            .is_some_and(|length| position < *length)
        {
            let path = file_path(&self.folder(), Offset(segment), Role::Log);
            let file = self.disk.open(&path, Open::Write).await?;
            file.set_len(position as u64).await?;
            file.sync().await?;
            self.landed.borrow_mut().insert(segment, position);
        }
        self.disk.sync_dir(&self.folder()).await
    }

    /// Makes the folder of a log that is not there.
    pub(super) async fn make(&self) -> StoryResult<()> {
        let number = self.push(Some(BTreeMap::new()));
        let folder = self.folder();
        self.disk.create_dir(&folder).await?;
        self.known.borrow_mut()[self.at].active = 0;
        self.acknowledge(number);
        Ok(())
    }

    /// Has the folder say whose it is, and where the log begins, as opening a log does.
    ///
    /// What is there may be what a killed process has left, and not be durable.
    pub(super) async fn name_first(&self) -> StoryResult<()> {
        if self.is_named.get() {
            return Ok(());
        }
        let folder = self.folder();
        self.disk.create_dir(&folder).await?;
        let owner = folder.join(partition_metadata::FILE);
        if self.disk.contents(&owner).is_err() {
            let bytes = partition_metadata::encode(self.id().topic_id);
            self.disk.replace_file(&owner, &bytes).await?;
        }
        let first = file_path(&folder, Offset(0), Role::Log);
        let is_late = self.planted == Some(StoryBug::FirstWithoutName);
        if !is_late && self.disk.contents(&first).is_err() {
            self.disk.open(&first, Open::Create).await?;
        }
        self.disk.sync_dir(&folder).await?;
        self.is_named.set(true);
        Ok(())
    }
}

pub(super) fn bytes_part(id: LogId, base: i64, position: usize, bytes: Vec<u8>) -> OwnedPart {
    OwnedPart {
        log: id,
        segment: Offset(base),
        position: u32::try_from(position).unwrap(),
        change: OwnedChange::Bytes {
            leader_epoch: LeaderEpoch(1),
            bytes: Bytes::from(bytes),
        },
    }
}

pub(super) fn cut_part(id: LogId, base: i64, position: usize) -> OwnedPart {
    let offset = Offset(base + i64::try_from(position).unwrap());
    OwnedPart {
        log: id,
        segment: Offset(base),
        position: u32::try_from(position).unwrap(),
        change: OwnedChange::Cut { offset },
    }
}

/// Lands the logs of a shard.
pub(super) struct LogLander(pub(super) Vec<Rc<LiveLog>>);

impl LogLander {
    fn log(&self, id: LogId) -> Option<&Rc<LiveLog>> {
        self.0.iter().find(|log| log.id() == id)
    }
}

impl Lander for LogLander {
    type Hold = OwnedSemaphorePermit;

    fn hold(&self, log: LogId) -> Option<OwnedSemaphorePermit> {
        let log = self.log(log)?;
        Arc::clone(&log.writing).try_acquire_owned().ok()
    }

    async fn land(&self, landings: &[HeldLanding<OwnedSemaphorePermit>]) -> Vec<LogId> {
        let mut landed = Vec::new();
        for HeldLanding { landing, .. } in landings {
            let log = self.log(landing.log).unwrap();
            log.settle();
            let durable = {
                let known = &log.known.borrow()[log.at];
                known.history[known.acknowledged].clone()
            };
            if durable.is_none() {
                continue;
            }
            match log.write_all(&durable).await {
                Ok(()) => landed.push(landing.log),
                // Otherwise those who wait for its release would wait for ever.
                Err(error) => log.committer.abandon(&error.to_string()),
            }
        }
        landed
    }
}

/// Fails with the error that only a mistake explains.
pub(super) fn only_failing_disks(error: &(dyn std::error::Error + 'static)) {
    let is_expected = error.downcast_ref::<std::io::Error>().is_some()
        || matches!(
            error.downcast_ref::<JournalError>(),
            Some(JournalError::Failed { .. } | JournalError::Io { .. })
        );
    assert!(is_expected, "{error}");
}
