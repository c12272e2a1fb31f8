//! The journal of a transaction: what was about to be written, what came of it, and what was taken back.
//!
//! One file per transaction, one line of JSON per record, each with its number, the time, the boot it was written in,
//! and a CRC-32C. Invariants: an intent is on disk before its write; a last line that is torn is no record (a torn intent
//! wrote nothing, a torn `done` has its intent); any other bad line refuses the file. Not here: files (`store`), and what
//! follows from the records ([`crate::transaction`]).

pub mod store;

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// A transaction begins.
    Begin {
        /// Digest of the plan's text.
        plan: String,
        /// Fingerprint of the host.
        host: String,
        /// Taken back at this moment of the boot's clock, in milliseconds, unless it is confirmed.
        deadline_ms: Option<u64>,
        /// The network namespace whose cards and sysctls are written; none where the kernel names none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<String>,
        /// Items that were taken over from who else sets them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        taken: Vec<String>,
    },
    /// Something is about to be written. On disk before the write.
    Intent {
        /// The knob.
        item: String,
        /// Its canonical value.
        old: String,
        /// The other one of a pair, with its value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pair: Option<(String, String)>,
        /// What is written, canonical.
        want: String,
    },
    /// It was written and read back.
    Done {
        /// The knob.
        item: String,
        /// The canonical value that it has now.
        got: String,
    },
    /// It could not be written, or the write had no effect.
    Failed {
        /// The knob.
        item: String,
        /// Why.
        error: String,
    },
    /// All of the plan is in effect.
    Applied,
    /// The operator keeps it.
    Confirmed {
        /// For this boot only: no later one does it again.
        #[serde(default)]
        until_reboot: bool,
    },
    /// What a reset had taken away was written anew.
    Again {
        /// The knob.
        item: String,
        /// What it had.
        found: Option<String>,
        /// What it has now.
        got: String,
    },
    /// An item is settled.
    Undone {
        /// The knob.
        item: String,
        /// What it had.
        found: Option<String>,
        /// What was written; nothing where nothing was to be taken back, or somebody else changed it.
        wrote: Option<String>,
    },
    /// Nothing more will be done.
    Closed {
        /// How it ended.
        why: String,
    },
}

/// One line.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Record<E = Event> {
    /// Its place in the file, from 0.
    pub number: u64,
    /// Milliseconds since 1970, for people: nothing is decided by it.
    pub at_ms: i64,
    /// The boot.
    pub boot: String,
    /// What happened.
    #[serde(flatten)]
    pub event: E,
}

/// What takes records: a file, or a test's.
pub trait Log<E = Event> {
    /// Writes a record behind the others. When it returns, the record is on disk; when it fails, it is as if it had not been
    /// tried.
    fn append(&mut self, event: E) -> std::io::Result<()>;
}

/// Between the record and its sum.
const SUM: &str = ",\"crc\":\"";

impl<E: Serialize + DeserializeOwned> Record<E> {
    /// The line, with its end.
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

/// The records of a journal, and how many of its bytes they are: what is behind that was torn.
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
