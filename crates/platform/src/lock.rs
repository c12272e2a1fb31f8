//! The lock of a log directory: a file `.lock` that is locked as long as the process holds it.
//!
//! There are two locks: `flock`, which also excludes a second open in this process, and a record
//! lock, which Java brokers take and check. The system releases both when the process ends; the
//! file stays. It contains the pid of the holder, for the error message of the next process. A
//! record lock also ends when the process closes any descriptor of the file, so a directory that
//! this process has locked is refused before the file is opened.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, Pid, fcntl_getlk};

use crate::bounded;
use crate::error::Error;

/// Name of the lock file in a directory.
pub const LOCK_FILE: &str = ".lock";

/// Longer than any process id.
const PID_BYTES_MAX: u64 = 32;
/// Maximum length of the holder's command line in messages.
const COMMAND_BYTES_MAX: u64 = 4096;
/// Pause between two tries.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The lock files that this process holds.
static HELD: Mutex<BTreeSet<FileId>> = Mutex::new(BTreeSet::new());

/// Device and inode.
type FileId = (u64, u64);

fn held() -> MutexGuard<'static, BTreeSet<FileId>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn id_of(facts: &Metadata) -> FileId {
    (facts.dev(), facts.ino())
}

/// A held lock; dropping it releases the lock.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
    id: FileId,
}

impl Drop for DirLock {
    fn drop(&mut self) {
        held().remove(&self.id);
    }
}

impl DirLock {
    /// Locks an existing directory, or returns an error that names the holder.
    pub fn acquire(dir: &Path) -> Result<Self, Error> {
        Self::acquire_within(dir, Duration::ZERO, |_| {})
    }

    /// Does the same as [`Self::acquire`], but waits up to `wait` for a holder that is ending or
    /// not visible.
    ///
    /// Calls `waits` once with the name of that holder. Does not wait for a live holder.
    pub fn acquire_within(
        dir: &Path,
        wait: Duration,
        waits: impl FnMut(&str),
    ) -> Result<Self, Error> {
        Self::acquire_named(dir, LOCK_FILE, wait, waits)
    }

    /// Does the same with a lock of another name, for those who share a directory with others and
    /// use files of their own in it.
    pub fn acquire_named(
        dir: &Path,
        name: &str,
        wait: Duration,
        mut waits: impl FnMut(&str),
    ) -> Result<Self, Error> {
        let file = dir.join(name);
        let deadline = Instant::now() + wait;
        let mut said = false;
        let mut locked = lock(&file);
        while let Ok(Err(holder)) = &locked
            && holder.may_end
            && Instant::now() < deadline
        {
            if !said {
                waits(&holder.name);
                said = true;
            }
            std::thread::sleep(RETRY_INTERVAL);
            locked = lock(&file);
        }
        match locked {
            Ok(Ok(lock)) => Ok(lock),
            Ok(Err(holder)) => Err(Error::DirHeld {
                dir: dir.to_owned(),
                holder: holder.name,
            }),
            Err(source) => Err(Error::Lock {
                dir: dir.to_owned(),
                source,
            }),
        }
    }
}

/// Whether a process holds the lock of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockState {
    /// No process does, or there is no lock file that can be opened.
    Free,
    /// This process does.
    Own,
    /// Another process does; without its id if that is not visible from here.
    Held(Option<Pid>),
}

/// Returns true if a process holds the lock of the directory.
pub fn is_held(dir: &Path) -> bool {
    state(dir) != LockState::Free
}

