//! One end of a simulated stream; dropped, the other end reads what is left and then the end.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pipe::Pipe;

/// One end of a stream.
pub struct SimStream {
    reads: Rc<Pipe>,
    writes: Rc<Pipe>,
}

impl SimStream {
    pub(super) fn new(reads: Rc<Pipe>, writes: Rc<Pipe>) -> Self {
        Self { reads, writes }
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.reads.poll_read(context, into)
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes.poll_write(context, from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writes.end_writing();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.writes.end_writing();
        self.reads.end_reading();
    }
}
