//! What the records of a journal come to: which items were written, what they had, and where the whole stands.
//!
//! Pure. States: open (applied, neither kept nor taken back), confirmed, closed; an open one of another boot is expired:
//! the boot took back what was never persisted. A journal that cannot be read is damaged: nobody knows where it stands.

use serde::Serialize;

use crate::journal::{Event, Record};

/// A transaction.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Transaction {
    /// Time and number.
    pub id: String,
    /// Digest of the plan.
    pub plan: String,
    /// Fingerprint of the host.
    pub host: String,
    /// The boot in which it began.
    pub boot: String,
    /// When it began, for people.
    pub at_ms: i64,
    /// Taken back at this moment of the boot's clock.
    pub deadline_ms: Option<u64>,
    /// The network namespace it was applied in.
    pub network: Option<String>,
    /// Items that were taken over from who else sets them.
    pub taken: Vec<String>,
    /// What was about to be written, in order.
    pub entries: Vec<Entry>,
    /// All of it was in effect.
    pub whole: bool,
    /// Kept by the operator.
    pub confirmed: bool,
    /// Kept, but for its boot only.
    pub until_reboot: bool,
    /// How it ended.
    pub closed: Option<String>,
    /// Why its journal cannot be read: what of it is in effect is not known.
    pub damaged: Option<String>,
}

/// One item.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The knob.
    pub item: String,
    /// What it had.
    pub old: String,
    /// The other one of a pair, and what that had.
    pub pair: Option<(String, String)>,
    /// What was to be written.
    pub want: String,
    /// How far it came.
    pub state: State,
}

/// How far an item came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// It may have been written.
    Intended,
    /// It was, and then had this value.
    Done(String),
    /// It was not, or to no effect.
    Failed(String),
    /// It is settled.
    Undone,
}

/// Where a transaction stands.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Applied, and neither kept nor taken back.
    Open,
    /// Kept.
    Confirmed,
    /// Of another boot, never kept.
    Expired,
    /// Ended, or never begun.
    Closed,
    /// Its journal cannot be read.
    Damaged,
}

impl Transaction {
    /// What the records come to.
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
            } => {
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
                state: State::Intended,
            }),
            Event::Done { item, got } => self.set(item, State::Done(got.clone())),
            // What it is left with is what it was left with: a value that came out otherwise is drift.
            Event::Again { .. } => {}
            Event::Failed { item, error } => self.set(item, State::Failed(error.clone())),
            Event::Applied => self.whole = true,
            Event::Confirmed { until_reboot } => {
                self.confirmed = true;
                self.until_reboot = *until_reboot;
            }
            Event::Undone { item, .. } => self.set(item, State::Undone),
            Event::Closed { why } => self.closed = Some(why.clone()),
        }
    }

    fn set(&mut self, item: &str, state: State) {
        // The newest of that name: an item is written once in a transaction.
        if let Some(entry) = self
            .entries
            .iter_mut()
            .rev()
            .find(|entry| entry.item == item)
        {
            entry.state = state;
        }
    }

    /// Where it stands in this boot.
    pub fn standing(&self, boot: &str) -> Standing {
        match () {
            () if self.damaged.is_some() => Standing::Damaged,
            () if self.closed.is_some() => Standing::Closed,
            // Killed before its first record, which is before the first write.
            () if self.boot.is_empty() => Standing::Closed,
            () if self.confirmed => Standing::Confirmed,
            () if self.boot != boot => Standing::Expired,
            () => Standing::Open,
        }
    }
}
