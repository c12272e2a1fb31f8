//! A connection for one request at a time: sends it and waits for its response.
//!
//! ApiVersions negotiates versions at the start. This connection carries no records; a connection
//! for records starts as a [`Client`] and is taken over ([`Client::into_socket`]).

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use wire::messages::{ApiVersionsRequest, RequestHeader, ResponseHeader};
use wire::protocol::{HeaderVersion, Request};
use wire::{Decodable as _, Encodable as _, StrBytes};

/// Longest wait for a response.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Longest wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection is tried again that the broker accepts and closes at once, as one does
/// that has as many as it may have. Kafka's clients try again, too.
const FULL_WITHIN: Duration = Duration::from_secs(30);
/// The pause before the first such try; each next one is twice as long, up to [`FULL_PAUSE_MAX`].
const FULL_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const FULL_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Longest accepted response.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The client id of the generator.
pub(super) const CLIENT_ID: &str = "forebay-bench";

/// The versions that a broker serves, from API key to (oldest, newest).
pub(super) type Versions = HashMap<i16, (i16, i16)>;

/// A connection to one broker.
#[derive(Debug)]
pub(super) struct Client {
    socket: TcpStream,
    address: String,
    versions: Versions,
    correlation_id: i32,
}

impl Client {
    /// Connects to the first of several addresses (`host:port`, comma-separated) that responds.
    pub(super) async fn connect_any(addresses: &str) -> anyhow::Result<Self> {
        let mut last = anyhow::anyhow!("no address of a broker in {addresses:?}");
        for address in addresses.split(',').map(str::trim) {
            match Self::connect(address).await {
                Ok(client) => return Ok(client),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Connects and asks for the served versions. Tries again while the broker closes connections
    /// at once.
    pub(super) async fn connect(address: &str) -> anyhow::Result<Self> {
        let end = Instant::now() + FULL_WITHIN;
        let mut pause = FULL_PAUSE;
        loop {
            match Self::connect_once(address).await {
                Err(error) if was_closed(&error) && Instant::now() + pause < end => {}
                outcome => return outcome,
            }
            sleep(pause).await;
            pause = (pause * 2).min(FULL_PAUSE_MAX);
        }
    }

    async fn connect_once(address: &str) -> anyhow::Result<Self> {
        let socket = timeout(CONNECT_WITHIN, TcpStream::connect(address))
            .await
            .map_err(|_| anyhow::anyhow!("no connection in {CONNECT_WITHIN:?}"))
            .and_then(|socket| Ok(socket?))
            .with_context(|| format!("connecting to {address}"))?;
        socket.set_nodelay(true)?;
        unpaced(&socket);
        let mut client = Self {
            socket,
            address: address.to_owned(),
            versions: Versions::new(),
            correlation_id: 0,
        };
        // Every broker understands version 0.
        let answer = client.ask(0, &ApiVersionsRequest::default()).await?;
        if answer.error_code != 0 {
            bail!("{address}: ApiVersions failed: {}", said(answer.error_code));
        }
        let ranges = answer.api_keys.iter();
        client.versions = ranges
            .map(|range| (range.api_key, (range.min_version, range.max_version)))
            .collect();
        Ok(client)
    }

    /// Returns the newest version that both sides know, at most `newest`.
    pub(super) fn version<R: Request>(&self, newest: i16) -> anyhow::Result<i16> {
        self.version_of(R::KEY, R::VERSIONS.min, newest)
    }

    /// Returns [`Self::version`] for a request that this crate encodes itself.
    pub(super) fn version_of(&self, key: i16, oldest: i16, newest: i16) -> anyhow::Result<i16> {
        common_version(&self.versions, key, oldest, newest)
            .with_context(|| format!("broker {}", self.address))
    }

    /// Sends a request and returns the response.
    pub(super) async fn ask<R: Request>(
        &mut self,
        version: i16,
        request: &R,
    ) -> anyhow::Result<R::Response> {
        let exchange = self.exchange(version, request);
        timeout(ANSWER_WITHIN, exchange)
            .await
            .unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in {ANSWER_WITHIN:?}")))
            .with_context(|| format!("broker {}, request of type {}", self.address, R::KEY))
    }

    /// Returns the socket, for a caller that reads and writes it directly.
    pub(super) fn into_socket(self) -> TcpStream {
        self.socket
    }

    async fn exchange<R: Request>(
        &mut self,
        version: i16,
        request: &R,
    ) -> anyhow::Result<R::Response> {
        self.correlation_id += 1;
        let mut frame = BytesMut::new();
        put_request(&mut frame, version, self.correlation_id, request)?;
        self.socket.write_all(&frame).await?;
        let length = usize::try_from(self.socket.read_i32().await?)?;
        if length > ANSWER_BYTES_MAX {
            bail!("an answer of {length} bytes");
        }
        let mut answer = vec![0; length];
        self.socket.read_exact(&mut answer).await?;
        let mut answer = Bytes::from(answer);
        let header = ResponseHeader::decode(&mut answer, R::Response::header_version(version))?;
        if header.correlation_id != self.correlation_id {
            bail!("an answer to another request");
        }
        R::Response::decode(&mut answer, version)
    }
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

/// Appends a complete request frame.
pub(super) fn put_request<R: Request>(
    frame: &mut BytesMut,
    version: i16,
    correlation_id: i32,
    request: &R,
) -> anyhow::Result<()> {
    let start = frame.len();
    frame.put_i32(0);
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str(CLIENT_ID)))
        .encode(frame, R::header_version(version))?;
    request.encode(frame, version)?;
    let length = i32::try_from(frame.len() - start - 4)?;
    frame[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Returns the newest version of a request that both the broker and this crate (`oldest..=newest`)
/// support.
pub(super) fn common_version(
    versions: &Versions,
    key: i16,
    oldest: i16,
    newest: i16,
) -> anyhow::Result<i16> {
    let &(theirs_oldest, theirs_newest) = versions
        .get(&key)
        .with_context(|| format!("it does not serve requests of type {key}"))?;
    let version = theirs_newest.min(newest);
    if version < theirs_oldest || version < oldest {
        bail!(
            "it serves requests of type {key} in versions {theirs_oldest} to {theirs_newest}, \
             {oldest} to {newest} are known here"
        );
    }
    Ok(version)
}

/// Returns the text of an error code.
pub(super) fn said(code: i16) -> String {
    wire::types::ErrorCode::try_from_code(code)
        .map_or_else(|| "no error".to_owned(), |error| error.to_string())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn versions_are_those_both_know_or_the_broker_is_refused() {
        let versions = Versions::from([(0, (3, 13)), (1, (14, 17))]);
        assert_eq!(common_version(&versions, 0, 3, 12).unwrap(), 12);
        let newer = common_version(&versions, 1, 4, 12).unwrap_err().to_string();
        assert!(
            newer.contains("in versions 14 to 17, 4 to 12 are known"),
            "{newer}"
        );
        assert!(common_version(&versions, 22, 0, 4).is_err());
    }

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
        let client = Client::connect(&address).await.unwrap();
        assert_eq!(client.versions.len(), 0);
        drop(broker.await.unwrap());
        // Without a listener it is no use.
        assert!(Client::connect(&address).await.is_err());
    }
}
