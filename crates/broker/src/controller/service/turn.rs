//! One turn of the controller: decide on the newest image, append the records, wait until they are durable, replay
//! them, hand the new image to all shards, answer.
//!
//! Invariant: what was appended is in the image if, and only if, it became durable. So the part of a turn that follows the
//! append runs in a task of its own, which nobody's leaving ends (a connection that is cut, a client that gives up), and
//! which keeps the turn until the fate of the records is known. Records are refused before anything of them was taken,
//! or durable, or the log failed for good on the way: then nobody knows what it holds, and the controller changes
//! nothing any more until the next start. A disk without room is none of these: the turn waits for room, and the
//! clients are told to ask again (`REQUEST_TIMED_OUT`) when that takes longer than they may be kept waiting. A decision on thousands
//! of parts rests in between: nobody else has a turn meanwhile, so what it has looked at stays true. Before the append a turn has
//! changed nothing: whoever waits for one, or is being decided on, is dropped with the client that asked, and refused when the
//! broker stops.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;
use platform::task::{self, timeout};
use wire::records::metadata::MetadataRecord;
use wire::types::ErrorCode;

use super::Controller;
use crate::controller::metadata_log::MetadataLogError;
use crate::controller::{Outcome, Rules};
use crate::image::Applied;

/// How long a client is kept waiting while the log waits for room, and how long a start is.
const PATIENCE: Duration = Duration::from_secs(5);

impl<P: Platform> Controller<P> {
    /// One turn. After its decision nothing comes of it when the broker stops.
    pub(super) async fn turn<R>(
        &self,
        decide: impl AsyncFnOnce(Rules<'_>, &mut dyn FnMut() -> u64) -> Outcome<R>,
    ) -> Result<R, ErrorCode> {
        self.turn_unless(|| self.stopping.get(), decide).await
    }

    /// The same for what a stop itself writes, too.
    pub(super) async fn turn_unless<R>(
        &self,
        is_over: impl Fn() -> bool,
        decide: impl AsyncFnOnce(Rules<'_>, &mut dyn FnMut() -> u64) -> Outcome<R>,
    ) -> Result<R, ErrorCode> {
        let turn = self.patiently(Arc::clone(&self.turn).acquire_owned()).await;
        let image = self.image();
        let rules = Rules {
            image: &image,
            options: &self.options,
        };
        let mut random = || self.platform.random_u64();
        let Outcome { records, response } = decide(rules, &mut random).await;
        let turn = turn?.map_err(|_| ErrorCode::NotController)?;
        if records.is_empty() {
            return Ok(response);
        }
        if is_over() {
            return Err(ErrorCode::NotController);
        }
        let me = self.me.upgrade().ok_or(ErrorCode::NotController)?;
        let carried_out = task::spawn(async move {
            let _turn = turn;
            me.carry_out(records).await
        });
        match self.patiently(carried_out).await? {
            Ok(Ok(())) => Ok(response),
            Ok(Err(MetadataLogError::TooLarge(_))) => Err(ErrorCode::RecordListTooLarge),
            Ok(Err(MetadataLogError::Unfit(_))) => Err(ErrorCode::UnknownServerError),
            Ok(Err(_)) | Err(_) => Err(ErrorCode::KafkaStorageError),
        }
    }

    /// Writes records, and lets everybody know.
    async fn carry_out(&self, records: Vec<MetadataRecord>) -> Result<(), MetadataLogError> {
        match self.commit(records).await {
            Ok(()) => {}
            // What a client asks for makes no line.
            Err(error @ MetadataLogError::TooLarge(_)) => return Err(error),
            Err(error) => {
                tracing::error!(%error, "cannot write to the metadata log");
                return Err(error);
            }
        }
        (self.publish)(self.image()).await;
        self.snapshot_if_due().await;
        Ok(())
    }

    /// Waits, however long, but not for room on the disk.
    async fn patiently<R>(&self, what: impl Future<Output = R>) -> Result<R, ErrorCode> {
        let mut what = pin!(what);
        loop {
            match timeout(PATIENCE, &mut what).await {
                Ok(done) => return Ok(done),
                Err(_) if self.log.waits_for_room() => return Err(ErrorCode::RequestTimedOut),
                Err(_) => {}
            }
        }
    }

    /// Makes records durable and applies them. Records that do not fit the image are refused before anything of them is
    /// written: a start would pass over them, so what was answered would be undone.
    async fn commit(&self, records: Vec<MetadataRecord>) -> Result<(), MetadataLogError> {
        let (mut next, before) = {
            let now = self.replayer.borrow();
            (now.clone(), now.image().applied())
        };
        // What is too much is refused before anything is made of it.
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
        let applied = self.log.append(&encoded).await?;
        assert!(
            applied.offset > before.offset,
            "what is appended comes after what is applied"
        );
        next.advance(applied);
        // Nobody else has changed it meanwhile: this is a turn, or a start.
        assert!(
            self.replayer.borrow().image().applied() == before,
            "one turn at a time changes the image"
        );
        *self.replayer.borrow_mut() = next;
        Ok(())
    }

    /// The same before anybody is served: a disk without room ends the start.
    pub(super) async fn commit_at_start(
        &self,
        records: Vec<MetadataRecord>,
    ) -> Result<(), MetadataLogError> {
        self.at_start(self.commit(records)).await
    }

    /// Begins the epoch of this run.
    pub(super) async fn begin_epoch(&self) -> Result<Applied, MetadataLogError> {
        self.at_start(self.log.append_leader_change()).await
    }

    async fn at_start<R>(
        &self,
        write: impl Future<Output = Result<R, MetadataLogError>>,
    ) -> Result<R, MetadataLogError> {
        let written = self.patiently(write).await;
        written.unwrap_or_else(|_| Err(self.log.trouble()))
    }

    /// Applies records that are in the log: of a start, the one that began its epoch.
    pub(super) fn replay(&self, records: Vec<MetadataRecord>, applied: Applied) {
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
