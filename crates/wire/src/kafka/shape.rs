//! The guard before the generated decoders: it first checks every length against the remaining
//! bytes.
//!
//! The decoders of the `kafka-protocol` crate reserve memory for as many elements as an array
//! claims to have, so a frame of 20 bytes could demand 200 GB. The walk over a request's shape
//! finds such a claim, names the field, and adds up the memory that decoding takes, which the
//! caller bounds. Bytes after the message are ignored. Not checked here: nulls where a value is
//! required, and text that is not UTF-8; the decoders return errors for them. Answers of brokers go
//! the same way ([`decode_answer`]): a client trusts them no more.

use bytes::Bytes;

use super::api::{Api, beyond};
use super::reader::{PARTS_MAX, Reader};
use crate::error::DecodeError;
use crate::protocol;

mod answers;
mod responses;
mod rewrite;
pub mod schema;
mod table;

pub(super) use rewrite::{newer, older};
use schema::{Field, FieldKind, element_bytes, struct_bytes};

/// Memory for the first unknown tagged field of a structure (a node of its map), and for each
/// further one.
const FIRST_TAG_BYTES: usize = 512;
const TAG_BYTES: usize = 96;

/// Maximum memory that a decoded request without records may take beyond its frame: some 200,000
/// partitions, which a shard decodes and answers in some hundredths of a second.
pub const DECODED_BYTES_MAX: usize = 16 << 20;

/// Minimum charge for an element of an array, because even a number of four bytes is answered with
/// a structure.
const ELEMENT_BYTES_MIN: usize = 64;

/// Memory that a decoded answer may take beyond its frame, for each byte of it; real answers stay
/// below 16 (an array of broker ids).
const ANSWER_BYTES_PER_BYTE_MAX: usize = 32;
/// What is added to that, for the smallest answers.
const ANSWER_BYTES_MIN: usize = 64 << 10;

const _: () = assert!(
    ELEMENT_BYTES_MIN * PARTS_MAX <= DECODED_BYTES_MAX,
    "a request without records may name as many partitions as one with records"
);
const _: () = assert!(
    TAG_BYTES <= FIRST_TAG_BYTES,
    "the first tag pays for the map, too"
);

/// The fields of a message, by version.
pub struct Shape(&'static [Field]);

impl Shape {
    /// Returns the shape of a request; `None` for Produce and Fetch.
    pub const fn of(api: Api) -> Option<Self> {
        match table::of(api) {
            Some(fields) => Some(Self(fields)),
            None => None,
        }
    }

    /// Returns the fields of any request, for tests that build requests of every API.
    ///
    /// Includes Produce and Fetch, whose codecs do not use these shapes. Known tagged fields are
    /// omitted.
    pub const fn fields_of(api: Api) -> &'static [Field] {
        match table::of(api) {
            Some(fields) => fields,
            None => table::with_records(api),
        }
    }

    /// Returns the shape of a response whose newest version is beyond the generated codecs.
    ///
    /// The shape describes its two newest versions.
    pub const fn of_response(api: Api) -> Option<Self> {
        Some(Self(match api {
            Api::DescribeLogDirs => responses::DESCRIBE_LOG_DIRS,
            _ => return None,
        }))
    }
}

/// Decodes the body of a request that takes at most `decoded_bytes_max` bytes of memory beyond its
/// frame.
///
/// Checks lengths and memory first. Not for Produce and Fetch, which have their own codecs. Bytes
/// after the message are ignored, as in Kafka, because librdkafka sends some.
pub fn decode_request<T: protocol::Request>(
    version: i16,
    body: &Bytes,
    decoded_bytes_max: usize,
) -> Result<T, DecodeError> {
    let api = Api::from_key(T::KEY)
        .filter(|api| api.serves(version))
        .ok_or(DecodeError::Version { version })?;
    let bytes = decoded_bytes(api, version, body)?;
    if bytes > decoded_bytes_max {
        return Err(DecodeError::TooMuchMemory {
            bytes,
            bytes_max: decoded_bytes_max,
        });
    }
    let mut rest = body.clone();
    let request = T::decode(&mut rest, version).map_err(|error| DecodeError::Codec {
        reason: error.to_string(),
    })?;
    Ok(request)
}

