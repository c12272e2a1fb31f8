//! One turn of the controller: decide on the newest image, append the records, wait until they are
//! durable, replay them, hand the new image to all shards, answer.
//!
//! Invariant: what was appended is in the image if, and only if, it became durable. The part of a
//! turn that follows the append therefore runs in its own task. That task does not end when the
//! client gives up or its connection is cut, and it keeps the turn until the fate of the records is
//! known. Either the records are refused before any of them is written, or they become durable, or
//! the log fails permanently: then its content is unknown, and the controller changes nothing until
//! the next start. A full disk is none of these: the turn waits for room, and if that takes longer
//! than `PATIENCE`, clients get `REQUEST_TIMED_OUT`, which makes them retry. So they do once the
//! disk of the log hangs, whether they wait for their turn or for the disk.
//!
//! A decision on thousands of parts yields in between; no other turn runs meanwhile, so what it has
//! read stays true. Before the append a turn has changed nothing: a request that waits for its
//! turn, or is being decided on, is dropped with its client, and refused when the broker stops.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use platform::task::{self, timeout};
use platform::{Disk, Platform};
use wire::records::metadata::MetadataRecord;
use wire::types::ErrorCode;

use super::Controller;
use crate::audit::AuditedTurn;
use crate::controller::metadata_log::MetadataLogError;
use crate::controller::{ControllerDecision, Rules};
use crate::hanging::HANGS_AFTER;
use crate::image::ImagePosition;

/// How long a client, or a start, waits while the log waits for room.
const PATIENCE: Duration = Duration::from_secs(5);

