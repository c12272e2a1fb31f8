//! Reads protocol fields from a frame; checks every length against the remaining bytes.
//!
//! Fields of bytes are slices of the frame; strings are copies. Supports both encodings of lengths
//! (classic: fixed width, -1 is null; compact: varint plus one, 0 is null) and tagged fields. Not
//! here: the fields of any message.

use bytes::Bytes;

use crate::error::DecodeError;
use crate::protocol::StrBytes;
use crate::types::Uuid;

/// A cursor over a frame.
///
/// Field names are static; the errors own their paths because [`super::shape`] builds them.
pub(super) struct Reader<'a> {
    frame: &'a Bytes,
    at: usize,
    /// True for compact lengths and tagged fields.
    flexible: bool,
    /// Bytes of memory that arrays may still take.
    budget: usize,
    budget_max: usize,
    /// Elements that arrays may still have.
    parts: usize,
}

/// Maximum length of a string.
const TEXT_BYTES_MAX: usize = i16::MAX as usize;

/// Maximum memory for the arrays of one frame, per byte of the frame; `ARRAY_BYTES_MIN` is added
/// for the smallest frames. Real requests stay below 12: a topic with the shortest name and one
/// partition without records.
const ARRAY_BYTES_PER_BYTE_MAX: usize = 16;
const ARRAY_BYTES_MIN: usize = 64 << 10;
/// Maximum memory for the arrays of one frame of any length.
const ARRAY_BYTES_MAX: usize = 64 << 20;
/// Maximum number of elements in the arrays of one frame: more partitions than a broker leads, and
/// few enough for a shard to decode and answer in some hundredths of a second.
pub(super) const PARTS_MAX: usize = 100_000;

const _: () = assert!(ARRAY_BYTES_MIN <= ARRAY_BYTES_MAX);
const _: () = assert!(
    PARTS_MAX * size_of::<i32>() <= ARRAY_BYTES_MAX,
    "memory allows as many partitions as one request may name"
);
const _: () = assert!(
    usize::BITS >= u32::BITS,
    "a length in a frame is one in memory"
);

