//! The process that takes an unconfirmed transaction back at its deadline, whatever happened to the
//! process that applied it.
//!
//! It is started, and seen to run, before the first write; it needs only the binary and the
//! journal. Invariants: it waits on the boot's clock; it decides only by the journal of its
//! transaction, or when the bounds of its guard are violated; it holds a lock on a file of the
//! transaction while it lives; it does not end before the transaction has ended: it retries what
//! cannot be read, locked or written, and kills a process that holds the lock of the journals long
//! after the deadline (a stopped `apply`).

use std::fs::{File, OpenOptions, TryLockError};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use platform::lock::LOCK_FILE;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::boot;
use crate::firmware::{self, Firmware};
use crate::guard::{GuardLooks, Look};
use crate::journal::store::{Store, transaction};
use crate::journal::{Event, Log as _};
use crate::root::{Root, Tree};
use crate::transaction::{Transaction, TransactionStanding};
use crate::undo::{UndoOutcome, UndoneItem, undo};

/// Interval at which it checks whether it is still needed.
const LOOK_MS: u64 = 2_000;
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
    let alarm = loop {
        // Descriptors or memory may be short for a moment, so it retries.
        let wait = match transaction(state, id) {
            Ok(None) => anyhow::bail!("there is no transaction {id}"),
            Ok(Some(found)) => match deadline(&found, &boot) {
                None => return Ok(Vec::new()),
                Some(deadline) => {
                    let alarm = found.guard.as_ref().zip(watched.as_mut());
                    let alarm = alarm.and_then(|(guard, watched)| {
                        watched.sees(guard, Look::now(tree, guard, boot::now_ms()))
                    });
                    if alarm.is_some() {
                        break alarm;
                    }
                    let look_ms = if found.guard.is_some() {
                        GUARD_MS
                    } else {
                        LOOK_MS
                    };
                    deadline.saturating_sub(boot::now_ms()).min(look_ms)
                }
            },
            Err(_) => RETRY_MS,
        };
        if wait == 0 {
            break None;
        }
        boot::wait_ms(wait);
    };
    let mut again = RETRY_MS;
    loop {
        match take_back(tree, state, id, &boot, alarm.as_deref()) {
            Ok(Some(undone)) => return Ok(undone),
            // Refused for now, or not recorded in the journal.
            Ok(None) | Err(_) => boot::wait_ms(again),
        }
        again = again.saturating_mul(2).min(AGAIN_MS);
    }
}

/// Takes the transaction back unless it has ended meanwhile; returns none if an item was refused.
fn take_back(
    tree: &dyn Tree,
    state: &Path,
    id: &str,
    boot: &str,
    alarm: Option<&str>,
) -> anyhow::Result<Option<Vec<UndoneItem>>> {
    let store = lock(state, boot);
    // It may have been confirmed or taken back a moment ago.
    let found = transaction(state, id)?;
    let Some(open) = found.filter(|found| found.standing(boot) == TransactionStanding::Open) else {
        return Ok(Some(Vec::new()));
    };
    let mut log = store.append_to(id)?;
    if let Some(why) = alarm.filter(|_| open.alarm.is_none()) {
        let why = why.to_owned();
        // A full disk does not keep anything from being taken back.
        drop(log.append(Event::Alarm { why }));
    }
    let undone = undo(tree, &mut log, &open, None)?;
    let is_refused = |one: &UndoneItem| matches!(one.outcome, UndoOutcome::Refused { .. });
    Ok((!undone.iter().any(is_refused)).then_some(undone))
}

/// Takes the lock of the journals, which other commands hold only briefly.
fn lock(state: &Path, boot: &str) -> Store {
    let until = boot::now_ms().saturating_add(PATIENCE_MS);
    loop {
        match Store::lock(state, boot) {
            Ok(store) => return store,
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

/// Returns the process that holds the lock, if it runs this program.
fn holder(state: &Path) -> Option<OwnedFd> {
    let pid = platform::bounded::kernel_text(state.join(LOCK_FILE)).ok()?;
    let pid = Pid::from_raw(pid.trim().parse().ok()?)?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let program = |process: &str| std::fs::metadata(format!("/proc/{process}/exe")).ok();
    let (theirs, ours) = (program(&pid.to_string())?, program("self")?);
    let is_ours = (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino());
    (is_ours && pid != rustix::process::getpid()).then_some(process)
}

/// Returns when the watchdog must act; none if it need not.
fn deadline(transaction: &Transaction, boot: &str) -> Option<u64> {
    let open = transaction.standing(boot) == TransactionStanding::Open;
    transaction.deadline(boot).filter(|_| open)
}
