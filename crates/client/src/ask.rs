//! A request, its answer, and the bytes between them.
//!
//! Every request of the generated codecs is an [`Ask`]; requests with codecs of their own (records)
//! implement it themselves. Invariant: nothing is reserved for what a count in an answer claims;
//! generated decoders run behind [`wire::kafka::shape::decode_answer`].

use bytes::{BufMut as _, Bytes, BytesMut};
use wire::kafka::Api;
use wire::kafka::frame::PREFIX_BYTES;
use wire::messages::{RequestHeader, ResponseHeader};
use wire::protocol::{HeaderVersion, Request};
use wire::{Decodable as _, Encodable as _, StrBytes};

/// A request that a broker answers.
pub trait Ask {
    /// The answer.
    type Answer;
    /// The key of the request.
    const API: i16;
    /// The oldest version that is known here.
    const OLDEST: i16;
    /// The newest version that is known here.
    const NEWEST: i16;

    /// Returns the version of the request's header and of the answer's.
    fn header_versions(version: i16) -> (i16, i16);

    /// Appends the body; fails if this version cannot say it.
    fn encode(&self, out: &mut BytesMut, version: i16) -> Result<(), String>;

    /// Reads the body of an answer.
    fn decode(body: &Bytes, version: i16) -> Result<Self::Answer, String>;
}

impl<R: Request> Ask for R {
    type Answer = R::Response;
    const API: i16 = R::KEY;
    const OLDEST: i16 = R::VERSIONS.min;
    const NEWEST: i16 = R::VERSIONS.max;

    fn header_versions(version: i16) -> (i16, i16) {
        let answer = <R::Response as HeaderVersion>::header_version(version);
        (R::header_version(version), answer)
    }

    fn encode(&self, out: &mut BytesMut, version: i16) -> Result<(), String> {
        let bytes = wire::Encodable::compute_size(self, version);
        out.reserve(bytes.map_err(|error| error.to_string())?);
        wire::Encodable::encode(self, out, version).map_err(|error| error.to_string())
    }

    fn decode(body: &Bytes, version: i16) -> Result<R::Response, String> {
        let answer = wire::kafka::shape::decode_answer::<R>(version, body);
        answer.map_err(|error| error.to_string())
    }
}

/// Returns the name of a request, for messages.
pub(crate) fn name_of(key: i16) -> String {
    match Api::from_key(key) {
        Some(api) => api.name().to_owned(),
        None => format!("requests of type {key}"),
    }
}

/// Returns a whole frame, length included.
pub(crate) fn frame<Q: Ask>(
    request: &Q,
    version: i16,
    correlation_id: i32,
    client_id: &str,
) -> Result<Bytes, String> {
    let (header_version, _) = Q::header_versions(version);
    let mut out = BytesMut::new();
    out.put_bytes(0, PREFIX_BYTES);
    let header = RequestHeader::default()
        .with_request_api_key(Q::API)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_string(client_id.to_owned())));
    let encoded = header.encode(&mut out, header_version);
    encoded.map_err(|error| error.to_string())?;
    request.encode(&mut out, version)?;
    let length = out.len().saturating_sub(PREFIX_BYTES);
    let length = i32::try_from(length).map_err(|_| format!("a request of {length} bytes"))?;
    if let Some(prefix) = out.first_chunk_mut::<PREFIX_BYTES>() {
        *prefix = length.to_be_bytes();
    }
    Ok(out.freeze())
}

/// Returns the correlation id of an answer, which stands first in every version of the header.
pub(crate) fn correlation_id(frame: &Bytes) -> Option<i32> {
    frame.first_chunk().map(|id| i32::from_be_bytes(*id))
}

/// Reads an answer, header included.
pub(crate) fn answer<Q: Ask>(mut frame: Bytes, version: i16) -> Result<Q::Answer, String> {
    let (_, header_version) = Q::header_versions(version);
    ResponseHeader::decode(&mut frame, header_version).map_err(|error| error.to_string())?;
    Q::decode(&frame, version)
}
