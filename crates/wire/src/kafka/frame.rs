//! Frames: a length prefix of four bytes, a request or response header, a body. Sans-io.
//!
//! Invariant: nothing is allocated for a frame before its length is checked. ApiVersions in an
//! unknown version still has a header that decodes. It is the only request that is passed on in an
//! unserved version ([`Request::is_unknown_api_versions`]), and is answered in version 0 with
//! UNSUPPORTED_VERSION. Every other unserved key or version is an error that closes the connection,
//! as in Kafka.
//! Not here: reading sockets, and the bytes in flight of a connection (`server`).

use bytes::{Bytes, BytesMut};

use super::api::Api;
use super::reader::Reader;
pub use super::response::{PREFIX_BYTES, Response};
use super::writer::Writer;
use crate::error::{DecodeError, EncodeError, FrameError};
use crate::protocol::{Encodable, StrBytes};

/// Checks a length prefix, and returns the number of bytes that follow it.
pub fn frame_length(prefix: [u8; PREFIX_BYTES], bytes_max: usize) -> Result<usize, FrameError> {
    let length = i32::from_be_bytes(prefix);
    let length_bytes =
        usize::try_from(length).map_err(|_| FrameError::NegativeLength { length })?;
    if length_bytes == 0 {
        return Err(FrameError::Empty);
    }
    if length_bytes > bytes_max {
        return Err(FrameError::TooLarge {
            length_bytes,
            bytes_max,
        });
    }
    Ok(length_bytes)
}

/// Takes one whole frame (without its prefix) from the front of the received bytes.
///
/// `None` when more bytes are needed; the length is checked as soon as the prefix is complete.
pub fn next_frame(read: &mut BytesMut, bytes_max: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(prefix) = read.first_chunk() else {
        return Ok(None);
    };
    let length = frame_length(*prefix, bytes_max)?;
    if read.len() - PREFIX_BYTES < length {
        return Ok(None);
    }
    // Bounded: compared above.
    let mut frame = read.split_to(PREFIX_BYTES + length);
    // Bounded: the frame begins with the prefix.
    let frame = frame.split_off(PREFIX_BYTES).freeze();
    assert_eq!(frame.len(), length, "a frame is as long as its prefix says");
    Ok(Some(frame))
}

/// The header of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    /// The requested API.
    pub api: Api,
    /// The version; served, except in the case of [`Request::is_unknown_api_versions`].
    pub version: i16,
    /// The id that the response repeats.
    pub correlation_id: i32,
    /// The client's name for itself; Kafka treats null as empty.
    pub client_id: StrBytes,
}

/// A request whose body is not decoded yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The header.
    pub header: RequestHeader,
    /// The undecoded body, a slice of the frame.
    pub body: Bytes,
}

impl Request {
    /// Reads the header of a frame (without the length prefix).
    pub fn parse(frame: &Bytes) -> Result<Self, FrameError> {
        let mut api_key = -1;
        let mut prelude = Reader::new(frame, false);
        let source = |api_key| move |source| FrameError::Header { api_key, source };
        let key = prelude.i16("request_api_key").map_err(source(api_key))?;
        api_key = key;
        let version = prelude
            .i16("request_api_version")
            .map_err(source(api_key))?;
        let api = Api::from_key(key).ok_or(FrameError::UnknownApi { api_key })?;
        if !api.serves(version) && api != Api::ApiVersions {
            return Err(FrameError::UnsupportedVersion {
                api: api.name(),
                version,
            });
        }
        Self::parse_rest(frame, prelude, api, version).map_err(source(api_key))
    }

    fn parse_rest(
        frame: &Bytes,
        mut prelude: Reader<'_>,
        api: Api,
        version: i16,
    ) -> Result<Self, DecodeError> {
        let correlation_id = prelude.i32("correlation_id")?;
        // The client id is a classic string in every header version, also where tagged fields
        // follow.
        let client_id = prelude.nullable_string("client_id")?.unwrap_or_default();
        let mut rest = Reader::new(frame, api.request_header_version(version) >= 2);
        rest.pass(prelude.position(), "request_header")?;
        rest.skip_tags("request_header")?;
        Ok(Self {
            header: RequestHeader {
                api,
                version,
                correlation_id,
                client_id,
            },
            body: frame.slice(rest.position()..),
        })
    }

    /// Returns true for ApiVersions in a version that is not served.
    ///
    /// The caller must not decode its body. The response has version 0, UNSUPPORTED_VERSION, and
    /// the versions of ApiVersions itself (KIP-511).
    pub fn is_unknown_api_versions(&self) -> bool {
        self.header.api == Api::ApiVersions && !self.header.api.serves(self.header.version)
    }
}

