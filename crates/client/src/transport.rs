//! What the bytes of a connection go through: nothing, or TLS.
//!
//! The rest of the client sees a [`Transport`] only, so it does not know which it is. A dial is a
//! [`Net`] without its type, so that connections and clusters have none.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use platform::clock::Instant;
use platform::net::Net;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::{ClientError, TLS};
use crate::settings::Tls;

/// What an end of the connection means while hands are shaken.
const ENDED: &str = "the broker has closed the connection, as one does that speaks no TLS there";

/// What is done until the transport is there.
const HANDSHAKE: &str = "the handshake of TLS";

/// A stream of bytes each way.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

/// The future of a connection that is being made.
pub(crate) type Dialing<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + 'a>>;

/// What connects to brokers.
pub(crate) trait Dial {
    /// Connects to a host by its name or address.
    fn dial<'a>(&'a self, host: &'a str, port: u16, deadline: Instant) -> Dialing<'a>;
}

impl<N: Net> Dial for N {
    fn dial<'a>(&'a self, host: &'a str, port: u16, deadline: Instant) -> Dialing<'a> {
        Box::pin(async move {
            let stream = self.connect(host, port, deadline).await?;
            let stream: Box<dyn Duplex> = Box::new(stream);
            Ok(stream)
        })
    }
}

/// The stream of a connection.
pub(crate) enum Transport {
    /// Bytes as they are.
    Plain(Box<dyn Duplex>),
    /// Encrypted.
    Tls(Box<TlsStream<Box<dyn Duplex>>>),
}

impl Transport {
    /// Shakes hands with a broker of this name.
    pub(crate) async fn secured(
        stream: Box<dyn Duplex>,
        host: &str,
        address: &str,
        tls: &Tls,
    ) -> Result<Self, ClientError> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| ClientError::Login {
            broker: address.to_owned(),
            mechanism: TLS.to_owned(),
            reason: format!("{host:?} is no name for a certificate"),
        })?;
        let shaken = TlsConnector::from(tls.config()).connect(name, stream).await;
        let stream = shaken.map_err(|error| {
            let mut failed = ClientError::io(address, HANDSHAKE, &error);
            if let ClientError::Io { kind, reason, .. } = &mut failed
                && *kind == io::ErrorKind::UnexpectedEof
            {
                ENDED.clone_into(reason);
            }
            failed
        })?;
        Ok(Self::Tls(Box::new(stream)))
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut dyn Duplex> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(&mut **stream),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, into)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, from)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}
