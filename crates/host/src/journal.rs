//! The journal of a transaction: the intended writes, their results, and the values taken back.
//!
//! One file per transaction, one line of JSON per record, each with its number, the time, its boot,
//! and a CRC-32C. Invariants: an intent is on disk before its write; a torn last line is no record
//! (a torn intent has no write, a torn `done` has its intent); any other invalid line makes the
//! file invalid. Not here: files (`store`), and the interpretation of the records
//! ([`crate::transaction`]).

pub mod store;

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::guard::Guard;

/// The event of a record.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// A transaction begins.
    Begin {
        /// Digest of the plan's text.
        plan: String,
        /// Fingerprint of the host.
        host: String,
        /// When it is taken back unless confirmed, in milliseconds of the boot's clock.
        deadline_ms: Option<u64>,
        /// The network namespace whose cards and sysctls are written; none if the kernel names
        /// none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<String>,
        /// Items that were taken over from other owners.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        taken: Vec<String>,
        /// The time until it is taken back unless confirmed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
        /// The bounds at which it is taken back before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guard: Option<Guard>,
    },
    /// After a reboot that it outlives, its watchdog waits again.
    Resumed {
        /// When it is taken back, by the clock of this boot.
        deadline_ms: u64,
    },
    /// The guard is violated: it is about to be taken back.
    Alarm {
        /// The reason.
        why: String,
    },
    /// A knob is about to be written; on disk before the write.
    Intent {
        /// The knob.
        item: String,
        /// Its old canonical value.
        old: String,
        /// The other knob of a pair, with its value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pair: Option<(String, String)>,
        /// The canonical value to write.
        want: String,
    },
    /// The knob was written and read back.
    Done {
        /// The knob.
        item: String,
        /// The resulting canonical value.
        got: String,
    },
    /// The knob could not be written, or the write had no effect.
    Failed {
        /// The knob.
        item: String,
        /// The error.
        error: String,
    },
    /// The whole plan is in effect.
    Applied,
    /// The operator keeps the change.
    Confirmed {
        /// Only for this boot: later boots do not reapply it.
        #[serde(default)]
        until_reboot: bool,
    },
    /// A value that a reset had taken away was rewritten.
    Again {
        /// The knob.
        item: String,
        /// The value before.
        found: Option<String>,
        /// The value after.
        got: String,
    },
    /// An item is settled.
    Undone {
        /// The knob.
        item: String,
        /// The value before.
        found: Option<String>,
        /// The written value; none if nothing had to be taken back, or the value was changed by
        /// others.
        wrote: Option<String>,
    },
    /// The transaction has ended.
    Closed {
        /// The reason.
        why: String,
    },
}

/// One line of a journal.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Record<E = Event> {
    /// Its index in the file, 0-based.
    pub number: u64,
    /// Milliseconds since 1970, for people; nothing depends on it.
    pub at_ms: i64,
    /// The boot in which it was written.
    pub boot: String,
    /// The event.
    #[serde(flatten)]
    pub event: E,
}

/// A destination of records: a file, or one of a test.
pub trait Log<E = Event> {
    /// Appends a record.
    ///
    /// On return the record is on disk; on an error the journal is unchanged.
    fn append(&mut self, event: E) -> std::io::Result<()>;
}

/// Separates the record from its checksum.
const SUM: &str = ",\"crc\":\"";

impl<E: Serialize + DeserializeOwned> Record<E> {
    /// Returns the line, with its newline.
    pub fn line(&self) -> serde_json::Result<String> {
        let mut line = serde_json::to_string(self)?;
        line.pop();
        let sum = crc32c::crc32c(line.as_bytes());
        let _ = writeln!(line, "{SUM}{sum:08x}\"}}");
        Ok(line)
    }

    fn parse(line: &str) -> Option<Record<E>> {
        let (record, sum) = line.rsplit_once(SUM)?;
        let sum = u32::from_str_radix(sum.strip_suffix("\"}")?, 16).ok()?;
        if crc32c::crc32c(record.as_bytes()) != sum {
            return None;
        }
        serde_json::from_str(&format!("{record}}}")).ok()
    }
}

/// Returns the records of a journal and their length in bytes; anything after that length was torn.
pub fn records<E: Serialize + DeserializeOwned>(
    text: &[u8],
) -> Result<(Vec<Record<E>>, usize), String> {
    let mut records: Vec<Record<E>> = Vec::new();
    let mut whole = 0;
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    for (at, line) in lines.iter().enumerate() {
        let record = line
            .strip_suffix(b"\n")
            .and_then(|line| Record::parse(std::str::from_utf8(line).ok()?))
            .filter(|record| record.number == records.len() as u64);
        match record {
            Some(record) => {
                whole += line.len();
                records.push(record);
            }
            None if at + 1 == lines.len() => break,
            None => return Err(format!("line {} is damaged, and is not the last", at + 1)),
        }
    }
    Ok((records, whole))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Vec<Record> {
        let events = [
            Event::Begin {
                plan: "p".to_owned(),
                host: "h".to_owned(),
                deadline_ms: Some(7),
                network: None,
                taken: Vec::new(),
                within_ms: None,
                guard: None,
            },
            Event::Intent {
                item: "sysctl.vm.swappiness".to_owned(),
                old: "60".to_owned(),
                pair: None,
                want: "1".to_owned(),
            },
            Event::Done {
                item: "sysctl.vm.swappiness".to_owned(),
                got: "1".to_owned(),
            },
        ];
        let record = |(number, event)| Record {
            number: number as u64,
            at_ms: 1,
            boot: "b".to_owned(),
            event,
        };
        events.into_iter().enumerate().map(record).collect()
    }

    fn text() -> String {
        sample()
            .iter()
            .map(|record| record.line().unwrap())
            .collect()
    }

    #[test]
    fn a_journal_cut_anywhere_is_read_up_to_its_last_whole_line() {
        let text = text();
        for end in 0..=text.len() {
            let (records, whole) = records(&text.as_bytes()[..end]).unwrap();
            let lines = text[..end].matches('\n').count();
            assert_eq!(records, sample()[..lines], "{end}");
            assert!(whole <= end && text[..whole].matches('\n').count() == lines);
        }
    }

    #[test]
    fn a_damaged_line_that_is_not_the_last_refuses_the_file() {
        let text = text();
        let first = text.find('\n').unwrap();
        for at in 0..first {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(records::<Event>(&bytes).is_err(), "{at}");
        }
    }

    #[test]
    fn a_line_that_is_missing_refuses_the_file() {
        let lines: Vec<String> = text().split_inclusive('\n').map(str::to_owned).collect();
        let without = format!("{}{}{}", lines[0], lines[2], lines[2]);
        assert!(records::<Event>(without.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_records_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = records::<Event>(&bytes);
        }
    }
}
