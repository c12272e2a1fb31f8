//! Both ends of a connection, with and without TLS.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use prometheus_client::metrics::gauge::Gauge;
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
    SupportedProtocolVersion, version,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::{Scratch, TlsStream, Transport};

/// What is between the ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Between {
    /// Nothing.
    Plain,
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Between {
    /// Whatever there may be.
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Tls12, Self::Tls13];

    fn version(self) -> Option<&'static SupportedProtocolVersion> {
        match self {
            Self::Plain => None,
            Self::Tls12 => Some(&version::TLS12),
            Self::Tls13 => Some(&version::TLS13),
        }
    }
}

/// A server whose certificate is for `localhost`, and a client that trusts it.
pub(crate) fn configs(
    version: &'static SupportedProtocolVersion,
) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = own.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    // A client that closes and has not read them would reset the connection.
    server.send_tls13_tickets = 0;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

/// The end of a client.
#[derive(Debug)]
pub(crate) enum Client {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// Connects a client with a transport that works in this memory.
pub(crate) async fn pair(between: Between, scratch: Scratch) -> (Client, Transport, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await;
    let client = client.unwrap();
    let (socket, peer) = listener.accept().await.unwrap();
    let Some(version) = between.version() else {
        return (Client::Plain(client), Transport::Plain(socket), peer);
    };
    let (server, trusting) = configs(version);
    let connector = TlsConnector::from(trusting);
    let (client, secured) = tokio::join!(
        connector.connect(name(), client),
        crate::handshake::secured(&socket, server)
    );
    let stream = TlsStream::new(socket, secured, scratch);
    let client = Client::Tls(Box::new(client.unwrap()));
    (client, Transport::Tls(Box::new(stream)), peer)
}

impl Client {
    /// The socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Client {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}

/// The end of a client on a thread of its own, which blocks.
pub(crate) enum BlockingClient {
    /// Without TLS.
    Plain(std::net::TcpStream),
    /// With TLS.
    Tls(Box<StreamOwned<ClientConnection, std::net::TcpStream>>),
}

/// Connects a client that blocks with a transport.
pub(crate) async fn blocking_pair(between: Between) -> (BlockingClient, Transport) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    let socket = TcpStream::from_std(socket).unwrap();
    let Some(version) = between.version() else {
        return (BlockingClient::Plain(client), Transport::Plain(socket));
    };
    let (server, trusting) = configs(version);
    let shaking = std::thread::spawn(move || {
        let connection = ClientConnection::new(trusting, name()).unwrap();
        let mut stream = StreamOwned::new(connection, client);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        stream
    });
    let secured = crate::handshake::secured(&socket, server).await;
    let client = BlockingClient::Tls(Box::new(shaking.join().unwrap()));
    let stream = TlsStream::new(socket, secured, Scratch::new(Gauge::default()));
    (client, Transport::Tls(Box::new(stream)))
}

impl BlockingClient {
    /// Sends records on a thread of its own, and returns their bytes: `times` times some plaintext,
    /// and about `len` bytes of new keys again and again, with as few bytes between them as TLS
    /// wants.
    pub(crate) fn send_new_keys(self, times: usize, plain: usize, len: usize) -> usize {
        const KEYS_MAX: usize = 30;
        let Self::Tls(mut stream) = self else {
            unreachable!("with TLS")
        };
        let mut records = Vec::new();
        for _ in 0..times {
            let mut bytes = vec![b'x'; plain];
            let before = records.len();
            while records.len() < before + plain + len {
                stream.conn.writer().write_all(&bytes).unwrap();
                for _ in 0..KEYS_MAX {
                    stream.conn.refresh_traffic_keys().unwrap();
                }
                bytes = vec![b'x'];
                while stream.conn.wants_write() {
                    stream.conn.write_tls(&mut records).unwrap();
                }
            }
        }
        let all = records.len();
        std::thread::spawn(move || stream.sock.write_all(&records));
        all
    }

    /// Writes all of it.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(socket) => socket.write_all(bytes).unwrap(),
            Self::Tls(stream) => {
                stream.write_all(bytes).unwrap();
                stream.flush().unwrap();
            }
        }
    }

    /// Ends this half of the connection, as a client does that has nothing more to say.
    pub(crate) fn end(&mut self) {
        match self {
            Self::Plain(socket) => socket.shutdown(Shutdown::Write).unwrap(),
            Self::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush().unwrap();
                stream.sock.shutdown(Shutdown::Write).unwrap();
            }
        }
    }

    /// Ends this half of the socket, without a word of TLS.
    pub(crate) fn cut(&mut self) {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &mut stream.sock,
        };
        socket.shutdown(Shutdown::Write).unwrap();
    }
}
