//! The bytes that are in the journal and not in their segments, by log and commit: what the logs
//! have to keep in memory for it.
//!
//! Invariants: a byte counts from the commit that takes it until its log's landing has covered that
//! commit, or the log is forgotten; the sum is that of all logs. A cut takes no bytes away: they
//! count until the log lands.
//! It does not bound the sum (`committer`).

use std::collections::{BTreeMap, VecDeque};

use super::commit::Part;
use super::unlanded::{Key, key};
use super::{LogId, Sequence};

/// The unlanded bytes of all logs.
#[derive(Default, Debug)]
pub(super) struct Tails {
    /// Bounded: the logs with unlanded bytes.
    by_log: BTreeMap<Key, Tail>,
    bytes: u64,
}

/// The unlanded bytes of one log.
#[derive(Default, Debug)]
struct Tail {
    /// Bounded: the commits of the ring.
    by_commit: VecDeque<(Sequence, u64)>,
    /// All of them: each commit asks for it.
    bytes: u64,
}

impl Tails {
    /// Notes the bytes of a part in a new commit.
    pub(super) fn note(&mut self, part: &Part<'_>, sequence: Sequence) {
        let bytes = part.bytes().len() as u64;
        if bytes == 0 {
            return;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let tail = self.by_log.entry(key(part.log)).or_default();
        tail.bytes = tail.bytes.saturating_add(bytes);
        match tail.by_commit.back_mut() {
            Some((last, of_commit)) if *last == sequence => {
                *of_commit = of_commit.saturating_add(bytes);
            }
            last => {
                let is_later = last.is_none_or(|(last, _)| *last < sequence);
                assert!(is_later, "commits are noted in their order");
                tail.by_commit.push_back((sequence, bytes));
            }
        }
    }

    /// Takes the bytes of a log in commits below `below` away; returns how many these were.
    pub(super) fn landed(&mut self, log: LogId, below: Sequence) -> u64 {
        let Some(tail) = self.by_log.get_mut(&key(log)) else {
            return 0;
        };
        let mut landed: u64 = 0;
        let by_commit = &mut tail.by_commit;
        while let Some((_, bytes)) = by_commit.pop_front_if(|(sequence, _)| *sequence < below) {
            landed = landed.saturating_add(bytes);
        }
        tail.bytes = tail.bytes.saturating_sub(landed);
        if by_commit.is_empty() {
            assert_eq!(tail.bytes, 0, "the bytes of a log are those of its commits");
            self.by_log.remove(&key(log));
        }
        self.take_away(landed)
    }

    /// Takes all bytes of a log away; returns how many these were.
    pub(super) fn forget(&mut self, log: LogId) -> u64 {
        // A log without bytes has no tail.
        let tail = self.by_log.remove(&key(log)).unwrap_or_default();
        self.take_away(tail.bytes)
    }

    /// Returns the bytes of a log.
    pub(super) fn bytes_of(&self, log: LogId) -> u64 {
        self.by_log.get(&key(log)).map_or(0, |tail| tail.bytes)
    }

    /// Returns the bytes of all logs.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn take_away(&mut self, bytes: u64) -> u64 {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.expect("the bytes of a log are among those of all");
        bytes
    }
}
