//! A log whose small appends go through a journal: what is committed there, what is written past
//! it, and how the segments get the rest.
//!
//! A flush commits what was not handed in before, without the right to write to the segments; then
//! it is durable. Large appends are written to the segments at once, with all that is there before
//! them. Landing writes and syncs everything that the segments lack, durable or not: what a crash
//! leaves of it is what a crash leaves of any flush.
//! Invariants: one flush at a time hands in (`committing`), in the order of the log; a change of
//! segments other than by appending holds that turn, so nothing of the log is in flight, and waits
//! until no start reads a part that the change would contradict; what is durable is in the ring or
//! landed, without a gap. While the journal is full and no log lands, logs are written past it.
//! It does not: decide when a log lands (`store/journal/lander.rs`).

use std::cell::Cell;
use std::cmp::Ordering;
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, Medium};
use platform::sync::{Semaphore, SemaphorePermit};
use wire::types::{LeaderEpoch, Offset, TopicId, TopicPartition};

use crate::error::{Error, FailureKind, Result};
use crate::journal::ring::Landing;
use crate::journal::submission::{OwnedChange, OwnedPart};
use crate::journal::{LogId, Sequence};
use crate::log::views::{Flushing, Journaling, Limiting, LogCondition};
use crate::options::Durability;
use crate::segment::Segment;
use crate::store::Store;
use crate::store::journal::DirJournal;

/// A log's use of its journal.
pub(crate) struct LogJournal<P: Platform> {
    of: Rc<DirJournal<P>>,
    /// The holder hands in; while it is free, nothing of the log is in flight.
    committing: Semaphore,
    /// The holder saves the leader epochs: a commit and a landing may have to at once.
    saving_epochs: Semaphore,
    /// Everything before is in the ring, or landed under durable names: the base offset of a
    /// segment, and a position in it.
    handed_in: Cell<(Offset, u64)>,
    /// Its segments had no room for what is to land.
    is_landing_full: Cell<bool>,
    /// Names that were there when it was opened may not be durable.
    are_names_unsure: Cell<bool>,
}

/// What a flush hands in.
struct FreshBytes {
    parts: Vec<OwnedPart>,
    /// Everything before is handed in afterwards.
    upto: (Offset, u64),
    /// The log end.
    end: Offset,
}

/// A landing that is given up unless it ends.
struct BegunLanding<'a, P: Platform> {
    of: &'a DirJournal<P>,
    landing: Option<Landing>,
}

impl<P: Platform> BegunLanding<'_, P> {
    fn end(mut self) {
        if let Some(landing) = self.landing.take() {
            self.of.committer.end_landing(landing);
        }
    }
}

impl<P: Platform> Drop for BegunLanding<'_, P> {
    fn drop(&mut self) {
        if let Some(landing) = self.landing.take() {
            self.of.committer.give_up_landing(landing);
        }
    }
}

impl<P: Platform> LogJournal<P> {
    /// Returns the use of the journal of a directory, if it has one, for a log that ends in
    /// `active`.
    pub(crate) fn begin(
        of: Option<Rc<DirJournal<P>>>,
        active: Option<&Rc<Segment<P>>>,
    ) -> Option<Self> {
        let (of, active) = of.zip(active)?;
        assert_eq!(
            active.synced(),
            active.size(),
            "a start has it in the segment"
        );
        Some(Self {
            of,
            committing: Semaphore::new(1),
            saving_epochs: Semaphore::new(1),
            handed_in: Cell::new((active.base, active.size())),
            is_landing_full: Cell::new(false),
            are_names_unsure: Cell::new(true),
        })
    }

    /// Returns where the fresh bytes of a segment begin.
    ///
    /// What a landing has written counts only when the landing ends: until then it may be lost, and
    /// a commit of what follows it would be durable behind a gap.
    fn handed_in_of(&self, segment: &Segment<P>) -> u64 {
        let (base, position) = self.handed_in.get();
        match segment.base.cmp(&base) {
            Ordering::Less => segment.size(),
            Ordering::Equal => position,
            Ordering::Greater => 0,
        }
    }

