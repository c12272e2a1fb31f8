//! TLS of the admin endpoint: handshakes, and who a client certificate stands for.
//!
//! A client that speaks HTTP without TLS gets an answer in words. Handshakes run on the thread of
//! the endpoint; the time of an exchange bounds them, and they count like those of listeners, under
//! the listener `ADMIN`. Not here: keys and certificates, and how they change (`certificates`).

use std::sync::Arc;

use tls::ServerTls;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use wire::acl::Principal;

use super::access;
use crate::config::AdminSettings;
use crate::handshake::{self, Failure, Spoken};
use crate::metrics::{SecuredCount, TlsMetrics};

/// Bytes that tell what a client speaks.
const FIRST_BYTES: usize = 4;

const WITHOUT_TLS: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
                           Connection: close\r\n\r\nthis port speaks TLS: use https\n";

/// How the endpoint serves TLS.
#[derive(Clone, Debug)]
pub struct AdminDoor {
    /// The set of keys and certificates that is in force.
    pub(crate) tls: watch::Receiver<Arc<ServerTls>>,
    /// True if the certificate says who the client is.
    pub(crate) names_clients: bool,
    /// Counts of handshakes.
    pub(crate) metrics: TlsMetrics,
}

/// A connection under TLS.
pub(super) struct SecuredClient {
    pub(super) stream: TlsStream<TcpStream>,
    /// The principal of its certificate, if certificates say who clients are and it has one.
    pub(super) certificate: Option<Result<Principal, access::Failure>>,
    /// Counts it until it ends.
    pub(super) count: SecuredCount,
}

impl AdminDoor {
    /// Completes a handshake, or returns why there is none.
    pub(super) async fn secure(&self, mut socket: TcpStream) -> Result<SecuredClient, Failure> {
        if let Some(spoken) = first(&socket).await? {
            if spoken == Spoken::Http {
                // It goes with what it asked for unread: whether it hears this is up to it.
                let _ = socket.write_all(WITHOUT_TLS.as_bytes()).await;
                let _ = socket.shutdown().await;
            }
            return Err(Failure::NotTls(spoken));
        }
        // From here on it is served with what is in force now.
        let tls = self.tls.borrow().clone();
        let accepted = TlsAcceptor::from(tls.config()).accept(socket).await;
        let stream = accepted.map_err(failure)?;
        let (_, connection) = stream.get_ref();
        let chain = connection.peer_certificates().unwrap_or_default();
        let certificate = (self.names_clients && !chain.is_empty()).then(|| {
            let name = tls.principal_of(chain);
            name.map(|name| Principal::user(&name)).map_err(|problem| {
                tracing::debug!(%problem, "a certificate without principal at the admin endpoint");
                access::Failure::Principal
            })
        });
        let kind = handshake::kind(connection.handshake_kind());
        let agreed = handshake::named(
            connection.negotiated_cipher_suite(),
            connection.protocol_version(),
        );
        let count = self.metrics.secured(&listener(), kind, agreed);
        Ok(SecuredClient {
            stream,
            certificate,
            count,
        })
    }
}

/// Returns the name of the endpoint among listeners.
pub(super) fn listener() -> Arc<str> {
    AdminSettings::LISTENER.into()
}

/// Looks at the first bytes of a connection; `None` if they may begin a handshake.
async fn first(socket: &TcpStream) -> Result<Option<Spoken>, Failure> {
    let mut first = [0; FIRST_BYTES];
    let mut before = 0;
    loop {
        let seen = socket.peek(&mut first).await.map_err(Failure::Socket)?;
        match seen {
            0 => return Err(Failure::Unused),
            FIRST_BYTES => return Ok(Spoken::of(&first)),
            // The first byte tells.
            _ if first[0] == 22 => return Ok(None),
            // Nothing came since: peeking returns at once what it has seen already.
            seen if seen == before => tokio::time::sleep(PAUSE).await,
            seen => before = seen,
        }
    }
}

/// Pause between two looks at a client that sends a byte at a time; how long it may do so is
/// bounded by the exchange.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

fn failure(error: std::io::Error) -> Failure {
    let inner = error.get_ref().and_then(|it| it.downcast_ref());
    match inner {
        Some(error) => Failure::Tls(rustls::Error::clone(error)),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => Failure::Closed,
        None => Failure::Socket(error),
    }
}
