//! The helper thread that touches memory first, so that no append ever waits for a page fault.
//!
//! One thread for the process, started by the first request, asleep when no pool lacks a reserve.
//! Requests name a pool weakly: a pool that is gone is skipped.

use std::sync::mpsc::{Sender, channel};
use std::sync::{OnceLock, Weak};
use std::thread;

use super::pool::Shared;

/// The "nice" value of who can wait longest.
const LOWEST_PRIORITY: i32 = 19;

static HELPER: OnceLock<Option<Sender<Weak<Shared>>>> = OnceLock::new();

/// Asks for the pool's reserve to be filled. False when there is no helper: chunks are then touched
/// by their first append.
pub(super) fn ask(pool: Weak<Shared>) -> bool {
    if cfg!(miri) {
        return false;
    }
    let helper = HELPER.get_or_init(|| {
        let (sender, requests) = channel::<Weak<Shared>>();
        let started = thread::Builder::new()
            .name("prefault".to_owned())
            .spawn(move || {
                // Whoever serves requests goes first. For this thread only; a refusal costs order,
                // not work.
                let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
                while let Ok(pool) = requests.recv() {
                    if let Some(pool) = pool.upgrade() {
                        pool.fill_reserve();
                    }
                }
            });
        match started {
            Ok(_) => Some(sender),
            Err(error) => {
                tracing::warn!(%error, "no helper thread to prepare memory, appends will do it");
                None
            }
        }
    });
    helper
        .as_ref()
        .is_some_and(|sender| sender.send(pool).is_ok())
}
