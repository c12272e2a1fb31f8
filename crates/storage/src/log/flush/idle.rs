//! Closes the files of idle logs: a log that takes no appends holds no descriptor.
//!
//! Every second it looks at the logs that have stirred: that have begun a flush since they were
//! last seen at rest. At times it looks at all, which finds the files that only reads have opened.
//! A file that was not written to for a while is closed, the longest idle first where there are
//! more than the bound; its next user opens it again. Invariants: a file with bytes that are not
//! durable is never closed, and its log is not seen at rest; the file prepared for the next segment
//! goes with it.
//! It does not: touch sealed segments (`Store::note_loaded` bounds those), or mapped files, which
//! are memory.

use std::cell::Cell;
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, Medium};
use wire::types::Offset;

use crate::log::Log;
use crate::log::views::{Flushing, LogCondition, Upkeeping};
use crate::num::gauge;
use crate::store::Store;

/// Number of looks without an append after which a file is closed.
const IDLE_LOOKS: u32 = 30;

/// That number while the machine is short of descriptors.
const SHORTAGE_LOOKS: u32 = 3;

/// How long a log has been idle, in looks.
#[derive(Debug)]
pub(super) struct IdleLooks {
    end: Cell<Offset>,
    looks: Cell<u32>,
    /// It is among the shard's stirring logs.
    stirs: Cell<bool>,
}

impl Default for IdleLooks {
    fn default() -> Self {
        Self {
            end: Cell::new(Offset(-1)),
            looks: Cell::new(0),
            stirs: Cell::new(false),
        }
    }
}

impl IdleLooks {
    /// Looks again; returns for how many looks nothing was appended.
    fn look(&self, end: Offset) -> u32 {
        let looks = if self.end.replace(end) == end {
            self.looks.get().saturating_add(1)
        } else {
            0
        };
        self.looks.set(looks);
        looks
    }
}

impl<P: Platform> Flushing<'_, P> {
    /// Returns for how many looks nothing was appended, if there is a file to be closed.
    fn idle_looks(self) -> Option<u32> {
        let looks = self.flush.idle.look(self.log_end_offset());
        let active = self.segments.active();
        let mapped = self.store().disk().medium(&active.folder) != Medium::File;
        (active.open_file().is_some() && !mapped).then_some(looks)
    }

    /// Notes that the log must be looked at.
    pub(super) fn note_stirring(self) {
        if let Some(log) = self.me()
            && !self.flush.idle.stirs.replace(true)
        {
            self.store().shared.stirring.add(&log);
        }
    }

    /// Returns true when only a flush or a read gives it something to close or to sync.
    fn is_at_rest(self) -> bool {
        let active = self.segments.active();
        let mapped = self.store().disk().medium(&active.folder) != Medium::File;
        let holds_file = active.open_file().is_some() && !mapped;
        !holds_file && !self.flush.running.get() && self.flush.unsynced_since_ms.get().is_none()
    }

    /// Closes the file of the active segment if it is durable and unused; returns true if it did.
    ///
    /// Otherwise it starts what lets the file be closed later.
    fn close_idle_file(self) -> bool {
        let active = self.segments.active();
        let at_rest =
            !self.flush.running.get() && Upkeeping(self.0).has_no_prepared() && active.is_named();
        let durable = active.synced() == active.size()
            && self.durable_offset() == self.log_end_offset()
            && !self.has_unsaved_epochs()
            && self.flush.names.are_durable();
        if !durable {
            self.flush.sync_wanted.set(true);
            self.request_flush();
        } else if at_rest && self.may_write_now() && !LogCondition(self.0).is_beyond_repair() {
            self.flush.idle.looks.set(0);
            active.close_file();
            return true;
        } else if at_rest_but_prepared(self.0) {
            Upkeeping(self.0).start_discarding();
        }
        false
    }
}

fn at_rest_but_prepared<P: Platform>(log: &Log<P>) -> bool {
    !log.flush.running.get() && !Upkeeping(log).has_no_prepared()
}

impl<P: Platform> Store<P> {
    /// Starts the flushes that are due, and closes the files of idle logs; runs once a second.
    pub(crate) fn look_at_stirring_logs(&self, now_ms: i64) {
        let stirring = self.shared.stirring.take();
        let mut logs = stirring.unwrap_or_else(|| self.logs());
        logs.retain(|log| !log.is_closed());
        for log in &logs {
            Flushing(log).flush_if_due(now_ms);
        }
        self.close_idle_files(&logs);
        for log in &logs {
            log.flush.idle.stirs.set(false);
            if !Flushing(log).is_at_rest() {
                Flushing(log).note_stirring();
            }
        }
    }

    fn close_idle_files(&self, logs: &[Rc<Log<P>>]) {
        let mut open: Vec<(u32, &Rc<Log<P>>)> = logs
            .iter()
            .filter_map(|log| Some((Flushing(log).idle_looks()?, log)))
            .collect();
        let bound = self.shared.options.open_segments_max.max(1);
        let mut left = open.len();
        if left > bound {
            open.sort_by_key(|(looks, _)| std::cmp::Reverse(*looks));
        }
        for (looks, log) in open {
            let too_many = left > bound && looks > 0;
            if (looks >= IDLE_LOOKS || too_many) && Flushing(log).close_idle_file() {
                left -= 1;
            }
        }
        let sealed = self.open_sealed_files();
        let open = gauge(left + sealed);
        let before = self.shared.open_files.replace(open);
        self.shared.metrics.open_files.inc_by(open - before);
    }

    /// Closes files that are not needed now, because the machine is short of descriptors.
    pub(crate) fn close_unused_files(&self) {
        for log in self.logs() {
            let active = log.segments.active();
            let mapped = self.disk().medium(&active.folder) != Medium::File;
            let looks = &log.flush.idle;
            // What does not stir was not appended to since it was at rest.
            let idle = looks.looks.get() >= SHORTAGE_LOOKS || !looks.stirs.get();
            if idle && !mapped && active.open_file().is_some() {
                Flushing(&log).close_idle_file();
            }
        }
        self.close_sealed_files();
    }
}