/// Encodes a response without records.
///
/// `version` is that of the request, or 0 for the response to an unknown ApiVersions.
pub fn encode_response<T: Encodable>(
    api: Api,
    version: i16,
    correlation_id: i32,
    body: &T,
) -> Result<Response, EncodeError> {
    let codec = |reason: String| EncodeError::Codec {
        api: api.name(),
        version,
        reason,
    };
    let size = body
        .compute_size(version)
        .map_err(|error| codec(error.to_string()))?;
    let mut writer = Writer::response(api, version, correlation_id, size);
    body.encode(writer.buffer(), version)
        .map_err(|error| codec(error.to_string()))?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use kafka_protocol::messages::{self, ApiVersionsResponse, MetadataResponse, ResponseHeader};
    use kafka_protocol::protocol::Decodable;
    use proptest::prelude::*;

    use super::*;

    fn header_bytes(api: Api, version: i16) -> BytesMut {
        let mut bytes = BytesMut::new();
        messages::RequestHeader::default()
            .with_request_api_key(api.key())
            .with_request_api_version(version)
            .with_correlation_id(77)
            .with_client_id(Some(StrBytes::from_static_str("me")))
            .encode(&mut bytes, api.request_header_version(version))
            .unwrap();
        bytes
    }

    #[test]
    fn lengths_that_no_frame_has_are_named() {
        let max = 100;
        assert_eq!(frame_length(100i32.to_be_bytes(), max), Ok(100));
        for (length, says) in [
            (-1i32, "frame length -1 is negative"),
            (0, "frame is empty"),
            (101, "frame of 101 bytes is larger than the maximum of 100"),
        ] {
            let error = frame_length(length.to_be_bytes(), max).unwrap_err();
            assert_eq!(error.to_string(), says);
        }
    }

    #[test]
    fn frames_are_taken_whole_and_judged_early() {
        let mut read = BytesMut::new();
        read.put_slice(&[0, 0, 0, 2, 7]);
        assert_eq!(next_frame(&mut read, 10), Ok(None));
        read.put_slice(&[8, 0, 0]);
        assert_eq!(
            next_frame(&mut read, 10),
            Ok(Some(Bytes::from_static(&[7, 8])))
        );
        assert_eq!(&read[..], [0, 0]);
        read.put_slice(&[1, 0]);
        assert!(next_frame(&mut read, 10).is_err());
    }

    #[test]
    fn headers_of_every_api_and_version_decode() {
        for &api in Api::ALL {
            for version in api.versions() {
                let mut frame = header_bytes(api, version);
                frame.put_slice(b"body");
                let request = Request::parse(&frame.freeze()).unwrap();
                assert_eq!(request.header.api, api);
                assert_eq!(request.header.version, version);
                assert_eq!(request.header.correlation_id, 77);
                assert_eq!(request.header.client_id.as_str(), "me");
                assert_eq!(&request.body[..], b"body");
                assert!(!request.is_unknown_api_versions());
            }
        }
    }

    #[test]
    fn an_unknown_api_versions_is_handed_on_and_others_are_refused() {
        let request = Request::parse(&header_bytes(Api::ApiVersions, 99).freeze()).unwrap();
        assert!(request.is_unknown_api_versions());
        assert_eq!(
            Request::parse(&header_bytes(Api::Produce, 2).freeze()),
            Err(FrameError::UnsupportedVersion {
                api: "Produce",
                version: 2
            })
        );
        assert_eq!(
            Request::parse(&Bytes::from_static(&[0, 4, 0, 0, 0, 0, 0, 0, 255, 255])),
            Err(FrameError::UnknownApi { api_key: 4 })
        );
        let error = Request::parse(&Bytes::from_static(&[0, 3, 0, 0, 0])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "request header of api key 3 does not decode: correlation_id needs 4 bytes, 1 are left"
        );
    }

    #[test]
    fn responses_are_framed_and_api_versions_never_has_a_flexible_header() {
        let response =
            encode_response(Api::ApiVersions, 3, 5, &ApiVersionsResponse::default()).unwrap();
        let mut bytes = response.to_bytes();
        assert_eq!(bytes.split_to(4)[..], [0, 0, 0, 12]);
        assert_eq!(bytes.len(), 12);
        assert_eq!(
            ResponseHeader::decode(&mut bytes, 0)
                .unwrap()
                .correlation_id,
            5
        );
        ApiVersionsResponse::decode(&mut bytes, 3).unwrap();

        let response = encode_response(Api::Metadata, 12, 6, &MetadataResponse::default()).unwrap();
        let mut bytes = response.to_bytes();
        assert_eq!(
            bytes.split_to(4)[..],
            u32::try_from(bytes.len()).unwrap().to_be_bytes()
        );
        assert_eq!(
            ResponseHeader::decode(&mut bytes, 1)
                .unwrap()
                .correlation_id,
            6
        );
        MetadataResponse::decode(&mut bytes, 12).unwrap();
        assert!(bytes.is_empty());
        assert!(encode_response(Api::Metadata, 99, 6, &MetadataResponse::default()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_request_or_an_error(
            key in 0i16..80, version in -1i16..20,
            rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut frame = BytesMut::new();
            frame.put_i16(key);
            frame.put_i16(version);
            frame.put_slice(&rest);
            let _ = Request::parse(&frame.freeze());
            let _ = Request::parse(&rest.into());
        }
    }
}