/// Decodes the body of the answer to a request, in memory bounded by its length.
///
/// Checks lengths and memory first. Bytes after the answer are ignored.
pub fn decode_answer<T: protocol::Request>(
    version: i16,
    body: &Bytes,
) -> Result<T::Response, DecodeError> {
    let known = <T::Response as protocol::Message>::VERSIONS;
    let api = Api::from_key(T::KEY)
        .filter(|_| known.min <= version && version <= known.max)
        .ok_or(DecodeError::Version { version })?;
    // Saturates: a very long answer must not get a smaller bound.
    let bytes_max = body
        .len()
        .saturating_mul(ANSWER_BYTES_PER_BYTE_MAX)
        .saturating_add(ANSWER_BYTES_MIN);
    let shape = answers::of(api);
    let mut walk = Walk {
        reader: Reader::new(body, api.is_flexible(version)),
        version,
        bytes: message_bytes(api, shape),
    };
    walk.structure(api.name(), shape)?;
    if walk.bytes > bytes_max {
        return Err(DecodeError::TooMuchMemory {
            bytes: walk.bytes,
            bytes_max,
        });
    }
    let mut rest = body.clone();
    protocol::Decodable::decode(&mut rest, version).map_err(|error: anyhow::Error| {
        DecodeError::Codec {
            reason: error.to_string(),
        }
    })
}

/// Returns an upper bound of the memory that decoding a request's body takes beyond its frame.
///
/// Fails when the body is not such a request.
pub fn decoded_bytes(api: Api, version: i16, body: &Bytes) -> Result<usize, DecodeError> {
    let shape = table::of(api)
        .filter(|_| api.serves(version))
        .ok_or(DecodeError::Version { version })?;
    let mut walk = Walk {
        reader: Reader::new(body, api.is_flexible(version)),
        version,
        bytes: message_bytes(api, shape),
    };
    walk.structure(api.name(), shape)?;
    Ok(walk.bytes)
}

/// Returns the size of a decoded message without the contents of its arrays.
fn message_bytes(api: Api, fields: &[Field]) -> usize {
    let more = if beyond(api) { size_of::<Vec<u8>>() } else { 0 };
    struct_bytes(fields) + more
}

struct Walk<'a> {
    reader: Reader<'a>,
    version: i16,
    bytes: usize,
}

impl Walk<'_> {
    fn structure(
        &mut self,
        name: &'static str,
        fields: &'static [Field],
    ) -> Result<(), DecodeError> {
        let version = self.version;
        for field in fields.iter().filter(|field| field.is_in(version)) {
            self.value(field.name, field.kind)?;
        }
        self.tags(name, fields)
    }

    /// Walks over the values of the tags that the shape has, and counts the others.
    fn tags(&mut self, name: &'static str, fields: &'static [Field]) -> Result<(), DecodeError> {
        let mut unknown = 0_usize;
        for _ in 0..self.reader.tag_count(name)? {
            let (tag, end) = self.reader.tag(name)?;
            let known = fields.iter().find_map(|field| match field.kind {
                FieldKind::Tagged(its, kind) if its == tag && field.is_in(self.version) => {
                    Some((field.name, *kind))
                }
                _ => None,
            });
            if let Some((field, kind)) = known {
                self.value(field, kind)?;
                self.reader.tag_ends(name, tag, end)?;
            } else {
                unknown = unknown.saturating_add(1);
                self.reader.pass_to(end);
            }
        }
        if unknown > 0 {
            self.grow(FIRST_TAG_BYTES);
            self.grow(TAG_BYTES.saturating_mul(unknown.saturating_sub(1)));
        }
        Ok(())
    }

    fn value(&mut self, name: &'static str, kind: FieldKind) -> Result<(), DecodeError> {
        match kind {
            FieldKind::Fixed(bytes) => self.reader.pass(bytes, name),
            FieldKind::Text => self.reader.pass_string(name),
            FieldKind::Blob => self.reader.pass_bytes(name),
            FieldKind::Optional(fields) => match self.reader.i8(name)? {
                1 => self
                    .structure(name, fields)
                    .map_err(|error| error.within(&format!("{name}."))),
                _ => Ok(()),
            },
            FieldKind::Struct(fields) => self
                .structure(name, fields)
                .map_err(|error| error.within(&format!("{name}."))),
            // Among the tags, after all other fields.
            FieldKind::Tagged(..) => Ok(()),
            FieldKind::Each(element) => {
                // Null has no elements.
                let count = self.reader.count(name, 1)?.unwrap_or(0);
                let bytes = element_bytes(*element).max(ELEMENT_BYTES_MIN);
                self.grow(bytes.saturating_mul(count));
                (0..count).try_for_each(|_| self.value(name, *element))
            }
            FieldKind::List(fields) => {
                // Null has no elements.
                let count = self.reader.count(name, 1)?.unwrap_or(0);
                let bytes = struct_bytes(fields).max(ELEMENT_BYTES_MIN);
                self.grow(bytes.saturating_mul(count));
                (0..count).try_for_each(|index| {
                    self.structure(name, fields)
                        .map_err(|error| error.within(&format!("{name}[{index}].")))
                })
            }
        }
    }

    /// Adds to the memory estimate.
    ///
    /// Saturates, as do the products that the callers pass: the counts come from a client, and the
    /// sum is compared with a bound.
    fn grow(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests;
