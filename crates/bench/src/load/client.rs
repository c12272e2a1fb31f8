//! One connection for questions: a request goes out, its answer is waited for.
//!
//! Versions are negotiated by ApiVersions at the start. Records do not travel here; connections that carry
//! them begin as this one and are taken over ([`Client::into_socket`]).

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::messages::{ApiVersionsRequest, RequestHeader, ResponseHeader};
use wire::protocol::{HeaderVersion, Request};
use wire::{Decodable as _, Encodable as _, StrBytes};

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Longer answers are none.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// How the generator names itself.
pub(super) const CLIENT_ID: &str = "forebay-bench";

/// The versions that a broker serves: API key to (oldest, newest).
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
    /// Connects to the first of several addresses (`host:port`, comma-separated) that answers.
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

    /// Connects and asks which versions are served.
    pub(super) async fn connect(address: &str) -> anyhow::Result<Self> {
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
        // Version 0 is understood by every broker that understands any.
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

    /// The newest version that both sides know, ours being `newest` at most.
    pub(super) fn version<R: Request>(&self, newest: i16) -> anyhow::Result<i16> {
        self.version_of(R::KEY, R::VERSIONS.min, newest)
    }

    /// [`Self::version`] of a request whose codec is ours.
    pub(super) fn version_of(&self, key: i16, oldest: i16, newest: i16) -> anyhow::Result<i16> {
        common_version(&self.versions, key, oldest, newest)
            .with_context(|| format!("broker {}", self.address))
    }

    /// Asks, and waits for the answer.
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

    /// Gives the connection to somebody who reads and writes it directly.
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

/// Within this machine there is no path to be fair on. BBR, where that is the default, finds one all the same and
/// sends at the pace of a timer: a receiver that is faster falls asleep between segments, and waking it costs the
/// sender twice what sending does. What cannot be set stays as it is.
fn unpaced(socket: &TcpStream) {
    let here = socket
        .peer_addr()
        .is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
    if here {
        let _ = rustix::net::sockopt::set_tcp_congestion(socket, "cubic");
    }
}

/// Appends a whole request frame.
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

/// The newest version of a request that a broker serves and we know (`oldest..=newest`).
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

/// An error code in words.
pub(super) fn said(code: i16) -> String {
    wire::types::ErrorCode::try_from_code(code)
        .map_or_else(|| "no error".to_owned(), |error| error.to_string())
}

#[cfg(test)]
mod tests {
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
}
