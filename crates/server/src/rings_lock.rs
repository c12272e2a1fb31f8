//! The lock of the rings of one log directory that lie elsewhere (`journal.dir`).
//!
//! The lock of a log directory does not keep off who uses a copy of it: that has the same id, and
//! so the same rings. Invariant: of those who write to these rings one at a time does. A lock that
//! cannot be taken for another reason keeps no broker from its start: its rings then fail, too, or
//! are not written to.

use std::path::Path;
use std::time::Duration;

use platform::error::Error;
use platform::lock::DirLock;
use storage::journal::names::lock_name;
use wire::types::Uuid;

/// How long a holder that is ending is waited for.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Locks the rings of a log directory in `rings_dir`; fails only if another process holds them.
pub(crate) fn acquire(rings_dir: &Path, directory_id: Uuid) -> Result<Option<DirLock>, Error> {
    let waits = |holder: &str| {
        tracing::warn!(dir = %rings_dir.display(), holder, "waiting for the lock of the journals");
    };
    let name = lock_name(directory_id);
    match DirLock::acquire_named(rings_dir, &name, WAIT_MAX, waits) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ Error::DirHeld { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "the journals are not locked");
            Ok(None)
        }
    }
}