/// Returns whether a process holds the lock of the directory, and which.
///
/// Only looks: it takes no lock, so no start is refused because of it. A lock file that cannot be
/// opened, or that is no regular file, counts as not held.
pub fn state(dir: &Path) -> LockState {
    let path = dir.join(LOCK_FILE);
    // To close the file would end a record lock of this process.
    let held = held();
    let Ok(facts) = std::fs::metadata(&path) else {
        return LockState::Free;
    };
    if held.contains(&id_of(&facts)) {
        return LockState::Own;
    }
    // To open a FIFO would wait for its writer.
    if !facts.is_file() {
        return LockState::Free;
    }
    let Ok(file) = File::open(&path) else {
        return LockState::Free;
    };
    match fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)) {
        Ok(Some(lock)) => LockState::Held(lock.pid),
        _ => LockState::Free,
    }
}

/// The process that holds the lock.
struct Holder {
    name: String,
    /// True when the process is ending, or was not found.
    may_end: bool,
}

/// Takes the lock, or returns its holder.
fn lock(path: &Path) -> io::Result<Result<DirLock, Holder>> {
    let mut held = held();
    if std::fs::metadata(path).is_ok_and(|facts| held.contains(&id_of(&facts))) {
        return Ok(Err(describe(&std::process::id().to_string())));
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let exclusive = FlockOperation::NonBlockingLockExclusive;
    if let Some(dir) = path.parent() {
        give_to_owner_of(dir, path);
    }
    match flock(&file, exclusive).and_then(|()| fcntl_lock(&file, exclusive)) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::ACCESS) => {
            let pid = bounded::stream(file.take(PID_BYTES_MAX), PID_BYTES_MAX)?;
            return Ok(Err(describe(String::from_utf8_lossy(&pid).trim())));
        }
        Err(error) => return Err(error.into()),
    }
    // Overwrites the old content, which needs no new room. The lock is valid without the pid.
    match say_who(&mut file) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
        said => said?,
    }
    let id = id_of(&file.metadata()?);
    held.insert(id);
    Ok(Ok(DirLock { _file: file, id }))
}

/// Gives `path` the owner of `dir`, where this process may.
///
/// A file that the superuser creates in a broker's directory must not block that broker.
pub fn give_to_owner_of(dir: &Path, path: &Path) {
    let owner = |path: &Path| {
        let facts = std::fs::metadata(path)?;
        io::Result::Ok((facts.uid(), facts.gid()))
    };
    let (Ok(wanted), Ok(found)) = (owner(dir), owner(path)) else {
        return;
    };
    if wanted != found && rustix::process::geteuid().is_root() {
        let given = std::os::unix::fs::chown(path, Some(wanted.0), Some(wanted.1));
        // Ignored on a file system without owners or a read-only one: the next process reports what
        // is refused to it.
        drop(given);
    }
}

fn say_who(file: &mut File) -> io::Result<()> {
    let who = format!("{}\n", std::process::id());
    file.seek(SeekFrom::Start(0))?;
    file.write_all(who.as_bytes())?;
    file.set_len(who.len() as u64)
}

fn describe(pid: &str) -> Holder {
    let Ok(pid) = pid.parse::<u32>() else {
        return Holder {
            name: "another process (it left no pid)".to_owned(),
            may_end: true,
        };
    };
    let command = File::open(format!("/proc/{pid}/cmdline"));
    // The beginning of the command line is enough.
    let begin = |file: File| bounded::stream(file.take(COMMAND_BYTES_MAX), COMMAND_BYTES_MAX);
    let command = command.and_then(begin).unwrap_or_default();
    if command.is_empty() {
        // The process has no memory any more, or it wrote its pid and its successor has not written
        // its own.
        return Holder {
            name: format!("process {pid}, which is ending or not visible from here"),
            may_end: true,
        };
    }
    let words: Vec<_> = command
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(String::from_utf8_lossy)
        .collect();
    Holder {
        name: format!("process {pid} ({})", words.join(" ")),
        may_end: is_killed(pid),
    }
}

