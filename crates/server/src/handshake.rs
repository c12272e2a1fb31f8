//! Handshakes of TLS, on threads of their own.
//!
//! A handshake takes a processor for as long as hundreds of requests, so it keeps no shard from
//! them: a connection comes here when it has been accepted, and goes on to its shard when both
//! sides know each other's keys. Many are under way on a thread together; one that waits for its
//! peer takes a descriptor, and nothing else before its first bytes.
//!
//! Invariants: a handshake ends at its deadline, which counts from when the connection was
//! accepted, whatever the peer sends; all of them together are as many as connections that are not
//! logged in may be, and the oldest end of the address that has most ([`Stranger`]). Each that
//! fails is counted by its cause and has a line in the log, unless there were many of that cause
//! just now. Not here: keys and certificates ([`ServerTls`]), and records after the handshake
//! (`connection`).

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        reason = "bytes of strangers reach this: an index out of bounds ends the broker"
    )
)]

mod cause;
mod exchange;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use broker::audit::{Audit, AuditClass, AuditDetail, AuditEvent, AuditOrigin};
use prometheus_client::metrics::gauge::Gauge;
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, SupportedCipherSuite};
use tls::ServerTls;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, timeout_at};
use wire::acl::Principal;

use crate::admission::Stranger;
use crate::connection::{ClientFaultLines, Secured};
use crate::metrics::TlsMetrics;
pub(crate) use cause::{Failure, Spoken};
use exchange::Shaken;

/// How a listener serves TLS.
#[derive(Clone, Debug)]
pub struct Door {
    /// The set of keys and certificates that is in force.
    pub tls: watch::Receiver<Arc<ServerTls>>,
    /// How long a handshake may take, from when the connection was accepted.
    pub time_max: Duration,
    /// True if the certificate says who the client is, and no login does.
    pub names_clients: bool,
    /// Where events for an auditor go.
    pub audit: Audit,
}

/// A connection that has been accepted and that is to speak TLS.
pub(crate) struct Unsecured {
    pub(crate) socket: std::net::TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) listener: Arc<str>,
    pub(crate) door: Arc<Door>,
    /// Counts it until its client is known.
    pub(crate) stranger: Stranger,
    /// When it was accepted.
    pub(crate) since: Instant,
    /// Takes it when the handshake is complete.
    pub(crate) then: Box<dyn FnOnce(SecuredConnection) + Send>,
}

/// A connection whose handshake is complete.
pub(crate) struct SecuredConnection {
    pub(crate) socket: std::net::TcpStream,
    pub(crate) secured: Secured,
    /// Who the client is, if its certificate says so.
    pub(crate) principal: Option<Principal>,
    /// Counts it until its client has logged in, if it has to.
    pub(crate) stranger: Stranger,
}

/// The threads of handshakes; they end when this is dropped, or when their `stopped` completes.
pub(crate) struct Handshakes {
    // Bounded: `tls.handshake.threads`; what is sent, by `max.connections.unauthenticated`.
    threads: Vec<mpsc::UnboundedSender<Unsecured>>,
    next: AtomicUsize,
}

impl Handshakes {
    /// Starts `count` threads, at least one. Each ends when its `stopped` completes; handshakes
    /// under way end with it.
    pub(crate) fn start<S>(
        count: usize,
        metrics: &TlsMetrics,
        stopped: impl Fn() -> S,
    ) -> anyhow::Result<Self>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let mut threads = Vec::new();
        for index in 0..count.max(1) {
            let (begin, begun) = mpsc::unbounded_channel();
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build()
                .context("starting a thread of handshakes")?;
            let (metrics, stopped) = (metrics.clone(), stopped());
            let run = move || {
                LocalSet::new().block_on(&runtime, serve(begun, metrics, stopped));
            };
            let thread = thread::Builder::new().name(format!("tls-{index}"));
            thread.spawn(run).context("starting a thread")?;
            threads.push(begin);
        }
        Ok(Self {
            threads,
            next: AtomicUsize::new(0),
        })
    }

    /// Begins the handshake of a connection.
    pub(crate) fn begin(&self, unsecured: Unsecured) {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let thread = next.checked_rem(self.threads.len());
        if let Some(thread) = thread.and_then(|at| self.threads.get(at)) {
            // A thread that is ending drops it.
            let _ = thread.send(unsecured);
        }
    }
}

/// Does handshakes until `stopped` completes, or the sender of new connections is dropped.
async fn serve(
    mut begun: mpsc::UnboundedReceiver<Unsecured>,
    metrics: TlsMetrics,
    stopped: impl Future<Output = ()>,
) {
    let mut stopped = std::pin::pin!(stopped);
    let fault_lines = ClientFaultLines::default();
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut stopped => break,
            next = begun.recv() => {
                let Some(unsecured) = next else { break };
                under_way.spawn_local(hold(unsecured, metrics.clone(), fault_lines.clone()));
            }
            Some(_) = under_way.join_next() => {}
        }
    }
}