impl<'a> Reader<'a> {
    pub(super) fn new(frame: &'a Bytes, flexible: bool) -> Self {
        // Saturates: a very long frame must not get a smaller bound.
        let budget = frame
            .len()
            .saturating_mul(ARRAY_BYTES_PER_BYTE_MAX)
            .saturating_add(ARRAY_BYTES_MIN)
            .min(ARRAY_BYTES_MAX);
        Self {
            frame,
            at: 0,
            flexible,
            budget,
            budget_max: budget,
            parts: PARTS_MAX,
        }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn remaining(&self) -> usize {
        self.frame.len() - self.at
    }

    pub(super) fn i8(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.fixed(field)?))
    }

    pub(super) fn i16(&mut self, field: &'static str) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.fixed(field)?))
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.fixed(field)?))
    }

    pub(super) fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.fixed(field)?))
    }

    pub(super) fn uuid(&mut self, field: &'static str) -> Result<Uuid, DecodeError> {
        Ok(Uuid::from_bytes(self.fixed(field)?))
    }

    pub(super) fn string(&mut self, field: &'static str) -> Result<StrBytes, DecodeError> {
        self.nullable_string(field)?.ok_or_else(|| null(field))
    }

    pub(super) fn nullable_string(
        &mut self,
        field: &'static str,
    ) -> Result<Option<StrBytes>, DecodeError> {
        let Some(length) = self.text_length(field)? else {
            return Ok(None);
        };
        // The copy prevents a name that is kept until the response from keeping a whole frame in
        // memory.
        let text = Bytes::copy_from_slice(&self.take(length, field)?);
        StrBytes::from_utf8(text)
            .map(Some)
            .map_err(|_| DecodeError::NotUtf8 {
                field: field.to_owned(),
            })
    }

    pub(super) fn nullable_bytes(
        &mut self,
        field: &'static str,
    ) -> Result<Option<Bytes>, DecodeError> {
        match self.long_length(field)? {
            Some(length) => self.take(length, field).map(Some),
            None => Ok(None),
        }
    }

    /// Reads an array.
    ///
    /// `element_bytes_min` is the minimum size of one element: a count that the rest of the frame
    /// cannot hold, or that would take too much memory, is refused before anything is allocated.
    pub(super) fn array<T>(
        &mut self,
        field: &'static str,
        element_bytes_min: usize,
        element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        self.nullable_array(field, element_bytes_min, element)?
            .ok_or_else(|| null(field))
    }

    /// Does the same as [`Self::array`], for arrays that may be null.
    pub(super) fn nullable_array<T>(
        &mut self,
        field: &'static str,
        element_bytes_min: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.count(field, element_bytes_min)? else {
            return Ok(None);
        };
        self.parts = self
            .parts
            .checked_sub(count)
            .ok_or(DecodeError::TooManyParts {
                parts_max: PARTS_MAX,
            })?;
        // Saturates: a count beyond all bounds fails the check below.
        let bytes = count.saturating_mul(size_of::<T>());
        self.budget = self
            .budget
            .checked_sub(bytes)
            .ok_or(DecodeError::TooMuchMemory {
                bytes,
                bytes_max: self.budget_max,
            })?;
        assert!(count <= PARTS_MAX, "nothing is reserved for a mere claim");
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(Some(elements))
    }

    /// Reads the tagged fields at the end of a structure (nothing in classic versions).
    ///
    /// `known` reads the value of a tag that it knows and returns true; other tags are skipped. A
    /// known value must have exactly its announced size. As in Kafka, the order of tags is not
    /// checked.
    pub(super) fn tags(
        &mut self,
        field: &'static str,
        mut known: impl FnMut(&mut Self, u32) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        for _ in 0..self.tag_count(field)? {
            let (tag, end) = self.tag(field)?;
            if known(self, tag)? {
                self.tag_ends(field, tag, end)?;
            } else {
                self.at = end;
            }
        }
        Ok(())
    }

    /// Reads the number of tagged fields at the end of a structure; none in classic versions.
    pub(super) fn tag_count(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        if self.flexible {
            self.uvarint(field)
        } else {
            Ok(0)
        }
    }

    /// Reads the tag of the next tagged field, and returns it with the position after its value.
    pub(super) fn tag(&mut self, field: &'static str) -> Result<(u32, usize), DecodeError> {
        let tag = self.uvarint(field)?;
        let size = self.uvarint(field)? as usize;
        if size > self.remaining() {
            return Err(self.truncated(field, size as u64));
        }
        Ok((tag, self.at + size))
    }

    /// Goes on at a position that [`Self::tag`] returned.
    pub(super) fn pass_to(&mut self, end: usize) {
        debug_assert!(self.at <= end && end <= self.frame.len());
        self.at = end;
    }

    /// Checks that the value of a tagged field ended where its size says.
    pub(super) fn tag_ends(
        &self,
        field: &'static str,
        tag: u32,
        end: usize,
    ) -> Result<(), DecodeError> {
        if self.at == end {
            Ok(())
        } else {
            Err(malformed(field, tag))
        }
    }

    /// Does the same as [`Self::tags`], for structures without known tags.
    pub(super) fn skip_tags(&mut self, field: &'static str) -> Result<(), DecodeError> {
        self.tags(field, |_, _| Ok(false))
    }

    pub(super) fn uvarint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let mut value = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed(field)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| varint(field));
            }
        }
        Err(varint(field))
    }

    /// Skips a nullable string.
    pub(super) fn pass_string(&mut self, field: &'static str) -> Result<(), DecodeError> {
        let length = self.text_length(field)?;
        self.pass(length.unwrap_or(0), field) // Null has no bytes.
    }

    /// Skips nullable bytes.
    pub(super) fn pass_bytes(&mut self, field: &'static str) -> Result<(), DecodeError> {
        let length = self.long_length(field)?;
        self.pass(length.unwrap_or(0), field) // Null has no bytes.
    }

    /// Reads the length of a nullable array, and checks that the rest of the frame can hold it.
    pub(super) fn count(
        &mut self,
        field: &'static str,
        element_bytes_min: usize,
    ) -> Result<Option<usize>, DecodeError> {
        let Some(count) = self.long_length(field)? else {
            return Ok(None);
        };
        // Saturates: the result then exceeds the length of any frame.
        let need = (count as u64).saturating_mul(element_bytes_min as u64);
        if need > self.remaining() as u64 {
            return Err(self.truncated(field, need));
        }
        Ok(Some(count))
    }

    /// Skips bytes.
    pub(super) fn pass(&mut self, bytes: usize, field: &'static str) -> Result<(), DecodeError> {
        if bytes > self.remaining() {
            return Err(self.truncated(field, bytes as u64));
        }
        self.at += bytes;
        Ok(())
    }

    fn long_length(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        if self.flexible {
            self.compact_length(field)
        } else {
            classic_length(field, i64::from(self.i32(field)?))
        }
    }

    /// Reads the length of a string.
    ///
    /// In both encodings it is at most the maximum of the classic one, as in Kafka. The cost of
    /// copying, comparing and escaping a string grows with its length, and some of these steps do
    /// not yield.
    fn text_length(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        if !self.flexible {
            return classic_length(field, i64::from(self.i16(field)?));
        }
        match self.compact_length(field)? {
            Some(length) if length > TEXT_BYTES_MAX => Err(DecodeError::Length {
                field: field.to_owned(),
                length: i64::try_from(length).unwrap_or(i64::MAX), // A text for people.
            }),
            length => Ok(length),
        }
    }

    fn compact_length(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        Ok((self.uvarint(field)? as usize).checked_sub(1))
    }

    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let bytes = self
            .frame
            .get(self.at..)
            .and_then(|rest| rest.first_chunk())
            .copied()
            .ok_or_else(|| self.truncated(field, N as u64))?;
        self.at += N;
        Ok(bytes)
    }

    fn take(&mut self, length: usize, field: &'static str) -> Result<Bytes, DecodeError> {
        if length > self.remaining() {
            return Err(self.truncated(field, length as u64));
        }
        let bytes = self.frame.slice(self.at..self.at + length);
        self.at += length;
        Ok(bytes)
    }

    fn truncated(&self, field: &'static str, need: u64) -> DecodeError {
        DecodeError::Truncated {
            field: field.to_owned(),
            need,
            have: self.remaining(),
        }
    }
}

fn classic_length(field: &'static str, length: i64) -> Result<Option<usize>, DecodeError> {
    match length {
        -1 => Ok(None),
        _ => usize::try_from(length)
            .map(Some)
            .map_err(|_| DecodeError::Length {
                field: field.to_owned(),
                length,
            }),
    }
}

fn null(field: &'static str) -> DecodeError {
    DecodeError::Null {
        field: field.to_owned(),
    }
}

fn varint(field: &'static str) -> DecodeError {
    DecodeError::Varint {
        field: field.to_owned(),
    }
}

fn malformed(field: &'static str, tag: u32) -> DecodeError {
    DecodeError::Tag {
        field: field.to_owned(),
        tag,
    }
}
