//! When what looks like damage may be what readers go by: an index, or the leader epochs.
//!
//! The batches are asked, once, in a task of its own: it reads a whole segment, which takes longer than many a reader waits,
//! and would begin anew with each. Who comes meanwhile waits for what is found.
//! Invariants: only what the batches say is final; a disk that fails says nothing about them, and is asked again later. The
//! task ends with the log, and changes nothing of a segment that was cut, or whose names are another's by then.

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
use crate::segment::{Segment, Tried, load};

/// How long a disk that failed is not asked again: what is asked is the whole of a segment.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

impl<P: Platform> LogReader<'_, P> {
    /// True when what looks like damage may be an index or the leader epochs, which have been corrected, if not for this
    /// reader then for another since there were so many `corrections`. An error where that cannot be found out now.
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
            // It goes on when the reader has gone.
            let corrected = task::spawn(correcting).await;
            corrected.unwrap_or(Err(Error::Closed))?;
        }
        Ok(is_corrected())
    }

    /// Does something that is not to outlive the log.
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

    /// Builds the indexes of a sealed segment anew, once, because they may be what is wrong; says whether it has tried. Where
    /// it is the batches that are wrong, a walk over them may still find the one that is wanted.
    async fn reindex(self, segment: &Rc<Segment<P>>) -> Result<bool> {
        let now = self.store.clock().now();
        let is_its = segment.is_sealed() && !segment.are_names_lent();
        if !is_its || !segment.reindexed.may_try(now)? {
            return Ok(false);
        }
        let cuts = segment.cuts();
        let rebuilt = Rebuilding(self.0).rebuilt(segment).await;
        if segment.cuts() != cuts {
            // It is another now, and its index, too.
            return Ok(true);
        }
        let path = segment.path(Role::OffsetIndex);
        match rebuilt {
            Ok(loaded) => {
                tracing::warn!(file = %path.display(), "an index pointed between batches and was built anew");
                segment.replace_indexes(loaded);
                segment.reindexed.set(Tried::ForNow);
                self.store.note_loaded(segment);
                self.save_index_soon(segment);
                Ok(true)
            }
            Err(Error::Corrupt { .. }) => {
                segment.reindexed.set(Tried::ForGood);
                Ok(true)
            }
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "an index that points between batches is not built anew now");
                segment.reindexed.set(self.refused(&error));
                Err(error)
            }
        }
    }

    /// What is to be said of something that a disk has refused.
    pub(super) fn refused(self, error: &Error) -> Tried {
        if error.is_exhausted() {
            return Tried::Not;
        }
        let until = self.store.clock().after(RETRY_INTERVAL);
        Tried::Refused(until, error.clone())
    }

    /// No reader waits for it: the names may be in other hands for long.
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
            let Some(saved) = load::Saved::of(&segment).filter(|_| is_its) else {
                return;
            };
            match load::save(log.store.disk(), &segment, &saved).await {
                Ok(()) => segment.reindexed.set(Tried::ForGood),
                Err(error) => {
                    let path = segment.path(Role::OffsetIndex);
                    tracing::warn!(file = %path.display(), %error, "the new index is kept in memory only");
                }
            }
        });
    }
}
