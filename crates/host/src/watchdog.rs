//! The process that takes an unconfirmed transaction back at its deadline, whatever happened to the
//! process that applied it.
//!
//! It is started, and seen to run, before the first write; it needs only the binary and the
//! journal. Invariants: it waits on the boot's clock; it decides only by the journal of its
//! transaction, or when the bounds of its guard are violated; it holds a lock on a file of the
//! transaction while it lives; it does not end before the transaction has ended: it retries what
//! cannot be read, locked or written, goes by what the journal said last if that is gone or
//! damaged, and kills a command of this program that holds the lock of the journals long after the
//! deadline (a stopped `apply`).

use std::fs::{File, OpenOptions, TryLockError};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use platform::lock::LockState;
use rustix::process::{PidfdFlags, Signal};

use crate::boot;
use crate::firmware::{self, Firmware};
use crate::guard::{GuardLooks, Look};
use crate::journal::store::{Store, is_held, transaction};
use crate::journal::{Event, Log};
use crate::root::{Root, Tree};
use crate::transaction::{Transaction, TransactionStanding};
use crate::undo::{UndoOutcome, UndoneItem, undo};

/// Interval at which it reads the journal: once the journal is lost, it cannot take back what was
/// written behind its last look.
const LOOK_MS: u64 = 200;
/// Interval at which it looks at the bounds of a guard.
const GUARD_MS: u64 = 1_000;
/// Longest time that it may take to start.
const START_MS: u64 = 60_000;
/// Interval of checks for its lock, and of attempts to take the lock of the journals.
const RETRY_MS: u64 = 50;
/// Longest time between two attempts to take back a refused item.
const AGAIN_MS: u64 = 60_000;
/// Time after the deadline at which a process that holds the lock of the journals is killed.
const PATIENCE_MS: u64 = 1_500;
/// Time after which a journal that cannot be read, or a directory that cannot be locked, counts as
/// lost.
const LOST_MS: u64 = 10_000;

fn lock_path(state: &Path, id: &str) -> PathBuf {
    state.join(format!("{id}.watch"))
}

/// Starts the watchdog of a transaction, and returns when it runs.
pub fn start(root: &Path, state: &Path, id: &str) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(&program);
    // It runs in another directory.
    let place = std::env::var_os(firmware::PLACE)
        .map(std::path::absolute)
        .transpose()?;
    if let Some(place) = &place {
        command.env(firmware::PLACE, place);
    }
    // A service manager keeps it alive when the session of the applying process ends.
    if has_manager(&Root::new("/")) {
        command = Command::new("systemd-run");
        command.args(["--quiet", "--collect", &format!("--unit=forebay-tune-{id}")]);
        if let Some(place) = &place {
            command.arg(format!("--setenv={}={}", firmware::PLACE, place.display()));
        }
        // A manager would show the environment of its units to all users.
        anyhow::ensure!(
            std::env::var_os(firmware::LOGIN).is_none(),
            "with systemd the watchdog reads the login of the firmware from a file: unset {}",
            firmware::LOGIN
        );
        command.arg(&program);
    }
    command
        .args(["tune", "--sysroot"])
        .arg(root)
        .arg("--state")
        .arg(state)
        .args(["watchdog", id]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/");
    let mut child = command.spawn().context("starting the watchdog")?;
    let until = boot::now_ms().saturating_add(START_MS);
    while !runs(state, id)? {
        // With a service manager, the child only submits the request and exits successfully.
        let ended = child.try_wait()?.filter(|status| !status.success());
        if let Some(status) = ended {
            anyhow::bail!("the watchdog does not start ({status}): nothing was written");
        }
        anyhow::ensure!(
            boot::now_ms() < until,
            "the watchdog does not start: nothing was written"
        );
        boot::wait_ms(RETRY_MS);
    }
    Ok(())
}

/// Returns whether a service manager can start it in this process's network namespace.
fn has_manager(host: &dyn Tree) -> bool {
    let network = |pid: &str| host.link(&format!("proc/{pid}/ns/net")).ok();
    host.list("run/systemd/system").is_ok() && network("1") == network("self")
}

