//! Copies a segment's data from one folder to another and verifies it on the way.
//!
//! When [`data`] returns, the copy is durable and exactly as long as the segment, and every batch
//! of it was verified. Its name still marks it as a copy.
//! It does not change the source.

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

/// How often, and at which interval, each step checks for flushes and gives way to them.
const GIVE_WAY_LOOKS: usize = 8;
const GIVE_WAY_INTERVAL: Duration = Duration::from_millis(1);
/// Waits are split into pieces of this length, so that a copy that has become useless ends soon.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Bytes of one read and of one write.
const STEP_BYTES: usize = 1 << 20;

/// Why a segment was not moved.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The segment was truncated, deleted, compacted or closed meanwhile.
    Overtaken,
    /// The bytes of the segment are not those that were written.
    Damaged(Damage),
    /// The segment cannot be read.
    Source(Error),
    /// The copy cannot be written.
    Target(Error),
    /// The note in the log's home cannot be written.
    Home(Error),
}

/// The segment to be copied.
pub(crate) struct Original<'a, P: Platform> {
    pub(crate) file: &'a File<P>,
    /// The path of the file, for errors.
    pub(crate) path: &'a Path,
    pub(crate) base: Offset,
    pub(crate) size: u64,
    /// When the segment was sealed; the copy's file gets this time, as its source has it.
    pub(crate) sealed_ms: i64,
    /// The I/O class of its reads and of the copy's writes.
    pub(crate) class: IoClass,
}

/// Copies `data` to a new file at `target`; an unfinished copy there is replaced.
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
    let copy = create(store.disk(), target).await?.of_class(class);
    let mut steps = Steps {
        store,
        file: file.of_class(class),
        path,
        size,
        at: 0,
        rate,
        goes_on,
        pool: BufPool::new(3 * STEP_BYTES),
        verifier: Verifier::new(base, size),
    };
    let mut at = 0;
    let mut step = steps.next().await?;
    while let Some(Step { block, len }) = step {
        // The next step waits and is read meanwhile: neither may cost the target any of its time.
        let (written, next) = task::both(copy.write_at(at, vec![block]), steps.next()).await;
        written.map_err(|error| Trouble::Target(Error::io("write", target)(error)))?;
        at += len;
        step = next?;
    }
    assert_eq!(at, size, "each step is within the segment");
    steps.verifier.finish().map_err(Trouble::Damaged)?;
    let cut = copy.set_len(size).await;
    cut.map_err(|error| Trouble::Target(Error::io("cut", target)(error)))?;
    if let Err(error) = store.disk().set_modified(target, sealed_ms).await {
        // The next start takes the copy as younger than it is.
        tracing::debug!(file = %target.display(), %error, "a copy keeps the time at which it was made");
    }
    let synced = copy.sync().await;
    synced.map_err(|error| Trouble::Target(sync_error(target, error)))
}

/// The steps of a copy in order: each waits for its turn, and is read and verified.
struct Steps<'a, P: Platform, G> {
    store: &'a Store<P>,
    file: File<P>,
    path: &'a Path,
    size: u64,
    /// How much of the segment has been read.
    at: u64,
    rate: &'a MoveRate,
    goes_on: G,
    pool: BufPool,
    verifier: Verifier,
}

/// Bytes of a segment, padded to whole blocks.
struct Step {
    block: Bytes,
    /// Without the padding.
    len: u64,
}

impl<P: Platform, G: Fn() -> bool> Steps<'_, P, G> {
    /// Returns the next step; `None` at the end of the segment.
    async fn next(&mut self) -> Result<Option<Step>, Trouble> {
        if self.at >= self.size {
            return Ok(None);
        }
        let len = index(self.size - self.at).min(STEP_BYTES);
        let waits = self
            .store
            .wait_to_copy(self.rate, len as u64, &self.goes_on);
        waits.await;
        if !(self.goes_on)() {
            return Err(Trouble::Overtaken);
        }
        let buf = self.pool.take(block_ceil(len));
        let read = self.file.read_into(self.at, buf).await;
        let mut bytes =
            read.map_err(|error| Trouble::Source(Error::io("read", self.path)(error)))?;
        bytes.truncate(len);
        let read_bytes = &self.store.shared.metrics.read_bytes;
        read_bytes.inc_by(bytes.len() as u64);
        if bytes.len() < len {
            let position = self.at + bytes.len() as u64;
            let reason = "the file is shorter than its batches";
            return Err(Trouble::Damaged(Damage { position, reason }));
        }
        self.verifier.take(&bytes).map_err(Trouble::Damaged)?;
        self.at += len as u64;
        let block = padded(&self.pool, bytes);
        Ok(Some(Step {
            block,
            len: len as u64,
        }))
    }
}

impl<P: Platform> Store<P> {
    /// Waits until `bytes` of a copy may be copied; the wait ends early when `goes_on` returns
    /// false.
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

/// Returns the bytes padded with zeros to whole blocks.
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

/// Returns the error of a failed sync, which is never "no room": the bytes that it covered may be
/// lost.
fn sync_error(path: &Path, source: std::io::Error) -> Error {
    Error::Io {
        action: "sync",
        path: path.to_path_buf(),
        source: source.into(),
    }
}
