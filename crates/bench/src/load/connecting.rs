//! Makes connections to brokers: the socket, TLS, the versions, the login.
//!
//! Not here: what is sent over them (`client.rs`), which files say how to connect (`security.rs`).

use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::client::{ANSWER_WITHIN, Client};
use super::login::log_in;
use super::security::Security;
use super::transport::Transport;

/// Longest wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection is tried again that the broker accepts and closes at once, as one does
/// that has as many as it may have. Kafka's clients try again, too.
const FULL_WITHIN: Duration = Duration::from_secs(30);
/// The pause before the first such try; each next one is twice as long, up to [`FULL_PAUSE_MAX`].
const FULL_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const FULL_PAUSE_MAX: Duration = Duration::from_secs(1);

impl Client {
    /// Connects to the first of several addresses (`host:port`, comma-separated) that responds.
    pub(super) async fn connect_any(addresses: &str, security: &Security) -> anyhow::Result<Self> {
        let mut last = anyhow::anyhow!("no address of a broker in {addresses:?}");
        for address in addresses.split(',').map(str::trim) {
            match Self::connect(address, security).await {
                Ok(client) => return Ok(client),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Connects, asks for the served versions and logs in. Tries again while the broker closes
    /// connections at once.
    pub(super) async fn connect(address: &str, security: &Security) -> anyhow::Result<Self> {
        let end = Instant::now() + FULL_WITHIN;
        let mut pause = FULL_PAUSE;
        loop {
            match Self::connect_once(address, security).await {
                Err(error) if was_closed(&error) && Instant::now() + pause < end => {}
                outcome => return outcome,
            }
            sleep(pause).await;
            pause = (pause * 2).min(FULL_PAUSE_MAX);
        }
    }

    /// Does the same once.
    pub(super) async fn connect_once(address: &str, security: &Security) -> anyhow::Result<Self> {
        let socket = timeout(CONNECT_WITHIN, TcpStream::connect(address))
            .await
            .map_err(|_| anyhow::anyhow!("no connection in {CONNECT_WITHIN:?}"))
            .and_then(|socket| Ok(socket?))
            .with_context(|| format!("connecting to {address}"))?;
        socket.set_nodelay(true)?;
        unpaced(&socket);
        let transport = secured(socket, address, security).await?;
        let mut client = Self::over(transport, address).await?;
        if let Some(login) = &security.login {
            let within = timeout(ANSWER_WITHIN, log_in(&mut client, login)).await;
            let late = |_| Err(anyhow::anyhow!("no login in {ANSWER_WITHIN:?}"));
            let logged_in = within.unwrap_or_else(late);
            logged_in.with_context(|| format!("broker {address}"))?;
        }
        Ok(client)
    }
}

/// Shakes hands, if there is TLS.
async fn secured(
    socket: TcpStream,
    address: &str,
    security: &Security,
) -> anyhow::Result<Transport> {
    let Some(tls) = &security.tls else {
        return Ok(socket.into());
    };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    timeout(CONNECT_WITHIN, Transport::secured(socket, host, tls))
        .await
        .map_err(|_| anyhow::anyhow!("no handshake of TLS in {CONNECT_WITHIN:?}"))
        .and_then(|transport| transport)
        .with_context(|| format!("connecting to {address}"))
}

/// True when the broker took the connection and closed it before it answered.
fn was_closed(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    cause.is_some_and(|error| {
        matches!(
            error.kind(),
            BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
        )
    })
}

/// Sets a congestion control without pacing on loopback connections.
///
/// Loopback has no path to share fairly. BBR, if it is the default, still estimates one and paces
/// the sends by a timer: a fast receiver falls asleep between segments, and waking it costs the
/// sender twice as much as sending. A failure to set it is ignored.
fn unpaced(socket: &TcpStream) {
    let here = socket
        .peer_addr()
        .is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
    if here {
        let _ = rustix::net::sockopt::set_tcp_congestion(socket, "cubic");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_broker_that_has_no_room_for_a_connection_is_asked_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let broker = tokio::spawn(async move {
            for _ in 0..3 {
                drop(listener.accept().await.unwrap());
            }
            let (mut socket, _) = listener.accept().await.unwrap();
            // Length, key, version and correlation id of the request.
            let mut request = [0; 12];
            socket.read_exact(&mut request).await.unwrap();
            let mut answer = vec![0, 0, 0, 10];
            answer.extend_from_slice(&request[8..]);
            // No error, no APIs.
            answer.extend_from_slice(&[0; 6]);
            socket.write_all(&answer).await.unwrap();
            socket
        });
        let plain = Security::default();
        let client = Client::connect(&address, &plain).await.unwrap();
        assert_eq!(client.versions().len(), 0);
        drop(broker.await.unwrap());
        // Without a listener it is no use.
        assert!(Client::connect(&address, &plain).await.is_err());
    }
}