/// Returns whether the watchdog runs.
pub fn runs(state: &Path, id: &str) -> anyhow::Result<bool> {
    let file = match File::open(lock_path(state, id)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Returns the open transactions without a watchdog, which would not be taken back at their
/// deadline: it was killed.
pub fn orphans(state: &Path, boot: &str, transactions: &[Transaction]) -> Vec<String> {
    let waits = |one: &&Transaction| deadline(one, boot).is_some();
    // One that cannot be asked is asked again.
    let is_alone = |one: &&Transaction| matches!(runs(state, &one.id), Ok(false));
    let alone = transactions.iter().filter(waits).filter(is_alone);
    alone.map(|one| one.id.clone()).collect()
}

/// Runs as the watchdog of a transaction; returns what it took back when nothing more is to be
/// done.
pub fn be(root: &Path, state: &Path, id: &str) -> anyhow::Result<Vec<UndoneItem>> {
    // Its own session, so that it survives the end of the terminal; fails if it already has one.
    let _ = rustix::process::setsid();
    anyhow::ensure!(
        transaction(state, id)?.is_some(),
        "there is no transaction {id}"
    );
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(lock_path(state, id))?;
    // Without its controller a setting of the firmware is refused, and tried again.
    let firmware = Firmware::configured(Root::new(root).is_this_machine());
    let tree = Root::with_firmware(root, firmware.unwrap_or(None));
    // Before the lock, for which the first write waits.
    let guard = transaction(state, id)?.and_then(|found| found.guard);
    let watched = guard.map(|guard| GuardLooks::new(Look::now(&tree, &guard, boot::now_ms())));
    lock.lock()?;
    let ended = watch(&tree, state, id, watched);
    // Removes the lock file; if that fails, an unlocked file has the same meaning.
    let removed = std::fs::remove_file(lock_path(state, id));
    drop(removed);
    ended
}

fn watch(
    tree: &dyn Tree,
    state: &Path,
    id: &str,
    mut watched: Option<GuardLooks>,
) -> anyhow::Result<Vec<UndoneItem>> {
    let boot = boot::id(tree);
    // What the journal said last: it may be lost or damaged before the deadline.
    let mut known: Option<Transaction> = None;
    let mut guard_due = 0;
    let (last, alarm) = loop {
        match transaction(state, id) {
            Ok(Some(found)) if found.damaged.is_none() => {
                if deadline(&found, &boot).is_none() {
                    return Ok(Vec::new());
                }
                known = Some(found);
            }
            Ok(None) if known.is_none() => anyhow::bail!("there is no transaction {id}"),
            Ok(Some(found)) if known.is_none() => {
                anyhow::bail!(found.damaged.unwrap_or_default())
            }
            Ok(_) | Err(_) => {}
        }
        // Descriptors or memory may be short for a moment, so it retries.
        let Some(last) = &known else {
            boot::wait_ms(RETRY_MS);
            continue;
        };
        let is_due = boot::now_ms() >= guard_due;
        let guard = last.guard.as_ref().zip(watched.as_mut());
        let alarm = guard.filter(|_| is_due).and_then(|(guard, watched)| {
            guard_due = boot::now_ms().saturating_add(GUARD_MS);
            watched.sees(guard, Look::now(tree, guard, boot::now_ms()))
        });
        let deadline = last.deadline(&boot).unwrap_or(0);
        let wait = deadline.saturating_sub(boot::now_ms()).min(LOOK_MS);
        if alarm.is_some() || wait == 0 {
            break (last.clone(), alarm);
        }
        boot::wait_ms(wait);
    };
    let begun = boot::now_ms();
    let mut again = RETRY_MS;
    loop {
        let lost = boot::now_ms().saturating_sub(begun) >= LOST_MS;
        match take_back(tree, state, &last, &boot, alarm.as_deref(), lost) {
            Ok(Some(undone)) => return Ok(undone),
            // Refused for now, or not recorded in the journal.
            Ok(None) | Err(_) => boot::wait_ms(again),
        }
        again = again.saturating_mul(2).min(AGAIN_MS);
    }
}

/// Takes the transaction back unless it has ended meanwhile; returns none if an item was refused.
///
/// A journal that is gone or damaged, or cannot be read for long (`lost`), is replaced by what it
/// said last.
fn take_back(
    tree: &dyn Tree,
    state: &Path,
    last: &Transaction,
    boot: &str,
    alarm: Option<&str>,
    lost: bool,
) -> anyhow::Result<Option<Vec<UndoneItem>>> {
    let store = lock(state, boot, lost)?;
    // It may have been confirmed or taken back a moment ago.
    let found = match transaction(state, &last.id) {
        Ok(found) => found.filter(|found| found.damaged.is_none()),
        Err(error) if !lost => return Err(error),
        Err(_) => None,
    };
    let has_journal = found.is_some();
    let open = found.unwrap_or_else(|| last.clone());
    if open.standing(boot) != TransactionStanding::Open {
        return Ok(Some(Vec::new()));
    }
    let mut log: Box<dyn Log> = match store.as_ref().filter(|_| has_journal) {
        Some(store) => store.to_take_back(&open.id),
        None => Box::new(NoJournal),
    };
    if let Some(why) = alarm.filter(|_| open.alarm.is_none()) {
        let why = why.to_owned();
        // A full disk does not keep anything from being taken back.
        drop(log.append(Event::Alarm { why }));
    }
    let undone = undo(tree, &mut *log, &open, None)?;
    let is_refused = |one: &UndoneItem| matches!(one.outcome, UndoOutcome::Refused { .. });
    Ok((!undone.iter().any(is_refused)).then_some(undone))
}

/// The journal of a transaction whose own is gone: no command would read it.
struct NoJournal;

impl Log for NoJournal {
    fn append(&mut self, _: Event) -> std::io::Result<()> {
        Ok(())
    }
}

/// Takes the lock of the journals, which other commands hold only briefly.
///
/// None without the directory, or if it cannot be used for long (`lost`): then no other command can
/// use it either.
fn lock(state: &Path, boot: &str, lost: bool) -> anyhow::Result<Option<Store>> {
    let until = boot::now_ms().saturating_add(PATIENCE_MS);
    loop {
        // The lock would make the directory again.
        if !state.exists() {
            return Ok(None);
        }
        match Store::try_lock(state, boot) {
            Ok(store) => return Ok(Some(store)),
            Err(error) if !is_held(&error) => return if lost { Ok(None) } else { Err(error) },
            Err(_) if boot::now_ms() >= until => {
                // The holder may be stopped and would never release it; a later command settles
                // what the holder began.
                if let Some(holder) = holder(state) {
                    let _ = rustix::process::pidfd_send_signal(&holder, Signal::KILL);
                }
                boot::wait_ms(RETRY_MS);
            }
            Err(_) => boot::wait_ms(RETRY_MS),
        }
    }
}

/// Returns the process that holds the lock, if it is another command of this program.
///
/// Asks the kernel, because the number in the lock file may be that of a process that ended long
/// ago, which another one has by now: a broker is of this program, too.
fn holder(state: &Path) -> Option<OwnedFd> {
    let LockState::Held(Some(pid)) = platform::lock::state(state) else {
        return None;
    };
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let program = |process: &str| std::fs::metadata(format!("/proc/{process}/exe")).ok();
    let number = pid.as_raw_nonzero().to_string();
    let (theirs, ours) = (program(&number)?, program("self")?);
    let is_ours = (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino());
    let command = platform::bounded::kernel_text(format!("/proc/{number}/cmdline")).ok()?;
    let is_tune = command.split('\0').nth(1) == Some("tune");
    // Still the same process: it held the lock behind the look at what it is.
    let is_still = platform::lock::state(state) == LockState::Held(Some(pid));
    (is_ours && is_tune && is_still).then_some(process)
}

/// Returns when the watchdog must act; none if it need not.
fn deadline(transaction: &Transaction, boot: &str) -> Option<u64> {
    let open = transaction.standing(boot) == TransactionStanding::Open;
    transaction.deadline(boot).filter(|_| open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::Change;
    use crate::change::{self, Order};
    use crate::fake::Fake;

    const SWAPPINESS: &str = "proc/sys/vm/swappiness";

    /// An unconfirmed change, whose deadline is in a moment; returns its transaction.
    fn applied(fake: &Fake, state: &Path) -> String {
        let changes = [Change {
            item: "sysctl.vm.swappiness".to_owned(),
            want: "1".to_owned(),
        }];
        let order = Order {
            changes: &changes,
            confirm_within_ms: Some(300),
            ..Order::default()
        };
        let begun = change::begin(fake, state, order, |_| Ok(()));
        begun.unwrap().unwrap().transaction
    }

    fn host() -> Fake {
        Fake::new(&[
            ("proc/sys/kernel/random/boot_id", "boot-1"),
            (SWAPPINESS, "60"),
        ])
    }

    /// Takes a change back after `happens` has happened to its journal.
    fn watched(happens: impl FnOnce(&Path)) -> (Fake, anyhow::Result<Vec<UndoneItem>>) {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let fake = host();
        let id = applied(&fake, &state);
        let path = state.join(format!("{id}.jsonl"));
        let known = transaction(&state, &id).unwrap().unwrap();
        happens(&path);
        let ended = take_back(&fake, &state, &known, "boot-1", None, false);
        (fake, ended.map(Option::unwrap_or_default))
    }

    #[test]
    fn a_journal_that_is_gone_or_damaged_keeps_nothing_from_being_taken_back() {
        let gone: fn(&Path) = |path| std::fs::remove_file(path).unwrap();
        let damaged: fn(&Path) = |path| std::fs::write(path, "x\ny\n").unwrap();
        let all_gone: fn(&Path) = |path| std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        for happens in [gone, damaged, all_gone] {
            let (fake, ended) = watched(happens);
            assert_eq!(ended.unwrap()[0].outcome, UndoOutcome::Restored);
            assert_eq!(fake.read(SWAPPINESS).unwrap(), "60\n");
        }
    }

    #[test]
    fn a_directory_that_is_gone_is_not_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let locked = lock(&dir.path().join("state"), "boot-1", false);
        assert!(locked.unwrap().is_none());
        assert!(!dir.path().join("state").exists());
    }

    /// From begin to end, by the clock.
    #[test]
    fn at_the_deadline_it_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let fake = host();
        let id = applied(&fake, dir.path());
        let undone = watch(&fake, dir.path(), &id, None).unwrap();
        assert_eq!(undone[0].outcome, UndoOutcome::Restored);
        assert_eq!(fake.read(SWAPPINESS).unwrap(), "60\n");
        assert!(watch(&fake, dir.path(), &id, None).unwrap().is_empty());
        assert!(watch(&fake, dir.path(), "1-1", None).is_err());
    }
}