    /// Notes that everything before is in the ring, or landed.
    fn advance_handed_in(&self, upto: (Offset, u64)) {
        self.handed_in.set(self.handed_in.get().max(upto));
    }

    /// Waits for the turn to save the leader epochs: then those that were taken before are saved.
    pub(super) async fn turn_to_save_epochs(&self) -> Result<SemaphorePermit<'_>> {
        self.saving_epochs
            .acquire()
            .await
            .map_err(|_| Error::Closed)
    }

    /// Waits for the turn to hand in: then nothing of the log is in flight.
    async fn turn(&self) -> Result<SemaphorePermit<'_>> {
        self.committing.acquire().await.map_err(|_| Error::Closed)
    }
}

/// What the rest of the log asks for; without a journal there is nothing to do.
impl<'a, P: Platform> Journaling<'a, P> {
    fn id(self) -> LogId {
        LogId {
            topic_id: self.topic_id,
            partition: self.partition.partition,
        }
    }

    /// Notes that the log is open.
    pub(crate) fn opened(self) {
        if let Some(journal) = &self.journal {
            journal.of.note_open(self.id(), self.me.clone());
        }
    }

    /// Returns true when the segments lack room for what is to land.
    pub(crate) fn is_landing_full(self) -> bool {
        let journal = self.journal.as_ref();
        journal.is_some_and(|journal| journal.is_landing_full.get())
    }

    /// Returns true when the segments have everything, synced.
    pub(crate) fn is_landed(self) -> bool {
        let unsealed = self.segments.unsealed();
        unsealed.iter().all(|segment| is_whole(segment))
    }

    /// Returns true when bytes of a segment are in the journal only.
    pub(crate) fn is_unlanded(self, segment: &Segment<P>) -> bool {
        self.journal.is_some() && !is_whole(segment)
    }

    /// Takes the right to write to the segments, if it is free.
    pub(crate) fn try_hold_writing(self) -> bool {
        let permit = self.writing.try_acquire();
        permit.map(SemaphorePermit::forget).is_ok()
    }

    /// Gives back the right that was taken.
    pub(crate) fn end_hold_of_writing(self) {
        self.writing.add_permits(1);
    }

