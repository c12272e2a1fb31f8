//! Accepts connections of one listener on one shard and sends each to the shard that will serve it,
//! by way of its handshake if the listener speaks TLS.
//!
//! A connection above a bound is closed at once. A listener above its rate delays the connection; a
//! connection from an address above its rate is kept for a while and then closed. The log reports
//! this at most once a second. When the system has no free descriptor, accepting pauses instead of
//! spinning.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::acl::Principal;

use super::spread::{ShardSeat, Spread};
use super::{AcceptedConnection, ShardContext};
use crate::admission::{AdmissionRefusal, Seat, Stranger, Turn};
use crate::connection::Secured;
use crate::handshake::{Door, SecuredConnection, Unsecured};
use crate::metrics::{ListenerMetrics, OpenCount};

/// Silence after which the kernel probes a peer, and the interval of the probes. A peer that
/// vanished without closing is dropped, whatever its connection waits for.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Pause after the system refuses a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Least time between two log lines about refused connections.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The same for log lines about errors of `accept`.
const FAILURE_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Most connections that are kept only to be closed later; further ones are closed at once.
const SENT_AWAY_MAX: usize = 1024;

/// The counts of a connection; dropping this ends them.
pub(super) struct Counts {
    _seat: Seat,
    _open: OpenCount,
    _shard: ShardSeat,
}

/// A connection that has a seat, before it is known which shard will serve it.
struct SeatedConnection {
    peer: SocketAddr,
    listener: Arc<str>,
    since: Instant,
    accepted_on: usize,
    seat: Seat,
    open: OpenCount,
}

impl SeatedConnection {
    /// Sends it to the shard with the fewest connections.
    fn go(
        self,
        spread: &Spread,
        socket: std::net::TcpStream,
        secured: Option<(Secured, Option<Principal>)>,
        stranger: Option<Stranger>,
    ) {
        let (shard, counted) = spread.choose(self.accepted_on);
        let accepted = AcceptedConnection {
            socket,
            secured,
            peer: self.peer,
            listener: self.listener,
            since: self.since,
            stranger,
            counts: Counts {
                _seat: self.seat,
                _open: self.open,
                _shard: counted,
            },
        };
        spread.hand(shard, accepted);
    }
}

/// Accepts connections until the future is dropped.
pub(super) async fn accept(me: usize, name: Arc<str>, listener: TcpListener, shared: ShardContext) {
    let metrics = shared.connections.of_listener(&name);
    let door = shared.doors.get(&*name).cloned();
    let mut acceptor = Acceptor {
        me,
        name,
        door,
        shared,
        metrics,
        refused: 0,
        logged: None,
        failed: None,
        sent_away: JoinSet::new(),
    };
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                acceptor.wait_for_turn().await;
                if let Err(error) = acceptor.take(socket, peer) {
                    tracing::debug!(%peer, %error, "connection lost while accepted");
                }
            }
            Err(error) if is_of_one_connection(&error) => {
                tracing::debug!(%error, "connection lost while accepted");
            }
            Err(error) => {
                acceptor.failed(&error);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Returns true for errors of the connection to be accepted, not of the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

struct Acceptor {
    me: usize,
    name: Arc<str>,
    /// How the listener serves TLS, if it does.
    door: Option<Arc<Door>>,
    shared: ShardContext,
    metrics: ListenerMetrics,
    /// Refused since the last log line about it.
    refused: u64,
    logged: Option<Instant>,
    /// Time of the last log line about errors of `accept`.
    failed: Option<Instant>,
    /// Connections that are closed later.
    sent_away: JoinSet<()>,
}

impl Acceptor {
    /// Waits until `max.connection.creation.rate` allows the accepted connection.
    async fn wait_for_turn(&self) {
        loop {
            match self.shared.admission.turn(&self.name, Instant::now()) {
                Turn::Now => return,
                Turn::After(pause) => {
                    self.metrics.held_back(pause);
                    return tokio::time::sleep(pause).await;
                }
                Turn::Again(pause) => tokio::time::sleep(pause).await,
            }
        }
    }

    fn take(&mut self, socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let descriptor = usize::try_from(socket.as_raw_fd()).unwrap_or(usize::MAX);
        let admission = &self.shared.admission;
        let seat = match admission.admit(&self.name, peer.ip(), descriptor, Instant::now()) {
            Ok(seat) => seat,
            Err(refused) => {
                self.refuse(peer, refused.setting());
                if let AdmissionRefusal::TooFast(pause) = refused {
                    self.send_away(socket, pause);
                }
                return Ok(());
            }
        };
        socket.set_nodelay(true)?;
        let alive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL);
        SockRef::from(&socket).set_tcp_keepalive(&alive)?;
        let arrived = SeatedConnection {
            peer,
            listener: Arc::clone(&self.name),
            since: Instant::now(),
            accepted_on: self.me,
            seat,
            open: self.metrics.opened(),
        };
        self.hand_on(socket.into_std()?, arrived);
        Ok(())
    }

    fn hand_on(&self, socket: std::net::TcpStream, arrived: SeatedConnection) {
        let spread = Arc::clone(&self.shared.spread);
        let (Some(door), Some(handshakes)) = (&self.door, &self.shared.handshakes) else {
            // A listener that has to speak TLS and cannot serves no client.
            if self.door.is_none() {
                arrived.go(&spread, socket, None, None);
            }
            return;
        };
        let (peer, listener, since) = (arrived.peer, Arc::clone(&arrived.listener), arrived.since);
        let stranger = self.shared.admission.stranger(&listener, peer.ip());
        let then = move |known: SecuredConnection| {
            let SecuredConnection {
                socket,
                secured,
                principal,
                stranger,
            } = known;
            let secured = Some((secured, principal));
            arrived.go(&spread, socket, secured, Some(stranger));
        };
        handshakes.begin(Unsecured {
            socket,
            peer,
            listener,
            door: Arc::clone(door),
            stranger,
            since,
            then: Box::new(then),
        });
    }

    /// Closes a connection, but not so soon that its client reconnects at once.
    fn send_away(&mut self, socket: TcpStream, pause: Duration) {
        self.metrics.sent_away(pause);
        while self.sent_away.try_join_next().is_some() {}
        if self.sent_away.len() < SENT_AWAY_MAX {
            self.sent_away.spawn_local(async move {
                tokio::time::sleep(pause).await;
                drop(socket);
            });
        }
    }

    fn failed(&mut self, error: &io::Error) {
        let now = Instant::now();
        let due = |before: Instant| now - before >= FAILURE_LOG_INTERVAL;
        if self.failed.is_none_or(due) {
            let open_files_max = platform::process::open_files_max();
            let listener = &*self.name;
            tracing::warn!(%error, listener, open_files_max, "cannot accept connections");
            self.failed = Some(now);
        }
    }

    fn refuse(&mut self, peer: SocketAddr, setting: &'static str) {
        self.shared.connections.refused(setting);
        self.refused += 1;
        let now = Instant::now();
        if self
            .logged
            .is_none_or(|logged| now - logged >= LOG_INTERVAL)
        {
            let refused = self.refused;
            tracing::warn!(%peer, setting, refused, "connection refused, the bound is reached");
            (self.refused, self.logged) = (0, Some(now));
        }
    }
}
