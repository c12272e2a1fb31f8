//! File I/O on tokio's blocking threads.
//!
//! Each call moves its buffers and a reference to the file into the thread, so a dropped future
//! leaves nothing dangling: the call continues and its result is dropped. Not here: completing
//! partial transfers (`os/called.rs`).

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::FallocateFlags;
use rustix::io::ReadWriteFlags;

use super::durable::WriteKind;
use super::lanes::Places;
use super::turns::Turn;
use crate::buf::AlignedBuf;

/// Maximum concurrent requests of one directory; each holds a thread.
pub(super) const THREADS_MAX: usize = 16;

pub(super) async fn write(
    file: &Arc<OwnedFd>,
    position: u64,
    parts: Vec<Bytes>,
    kind: WriteKind,
    places: Places,
) -> io::Result<usize> {
    let file = Arc::clone(file);
    run(move || {
        let _places = places;
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let written = match kind {
            WriteKind::Plain => rustix::io::pwritev(&*file, &slices, position),
            WriteKind::Durable => {
                rustix::io::pwritev2(&*file, &slices, position, ReadWriteFlags::DSYNC)
            }
        };
        Ok(written?)
    })
    .await
}

pub(super) async fn read(
    file: &Arc<OwnedFd>,
    position: u64,
    mut buf: AlignedBuf,
    part: Range<usize>,
    kept: (Turn, Places),
) -> io::Result<(usize, AlignedBuf)> {
    let file = Arc::clone(file);
    run(move || {
        let _kept = kept;
        let count = rustix::io::pread(&*file, &mut buf[part], position)?;
        Ok((count, buf))
    })
    .await
}

pub(super) async fn sync(file: &Arc<OwnedFd>, places: Places) -> io::Result<()> {
    let file = Arc::clone(file);
    run(move || {
        let _places = places;
        Ok(rustix::fs::fdatasync(&*file)?)
    })
    .await
}

pub(super) async fn allocate(file: &Arc<OwnedFd>, len: u64, places: Places) -> io::Result<()> {
    let file = Arc::clone(file);
    run(move || {
        let _places = places;
        let mode = FallocateFlags::empty();
        Ok(rustix::fs::fallocate(&*file, mode, 0, len)?)
    })
    .await
}

/// Runs a blocking call on a blocking thread.
pub(super) async fn run<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result,
        Err(stopped) => Err(io::Error::other(stopped)),
    }
}