/// Returns true when a process has been sent SIGKILL and has not ended yet.
fn is_killed(pid: u32) -> bool {
    const KILL: u64 = 1 << 8;
    let status = bounded::kernel_text(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status.lines().filter_map(|line| {
        let (name, mask) = line.split_once(':')?;
        let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
        ["SigPnd", "ShdPnd"].contains(&name).then_some(mask)
    });
    pending.fold(0, |all, mask| all | mask) & KILL != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_refused_and_names_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let held = DirLock::acquire(dir.path()).unwrap();
        let message = DirLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(
            message.contains(&format!("process {}", std::process::id())),
            "{message}"
        );
        let command = std::env::args().next().unwrap();
        assert!(message.contains(&command), "{message}");
        assert!(
            message.contains(&*dir.path().to_string_lossy()),
            "{message}"
        );
        drop(held);
        DirLock::acquire(dir.path()).unwrap();
    }

    /// Holds the lock like another process that left `pid`, until the file is dropped.
    fn held_by(dir: &Path, pid: &str) -> File {
        let path = dir.join(LOCK_FILE);
        std::fs::write(&path, pid).unwrap();
        let file = File::open(path).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    }

    #[test]
    fn a_look_at_the_lock_says_whether_it_is_held_and_takes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_held(dir.path()));
        let lock = DirLock::acquire(dir.path()).unwrap();
        assert!(is_held(dir.path()));
        drop(lock);
        assert!(!is_held(dir.path()));
        assert!(DirLock::acquire(dir.path()).is_ok());
    }

    #[test]
    fn a_look_at_a_lock_that_is_no_file_does_not_wait_for_a_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK_FILE);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        assert!(!is_held(dir.path()));
    }

    #[test]
    fn a_holder_that_is_ending_is_waited_for_and_one_that_is_well_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let long = Duration::from_mins(1);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // The child is not waited for, so its pid is not reused. A missing command line does not
        // prove that it ended: it has none either for a moment while it starts.
        let stat = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        for pid in [
            child.id().to_string(),
            String::new(),
            "4294967295".to_owned(),
        ] {
            let mut held = Some(held_by(dir.path(), &pid));
            let mut said = String::new();
            let lock = DirLock::acquire_within(dir.path(), long, |holder| {
                holder.clone_into(&mut said);
                held = None;
            });
            lock.unwrap();
            assert!(!said.is_empty() && said.contains(&pid), "{said}");
        }
        child.wait().unwrap();
        let well = std::process::id().to_string();
        let held = held_by(dir.path(), &well);
        let refused = DirLock::acquire_within(dir.path(), long, |_| panic!("it waits"));
        assert!(refused.unwrap_err().to_string().contains(&well));
        drop(held);
    }

    #[test]
    fn the_lock_that_java_brokers_look_at_is_held_also_after_a_refusal() {
        let dir = tempfile::tempdir().unwrap();
        let held = DirLock::acquire(dir.path()).unwrap();
        DirLock::acquire(dir.path()).unwrap_err();
        let inode = std::fs::metadata(dir.path().join(LOCK_FILE)).unwrap().ino();
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        let ours: Vec<_> = locks
            .lines()
            .filter(|line| line.contains(&format!(":{inode} ")))
            .collect();
        for kind in ["FLOCK", "POSIX"] {
            assert!(
                ours.iter().any(|line| line.contains(kind)),
                "{kind}: {ours:?}"
            );
        }
        drop(held);
    }

    #[test]
    fn a_stale_or_foreign_lock_file_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join(LOCK_FILE),
            "4294967295 or longer than a pid\n",
        )
        .unwrap();
        let held = DirLock::acquire(dir.path()).unwrap();
        let left = std::fs::read_to_string(dir.path().join(LOCK_FILE)).unwrap();
        assert_eq!(left, format!("{}\n", std::process::id()));
        drop(held);
    }

    #[test]
    fn a_directory_that_is_not_there_is_another_error() {
        let error = DirLock::acquire(Path::new("/nonexistent/dir")).unwrap_err();
        assert!(matches!(error, Error::Lock { .. }), "{error}");
    }
}