    /// Waits until nothing of the log is in flight to the journal, and keeps it so.
    pub(crate) async fn turn(self) -> Result<Option<SemaphorePermit<'a>>> {
        match &self.0.journal {
            Some(journal) => journal.turn().await.map(Some),
            None => Ok(None),
        }
    }

    /// Completes when the segments have everything, synced.
    pub(crate) async fn land_all(self) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        // While the journal works, it has to hear of a landing even if the segments have all.
        if !journal.of.is_working() && self.is_landed() {
            return Ok(());
        }
        let _permit = Flushing(self.0).may_write().await?;
        self.land_in_right().await
    }

    /// Completes when the segments have everything, synced; the caller has the right to write.
    pub(crate) async fn land_in_right(self) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let landing = BegunLanding {
            of: &journal.of,
            landing: journal.of.committer.begin_landing(self.id()),
        };
        self.land_segments(journal).await?;
        landing.end();
        Ok(())
    }

    /// Lands for the lander, which has begun the landing and has the right to write.
    ///
    /// A lack of room makes the log full; any other failure that does not pass is final.
    pub(crate) async fn land_in_turn(self) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Err(Error::Closed);
        };
        let landed = self.land_segments(journal).await;
        if let Err(error) = &landed
            && error.kind() == FailureKind::Full
        {
            journal.is_landing_full.set(true);
            if error.is_exhausted() {
                self.store.close_unused_files();
            }
            LogCondition(self.0).enter_full(error.clone());
        }
        landed
    }

    /// Notes that the segments have what they have synced under durable names.
    fn note_landed(self, journal: &LogJournal<P>) {
        let unsealed = self.segments.unsealed();
        let first = unsealed.iter().find(|segment| !is_whole(segment));
        if let Some(segment) = first.or(unsealed.last()) {
            assert!(!segment.is_sealed(), "what is sealed is not listed");
            journal.advance_handed_in((segment.base, segment.synced()));
        }
    }

    async fn land_segments(self, journal: &LogJournal<P>) -> Result<()> {
        LogCondition(self.0).refuse_beyond_repair()?;
        // While a start may read a cut it drops what the ring does not have behind it, though the
        // segments have that: then landing makes nothing durable that was not.
        let is_cut = journal.of.cut_mark(self.id()).is_some();
        let end = if is_cut {
            self.durable_offset()
        } else {
            self.log_end_offset()
        };
        let is_durable = self.durable_offset() >= end;
        if !is_durable || !self.is_landed() || !self.flush.names.are_durable() {
            self.flush.sync_wanted.set(true);
            let flushed = Flushing(self.0).flush_segments(Some(end)).await;
            if let Err(error) = &flushed
                && !matches!(error.kind(), FailureKind::Full | FailureKind::Closed)
            {
                self.fail(error);
            }
            flushed?;
        }
        if !is_cut {
            self.note_landed(journal);
        }
        if journal.is_landing_full.replace(false) {
            LogCondition(self.0).leave_full();
        }
        Ok(())
    }

    /// Waits until no start reads a part of these segments; they are sealed, so none is in flight.
    pub(crate) async fn settled(
        self,
        segments: &[Rc<Segment<P>>],
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        assert!(
            segments.iter().all(|segment| segment.is_sealed()),
            "what is sealed gets no more parts"
        );
        let bases: Vec<_> = segments.iter().map(|segment| segment.base).collect();
        let turn = journal.turn().await?;
        let commit = journal.of.mark_of(self.id(), &bases);
        drop(turn);
        journal.of.settled(commit, goes_on).await
    }

    /// Waits until no start reads a part of the log; the caller has the turn, and all has landed.
    pub(crate) async fn all_settled(self) -> Result<()> {
        let goes_on = || LogCondition(self.0).refuse_beyond_repair();
        self.all_settled_while(goes_on).await
    }

    /// Does the same before anything has changed: fails where that may take for ever.
    pub(crate) async fn all_settled_soon(self) -> Result<()> {
        self.all_settled_while(|| self.refuse_stuck()).await
    }

    async fn all_settled_while(self, goes_on: impl Fn() -> Result<()>) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let commit = journal.of.last_mark(self.id());
        journal.of.settled(commit, goes_on).await
    }

    /// Refuses to wait for a release that may never come: the log failed, or others do not land.
    pub(crate) fn refuse_stuck(self) -> Result<()> {
        LogCondition(self.0).refuse_beyond_repair()?;
        let journal = self.journal.as_ref();
        journal.map_or(Ok(()), |journal| journal.of.refuse_stuck())
    }

    /// Has the journal say that the log is cut, durably, before its files are.
    ///
    /// The caller has the turn and the right to write, and all has landed.
    pub(crate) async fn note_cut(self, segment: Offset, position: u64, end: Offset) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        assert!(self.is_landed(), "a log lands before it is cut");
        let (of, id) = (&journal.of, self.id());
        let Ok(position) = u32::try_from(position) else {
            return Err(Error::Invalid {
                reason: "a cut beyond what a segment can hold",
            });
        };
        while of.last_mark(id).is_some() && of.is_working() {
            LogCondition(self.0).refuse_beyond_repair()?;
            let change = OwnedChange::Cut { offset: end };
            let cut = of.committer.cut(OwnedPart {
                log: id,
                segment,
                position,
                change,
            });
            match cut {
                Ok(Some(answer)) => {
                    if let Ok(commit) = answer.await {
                        of.note_cut(id, commit);
                        return Ok(());
                    }
                    // Whether a start reads it is not known.
                    of.note_cut(id, of.committer.durable());
                }
                // It ends with the journal, too, and the next look finds that.
                Ok(None) => drop(of.committer.room_for_cut().await),
                Err(_) => {}
            }
        }
        // Nothing of it is read, or the journal failed and is about to be void.
        self.all_settled().await
    }

    /// Notes that the log was cut or began again, durably: the next bytes come there.
    pub(crate) fn was_cut(self, segment: Offset, position: u64) {
        let Some(journal) = &self.journal else {
            return;
        };
        assert_eq!(
            journal.committing.available_permits(),
            0,
            "who cuts has the turn"
        );
        journal.handed_in.set((segment, position));
        if let Some(landing) = journal.of.committer.begin_landing(self.id()) {
            journal.of.committer.end_landing(landing);
        }
    }

    /// Notes that the log takes nothing any more, or is deleted.
    pub(crate) fn note_closed(self) {
        if let Some(journal) = &self.journal {
            journal.of.note_closed(self.id(), self.is_landed());
        }
    }

    /// Withdraws what waits of a log that is closed to be deleted, and waits for what is being
    /// committed.
    pub(crate) async fn end_commits(self) -> Result<Option<SemaphorePermit<'a>>> {
        if let Some(journal) = &self.journal {
            journal.of.committer.withdraw(self.id());
        }
        self.turn().await
    }

    /// Drops the parts of a log that was deleted, durably; nothing of it is being committed.
    pub(crate) fn forget(self) {
        if let Some(journal) = &self.journal {
            journal.of.forget(self.id());
        }
    }

    /// Has logs land, because an append found no memory.
    pub(crate) fn press(self) {
        if let Some(journal) = &self.journal {
            journal.of.press();
        }
    }

    /// Ends the journal of a log directory that failed.
    pub(crate) fn dir_failed(self, error: &Error) {
        if let Some(journal) = &self.journal {
            journal.of.dir_failed(error);
        }
    }
}