impl<P: Platform> Controller<P> {
    /// Runs one turn. If the broker stops, the decision is not carried out.
    pub(super) async fn turn<R>(
        &self,
        decide: impl AsyncFnOnce(Rules<'_>, &mut dyn FnMut() -> u64) -> ControllerDecision<R>,
    ) -> Result<R, ErrorCode> {
        let (is_over, audited) = (|| self.stopping.get(), RefCell::default());
        self.turn_unless(is_over, &audited, decide).await
    }

    /// Runs one turn unless `is_over`; for the changes that a stop itself writes.
    ///
    /// The decision may put what an auditor wants to know of it into `audited`: the task that
    /// carries it out says what became of it, because the client may be gone by then.
    pub(super) async fn turn_unless<R>(
        &self,
        is_over: impl Fn() -> bool,
        audited: &RefCell<Option<AuditedTurn>>,
        decide: impl AsyncFnOnce(Rules<'_>, &mut dyn FnMut() -> u64) -> ControllerDecision<R>,
    ) -> Result<R, ErrorCode> {
        let (response, carried_out) = self.turn_told(is_over, audited, decide).await;
        carried_out.map(|()| response)
    }

    /// Runs one turn unless `is_over`. Returns what was decided, also when it was not carried out:
    /// the response to a large request is not copied for that.
    pub(super) async fn turn_told<R>(
        &self,
        is_over: impl Fn() -> bool,
        audited: &RefCell<Option<AuditedTurn>>,
        decide: impl AsyncFnOnce(Rules<'_>, &mut dyn FnMut() -> u64) -> ControllerDecision<R>,
    ) -> (R, Result<(), ErrorCode>) {
        let turn = self.patiently(Arc::clone(&self.turn).acquire_owned()).await;
        let image = self.image();
        let rules = Rules {
            image: &image,
            options: &self.options,
        };
        let mut random = || self.platform.random_u64();
        let ControllerDecision { records, response } = decide(rules, &mut random).await;
        let turn = match turn {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) => return (response, Err(ErrorCode::NotController)),
            Err(code) => return (response, Err(code)),
        };
        if records.is_empty() {
            return (response, Ok(()));
        }
        if is_over() {
            return (response, Err(ErrorCode::NotController));
        }
        let audited = audited.take();
        (
            response,
            self.carry_out_in_task(turn, records, audited).await,
        )
    }

    /// Carries a decision out, also if its client gives up meanwhile.
    async fn carry_out_in_task(
        &self,
        turn: impl Sized + 'static,
        records: Vec<MetadataRecord>,
        audited: Option<AuditedTurn>,
    ) -> Result<(), ErrorCode> {
        let me = self.me.upgrade().ok_or(ErrorCode::NotController)?;
        let carried_out = task::spawn(async move {
            let _turn = turn;
            let done = me.carry_out(records).await;
            if let Some(audited) = audited {
                audited.done(done.is_ok());
            }
            done
        });
        match self.patiently(carried_out).await? {
            Ok(Ok(())) => Ok(()),
            Ok(Err(MetadataLogError::TooLarge(_))) => Err(ErrorCode::RecordListTooLarge),
            Ok(Err(MetadataLogError::Unfit(_))) => Err(ErrorCode::UnknownServerError),
            Ok(Err(_)) | Err(_) => Err(ErrorCode::KafkaStorageError),
        }
    }

    /// Writes records, and publishes the new image.
    async fn carry_out(&self, records: Vec<MetadataRecord>) -> Result<(), MetadataLogError> {
        match self.commit(records).await {
            Ok(()) => {}
            // A client's request that is too large does not make a log line.
            Err(error @ MetadataLogError::TooLarge(_)) => return Err(error),
            // The disk is not to blame: this is a fault of the broker.
            Err(error @ MetadataLogError::Unfit(_)) => {
                tracing::error!(%error, "a request was refused");
                return Err(error);
            }
            Err(error) => {
                tracing::error!(%error, "cannot write to the metadata log");
                return Err(error);
            }
        }
        (self.publish)(self.image()).await;
        self.snapshot_if_due().await;
        Ok(())
    }

    /// Returns true while the disk of the log does not answer; never during a start, which waits.
    fn is_hung(&self) -> bool {
        let dir = self.log.dir();
        self.serves.get() && self.platform.disk().under_way_for(dir) >= HANGS_AFTER
    }

    /// Waits for `what`, but gives up if it waits for room on the disk, or for a disk that hangs.
    async fn patiently<R>(&self, what: impl Future<Output = R>) -> Result<R, ErrorCode> {
        let mut what = pin!(what);
        loop {
            match timeout(PATIENCE, &mut what).await {
                Ok(done) => return Ok(done),
                Err(_) if self.log.waits_for_room() || self.is_hung() => {
                    return Err(ErrorCode::RequestTimedOut);
                }
                Err(_) => {}
            }
        }
    }

    /// Makes records durable and applies them.
    ///
    /// Refuses records that do not fit the image before any of them is written: the next start
    /// would skip them, and so undo what the client was promised.
    async fn commit(&self, records: Vec<MetadataRecord>) -> Result<(), MetadataLogError> {
        let (mut next, before) = {
            let now = self.replayer.borrow();
            (now.clone(), now.image().applied())
        };
        // Records that are too long are refused before they are replayed.
        let encoded = self
            .log
            .encoded(&records, next.image().metadata_version())?;
        let mut unfit = None;
        next.replay(records, before, |_, error| {
            unfit.get_or_insert(error);
        });
        if let Some(error) = unfit {
            return Err(MetadataLogError::Unfit(error));
        }
        if self.options.authorizer.is_some() {
            next.settle();
        }
        let applied = self.log.append(&encoded).await?;
        assert!(
            applied.offset > before.offset,
            "what is appended comes after what is applied"
        );
        next.advance(applied);
        // Only one turn, or the start, runs at a time, so the image is unchanged.
        assert!(
            self.replayer.borrow().image().applied() == before,
            "one turn at a time changes the image"
        );
        *self.replayer.borrow_mut() = next;
        Ok(())
    }

    /// Commits records before the broker serves clients: a full disk ends the start.
    pub(super) async fn commit_at_start(
        &self,
        records: Vec<MetadataRecord>,
    ) -> Result<(), MetadataLogError> {
        self.at_start(self.commit(records)).await
    }

    /// Appends the leader change that begins the epoch of this run.
    pub(super) async fn begin_epoch(&self) -> Result<ImagePosition, MetadataLogError> {
        self.at_start(self.log.append_leader_change()).await
    }

    async fn at_start<R>(
        &self,
        write: impl Future<Output = Result<R, MetadataLogError>>,
    ) -> Result<R, MetadataLogError> {
        let written = self.patiently(write).await;
        written.unwrap_or_else(|_| Err(self.log.trouble()))
    }

    /// Applies the records of a start that are already in the log, such as the one that began its
    /// epoch.
    pub(super) fn replay(&self, records: Vec<MetadataRecord>, applied: ImagePosition) {
        let mut replayer = self.replayer.borrow_mut();
        replayer.replay(records, applied, |_, error| {
            unreachable!("what does not fit is not written: {error}")
        });
    }

    pub(super) async fn snapshot_if_due(&self) {
        if self.log.wants_snapshot() {
            let image = self.image();
            if let Err(error) = self.log.write_snapshot(&image).await
                && self.log.put_snapshot_off()
            {
                tracing::error!(%error, "cannot write a snapshot of the metadata: their log grows until one can be written");
            }
        }
    }
}

#[cfg(test)]
mod tests;
