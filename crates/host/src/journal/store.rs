//! The directory of journals, `/var/lib/forebay-tune`: one writer at a time, every record synced.
//!
//! Invariants: the directory is synced after a file was created in it; a torn end, even one from a
//! full disk, is cut off before the next append; a later transaction has a later name, whatever the
//! clock shows; only the owner can write to the directory, because a writer could make the
//! superuser write values; of the ended transactions only the newest are kept; where nothing can be
//! written (a full or read-only disk), what is applied can still be taken back.

mod owned;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use platform::bounded;
use platform::error::Error;
use platform::lock::{DirLock, LOCK_FILE};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Log, Record, records};
use crate::transaction::{Transaction, TransactionStanding};

/// Limit on the size of a journal, above that of all knobs of the largest host.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// Longest wait for a lock that another process holds: the watch reads a slow card, and a
/// confirmation that is refused takes a whole rollout back.
const PATIENCE_MS: u64 = 2_000;
const RETRY_MS: u64 = 20;
/// Limit on the names tried per second.
const TRIES: u64 = 1 << 16;
/// Limit on the ended transactions that are kept.
const ENDED_MAX: usize = 200;

/// The directory, locked.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    boot: String,
    _lock: StoreLock,
}

/// The lock of the directory; on a read-only disk, where no journal can begin, that of the lock
/// file alone, if there is one.
#[derive(Debug)]
struct StoreLock {
    _dir: Option<DirLock>,
    _file: Option<File>,
}

impl StoreLock {
    fn take(dir: &Path) -> Result<StoreLock, Error> {
        match DirLock::acquire(dir) {
            Ok(lock) => Ok(StoreLock {
                _dir: Some(lock),
                _file: None,
            }),
            Err(Error::Lock { source, .. })
                if source.kind() == io::ErrorKind::ReadOnlyFilesystem =>
            {
                Ok(StoreLock {
                    _dir: None,
                    _file: of_read_only(dir)?,
                })
            }
            Err(error) => Err(error),
        }
    }
}

