//! The helper thread that touches memory first, so that no append waits for a page fault.
//!
//! The process has one such thread. The first request starts it, and it sleeps while no pool lacks
//! a reserve. Requests hold a pool weakly, so a dropped pool is skipped.

use std::sync::mpsc::{Sender, channel};
use std::sync::{OnceLock, Weak};
use std::thread;

use super::pool::SharedPool;

/// The "nice" value of the lowest priority.
const LOWEST_PRIORITY: i32 = 19;

static HELPER: OnceLock<Option<Sender<Weak<SharedPool>>>> = OnceLock::new();

/// Requests that the helper thread fill the pool's reserve.
///
/// Returns false without a helper thread: the first append then touches a chunk.
pub(super) fn ask(pool: Weak<SharedPool>) -> bool {
    if cfg!(miri) {
        return false;
    }
    let helper = HELPER.get_or_init(|| {
        let (sender, requests) = channel::<Weak<SharedPool>>();
        let started = thread::Builder::new()
            .name("prefault".to_owned())
            .spawn(move || {
                // Threads that serve requests have priority. Only for this thread; a refusal costs
                // order, not work.
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
