//! The task that lands the logs of one journal: when room or memory is wanted, when a log has many
//! unlanded bytes, when bytes are old, and all of them when the journal has failed.
//!
//! Invariants: a log is written to by one task at a time (`WritingHold`); a log that cannot land
//! for want of room is full, as one without a journal is, is tried again, and keeps no other from
//! landing; any other failure is final for the log and its directory, and ends the task.
//! It does not decide what counts as landed (`journal::committer::landing`).

use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use platform::clock::Instant;
use platform::disk::Disk;
use platform::task;
use platform::{Clock, Platform};

use super::{DirJournal, RETRY_INTERVAL};
use crate::error::{Error, FailureKind, Result};
use crate::journal::committer::{HeldLanding, Lander};
use crate::journal::unlanded::{key, log_of};
use crate::journal::{LogId, Sequence, void};
use crate::log::Log;
use crate::log::views::Journaling;
use crate::num::index;
use crate::store::{Store, StoreCore};

/// Logs that land at once.
const LOGS_AT_ONCE: usize = 64;

/// How many rounds in a row that land nothing show that no log lands.
const STUCK_TIMES: u32 = 2;

/// How many looks at the age of bytes there are until they are old.
const AGE_LOOKS: u32 = 4;

/// The right to write to the segments of a log.
pub(crate) struct WritingHold<P: Platform>(Rc<Log<P>>);

impl<P: Platform> WritingHold<P> {
    fn try_begin(log: Rc<Log<P>>) -> Option<Self> {
        let is_taken = Journaling(&log).try_hold_writing();
        is_taken.then(|| Self(log))
    }
}

impl<P: Platform> Drop for WritingHold<P> {
    fn drop(&mut self) {
        Journaling(&self.0).end_hold_of_writing();
    }
}

struct StoreLander<'a, P: Platform> {
    of: &'a DirJournal<P>,
    clock: &'a Clock,
}

impl<P: Platform> Lander for StoreLander<'_, P> {
    type Hold = WritingHold<P>;

    fn hold(&self, log: LogId) -> Option<WritingHold<P>> {
        let log = self.of.logs.borrow().get(&key(log))?.upgrade()?;
        WritingHold::try_begin(log)
    }

    async fn land(&self, landings: &[HeldLanding<WritingHold<P>>]) -> Vec<LogId> {
        let began = self.clock.now();
        let under_way: Vec<_> = landings
            .iter()
            .map(|held| {
                let log = Rc::clone(&held.hold.0);
                let id = held.landing.log;
                (
                    id,
                    task::spawn(async move { Journaling(&log).land_in_turn().await }),
                )
            })
            .collect();
        let mut landed = Vec::new();
        for (id, landing) in under_way {
            // A task ends early only with its runtime.
            if landing.await.unwrap_or(Err(Error::Closed)).is_ok() {
                landed.push(id);
            }
        }
        let took = self.clock.now().saturating_duration_since(began);
        self.of.metrics.landing_seconds.observe(took.as_secs_f64());
        landed
    }
}

/// Lands logs until the journal is closed, or its directory has failed.
pub(super) async fn run<P: Platform>(shared: Weak<StoreCore<P>>, journal: Rc<DirJournal<P>>) {
    let look = journal.options.land_after / AGE_LOOKS;
    let mut ages: VecDeque<Sequence> = VecDeque::new();
    let mut due: Option<Instant> = None;
    let mut times_in_vain: u32 = 0;
    // Not held while it waits: the store may be dropped.
    while let Some(store) = shared.upgrade().map(|shared| Store { shared }) {
        let used = store.journal_of(&journal.dir);
        if !used.is_some_and(|used| Rc::ptr_eq(&used, &journal)) || store.dir_failed(&journal.dir) {
            return;
        }
        let clock = store.clock().clone();
        if !journal.is_working() {
            match go_on_without(&store, &journal).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(%error, "logs of a failed journal do not land yet");
                    *journal.void_error.borrow_mut() = Some(error);
                }
            }
            drop(store);
            clock.sleep(RETRY_INTERVAL).await;
            continue;
        }
        drop(store);
        let looks_at = *due.get_or_insert_with(|| clock.after(look));
        let left = looks_at.saturating_duration_since(clock.now());
        wait_for_work(&journal, left).await;
        let is_in_vain = land_what_is_due(&journal, &clock).await;
        times_in_vain = if is_in_vain {
            times_in_vain.saturating_add(1)
        } else {
            0
        };
        if journal.is_working() {
            // Once is no sign: another task may have written to the logs.
            journal.note_landings(times_in_vain >= STUCK_TIMES);
        }
        if clock.now() >= looks_at {
            due = None;
            journal.forget_all_released();
            ages.push_back(journal.committer.durable());
            if ages.len() > index(u64::from(AGE_LOOKS))
                && let Some(old) = ages.pop_front()
            {
                land_older(&journal, &clock, old).await;
            }
        }
        if is_in_vain {
            clock.sleep(RETRY_INTERVAL).await;
        }
    }
}

