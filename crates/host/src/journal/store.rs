//! The directory of journals, `/var/lib/forebay/tune`: one writer at a time, every record synced.
//!
//! Invariants: the directory is synced when a file was made in it; what was torn is cut off before something is written
//! behind it; a journal that was ended is never written again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use platform::bounded;
use platform::lock::DirLock;

use super::{Event, Log, Record, records};
use crate::transaction::Transaction;

/// Longer than a journal of all knobs of the largest host.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// The directory, locked.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    boot: String,
    _lock: DirLock,
}

impl Store {
    /// Locks the directory, which is made if it is not there. Another one that writes is an error.
    pub fn lock(dir: &Path, boot: &str) -> anyhow::Result<Store> {
        std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        Ok(Store {
            dir: dir.to_owned(),
            boot: boot.to_owned(),
            _lock: DirLock::acquire(dir)?,
        })
    }

    /// All transactions, the oldest first.
    pub fn transactions(&self) -> anyhow::Result<Vec<Transaction>> {
        transactions(&self.dir)
    }

    /// Begins a journal. Its name is its time and a number.
    pub fn begin(&self) -> anyhow::Result<JournalFile> {
        let seconds = now_ms() / 1_000;
        for number in 1..=u16::MAX {
            let id = format!("{seconds}-{number}");
            let path = self.dir.join(format!("{id}.jsonl"));
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => {
                    File::open(&self.dir)?.sync_all()?;
                    return Ok(JournalFile {
                        id,
                        file,
                        next: 0,
                        boot: self.boot.clone(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).context(path.display().to_string()),
            }
        }
        anyhow::bail!("{} is full of journals of this second", self.dir.display())
    }

    /// Goes on with a journal.
    pub fn append_to(&self, id: &str) -> anyhow::Result<JournalFile> {
        let path = self.dir.join(format!("{id}.jsonl"));
        let bytes = bounded::file(&path, JOURNAL_BYTES_MAX)
            .with_context(|| format!("reading {}", path.display()))?;
        let (records, whole) =
            records(&bytes).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
        let file = OpenOptions::new().append(true).open(&path)?;
        file.set_len(whole as u64)?;
        Ok(JournalFile {
            id: id.to_owned(),
            file,
            next: records.len() as u64,
            boot: self.boot.clone(),
        })
    }
}

/// All transactions of a directory, the oldest first; none where there is no directory. Takes no lock.
pub fn transactions(dir: &Path) -> anyhow::Result<Vec<Transaction>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("reading {}", dir.display()))?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        ids.extend(name.strip_suffix(".jsonl").map(str::to_owned));
    }
    ids.sort_by_key(|id| order(id));
    let mut transactions = Vec::new();
    for id in ids {
        let path = dir.join(format!("{id}.jsonl"));
        let read = || -> anyhow::Result<Vec<Record>> {
            let bytes = bounded::file(&path, JOURNAL_BYTES_MAX)?;
            Ok(records(&bytes).map_err(anyhow::Error::msg)?.0)
        };
        let records = read().with_context(|| path.display().to_string())?;
        transactions.push(Transaction::of(id, &records));
    }
    Ok(transactions)
}

/// By time, then number.
fn order(id: &str) -> (u64, u64) {
    let (seconds, number) = id.split_once('-').unwrap_or((id, "0"));
    (seconds.parse().unwrap_or(0), number.parse().unwrap_or(0))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}

/// An open journal.
#[derive(Debug)]
pub struct JournalFile {
    /// The transaction.
    pub id: String,
    file: File,
    next: u64,
    boot: String,
}

impl Log for JournalFile {
    fn append(&mut self, event: Event) -> io::Result<()> {
        let record = Record {
            number: self.next,
            at_ms: now_ms(),
            boot: self.boot.clone(),
            event,
        };
        self.file.write_all(record.line()?.as_bytes())?;
        self.file.sync_data()?;
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_record_is_cut_off_before_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::lock(dir.path(), "boot").unwrap();
        let mut journal = store.begin().unwrap();
        journal.append(Event::Confirmed).unwrap();
        let path = dir.path().join(format!("{}.jsonl", journal.id));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], b"{\"number\":1,\"at"].concat()).unwrap();
        let mut journal = store.append_to(&journal.id).unwrap();
        let why = "x".to_owned();
        journal.append(Event::Closed { why }).unwrap();
        let (records, _) = records(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(records.len(), 2);
    }

    #[test]
    fn a_second_writer_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::lock(dir.path(), "boot").unwrap();
        let refused = Store::lock(dir.path(), "boot").unwrap_err();
        assert!(refused.to_string().contains("process"), "{refused}");
        drop(store);
        Store::lock(dir.path(), "boot").unwrap();
    }

    #[test]
    fn transactions_are_in_the_order_they_were_made() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::lock(dir.path(), "boot").unwrap();
        let ids: Vec<String> = (0..12).map(|_| store.begin().unwrap().id).collect();
        let found = store.transactions().unwrap();
        let found: Vec<String> = found.into_iter().map(|one| one.id).collect();
        assert_eq!(found, ids);
    }
}