/// A flush.
impl<P: Platform> Journaling<'_, P> {
    /// Makes everything durable that was appended before: by a commit, or in the segments.
    pub(super) async fn flush_once(self, journal: &LogJournal<P>) -> Result<()> {
        let _turn = journal.turn().await?;
        self.check_open()?;
        if self.commits() && self.commit(journal).await? {
            return Ok(());
        }
        self.write_past(journal).await
    }

    /// The log may have been closed meanwhile, and its folder opened as another log.
    fn check_open(self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Returns true when the log's appends may go through the journal.
    fn commits(self) -> bool {
        let is_file = self.store.disk().medium(&self.folder) == Medium::File;
        is_file && self.options().durability == Durability::Synced
    }

    /// Commits what was not handed in before; returns false when it is to be written past the
    /// journal.
    async fn commit(self, journal: &LogJournal<P>) -> Result<bool> {
        if Limiting(self.0).is_limited() {
            let _permit = Flushing(self.0).may_write().await?;
            self.check_open()?;
            Limiting(self.0).save_limits().await?;
        }
        Flushing(self.0).save_epochs().await?;
        // A replay makes the files of later segments, but not that of the first.
        if journal.are_names_unsure.get() {
            Flushing(self.0).sync_names().await?;
            journal.are_names_unsure.set(false);
        }
        let Some(fresh) = self.fresh_bytes(journal) else {
            return Ok(false);
        };
        if fresh.parts.is_empty() {
            // All of it was landed meanwhile, or only the epochs were to be saved.
            return Ok(self.durable_offset() == self.log_end_offset());
        }
        let bases: Vec<_> = fresh.parts.iter().map(|part| part.segment).collect();
        let goes_on = || LogCondition(self.0).refuse_beyond_repair();
        let committed = journal.of.commit(fresh.parts, goes_on).await?;
        let Some(commit) = committed else {
            if !journal.of.is_working() {
                journal.of.note_doubt(self.id(), &bases);
            }
            self.check_open()?;
            return Ok(false);
        };
        // More may have landed meanwhile.
        journal.advance_handed_in(fresh.upto);
        assert!(
            fresh.end <= self.log_end_offset(),
            "nothing is cut while a commit is in flight"
        );
        self.committed(journal, &bases, commit);
        self.offsets.advance_written(fresh.end);
        self.offsets.advance_durable(fresh.end);
        self.check_cheap();
        self.tell();
        Ok(true)
    }

    fn committed(self, journal: &LogJournal<P>, bases: &[Offset], commit: Sequence) {
        let (of, id) = (&journal.of, self.id());
        of.note_parts(id, bases, commit);
        if of.committer.unlanded_bytes_of(id) >= of.options.land_bytes {
            of.note_large(id);
        }
    }

    /// Returns what was not handed in; `None` when that is too much for the journal or no longer in
    /// memory, or it takes nothing.
    fn fresh_bytes(self, journal: &LogJournal<P>) -> Option<FreshBytes> {
        let of = &journal.of;
        let bytes_max = of
            .options
            .bypass_bytes
            .min(of.committer.submission_bytes_max());
        let leader_epoch = self.latest_epoch().unwrap_or(LeaderEpoch(0));
        let active = self.segments.active();
        let mut fresh = FreshBytes {
            parts: Vec::new(),
            upto: (active.base, active.size()),
            end: self.log_end_offset(),
        };
        let mut sum: u64 = 0;
        for segment in self.segments.unsealed() {
            let mut position = journal.handed_in_of(&segment);
            let size = segment.size();
            assert!(position <= size, "what was handed in was appended");
            if position >= size {
                continue;
            }
            sum = sum.saturating_add(size - position);
            if sum >= bytes_max || !of.takes_commits() {
                return None;
            }
            // What a landing has written may be evicted before the landing ends.
            let slices = segment.tail().slices(position..size)?;
            for bytes in slices {
                let next = position + bytes.len() as u64;
                fresh.parts.push(OwnedPart {
                    log: self.id(),
                    segment: segment.base,
                    position: u32::try_from(position).ok()?,
                    change: OwnedChange::Bytes {
                        leader_epoch,
                        bytes,
                    },
                });
                position = next;
            }
        }
        Some(fresh)
    }

    /// Writes to the segments what they lack; the flush before has ended.
    async fn write_past(self, journal: &LogJournal<P>) -> Result<()> {
        // Replay would cut off what comes behind a cut and is not in the ring.
        let cut = journal.of.cut_mark(self.id());
        journal.of.settled(cut, || self.refuse_stuck()).await?;
        let _permit = Flushing(self.0).may_write().await?;
        self.check_open()?;
        if self.options().durability == Durability::Synced {
            return self.land_in_right().await;
        }
        Flushing(self.0).flush_segments(None).await
    }
}

fn is_whole<P: Platform>(segment: &Segment<P>) -> bool {
    segment.is_sealed() || segment.synced() == segment.size()
}

/// Returns the use of a journal for a log that is being opened, if its directory has one.
pub(crate) async fn before_opening<P: Platform>(
    store: &Store<P>,
    dir: &std::path::Path,
    (partition, topic_id): (&TopicPartition, TopicId),
) -> Result<Option<Rc<DirJournal<P>>>> {
    let Some(journal) = store.journal_of(dir).filter(|_| uses_one(topic_id)) else {
        return Ok(None);
    };
    let id = LogId {
        topic_id,
        partition: partition.partition,
    };
    journal.before_opening(id, store).await?;
    Ok(Some(journal))
}

/// Returns false for the metadata log: its records say whose the others are, so the loss of a
/// journal must not take any. It is seldom written to.
fn uses_one(topic_id: TopicId) -> bool {
    topic_id != TopicId::METADATA
}