/// Takes one connection from the beginning of its handshake to the end.
async fn hold(unsecured: Unsecured, metrics: TlsMetrics, fault_lines: ClientFaultLines) {
    let _pending = Pending::new(&metrics.pending);
    let Unsecured {
        socket,
        peer,
        listener,
        door,
        mut stranger,
        since,
        then,
    } = unsecured;
    let until = since + door.time_max;
    match secure(socket, &door, &mut stranger, until).await {
        Ok((socket, shaken, principal)) => {
            let agreed = agreed(&shaken);
            let kind = kind(shaken.connection.handshake_kind());
            if let Some(principal) = &principal {
                let login = (AuditClass::Auth, principal.as_str());
                door.note(login, (peer, &listener), String::new);
            }
            let secured = Secured {
                count: metrics.secured(&listener, kind, agreed),
                connection: shaken.connection,
                records: shaken.records,
                plain: shaken.plain,
            };
            then(SecuredConnection {
                socket,
                secured,
                principal,
                stranger,
            });
        }
        Err(failure) => {
            metrics.failed(&listener, failure.label());
            if failure.is_of_certificate() {
                let login = (AuditClass::AuthFailure, "");
                door.note(login, (peer, &listener), || failure.to_string());
            }
            if !failure.is_told() {
                tracing::debug!(%peer, %listener, reason = %failure, "no TLS handshake");
            } else if let Some(left_out) = fault_lines.turn(failure.label(), Instant::now()) {
                tracing::warn!(%peer, %listener, reason = %failure, left_out, "TLS handshake failed");
            }
        }
    }
}

async fn secure(
    socket: std::net::TcpStream,
    door: &Door,
    stranger: &mut Stranger,
    until: Instant,
) -> Result<(std::net::TcpStream, Shaken, Option<Principal>), Failure> {
    let socket = TcpStream::from_std(socket).map_err(Failure::Socket)?;
    let shaking = async {
        let first = exchange::first_bytes(&socket).await?;
        // From here on it is served with what is in force now.
        let tls = door.tls.borrow().clone();
        let shaken = exchange::shake(&socket, first, tls.config()).await?;
        let principal = door.principal(&tls, &shaken)?;
        Ok((shaken, principal))
    };
    let (shaken, principal) = tokio::select! {
        biased;
        () = poll_fn(|cx| stranger.poll_end(cx)) => return Err(Failure::Crowded),
        shaken = timeout_at(until, shaking) => shaken.unwrap_or(Err(Failure::Timeout))?,
    };
    let socket = socket.into_std().map_err(Failure::Socket)?;
    Ok((socket, shaken, principal))
}

impl Door {
    /// Notes for an auditor that a certificate was a login, or was refused as one.
    fn note(
        &self,
        (class, principal): (AuditClass, &str),
        (peer, listener): (SocketAddr, &Arc<str>),
        reason: impl FnOnce() -> String,
    ) {
        if self.audit.takes(class) {
            let origin = AuditOrigin::of_login(peer.ip(), listener, "TLS");
            let detail = AuditDetail::Login(reason());
            let event = AuditEvent::new(class, principal, origin, detail);
            self.audit.put(event);
        }
    }

    /// Returns who a client is, if its certificate says so.
    fn principal(&self, tls: &ServerTls, shaken: &Shaken) -> Result<Option<Principal>, Failure> {
        if !self.names_clients {
            return Ok(None);
        }
        let chain = shaken.connection.peer_certificates().unwrap_or_default();
        let name = tls.principal_of(chain).map_err(Failure::Principal)?;
        Ok(Some(Principal::user(&name)))
    }
}

/// Completes the handshake of a client that is sure to speak TLS.
#[cfg(test)]
pub(crate) async fn secured(socket: &TcpStream, config: Arc<rustls::ServerConfig>) -> Secured {
    let first = exchange::first_bytes(socket).await.unwrap();
    let shaken = exchange::shake(socket, first, config).await.unwrap();
    let count = TlsMetrics::default().secured(&"TEST".into(), "full", agreed(&shaken));
    Secured {
        connection: shaken.connection,
        records: shaken.records,
        plain: shaken.plain,
        count,
    }
}

/// Returns the names of the suite and the version, as Java has them.
fn agreed(shaken: &Shaken) -> (String, String) {
    let suite = shaken.connection.negotiated_cipher_suite();
    named(suite, shaken.connection.protocol_version())
}

/// Returns the names of a suite and a version, as Java has them.
pub(crate) fn named(
    suite: Option<SupportedCipherSuite>,
    version: Option<ProtocolVersion>,
) -> (String, String) {
    let suite = suite.map(|suite| suite.suite());
    (
        suite.map(suite_name).unwrap_or_default(),
        version.map(version_name).unwrap_or_default(),
    )
}

/// rustls writes `TLS13_` where IANA has `TLS_`.
fn suite_name(suite: CipherSuite) -> String {
    format!("{suite:?}").replacen("TLS13_", "TLS_", 1)
}

/// rustls writes `TLSv1_3` where other programs have `TLSv1.3`.
fn version_name(version: ProtocolVersion) -> String {
    format!("{version:?}").replacen('_', ".", 1)
}

pub(crate) fn kind(kind: Option<HandshakeKind>) -> &'static str {
    match kind {
        Some(HandshakeKind::Resumed) => "resumed",
        Some(HandshakeKind::FullWithHelloRetryRequest) => "full_with_retry",
        Some(HandshakeKind::Full) | None => "full",
    }
}

/// A handshake that is counted as under way.
struct Pending(Gauge);

impl Pending {
    fn new(count: &Gauge) -> Self {
        count.inc();
        Self(count.clone())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests;