/// Locks the lock file of a directory that cannot be written to.
fn of_read_only(dir: &Path) -> Result<Option<File>, Error> {
    let cannot = |source: io::Error| Error::Lock {
        dir: dir.to_owned(),
        source,
    };
    let file = match File::open(dir.join(LOCK_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(cannot)?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(Error::DirHeld {
            dir: dir.to_owned(),
            holder: "another process".to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(cannot(error)),
    }
}

/// Returns whether an error of [`Store::lock`] is that another process has the lock.
pub fn is_held(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<Error>(), Some(Error::DirHeld { .. }))
}

impl Store {
    /// Locks the directory, creating it if missing; another writer is an error.
    pub fn lock(dir: &Path, boot: &str) -> anyhow::Result<Store> {
        let until = crate::boot::now_ms().saturating_add(PATIENCE_MS);
        loop {
            match Store::try_lock(dir, boot) {
                // The watch holds it only briefly.
                Err(error) if is_held(&error) && crate::boot::now_ms() < until => {
                    crate::boot::wait_ms(RETRY_MS);
                }
                locked => return locked,
            }
        }
    }

    /// Does the same as [`Self::lock`], without waiting for another writer.
    pub fn try_lock(dir: &Path, boot: &str) -> anyhow::Result<Store> {
        owned::dir(dir)?;
        Ok(Store {
            dir: dir.to_owned(),
            boot: boot.to_owned(),
            _lock: StoreLock::take(dir)?,
        })
    }

    /// Returns all transactions, oldest first.
    pub fn transactions(&self) -> anyhow::Result<Vec<Transaction>> {
        transactions(&self.dir)
    }

    /// Begins a journal.
    ///
    /// Its name consists of its time and a number, and sorts after all others even if the clock was
    /// set back.
    pub fn begin(&self) -> anyhow::Result<JournalFile> {
        let now = u64::try_from(now_ms() / 1_000).unwrap_or(0);
        let last = ids(&self.dir)?.last().map_or((0, 0), |id| order(id));
        let (seconds, first) = if last.0 < now {
            (now, 1)
        } else {
            (last.0, last.1.saturating_add(1))
        };
        for number in first..=first.saturating_add(TRIES) {
            let id = format!("{seconds}-{number}");
            let path = self.dir.join(format!("{id}.jsonl"));
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => {
                    File::open(&self.dir)?.sync_all()?;
                    return Ok(JournalFile {
                        id,
                        file,
                        next: 0,
                        len: 0,
                        broken: false,
                        boot: self.boot.clone(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).context(path.display().to_string()),
            }
        }
        anyhow::bail!("{} is full of journals of this second", self.dir.display())
    }

    /// Removes the oldest ended transactions beyond `ENDED_MAX`.
    pub fn forget(&self) -> anyhow::Result<()> {
        let ended = self.transactions()?;
        let is_over = |one: &&Transaction| one.standing(&self.boot) == TransactionStanding::Closed;
        let ended = ended.iter().filter(is_over);
        let ended: Vec<&str> = ended.map(|one| one.id.as_str()).collect();
        for id in &ended[..ended.len().saturating_sub(ENDED_MAX)] {
            std::fs::remove_file(self.dir.join(format!("{id}.jsonl")))?;
        }
        Ok(())
    }

    /// Returns the journal of a transaction that is to be taken back.
    ///
    /// If it cannot be opened (a read-only disk), no record can be written, and the change is taken
    /// back all the same.
    pub fn to_take_back(&self, id: &str) -> Box<dyn Log> {
        match self.append_to(id) {
            Ok(file) => Box::new(file),
            Err(error) => Box::new(Unwritable(format!("{error:#}"))),
        }
    }

    /// Opens a journal to append to it.
    pub fn append_to(&self, id: &str) -> anyhow::Result<JournalFile> {
        let (records, whole) = read(&self.dir, id)?;
        let path = self.dir.join(format!("{id}.jsonl"));
        let file = OpenOptions::new().append(true).open(&path)?;
        file.set_len(whole as u64)?;
        Ok(JournalFile {
            id: id.to_owned(),
            file,
            next: records.len() as u64,
            len: whole as u64,
            broken: false,
            boot: self.boot.clone(),
        })
    }
}

/// Returns all transactions of a directory, oldest first; none without a directory.
///
/// Takes no lock. A transaction with an unreadable journal is included as damaged, so that it does
/// not hide the others.
pub fn transactions(dir: &Path) -> anyhow::Result<Vec<Transaction>> {
    let mut transactions = Vec::new();
    for id in ids(dir)? {
        transactions.extend(transaction(dir, &id)?);
    }
    Ok(transactions)
}

/// Returns names, lengths and modification times of the journals, which show whether one has
/// changed.
pub fn marks(dir: &Path) -> anyhow::Result<Vec<(String, u64, i64)>> {
    let mut marks = Vec::new();
    for id in ids(dir)? {
        let facts = match std::fs::metadata(dir.join(format!("{id}.jsonl"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            facts => facts?,
        };
        marks.push((id, facts.len(), facts.mtime_nsec()));
    }
    Ok(marks)
}

/// Returns one transaction; none if there is no such journal.
pub fn transaction(dir: &Path, id: &str) -> anyhow::Result<Option<Transaction>> {
    anyhow::ensure!(is_id(id), "{id:?} is no transaction");
    let path = dir.join(format!("{id}.jsonl"));
    let bytes = match bounded::file(&path, JOURNAL_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if platform::disk::is_unreadable(&error) => Err(error.to_string()),
        bytes => Ok(bytes.with_context(|| format!("reading {}", path.display()))?),
    };
    let id = id.to_owned();
    Ok(Some(match bytes.and_then(|bytes| records(&bytes)) {
        Ok((records, _)) => Transaction::of(id, &records),
        Err(why) => Transaction {
            id,
            damaged: Some(format!("{}: {why}", path.display())),
            ..Transaction::default()
        },
    }))
}

fn read(dir: &Path, id: &str) -> anyhow::Result<(Vec<Record>, usize)> {
    anyhow::ensure!(is_id(id), "{id:?} is no transaction");
    let path = dir.join(format!("{id}.jsonl"));
    let bytes = bounded::file(&path, JOURNAL_BYTES_MAX)
        .with_context(|| format!("reading {}", path.display()))?;
    records(&bytes).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
}

/// Returns the names of the journals, oldest first.
fn ids(dir: &Path) -> anyhow::Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("reading {}", dir.display()))?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        ids.extend(name.strip_suffix(".jsonl").map(str::to_owned));
    }
    ids.retain(|id| is_id(id));
    ids.sort_by_key(|id| order(id));
    Ok(ids)
}

/// Returns whether a text is `SECONDS-NUMBER`, which cannot name any other file.
pub(crate) fn is_id(id: &str) -> bool {
    let is_number = |text: &str| {
        text.parse::<u64>()
            .is_ok_and(|number| number.to_string() == text)
    };
    id.split_once('-')
        .is_some_and(|(seconds, number)| is_number(seconds) && is_number(number))
}

/// Returns the sort key: time, then number.
fn order(id: &str) -> (u64, u64) {
    let (seconds, number) = id.split_once('-').unwrap_or((id, "0"));
    (seconds.parse().unwrap_or(0), number.parse().unwrap_or(0))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}

/// A journal that takes no record, with the reason.
#[derive(Debug)]
struct Unwritable(String);

impl Log for Unwritable {
    fn append(&mut self, _: crate::journal::Event) -> io::Result<()> {
        Err(io::Error::other(self.0.clone()))
    }
}

/// An open journal.
#[derive(Debug)]
pub struct JournalFile {
    /// The transaction.
    pub id: String,
    file: File,
    next: u64,
    /// Bytes of complete records.
    len: u64,
    /// Set if a sync failed: the state on disk is unknown, and nothing more is written.
    broken: bool,
    boot: String,
}

/// Opens a journal of another kind, creating it if missing; returns its records and the file for
/// appending.
///
/// The caller holds the lock of its directory.
pub fn open<E: Serialize + DeserializeOwned>(
    path: &Path,
) -> anyhow::Result<(Vec<Record<E>>, JournalFile)> {
    let shown = || path.display().to_string();
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .with_context(shown)?;
    let bytes = bounded::file(path, JOURNAL_BYTES_MAX).with_context(shown)?;
    let (records, whole) = records(&bytes)
        .map_err(anyhow::Error::msg)
        .with_context(shown)?;
    file.set_len(whole as u64)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    let file = JournalFile {
        id: String::new(),
        file,
        next: records.len() as u64,
        len: whole as u64,
        broken: false,
        boot: String::new(),
    };
    Ok((records, file))
}

impl<E: Serialize + DeserializeOwned> Log<E> for JournalFile {
    fn append(&mut self, event: E) -> io::Result<()> {
        let record = Record {
            number: self.next,
            at_ms: now_ms(),
            boot: self.boot.clone(),
            event,
        };
        let line = record.line()?;
        if self.broken {
            return Err(io::Error::other("the journal could not be synced before"));
        }
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // The part that the full disk stored would damage the next record.
            self.broken = self.file.set_len(self.len).is_err();
            return Err(error);
        }
        if let Err(error) = self.file.sync_data() {
            self.broken = true;
            return Err(error);
        }
        self.len = self.len.saturating_add(line.len() as u64);
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Event;

    #[test]
    fn a_torn_record_is_cut_off_before_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::lock(dir.path(), "boot").unwrap();
        let mut journal = store.begin().unwrap();
        journal.append(Event::Applied).unwrap();
        let path = dir.path().join(format!("{}.jsonl", journal.id));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], b"{\"number\":1,\"at"].concat()).unwrap();
        let mut journal = store.append_to(&journal.id).unwrap();
        let why = "x".to_owned();
        journal.append(Event::Closed { why }).unwrap();
        let (records, _) = records::<Event>(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(records.len(), 2);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_make_a_later_transaction_an_earlier_one() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::lock(dir.path(), "boot").unwrap();
        std::fs::write(dir.path().join("99999999999-7.jsonl"), "").unwrap();
        let id = store.begin().unwrap().id;
        assert_eq!(id, "99999999999-8");
        assert_eq!(store.transactions().unwrap()[1].id, id);
    }

    #[test]
    fn a_damaged_journal_does_not_hide_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::lock(dir.path(), "boot").unwrap();
        std::fs::write(dir.path().join("1-1.jsonl"), "x\ny\n").unwrap();
        std::fs::create_dir(dir.path().join("1-2.jsonl")).unwrap();
        let mut journal = store.begin().unwrap();
        journal.append(Event::Applied).unwrap();
        let found = store.transactions().unwrap();
        let damaged: Vec<bool> = found.iter().map(|one| one.damaged.is_some()).collect();
        assert_eq!(damaged, [true, true, false]);
    }

    #[test]
    fn what_a_full_disk_took_of_a_record_does_not_damage_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::lock(dir.path(), "boot").unwrap();
        let mut journal = store.begin().unwrap();
        journal.append(Event::Applied).unwrap();
        // A device that refuses all data: the write fails, and the real file must not be truncated.
        let path = dir.path().join(format!("{}.jsonl", journal.id));
        let file = std::mem::replace(
            &mut journal.file,
            File::options().append(true).open("/dev/full").unwrap(),
        );
        assert!(journal.append(Event::Applied).is_err());
        assert!(journal.broken, "a device cannot be cut");
        journal.file = file;
        assert!(
            journal.append(Event::Applied).is_err(),
            "nothing is written behind what is not known"
        );
        let mut journal = store.append_to(&journal.id).unwrap();
        journal.append(Event::Applied).unwrap();
        assert_eq!(
            records::<Event>(&std::fs::read(path).unwrap())
                .unwrap()
                .0
                .len(),
            2
        );
    }

    #[test]
    fn of_what_has_ended_only_the_newest_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::lock(dir.path(), "boot").unwrap();
        let begin = |seconds: usize, ends: bool| {
            let path = dir.path().join(format!("{seconds}-1.jsonl"));
            let mut journal = JournalFile {
                id: String::new(),
                file: File::create(path).unwrap(),
                next: 0,
                len: 0,
                broken: false,
                boot: "boot".to_owned(),
            };
            let why = "x".to_owned();
            let begin = Event::Begin {
                plan: String::new(),
                host: String::new(),
                deadline_ms: None,
                network: None,
                taken: Vec::new(),
                within_ms: None,
                guard: None,
            };
            journal.append(begin).unwrap();
            if ends {
                journal.append(Event::Closed { why }).unwrap();
            }
        };
        begin(1, false);
        (2..ENDED_MAX + 5).for_each(|seconds| begin(seconds, true));
        store.forget().unwrap();
        let left: Vec<String> = store
            .transactions()
            .unwrap()
            .into_iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(left.len(), ENDED_MAX + 1);
        assert_eq!(left[..2], ["1-1", "5-1"]);
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
