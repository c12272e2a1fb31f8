//! Finds out whether what looks like damage comes from a wrong index or wrong leader epochs.
//!
//! The batches decide. They are read once, in a task of its own: it reads a whole segment, which
//! takes longer than many readers wait, and would start again with each. Readers that come
//! meanwhile wait for its result.
//! Invariants: only what the batches say is final; a disk failure says nothing about them, and the
//! disk is asked again later. The task ends with the log, and changes nothing of a segment that was
//! truncated, or whose names belong to another one.

use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use platform::Platform;
use platform::task;

use crate::error::{Error, Result};
use crate::log::views::{LogReader, Rebuilding};
use crate::segment::naming::Role;
use crate::segment::scan::NO_BATCH;
use crate::segment::stamps::WRONG_EPOCH;
use crate::segment::{CheckOutcome, Segment, load};

/// How long a failed disk is not asked again: each time it reads the whole of a segment.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

impl<P: Platform> LogReader<'_, P> {
    /// Returns true when the damage may come from an index or epochs that have been corrected
    /// since.
    ///
    /// The correction may have been made for another reader, since `corrections` was read. It
    /// returns an error where the cause cannot be found now.
    pub(in crate::log) async fn was_misled(
        self,
        segment: &Rc<Segment<P>>,
        error: Option<&Error>,
        looked_up: bool,
        corrections: u64,
    ) -> Result<bool> {
        let Some(Error::Corrupt { reason, .. }) = error else {
            return Ok(false);
        };
        self.store.shared.metrics.corruptions.inc();
        let index = looked_up && *reason == NO_BATCH;
        if !index && *reason != WRONG_EPOCH {
            return Ok(false);
        }
        let is_corrected = || self.readers.corrections.get() != corrections;
        drop(self.correcting.acquire().await);
        if !is_corrected()
            && let Some(log) = self.me()
        {
            let segment = Rc::clone(segment);
            let correcting = async move {
                LogReader(&log)
                    .until_closed(LogReader(&log).correct(&segment, index))
                    .await
            };
            // The task continues when the reader has gone.
            let corrected = task::spawn(correcting).await;
            corrected.unwrap_or(Err(Error::Closed))?;
        }
        Ok(is_corrected())
    }

    /// Runs `work` for as long as the log is not closed.
    async fn until_closed<T>(self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut closed = pin!(self.readers.closed.notified());
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            if closed.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Error::Closed));
            }
            work.as_mut().poll(context)
        })
        .await
    }

    /// Finds out whether an index, or else the leader epochs, are wrong, and corrects them.
    async fn correct(self, segment: &Rc<Segment<P>>, index: bool) -> Result<()> {
        let turn = self.correcting.acquire().await;
        let _turn = turn.map_err(|_| Error::Closed)?;
        let corrected = if index {
            self.reindex(segment).await?
        } else {
            self.relearn_epochs(segment).await?
        };
        if corrected {
            let so_far = self.readers.corrections.get();
            self.readers.corrections.set(so_far.wrapping_add(1));
        }
        Ok(())
    }

    /// Rebuilds the indexes of a sealed segment, once, because they may be wrong.
    ///
    /// Returns whether it has tried. Where the batches are wrong, a walk over them may still find
    /// the one that is wanted.
    async fn reindex(self, segment: &Rc<Segment<P>>) -> Result<bool> {
        let now = self.store.clock().now();
        let is_its = segment.is_sealed() && !segment.are_names_lent();
        if !is_its || !segment.reindexed.may_try(now)? {
            return Ok(false);
        }
        let cuts = segment.cuts();
        let rebuilt = Rebuilding(self.0).rebuilt(segment).await;
        if segment.cuts() != cuts {
            // The segment was truncated meanwhile, and its index with it.
            return Ok(true);
        }
        let path = segment.path(Role::OffsetIndex);
        match rebuilt {
            Ok(loaded) => {
                tracing::warn!(file = %path.display(), "an index pointed between batches and was built anew");
                segment.replace_indexes(loaded);
                segment.reindexed.set(CheckOutcome::ForNow);
                self.store.note_loaded(segment);
                self.save_index_soon(segment);
                Ok(true)
            }
            Err(Error::Corrupt { .. }) => {
                segment.reindexed.set(CheckOutcome::ForGood);
                Ok(true)
            }
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "an index that points between batches is not built anew now");
                segment.reindexed.set(self.refused(&error));
                Err(error)
            }
        }
    }

    /// Returns what to remember of an attempt that a disk has refused.
    pub(super) fn refused(self, error: &Error) -> CheckOutcome {
        if error.is_exhausted() {
            return CheckOutcome::Not;
        }
        let until = self.store.clock().after(RETRY_INTERVAL);
        CheckOutcome::Refused(until, error.clone())
    }

    /// Saves the indexes in the background: their names may be in use for long, and no reader waits
    /// for that.
    fn save_index_soon(self, segment: &Rc<Segment<P>>) {
        let Some(log) = self.me() else { return };
        let segment = Rc::clone(segment);
        let cuts = segment.cuts();
        task::spawn(async move {
            let Ok(_gate) = log.upkeep.gate.acquire().await else {
                return;
            };
            let is_its = segment.cuts() == cuts
                && !segment.are_names_lent()
                && !log.is_closed()
                && log.segments.place_of(&segment).is_some();
            let Some(saved) = load::SavedIndexes::of(&segment).filter(|_| is_its) else {
                return;
            };
            match load::save(log.store.disk(), &segment, &saved).await {
                Ok(()) => segment.reindexed.set(CheckOutcome::ForGood),
                Err(error) => {
                    let path = segment.path(Role::OffsetIndex);
                    tracing::warn!(file = %path.display(), %error, "the new index is kept in memory only");
                }
            }
        });
    }
}
