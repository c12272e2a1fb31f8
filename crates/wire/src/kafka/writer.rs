//! Writes protocol fields, and splices record bytes in instead of copying them.
//!
//! All fields go to one buffer that starts with the frame's length prefix; a splice stores a
//! position and the segments that belong there. Only [`Writer::finish`] cuts the buffer. Not here:
//! the fields of any message.

use bytes::{BufMut, Bytes, BytesMut};

use super::api::Api;
use super::response::{PREFIX_BYTES, Response};
use crate::error::EncodeError;
use crate::types::Uuid;

pub(super) struct Writer {
    api: Api,
    fields: BytesMut,
    /// Position in `fields`, and the bytes that belong there; positions ascend.
    splices: Vec<(usize, Bytes)>,
    spliced_bytes: usize,
    flexible: bool,
    /// The first length that did not fit its field.
    too_long: Option<usize>,
}

impl Writer {
    /// Starts a response: reserves the length prefix and writes the response header.
    pub(super) fn response(api: Api, version: i16, correlation_id: i32, capacity: usize) -> Self {
        let mut fields = BytesMut::with_capacity(capacity + 16);
        fields.put_i32(0);
        fields.put_i32(correlation_id);
        if api.response_header_version(version) >= 1 {
            fields.put_u8(0);
        }
        Self {
            api,
            fields,
            splices: Vec::new(),
            spliced_bytes: 0,
            flexible: api.is_flexible(version),
            too_long: None,
        }
    }

    /// Returns the buffer, for encoders of ordinary fields.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.fields
    }

    pub(super) fn i16(&mut self, value: i16) {
        self.fields.put_i16(value);
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.fields.put_i32(value);
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.fields.put_i64(value);
    }

    pub(super) fn uuid(&mut self, value: Uuid) {
        self.fields.put_slice(value.as_bytes());
    }

    pub(super) fn string(&mut self, value: &str) {
        self.nullable_string(Some(value));
    }

    pub(super) fn nullable_string(&mut self, value: Option<&str>) {
        let length = value.map(str::len);
        if self.flexible {
            self.compact_length(length);
        } else {
            match length.map_or(Ok(-1), i16::try_from) {
                Ok(length) => self.fields.put_i16(length),
                Err(_) => self.too_long = self.too_long.or(length),
            }
        }
        // Null has no bytes.
        self.fields.put_slice(value.unwrap_or_default().as_bytes());
    }

    pub(super) fn array_length(&mut self, count: usize) {
        self.nullable_array_length(Some(count));
    }

    pub(super) fn nullable_array_length(&mut self, count: Option<usize>) {
        if self.flexible {
            self.compact_length(count);
        } else {
            match count.map_or(Ok(-1), i32::try_from) {
                Ok(count) => self.fields.put_i32(count),
                Err(_) => self.too_long = self.too_long.or(count),
            }
        }
    }

    /// Writes a bytes field whose contents are the concatenated segments.
    pub(super) fn spliced_bytes(&mut self, segments: Vec<Bytes>) {
        let length = segments.iter().map(Bytes::len).sum(); // Bounded: lengths of bytes in memory.
        self.array_length(length);
        self.spliced_bytes += length;
        let at = self.fields.len();
        assert!(
            self.splices.last().is_none_or(|(before, _)| *before <= at),
            "positions of splices ascend"
        );
        self.splices.extend(
            segments
                .into_iter()
                .filter(|segment| !segment.is_empty())
                .map(|segment| (at, segment)),
        );
    }

    /// Writes the given tagged fields, in ascending order of tag; nothing in classic versions.
    pub(super) fn tags(&mut self, tags: &[(u32, Bytes)]) {
        if !self.flexible {
            return;
        }
        assert!(
            tags.is_sorted_by(|(before, _), (after, _)| before < after),
            "tags ascend"
        );
        self.uvarint(tags.len());
        for (tag, value) in tags {
            self.uvarint(*tag as usize);
            self.uvarint(value.len());
            self.fields.put_slice(value);
        }
    }

    pub(super) fn no_tags(&mut self) {
        if self.flexible {
            self.fields.put_u8(0);
        }
    }

    /// Cuts the buffer at the splices and fills in the length prefix.
    pub(super) fn finish(mut self) -> Result<Response, EncodeError> {
        let frame_bytes = self.fields.len() - PREFIX_BYTES + self.spliced_bytes;
        let bytes = self.too_long.unwrap_or(frame_bytes);
        let too_long = EncodeError::TooLong {
            api: self.api.name(),
            bytes,
        };
        let length = i32::try_from(frame_bytes).map_err(|_| too_long.clone())?;
        if self.too_long.is_some() {
            return Err(too_long);
        }
        let prefix = self.fields.first_chunk_mut();
        *prefix.expect("the fields begin with room for the length") = length.to_be_bytes();
        let fields = self.fields.freeze();
        let mut segments = Vec::with_capacity(2 * self.splices.len() + 1);
        let (mut done, mut spliced_bytes) = (0, 0);
        for (at, splice) in self.splices {
            if at > done {
                segments.push(fields.slice(done..at));
                done = at;
            }
            spliced_bytes += splice.len(); // Bounded: lengths of bytes in memory.
            segments.push(splice);
        }
        if done < fields.len() {
            segments.push(fields.slice(done..));
        }
        assert_eq!(
            spliced_bytes, self.spliced_bytes,
            "the length counts every splice"
        );
        Ok(Response::new(segments))
    }

    fn compact_length(&mut self, length: Option<usize>) {
        self.uvarint(length.map_or(0, |length| length + 1));
    }

    fn uvarint(&mut self, value: usize) {
        match u32::try_from(value) {
            Ok(value) => put_uvarint(&mut self.fields, value),
            Err(_) => self.too_long = self.too_long.or(Some(value)),
        }
    }
}

/// Appends an unsigned variable-length integer.
pub(super) fn put_uvarint(buffer: &mut BytesMut, mut value: u32) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            buffer.put_u8(low & 0x7f);
            return;
        }
        buffer.put_u8(low | 0x80);
    }
}

/// Appends a compact nullable string.
///
/// The string is a name from a settings file or a metadata record, which are far below 4 GiB.
pub(super) fn put_compact_string(buffer: &mut BytesMut, value: Option<&str>) {
    let length = value.map_or(0, |text| text.len() + 1);
    let length = u32::try_from(length).expect("a name is shorter than what it was read from");
    put_uvarint(buffer, length);
    buffer.put_slice(value.unwrap_or_default().as_bytes()); // Null has no bytes.
}
