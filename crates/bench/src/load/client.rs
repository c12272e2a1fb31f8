//! A connection for one request at a time: sends it and waits for its response.
//!
//! ApiVersions negotiates versions at the start; `connecting.rs` makes the connection. It carries
//! no records; a connection for records starts as a [`Client`] and is taken over
//! ([`Client::into_transport`]).

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::{BufMut as _, Bytes, BytesMut};
use client::ClientError;
use tokio::time::timeout;
use wire::messages::{ApiVersionsRequest, RequestHeader, ResponseHeader};
use wire::protocol::{HeaderVersion, Request};
use wire::{Decodable as _, Encodable as _, StrBytes};

use super::transport::Transport;

/// Longest wait for a response.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Longest accepted response.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The client id of the generator.
pub(super) const CLIENT_ID: &str = "forebay-bench";

/// The versions that a broker serves, from API key to (oldest, newest).
pub(super) type Versions = HashMap<i16, (i16, i16)>;

/// A connection to one broker.
#[derive(Debug)]
pub(super) struct Client {
    transport: Transport,
    address: String,
    versions: Versions,
    correlation_id: i32,
}

impl Client {
    /// Takes charge of a new connection, and asks the broker for the versions that it serves.
    pub(super) async fn over(transport: Transport, address: &str) -> anyhow::Result<Self> {
        let mut client = Self {
            transport,
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

    /// Returns the versions that the broker serves.
    #[cfg(test)]
    pub(super) fn versions(&self) -> &Versions {
        &self.versions
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
            .map_err(|error| in_words(error, &self.address))
            .with_context(|| format!("broker {}, request of type {}", self.address, R::KEY))
    }

    /// Returns what its bytes go through, for a caller that reads and writes it directly.
    pub(super) fn into_transport(self) -> Transport {
        self.transport
    }

    /// Ends the connection, under TLS with the word for it.
    pub(super) fn close(mut self) {
        if let Transport::Tls(stream) = &mut self.transport {
            stream.close();
        }
    }

    async fn exchange<R: Request>(
        &mut self,
        version: i16,
        request: &R,
    ) -> anyhow::Result<R::Response> {
        self.correlation_id += 1;
        let mut frame = BytesMut::new();
        put_request(&mut frame, version, self.correlation_id, request)?;
        self.transport.write_all(&frame).await?;
        let mut length = [0; 4];
        self.transport.read_exact(&mut length).await?;
        let length = usize::try_from(i32::from_be_bytes(length))?;
        if length > ANSWER_BYTES_MAX {
            bail!("an answer of {length} bytes");
        }
        let mut answer = vec![0; length];
        self.transport.read_exact(&mut answer).await?;
        let mut answer = Bytes::from(answer);
        let header = ResponseHeader::decode(&mut answer, R::Response::header_version(version))?;
        if header.correlation_id != self.correlation_id {
            bail!("an answer to another request");
        }
        R::Response::decode(&mut answer, version)
    }
}

/// Returns an error of TLS in words that say which side has to change what: a broker judges the
/// certificate of a client when the client has begun to send.
fn in_words(error: anyhow::Error, address: &str) -> anyhow::Error {
    match error.downcast::<std::io::Error>() {
        Ok(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            ClientError::io(address, "receiving", &error).into()
        }
        Ok(error) => error.into(),
        Err(error) => error,
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
