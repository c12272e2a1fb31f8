//! File I/O on tokio's blocking threads.
//!
//! Each call moves its buffers and a share of the file into the thread, so a dropped future leaves
//! nothing dangling: the call goes on and its result is lost.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::FallocateFlags;

use super::turns::Turn;
use crate::buf::AlignedBuf;

pub(super) async fn write(
    file: &Arc<OwnedFd>,
    position: u64,
    parts: Vec<Bytes>,
) -> io::Result<usize> {
    let file = Arc::clone(file);
    run(move || {
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        Ok(rustix::io::pwritev(&*file, &slices, position)?)
    })
    .await
}

pub(super) async fn read(
    file: &Arc<OwnedFd>,
    position: u64,
    mut buf: AlignedBuf,
    part: Range<usize>,
    turn: Turn,
) -> io::Result<(usize, AlignedBuf)> {
    let file = Arc::clone(file);
    run(move || {
        let _turn = turn;
        let count = rustix::io::pread(&*file, &mut buf[part], position)?;
        Ok((count, buf))
    })
    .await
}

pub(super) async fn sync(file: &Arc<OwnedFd>) -> io::Result<()> {
    let file = Arc::clone(file);
    run(move || Ok(rustix::fs::fdatasync(&*file)?)).await
}

pub(super) async fn allocate(file: &Arc<OwnedFd>, len: u64) -> io::Result<()> {
    let file = Arc::clone(file);
    run(move || {
        let mode = FallocateFlags::empty();
        Ok(rustix::fs::fallocate(&*file, mode, 0, len)?)
    })
    .await
}

/// Runs a call that may block on a thread that may.
pub(super) async fn run<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result,
        Err(stopped) => Err(io::Error::other(stopped)),
    }
}
