//! Copying a segment's data from one folder to another, verified on the way.
//!
//! The copy is durable, exactly as long as the segment, and every batch of it was found good, when [`data`] returns; its
//! name still says that it is not one. The source is only read.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::buf::{BufPool, block_ceil};
use platform::disk::{Disk, DiskFile, IoClass, Open};
use platform::task;
use wire::types::Offset;

use super::pace::MoveRate;
use super::verify::{Damage, Verifier};
use crate::error::{Error, Result};
use crate::num::index;
use crate::segment::File;
use crate::store::Store;

/// How long flushes are given way to, before each step: so many looks, so long apart.
const GIVE_WAY_LOOKS: usize = 8;
const GIVE_WAY_INTERVAL: Duration = Duration::from_millis(1);
/// Waits are cut in pieces, so that a copy that has become useless ends soon.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Bytes of one read and one write.
const STEP_BYTES: usize = 1 << 20;

/// Why a segment was not moved.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It was cut, deleted, compacted or closed meanwhile.
    Overtaken,
    /// Its bytes are not what was written.
    Damaged(Damage),
    /// It cannot be read.
    Source(Error),
    /// The copy cannot be written.
    Target(Error),
    /// The log's home does not take a note of it.
    Home(Error),
}

/// What is to be copied.
pub(crate) struct Original<'a, P: Platform> {
    pub(crate) file: &'a File<P>,
    /// Its path, for errors.
    pub(crate) path: &'a Path,
    pub(crate) base: Offset,
    pub(crate) size: u64,
    /// When it was sealed: the copy's file gets that time, as its source has it.
    pub(crate) sealed_ms: i64,
    /// Of its reads, and of the copy's writes.
    pub(crate) class: IoClass,
}

/// Copies `data` to a new file at `target`; an unfinished one that is there goes.
pub(crate) async fn data<P: Platform>(
    store: &Store<P>,
    data: Original<'_, P>,
    target: &Path,
    rate: &MoveRate,
    goes_on: impl Fn() -> bool,
) -> Result<(), Trouble> {
    let Original {
        file,
        path,
        base,
        size,
        sealed_ms,
        class,
    } = data;
    let file = file.of_class(class);
    let copy = create(store.disk(), target).await?.of_class(class);
    let pool = BufPool::new(2 * STEP_BYTES);
    let mut verifier = Verifier::new(base, size);
    let mut at = 0;
    while at < size {
        let len = index(size - at).min(STEP_BYTES);
        store.wait_to_copy(rate, len as u64, &goes_on).await;
        if !goes_on() {
            return Err(Trouble::Overtaken);
        }
        let buf = pool.take(block_ceil(len));
        let read = file.read_into(at, buf).await;
        let mut bytes = read.map_err(|error| Trouble::Source(Error::io("read", path)(error)))?;
        bytes.truncate(len);
        store.shared.metrics.read_bytes.inc_by(bytes.len() as u64);
        if bytes.len() < len {
            let position = at + bytes.len() as u64;
            let reason = "the file is shorter than its batches";
            return Err(Trouble::Damaged(Damage { position, reason }));
        }
        verifier.take(&bytes).map_err(Trouble::Damaged)?;
        let block = padded(&pool, bytes);
        let written = copy.write_at(at, vec![block]).await;
        written.map_err(|error| Trouble::Target(Error::io("write", target)(error)))?;
        at += len as u64;
    }
    assert_eq!(at, size, "each step is within the segment");
    verifier.finish().map_err(Trouble::Damaged)?;
    let cut = copy.set_len(size).await;
    cut.map_err(|error| Trouble::Target(Error::io("cut", target)(error)))?;
    if let Err(error) = store.disk().set_modified(target, sealed_ms).await {
        // The next start takes it for younger than it is.
        tracing::debug!(file = %target.display(), %error, "a copy keeps the time at which it was made");
    }
    let synced = copy.sync().await;
    synced.map_err(|error| Trouble::Target(sync_error(target, error)))
}

impl<P: Platform> Store<P> {
    /// Waits for the turn of `bytes` of a copy; `goes_on` is asked now and then, and a false ends the wait.
    pub(crate) async fn wait_to_copy(
        &self,
        rate: &MoveRate,
        bytes: u64,
        goes_on: impl Fn() -> bool,
    ) {
        task::yield_now().await;
        for _ in 0..GIVE_WAY_LOOKS {
            if self.shared.flushing.get() == 0 {
                break;
            }
            self.clock().sleep(GIVE_WAY_INTERVAL).await;
        }
        let mut changes = rate.changes();
        let mut left = rate.reserve(self.clock().now(), bytes);
        while left > Duration::ZERO && goes_on() {
            let now = left.min(WAIT_MAX);
            self.clock().sleep(now).await;
            left = left.saturating_sub(now);
            if rate.changes() != changes {
                changes = rate.changes();
                left = rate.reserve(self.clock().now(), bytes);
            }
        }
    }
}

/// A whole number of blocks, zeros behind the bytes.
fn padded(pool: &BufPool, bytes: platform::buf::AlignedBuf) -> Bytes {
    let len = bytes.len();
    if len == block_ceil(len) {
        return bytes.freeze();
    }
    let mut block = pool.take(block_ceil(len));
    block.fill(0);
    block[..len].copy_from_slice(&bytes);
    block.freeze()
}

async fn create<D: Disk>(disk: &D, target: &Path) -> Result<D::File, Trouble> {
    let made = match disk.open(target, Open::Create).await {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let removed = disk.remove_file(target).await;
            removed.map_err(|error| Trouble::Target(Error::io("remove", target)(error)))?;
            disk.open(target, Open::Create).await
        }
        made => made,
    };
    made.map_err(|error| Trouble::Target(Error::io("create", target)(error)))
}

/// A failed sync is never "no room": what it should have made durable may be gone.
fn sync_error(path: &Path, source: std::io::Error) -> Error {
    Error::Io {
        action: "sync",
        path: path.to_path_buf(),
        source: source.into(),
    }
}
