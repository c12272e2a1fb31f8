//! What the bytes of a connection go through: nothing, or TLS (`transport/tls.rs`).
//!
//! The interface is that of a socket which is ready or not, since the lanes of a load wait for many
//! things at once. Invariant: after a short read or write the readiness of the socket is cleared:
//! the kernel tells when there is more, so no further call is needed to hear `WouldBlock`.

mod ready;
mod tls;

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::task::{Context, Poll, ready};

use client::settings::Tls;
use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::TcpStream;

use ready::{is_blocked, read_some};
pub(crate) use tls::TlsSocket;

/// The stream of a connection.
#[derive(Debug)]
pub(crate) enum Transport {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsSocket>),
}

impl Transport {
    /// Shakes hands with the server of this name.
    pub(crate) async fn secured(socket: TcpStream, host: &str, tls: &Tls) -> anyhow::Result<Self> {
        Ok(Self::Tls(Box::new(
            TlsSocket::connect(socket, host, tls.config()).await?,
        )))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.socket(),
        }
    }

    /// Reads what is there, or fails with `WouldBlock`; 0 at the end.
    pub(crate) fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => read_some(socket, into),
            Self::Tls(stream) => stream.try_read(into),
        }
    }

    /// Takes as many bytes as it can for sending, or fails with `WouldBlock`.
    pub(crate) fn try_write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => {
                let wanted: usize = parts.iter().map(|part| part.len()).sum();
                let written = socket.try_write_vectored(parts)?;
                if written < wanted {
                    is_blocked(socket, Interest::WRITABLE);
                }
                Ok(written)
            }
            Self::Tls(stream) => stream.try_write_vectored(parts),
        }
    }

    /// Sends what was taken; returns true if nothing is left.
    pub(crate) fn try_flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(stream) => stream.try_flush(),
        }
    }

    /// Returns true if bytes that were taken are not sent.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.has_unsent(),
        }
    }

    pub(crate) fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tls(stream) if stream.has_more() => Poll::Ready(Ok(())),
            _ => self.socket().poll_read_ready(context),
        }
    }

    pub(crate) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_write_ready(context)
    }

    /// Waits until there is something to read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_read_ready(context)).await
    }

    /// Reads until the buffer is full.
    pub(crate) async fn read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        let mut read = 0;
        while read < into.len() {
            self.readable().await?;
            match self.try_read(&mut into[read..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all bytes and sends them.
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut written = 0;
        poll_fn(|context| {
            loop {
                let done = if written < bytes.len() {
                    self.try_write_vectored(&[IoSlice::new(&bytes[written..])])
                        .map(|some| {
                            written += some;
                            false
                        })
                } else {
                    self.try_flush()
                };
                match done {
                    Ok(true) => return Poll::Ready(Ok(())),
                    Ok(false) if written < bytes.len() || !self.has_unsent() => {}
                    Ok(false) => ready!(self.poll_write_ready(context))?,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        ready!(self.poll_write_ready(context))?;
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        })
        .await
    }

    /// Lets the kernel throw away what has arrived, up to `most` bytes; only without TLS.
    pub(crate) fn try_discard(&mut self, trash: &mut [u8]) -> io::Result<usize> {
        let Self::Plain(socket) = self else {
            return self.try_read(trash);
        };
        socket.try_io(Interest::READABLE, || {
            let (_, count) = recv(&*socket, trash, RecvFlags::TRUNC)?;
            Ok(count)
        })
    }
}

impl From<TcpStream> for Transport {
    fn from(socket: TcpStream) -> Self {
        Self::Plain(socket)
    }
}

#[cfg(test)]
mod tests;
