//! The file of the acknowledged records, over all runs of a verification.
//!
//! Lines of JSON, only ever appended: first the subject, then each run as it begins, then its
//! acknowledgements. Invariants: a run is in the file, synced, before its first number is used, so
//! that no number is used twice even after a power failure; records are acknowledged before their
//! line is written. Acknowledgements shortly before the generator was killed may be missing: the
//! check then neither claims nor misses them. Only one process at a time can open a ledger.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::check::Stream;
use super::numbers::Numbers;
use crate::load::PartitionPlace;
use crate::spec::Topics;

const VERSION: u32 = 1;

/// Acknowledged records: the numbers of a stream from `first` to `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "[u64; 5]", into = "[u64; 5]")]
pub struct AcknowledgedRange {
    /// The producer and the partition.
    pub stream: Stream,
    /// First number.
    pub first: u64,
    /// Last number.
    pub last: u64,
}

/// In the order producer, topic, partition, first, last.
impl From<AcknowledgedRange> for [u64; 5] {
    fn from(piece: AcknowledgedRange) -> Self {
        let PartitionPlace { topic, partition } = piece.stream.place;
        let producer = piece.stream.producer;
        [
            producer.into(),
            topic.into(),
            partition.into(),
            piece.first,
            piece.last,
        ]
    }
}

impl From<[u64; 5]> for AcknowledgedRange {
    fn from([producer, topic, partition, first, last]: [u64; 5]) -> Self {
        Self {
            stream: Stream {
                place: PartitionPlace {
                    topic: topic as u32,
                    partition: partition as u32,
                },
                producer: producer as u32,
            },
            first,
            last,
        }
    }
}

/// The id and the topics of a verification.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Subject {
    version: u32,
    /// The id in every record's stamp.
    pub id: u64,
    /// Prefix of the topics' names.
    pub prefix: String,
    /// Number of topics.
    pub topics: u32,
    /// Partitions of each topic.
    pub partitions: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Ledger(Subject),
    Run { run: u64, started_ms: i64 },
    Acknowledged(AcknowledgedRange),
}

/// An open ledger.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    path: PathBuf,
    subject: Subject,
    runs: u64,
    acknowledged: BTreeMap<Stream, Numbers>,
}

impl Ledger {
    /// Opens the ledger of a load on these topics, or creates one with the given id.
    pub fn open(path: &Path, topics: &Topics, id: u64) -> anyhow::Result<Self> {
        let subject = Subject {
            version: VERSION,
            id,
            prefix: topics.prefix.clone(),
            topics: topics.count,
            partitions: topics.partitions,
        };
        let mut ledger = Self::load(path, true)?;
        match ledger.subject.version {
            0 => {
                ledger.subject = subject;
                ledger.append(&[Line::Ledger(ledger.subject.clone())])?;
            }
            _ => ledger.subject.must_be(&subject, path)?,
        }
        Ok(ledger)
    }

    /// Opens an existing ledger.
    pub fn existing(path: &Path) -> anyhow::Result<Self> {
        let ledger = Self::load(path, false)?;
        anyhow::ensure!(
            ledger.subject.version != 0,
            "{} is empty: nothing was verified with it",
            path.display()
        );
        Ok(ledger)
    }

    fn load(path: &Path, create: bool) -> anyhow::Result<Self> {
        let doing = || format!("ledger {}", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(create)
            .open(path)
            .with_context(doing)?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => {
                anyhow::bail!("{}: another run is using it", doing())
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(doing),
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(doing)?;
        // A process killed while writing leaves an incomplete line.
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        file.set_len(whole as u64).with_context(doing)?;
        let mut ledger = Self {
            file,
            path: path.to_owned(),
            subject: Subject {
                version: 0,
                id: 0,
                prefix: String::new(),
                topics: 0,
                partitions: 0,
            },
            runs: 0,
            acknowledged: BTreeMap::new(),
        };
        for (number, line) in text[..whole].split(|byte| *byte == b'\n').enumerate() {
            if !line.is_empty() {
                ledger
                    .replay(line)
                    .with_context(|| format!("{} line {}", doing(), number + 1))?;
            }
        }
        Ok(ledger)
    }

    fn replay(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let line = serde_json::from_slice(line).context("not a line of a ledger")?;
        let begun = self.subject.version != 0;
        match line {
            Line::Ledger(subject) => {
                let version = subject.version;
                anyhow::ensure!(!begun, "a second beginning");
                anyhow::ensure!(
                    version == VERSION,
                    "written by another version ({version}, this is {VERSION})"
                );
                self.subject = subject;
            }
            _ if !begun => anyhow::bail!("a ledger begins with what it verifies"),
            Line::Run { run, .. } => self.runs = self.runs.max(run),
            Line::Acknowledged(piece) => {
                let numbers = self.acknowledged.entry(piece.stream).or_default();
                numbers.insert_range(piece.first, piece.last);
            }
        }
        Ok(())
    }

    /// Returns the id and the topics of the verification.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Takes the records acknowledged in all runs before it was opened.
    pub fn take_acknowledged(&mut self) -> BTreeMap<Stream, Numbers> {
        std::mem::take(&mut self.acknowledged)
    }

    /// Begins the next run and returns its number, 1 for the first.
    pub fn begin_run(&mut self, started_ms: i64) -> anyhow::Result<u64> {
        self.runs += 1;
        self.append(&[Line::Run {
            run: self.runs,
            started_ms,
        }])?;
        self.file
            .sync_all()
            .with_context(|| format!("ledger {}", self.path.display()))?;
        Ok(self.runs)
    }

    /// Appends acknowledgements.
    pub fn write(&mut self, pieces: &[AcknowledgedRange]) -> anyhow::Result<()> {
        let lines: Vec<_> = pieces.iter().copied().map(Line::Acknowledged).collect();
        self.append(&lines)
    }

    fn append(&mut self, lines: &[Line]) -> anyhow::Result<()> {
        let mut text = String::new();
        for line in lines {
            let _ = writeln!(text, "{}", serde_json::to_string(line)?);
        }
        self.file
            .write_all(text.as_bytes())
            .with_context(|| format!("ledger {}", self.path.display()))
    }
}

impl Subject {
    /// Returns the topics, which exist already.
    pub fn topics(&self) -> Topics {
        Topics {
            prefix: self.prefix.clone(),
            count: self.topics,
            partitions: self.partitions,
            replication: 1,
            configs: BTreeMap::new(),
            existing: true,
        }
    }

    fn must_be(&self, asked: &Self, path: &Path) -> anyhow::Result<()> {
        let of = |subject: &Self| {
            let Self {
                prefix,
                topics,
                partitions,
                ..
            } = subject;
            format!("{topics} topics \"{prefix}..\" with {partitions} partitions")
        };
        anyhow::ensure!(
            of(self) == of(asked),
            "ledger {} is of {}, this load has {}",
            path.display(),
            of(self),
            of(asked)
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests;
