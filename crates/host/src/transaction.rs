//! The state of a transaction, from the records of its journal: the items written, their old
//! values, and its standing.
//!
//! Pure. States: open (applied, neither kept nor taken back), confirmed, closed; an open one of
//! another boot is expired, because the reboot took back everything that was not persisted, unless
//! one of its items outlives a reboot (settings of the firmware, files of the disk): then it is
//! still open, for these items. A transaction with an unreadable journal is damaged: its state is
//! unknown.

use serde::Serialize;

use crate::guard::Guard;
use crate::journal::{Event, Record};
use crate::knob;

/// A transaction.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Transaction {
    /// Its time and number.
    pub id: String,
    /// Digest of the plan.
    pub plan: String,
    /// Fingerprint of the host.
    pub host: String,
    /// The boot in which it began.
    pub boot: String,
    /// When it began, for people.
    pub at_ms: i64,
    /// When it is taken back, in milliseconds of the clock of `deadline_boot`.
    pub deadline_ms: Option<u64>,
    /// The boot in which it was begun, or taken up again, with its deadline.
    pub deadline_boot: String,
    /// The time it had for its confirmation.
    pub within_ms: Option<u64>,
    /// The bounds at which it is taken back before its deadline.
    pub guard: Option<Guard>,
    /// Why its guard had it taken back.
    pub alarm: Option<String>,
    /// The network namespace in which it was applied.
    pub network: Option<String>,
    /// Items that were taken over from other owners.
    pub taken: Vec<String>,
    /// The intended writes, in order.
    pub entries: Vec<Entry>,
    /// Whether everything was in effect.
    pub whole: bool,
    /// Whether the operator keeps it.
    pub confirmed: bool,
    /// Whether it is kept only for its boot.
    pub until_reboot: bool,
    /// The reason of its end.
    pub closed: Option<String>,
    /// Why its journal cannot be read; then it is unknown which changes are in effect.
    pub damaged: Option<String>,
}

/// One item of a transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The knob.
    pub item: String,
    /// The old value.
    pub old: String,
    /// The other knob of a pair, with its old value.
    pub pair: Option<(String, String)>,
    /// The wanted value.
    pub want: String,
    /// Its progress.
    pub state: ItemState,
}

/// The progress of an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ItemState {
    /// It may have been written.
    Intended,
    /// It was written and then had this value.
    Done(String),
    /// It was not written, or without effect.
    Failed(String),
    /// It is settled.
    Undone,
}

/// The standing of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum TransactionStanding {
    /// Applied, neither kept nor taken back.
    Open,
    /// Kept.
    Confirmed,
    /// Of another boot, and not kept beyond it.
    Expired,
    /// Ended, or never begun.
    Closed,
    /// Its journal cannot be read.
    Damaged,
}

impl Transaction {
    /// Returns the transaction of these records.
    pub fn of(id: String, records: &[Record]) -> Transaction {
        let mut transaction = Transaction {
            id,
            ..Transaction::default()
        };
        for record in records {
            transaction.replay(record);
        }
        transaction
    }

    fn replay(&mut self, record: &Record) {
        match &record.event {
            Event::Begin {
                plan,
                host,
                deadline_ms,
                network,
                taken,
                within_ms,
                guard,
            } => {
                self.within_ms = *within_ms;
                self.guard.clone_from(guard);
                self.deadline_boot.clone_from(&record.boot);
                self.taken.clone_from(taken);
                self.network.clone_from(network);
                self.plan.clone_from(plan);
                self.host.clone_from(host);
                self.deadline_ms = *deadline_ms;
                self.boot.clone_from(&record.boot);
                self.at_ms = record.at_ms;
            }
            Event::Intent {
                item,
                old,
                pair,
                want,
            } => self.entries.push(Entry {
                item: item.clone(),
                old: old.clone(),
                pair: pair.clone(),
                want: want.clone(),
                state: ItemState::Intended,
            }),
            Event::Done { item, got } => self.set(item, ItemState::Done(got.clone())),
            // The recorded value remains that of the first write: another result of the rewrite is
            // drift.
            Event::Again { .. } => {}
            Event::Failed { item, error } => self.set(item, ItemState::Failed(error.clone())),
            Event::Applied => self.whole = true,
            Event::Resumed { deadline_ms } => {
                self.deadline_ms = Some(*deadline_ms);
                self.deadline_boot.clone_from(&record.boot);
            }
            Event::Alarm { why } => self.alarm = Some(why.clone()),
            Event::Confirmed { until_reboot } => {
                self.confirmed = true;
                self.until_reboot = *until_reboot;
            }
            Event::Undone { item, .. } => self.set(item, ItemState::Undone),
            Event::Closed { why } => self.closed = Some(why.clone()),
        }
    }

    fn set(&mut self, item: &str, state: ItemState) {
        // The newest entry of that name: a transaction writes an item once.
        if let Some(entry) = self
            .entries
            .iter_mut()
            .rev()
            .find(|entry| entry.item == item)
        {
            entry.state = state;
        }
    }

    /// Returns its standing in this boot.
    pub fn standing(&self, boot: &str) -> TransactionStanding {
        match () {
            () if self.damaged.is_some() => TransactionStanding::Damaged,
            () if self.closed.is_some() => TransactionStanding::Closed,
            // Killed before its first record, which precedes the first write.
            () if self.boot.is_empty() => TransactionStanding::Closed,
            // Kept for its boot alone, which is over.
            () if self.is_past(boot) && !self.outlives() => TransactionStanding::Expired,
            () if self.confirmed => TransactionStanding::Confirmed,
            () => TransactionStanding::Open,
        }
    }

    /// Returns whether a reboot has taken back what does not outlive it, and nothing applies it
    /// again.
    fn is_past(&self, boot: &str) -> bool {
        self.boot != boot && (!self.confirmed || self.until_reboot)
    }

    /// Returns whether an item that may have been written outlives a reboot.
    fn outlives(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.state != ItemState::Undone && knob::outlives_boot(&entry.item))
    }

    /// Returns whether an item may be in effect in this boot: a reboot takes back what is not kept,
    /// and does not outlive it.
    pub fn is_in_effect(&self, entry: &Entry, boot: &str) -> bool {
        !self.is_past(boot) || !self.outlives() || knob::outlives_boot(&entry.item)
    }

    /// Returns when it is taken back, by this boot's clock; none if no watchdog waits for that.
    pub fn deadline(&self, boot: &str) -> Option<u64> {
        self.deadline_ms.filter(|_| self.deadline_boot == boot)
    }
}
