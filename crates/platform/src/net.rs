//! Connections to other machines: a stream of bytes each way, real ([`TcpNet`]) or simulated
//! ([`crate::sim::SimNet`]).
//!
//! Invariant: every wait has a deadline that the caller sets. Not here: what the bytes mean,
//! encryption, listening.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{timeout, timeout_at};

use crate::clock::Instant;

/// The most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 16;

/// What connects to other machines.
pub trait Net: Clone + 'static {
    /// A stream of bytes each way.
    type Stream: AsyncRead + AsyncWrite + Unpin + 'static;

    /// Connects to a host by its name or address.
    fn connect(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
    ) -> impl Future<Output = io::Result<Self::Stream>>;
}

/// TCP, without Nagle's delays.
#[derive(Clone, Copy, Default, Debug)]
pub struct TcpNet;

impl Net for TcpNet {
    type Stream = TcpStream;

    /// Tries the addresses of the name one after the other; each gets its share of the time left,
    /// so one that does not answer leaves some to the others.
    async fn connect(&self, host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
        let found = timeout_at(deadline, lookup_host((host, port))).await;
        let found = found.map_err(|_| late("looking up the name takes too long"))??;
        let addresses: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
            let time = deadline.saturating_duration_since(Instant::now());
            let share = time / u32::try_from(left).unwrap_or(u32::MAX);
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = late("no answer"),
            }
        }
        Err(last)
    }
}

fn late(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, reason)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn bytes_go_both_ways() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let deadline = Instant::now() + Duration::from_mins(1);
        let (client, accepted) = tokio::join!(
            TcpNet.connect("127.0.0.1", port, deadline),
            listener.accept()
        );
        let (mut client, (mut server, _)) = (client.unwrap(), accepted.unwrap());
        assert!(client.nodelay().unwrap());
        client.write_all(b"ask").await.unwrap();
        let mut asked = [0; 3];
        server.read_exact(&mut asked).await.unwrap();
        assert_eq!(&asked, b"ask");
    }

    #[tokio::test]
    async fn nobody_there_is_an_error_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let deadline = Instant::now() + Duration::from_mins(1);
        let refused = TcpNet.connect("127.0.0.1", port, deadline).await;
        let kind = refused.unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::ConnectionRefused);
    }
}
