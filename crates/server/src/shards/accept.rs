//! Accepts connections of one listener on one shard and sends each to the shard that is to serve
//! it.
//!
//! A connection above a bound is closed at once; the log says so once a second at most. When the
//! system has no more descriptors, accepting pauses instead of spinning.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::spread::Counted;
use super::{Accepted, Shared};
use crate::admission::Seat;
use crate::metrics::{ListenerMetrics, OpenCount};

/// Pause after the system refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Least time between two lines about refused connections.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Where a connection is counted as long as it lives.
pub(super) struct Counts {
    _seat: Seat,
    _open: OpenCount,
    _shard: Counted,
}

/// Accepts until the future is dropped.
pub(super) async fn accept(me: usize, name: Arc<str>, listener: TcpListener, shared: Shared) {
    let metrics = shared.connections.of_listener(&name);
    let mut acceptor = Acceptor {
        me,
        name,
        shared,
        metrics,
        refused: 0,
        logged: None,
    };
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                if let Err(error) = acceptor.take(socket, peer) {
                    tracing::debug!(%peer, %error, "connection lost while accepted");
                }
            }
            Err(error) if is_of_one_connection(&error) => {
                tracing::debug!(%error, "connection lost while accepted");
            }
            Err(error) => {
                tracing::warn!(%error, listener = &*acceptor.name, "cannot accept connections");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// True for errors of the connection that was to be accepted, not of the listener.
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
    shared: Shared,
    metrics: ListenerMetrics,
    /// Refused since the log last said so.
    refused: u64,
    logged: Option<Instant>,
}

impl Acceptor {
    fn take(&mut self, socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let seat = match self.shared.admission.admit(peer.ip()) {
            Ok(seat) => seat,
            Err(full) => {
                self.refuse(peer, full.setting());
                return Ok(());
            }
        };
        socket.set_nodelay(true)?;
        let (shard, counted) = self.shared.spread.choose(self.me);
        let counts = Counts {
            _seat: seat,
            _open: self.metrics.opened(),
            _shard: counted,
        };
        let listener = Arc::clone(&self.name);
        let accepted = Accepted {
            socket: socket.into_std()?,
            peer,
            listener,
            counts,
        };
        self.shared.spread.hand(shard, accepted);
        Ok(())
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
