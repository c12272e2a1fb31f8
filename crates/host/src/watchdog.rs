//! The process that takes an unconfirmed transaction back at its deadline, whatever became of who applied it.
//!
//! It is started, and seen to run, before the first write; it needs only the binary and the journal. Invariants: it waits
//! on the boot's clock; it decides by the journal alone; it holds a lock on a file of the transaction as long as it lives.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::boot;
use crate::journal::store::{Store, transactions};
use crate::root::{Root, Tree};
use crate::transaction::{Standing, Transaction};
use crate::undo::{Undone, undo};

/// How often it looks whether it is needed still.
const LOOK_MS: u64 = 2_000;
/// How long it may take to start.
const START_MS: u64 = 60_000;
/// Between two looks for its lock, or at the lock of the journals.
const RETRY_MS: u64 = 50;

fn lock_path(state: &Path, id: &str) -> PathBuf {
    state.join(format!("{id}.watch"))
}

/// Starts one for a transaction, and returns when it runs.
pub fn start(root: &Path, state: &Path, id: &str) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(&program);
    // A service manager keeps it when the session of who applied ends.
    if Root::new("/").list("run/systemd/system").is_ok() {
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
    loop {
        let Some(deadline) = deadline(&find(state, id)?, &boot::id(tree)) else {
            return Ok(Vec::new());
        };
        let now = boot::now_ms();
        if now >= deadline {
            break;
        }
        boot::wait_ms((deadline - now).min(LOOK_MS));
    }
    let store = loop {
        // Who applies, confirms or takes back has it for moments.
        match Store::lock(state, &boot::id(tree)) {
            Ok(store) => break store,
            Err(_) => boot::wait_ms(RETRY_MS),
        }
    };
    // It may have been kept, or taken back, a moment ago.
    let transaction = find(state, id)?;
    if transaction.standing(&boot::id(tree)) != Standing::Open {
        return Ok(Vec::new());
    }
    let mut log = store.append_to(id)?;
    Ok(undo(tree, &mut log, &transaction, None)?)
}

fn find(state: &Path, id: &str) -> anyhow::Result<Transaction> {
    let found = transactions(state)?.into_iter().find(|one| one.id == id);
    found.with_context(|| format!("there is no transaction {id}"))
}

/// When it has to act; none where it has not.
fn deadline(transaction: &Transaction, boot: &str) -> Option<u64> {
    let open = transaction.standing(boot) == Standing::Open;
    transaction.deadline_ms.filter(|_| open)
}