/// Waits until logs are to land, at most for `wait`.
async fn wait_for_work<P: Platform>(journal: &DirJournal<P>, wait: Duration) {
    if journal.is_pressed.get() || !journal.large.borrow().is_empty() {
        return;
    }
    let wanted = async {
        let mut wanted = std::pin::pin!(journal.committer.landing_wanted());
        let mut changed = std::pin::pin!(journal.changed.notified());
        std::future::poll_fn(|context| {
            let is_wanted = wanted.as_mut().poll(context).is_ready();
            let is_changed = changed.as_mut().poll(context).is_ready();
            if is_wanted || is_changed {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    };
    // The time may be over: then the age of bytes is looked at.
    drop(task::timeout(wait, wanted).await);
}

/// Lands what is wanted; returns true when logs were to land and none did.
///
/// A large log that does not land now was landed by a flush of its own, or lands when it is old.
async fn land_what_is_due<P: Platform>(journal: &DirJournal<P>, clock: &Clock) -> bool {
    let large = std::mem::take(&mut *journal.large.borrow_mut());
    let lander = StoreLander { of: journal, clock };
    if !large.is_empty() {
        let large: Vec<_> = large.into_iter().map(log_of).collect();
        for some in large.chunks(LOGS_AT_ONCE) {
            journal.committer.land_these(&lander, some).await;
        }
    }
    if journal.is_pressed.replace(false) {
        land_older(journal, clock, journal.committer.durable()).await;
    }
    journal.committer.is_landing_wanted()
        && journal.committer.land(&lander, LOGS_AT_ONCE).await == 0
}

/// Lands the logs with parts in commits below `old`.
async fn land_older<P: Platform>(journal: &DirJournal<P>, clock: &Clock, old: Sequence) {
    let lander = StoreLander { of: journal, clock };
    let logs = journal.committer.landable_below(old);
    for some in logs.chunks(LOGS_AT_ONCE) {
        journal.committer.land_these(&lander, some).await;
    }
}

/// Leaves the mark that the ring is void, durably.
async fn leave_mark<P: Platform>(store: &Store<P>, journal: &DirJournal<P>) -> Result<()> {
    let bytes = void::encode(journal.committer.generation_max());
    let written = store.disk().replace_file(&journal.void_mark, &bytes).await;
    written.map_err(Error::io("write", &journal.void_mark))?;
    let synced = store.disk().sync_dir(&journal.dir).await;
    synced.map_err(Error::dir_sync(&journal.dir))
}

/// Lands all open logs, those too that come behind one that cannot land now: what they have in the
/// journal is in memory only.
async fn land_from_memory<P: Platform>(journal: &DirJournal<P>) -> Result<()> {
    let mut result = Ok(());
    for some in journal.open_logs().chunks(LOGS_AT_ONCE) {
        let land = |log: &Rc<Log<P>>| {
            let log = Rc::clone(log);
            task::spawn(async move { Journaling(&log).land_all().await })
        };
        let landings: Vec<_> = some.iter().map(land).collect();
        for landing in landings {
            // A task ends early only with its runtime.
            result = result.and(landing.await.unwrap_or(Err(Error::Closed)));
        }
    }
    result
}

/// Lands everything from memory after the journal failed, and leaves a mark that says so.
async fn go_on_without<P: Platform>(store: &Store<P>, journal: &DirJournal<P>) -> Result<()> {
    land_from_memory(journal).await?;
    if !journal.stranded.borrow().is_empty() {
        let reason = "bytes of a closed log are in the journal only".into();
        return Err(Error::Failed { reason });
    }
    if let Err(error) = leave_mark(store, journal).await {
        if error.kind() != FailureKind::Full {
            // Otherwise those who wait for the mark would wait for ever.
            store.health(&journal.dir).fail(&error);
            journal.open_logs().iter().for_each(|log| log.fail(&error));
        }
        return Err(error);
    }
    journal.is_void.set(true);
    *journal.void_error.borrow_mut() = None;
    journal.changed.notify_waiters();
    let failure = journal.committer.failure();
    let reason = failure.map(|failure| failure.to_string());
    tracing::error!(dir = %journal.dir.display(), reason,
        "the journal failed: its logs have landed, and are flushed without one until the next start");
    Ok(())
}
