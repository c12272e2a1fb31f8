//! The process that takes an unconfirmed transaction back at its deadline, whatever became of who applied it.
//!
//! It is started, and seen to run, before the first write; it needs only the binary and the journal. Invariants: it waits
//! on the boot's clock; it decides by the journal of its transaction alone; it holds a lock on a file of the transaction as
//! long as it lives; it does not end before the transaction has: what cannot be read, locked or written is tried again, and
//! who holds the lock of the journals long after the deadline (a stopped `apply`) is ended.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use platform::lock::LOCK_FILE;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::boot;
use crate::journal::store::{Store, transaction};
use crate::root::{Root, Tree};
use crate::transaction::{Standing, Transaction};
use crate::undo::{Outcome, Undone, undo};

/// How often it looks whether it is needed still.
const LOOK_MS: u64 = 2_000;
/// How long it may take to start.
const START_MS: u64 = 60_000;
/// Between two looks for its lock, or at the lock of the journals.
const RETRY_MS: u64 = 50;
/// At the most between two tries to take back what is refused.
const AGAIN_MS: u64 = 60_000;
/// So long after the deadline who holds the lock of the journals is ended.
const PATIENCE_MS: u64 = 1_500;

fn lock_path(state: &Path, id: &str) -> PathBuf {
    state.join(format!("{id}.watch"))
}

/// Starts one for a transaction, and returns when it runs.
pub fn start(root: &Path, state: &Path, id: &str) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(&program);
    // A service manager keeps it when the session of who applied ends.
    if has_manager(&Root::new("/")) {
        command = Command::new("systemd-run");
        command
            .args(["--quiet", "--collect", &format!("--unit=forebay-tune-{id}")])
            .arg(&program);
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
        // What a service manager runs is no child: that it was told so is a success.
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

/// Whether a service manager starts it where this process is: not where that is in another network.
fn has_manager(host: &dyn Tree) -> bool {
    let network = |pid: &str| host.link(&format!("proc/{pid}/ns/net")).ok();
    host.list("run/systemd/system").is_ok() && network("1") == network("self")
}

/// Whether it runs.
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

/// Is the watchdog of a transaction: returns when there is nothing more to do, with what it took back.
pub fn be(root: &Path, state: &Path, id: &str) -> anyhow::Result<Vec<Undone>> {
    // A session of its own: the end of the terminal is not its end. It may have one already.
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
    lock.lock()?;
    let tree = Root::new(root);
    let ended = watch(&tree, state, id);
    // Its file goes with it; where it cannot, an unlocked one says the same.
    let removed = std::fs::remove_file(lock_path(state, id));
    drop(removed);
    ended
}

fn watch(tree: &dyn Tree, state: &Path, id: &str) -> anyhow::Result<Vec<Undone>> {
    let boot = boot::id(tree);
    loop {
        // It may be short of descriptors or memory for a moment; then it looks again.
        let wait = match transaction(state, id) {
            Ok(None) => anyhow::bail!("there is no transaction {id}"),
            Ok(Some(found)) => match deadline(&found, &boot) {
                None => return Ok(Vec::new()),
                Some(deadline) => deadline.saturating_sub(boot::now_ms()).min(LOOK_MS),
            },
            Err(_) => RETRY_MS,
        };
        if wait == 0 {
            break;
        }
        boot::wait_ms(wait);
    }
    let mut again = RETRY_MS;
    loop {
        match take_back(tree, state, id, &boot) {
            Ok(Some(undone)) => return Ok(undone),
            // Refused for now, or not told to the journal.
            Ok(None) | Err(_) => boot::wait_ms(again),
        }
        again = again.saturating_mul(2).min(AGAIN_MS);
    }
}

/// Takes it back, if nobody has meanwhile; nothing where some of it was refused.
fn take_back(
    tree: &dyn Tree,
    state: &Path,
    id: &str,
    boot: &str,
) -> anyhow::Result<Option<Vec<Undone>>> {
    let store = lock(state, boot);
    // It may have been kept, or taken back, a moment ago.
    let found = transaction(state, id)?;
    let Some(open) = found.filter(|found| found.standing(boot) == Standing::Open) else {
        return Ok(Some(Vec::new()));
    };
    let mut log = store.append_to(id)?;
    let undone = undo(tree, &mut log, &open, None)?;
    let is_refused = |one: &Undone| matches!(one.outcome, Outcome::Refused { .. });
    Ok((!undone.iter().any(is_refused)).then_some(undone))
}

/// The lock of the journals. Who applies, confirms or takes back has it for moments.
fn lock(state: &Path, boot: &str) -> Store {
    let until = boot::now_ms().saturating_add(PATIENCE_MS);
    loop {
        match Store::lock(state, boot) {
            Ok(store) => return store,
            Err(_) if boot::now_ms() >= until => {
                // It may be stopped, and then would never let go. Whoever comes later settles what it began.
                if let Some(holder) = holder(state) {
                    let _ = rustix::process::pidfd_send_signal(&holder, Signal::KILL);
                }
                boot::wait_ms(RETRY_MS);
            }
            Err(_) => boot::wait_ms(RETRY_MS),
        }
    }
}

/// The process that holds the lock, if it is this program.
fn holder(state: &Path) -> Option<OwnedFd> {
    let pid = platform::bounded::kernel_text(state.join(LOCK_FILE)).ok()?;
    let pid = Pid::from_raw(pid.trim().parse().ok()?)?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let program = |process: &str| std::fs::metadata(format!("/proc/{process}/exe")).ok();
    let (theirs, ours) = (program(&pid.to_string())?, program("self")?);
    let is_ours = (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino());
    (is_ours && pid != rustix::process::getpid()).then_some(process)
}

/// When it has to act; none where it has not.
fn deadline(transaction: &Transaction, boot: &str) -> Option<u64> {
    let open = transaction.standing(boot) == Standing::Open;
    transaction.deadline_ms.filter(|_| open)
}
