//! One connection to one broker, which sends a request and waits for its answer.
//!
//! Invariant: every error names the broker.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::{BufMut as _, Bytes, BytesMut};
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse, RequestHeader, ResponseHeader};
use wire::protocol::Request;
use wire::{Decodable as _, Encodable as _, StrBytes};

use super::refusal::check;

/// The client id and software name that brokers see.
pub(crate) const CLIENT_ID: &str = "forebay";
/// Largest answer that is accepted.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A connection to one broker, with one request under way at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    address: String,
    versions: HashMap<i16, (i16, i16)>,
    correlation_id: i32,
    /// Set by a failed exchange: what would be read next may belong to another request.
    is_lost: bool,
}

impl Connection {
    /// Connects, and asks the broker for its API versions.
    pub(crate) fn open(address: &str, within: Duration) -> anyhow::Result<Self> {
        let unreachable = || format!("broker {address} could not be reached");
        let socket = reach(address, within).with_context(unreachable)?;
        socket.set_nodelay(true)?;
        // A broker may wait for the timeout that a request names, but not for much longer.
        socket.set_read_timeout(Some(within * 2))?;
        socket.set_write_timeout(Some(within * 2))?;
        let mut connection = Self {
            socket,
            address: address.to_owned(),
            versions: HashMap::new(),
            correlation_id: 0,
            is_lost: false,
        };
        // Every broker that has this request has version 0 of it.
        let answer = connection.ask(0, &ApiVersionsRequest::default())?;
        check(answer.error_code, None).with_context(unreachable)?;
        let ranges = answer.api_keys.iter();
        connection.versions = ranges
            .map(|range| (range.api_key, (range.min_version, range.max_version)))
            .collect();
        Ok(connection)
    }

    /// Returns the address of the broker, as given to `open`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns true if an exchange failed, so that another connection is needed.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Asks the broker for its versions and features.
    pub(crate) fn features(&mut self) -> anyhow::Result<ApiVersionsResponse> {
        let version = self.version::<ApiVersionsRequest>()?;
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str(CLIENT_ID))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let answer = self.ask(version, &request)?;
        check(answer.error_code, None)
            .with_context(|| format!("features of broker {}", self.address))?;
        Ok(answer)
    }

    /// Returns true if the broker serves this request in a version that this client knows.
    pub(crate) fn serves<R: Request>(&self) -> bool {
        self.version::<R>().is_ok()
    }

    /// Returns the newest version of a request that both sides know.
    pub(crate) fn version<R: Request>(&self) -> anyhow::Result<i16> {
        let known = R::VERSIONS;
        let address = &self.address;
        let Some(&(oldest, newest)) = self.versions.get(&R::KEY) else {
            bail!(
                "broker {address} does not serve requests of type {}",
                R::KEY
            );
        };
        let version = newest.min(known.max);
        if version < oldest || version < known.min {
            bail!(
                "broker {address} serves requests of type {} in versions {oldest} to {newest}, {} to {} are known here",
                R::KEY,
                known.min,
                known.max
            );
        }
        Ok(version)
    }

    /// Sends a request in the newest version that both sides know, and returns the answer.
    pub(crate) fn ask_newest<R: Request>(&mut self, request: &R) -> anyhow::Result<R::Response> {
        let version = self.version::<R>()?;
        self.ask(version, request)
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn ask<R: Request>(
        &mut self,
        version: i16,
        request: &R,
    ) -> anyhow::Result<R::Response> {
        let answer = self.exchange(version, request);
        self.is_lost |= answer.is_err();
        answer.with_context(|| format!("broker {}, request of type {}", self.address, R::KEY))
    }

    fn exchange<R: Request>(&mut self, version: i16, request: &R) -> anyhow::Result<R::Response> {
        use wire::protocol::HeaderVersion as _;

        self.correlation_id += 1;
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(StrBytes::from_static_str(CLIENT_ID)))
            .encode(&mut frame, R::header_version(version))?;
        request.encode(&mut frame, version)?;
        let length = i32::try_from(frame.len() - 4)?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.socket.write_all(&frame)?;
        let mut length = [0; 4];
        self.socket.read_exact(&mut length).context("no answer")?;
        let length = usize::try_from(i32::from_be_bytes(length))?;
        if length > ANSWER_BYTES_MAX {
            bail!("an answer of {length} bytes");
        }
        let mut answer = vec![0; length];
        self.socket.read_exact(&mut answer)?;
        let mut answer = Bytes::from(answer);
        let header = ResponseHeader::decode(&mut answer, R::Response::header_version(version))?;
        if header.correlation_id != self.correlation_id {
            bail!("an answer to another request");
        }
        R::Response::decode(&mut answer, version)
    }
}

/// Connects to the first address of a name that answers.
fn reach(address: &str, within: Duration) -> anyhow::Result<TcpStream> {
    let mut last = anyhow::anyhow!("the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, within) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Peer;

    #[test]
    fn features_that_come_with_an_error_are_none() {
        let refused = ApiVersionsResponse::default().with_error_code(35);
        let peer = Peer::start(move |asked| asked.to(|_: ApiVersionsRequest| refused.clone()));
        let mut cluster = peer.cluster();
        let broker = cluster.entrance().unwrap();
        let reason = format!("{:#}", broker.features().unwrap_err());
        assert!(reason.ends_with("UNSUPPORTED_VERSION"), "{reason}");
    }
}
