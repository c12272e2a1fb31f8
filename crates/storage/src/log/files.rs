//! Operations on single files of a log: removing them and setting them aside.
//!
//! Invariant: a file that is set aside keeps its bytes, under a name that no file had. It does not:
//! sync names.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::Platform;
use platform::disk::{Disk, Open};

use crate::error::{Error, Result};
use crate::segment::naming;
use crate::store::Store;

/// Gives a damaged file a name that nothing reads or removes.
pub(super) async fn set_aside<P: Platform>(store: &Store<P>, path: &Path) -> Result<()> {
    let aside = free_aside(store.disk(), path, store.clock().wall_ms()).await?;
    match store.disk().rename(path, &aside).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        renamed => renamed.map_err(Error::io("set aside", path))?,
    }
    store.shared.metrics.set_aside.inc();
    tracing::warn!(file = %path.display(), aside = %aside.display(), "a damaged file was set aside");
    Ok(())
}

/// Returns a path for setting a file aside that no file has.
///
/// A wall clock may show the same time again.
pub(super) async fn free_aside<D: Disk>(disk: &D, path: &Path, now_ms: i64) -> Result<PathBuf> {
    let name = path.file_name().expect("a file of a log has a name");
    let name = name.to_string_lossy();
    let mut at_ms = now_ms;
    loop {
        let aside = path.with_file_name(naming::set_aside_name(&name, at_ms));
        match disk.open(&aside, Open::Read).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(aside),
            Err(error) => return Err(Error::io("open", &aside)(error)),
            Ok(_) => at_ms = at_ms.saturating_add(1),
        }
    }
}

/// Removes a file that may already be gone.
pub(super) async fn remove<D: Disk>(disk: &D, path: &Path) -> Result<()> {
    match disk.remove_file(path).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result.map_err(Error::io("remove", path)),
    }
}

/// The same for a file whose removal no task waits for: syncs do not wait for its blocks to be
/// free.
pub(super) async fn remove_in_pieces<D: Disk>(disk: &D, path: &Path) -> Result<()> {
    match disk.remove_file_in_pieces(path).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result.map_err(Error::io("remove", path)),
    }
}
