//! Primitives of Kafka's serialization: big-endian numbers, varints, and the plain and the compact
//! ("flexible") form of strings, bytes and arrays.
//!
//! Invariant: a [`Reader`] never reads past its input, and compares each length with the remaining
//! bytes before it uses it. Not here: the fields of any record.

use bytes::Bytes;
use uuid::Uuid;

/// The reason why bytes are not a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The input ends inside a field.
    #[error("the record ends inside a field")]
    Truncated,
    /// A length is negative or exceeds the remaining input, or a required field is null.
    #[error("the record has a field of length {0}, which cannot be")]
    Length(i64),
    /// A string is not UTF-8.
    #[error("the record has a string that is not UTF-8")]
    NotUtf8,
    /// A varint is longer than its type.
    #[error("the record has a number that is too long")]
    Varint,
    /// The frame version of a metadata record is not 1.
    #[error("metadata record with frame version {0}")]
    Frame(u32),
    /// A version that this code does not know.
    #[error("record type {key} has version {version}, which is not known")]
    Version {
        /// The record type.
        key: i16,
        /// The version found.
        version: i16,
    },
    /// A record type that this code does not know.
    #[error("record type {0} is not known")]
    Key(i16),
    /// Bytes are left after the last field.
    #[error("{0} bytes follow the last field of the record")]
    Trailing(usize),
}

/// The form in which a struct is written: its schema version, and whether that version is compact
/// ("flexible").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// Schema version.
    pub version: i16,
    /// True for compact lengths and tagged fields.
    pub flexible: bool,
}

/// A value that can be a field of a schema.
pub trait Field: Sized {
    /// Appends the value.
    fn write(&self, out: &mut Vec<u8>, form: Form);
    /// Reads a value.
    fn read(input: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError>;
}

/// A cursor over bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a cursor at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number of unread bytes.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads an unsigned varint of at most 32 bits.
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value: u32 = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && (bits > 0xf || byte & 0x80 != 0) {
                return Err(DecodeError::Varint);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Varint)
    }

    /// Succeeds only at the end of the input.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(DecodeError::Trailing(left)),
        }
    }

    /// Reads the section of tagged fields.
    ///
    /// Calls `known` with each tag and a cursor over its bytes; bytes that `known` does not read
    /// are skipped.
    pub fn tagged(
        &mut self,
        mut known: impl FnMut(u32, &mut Reader<'a>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            let len = self.unsigned_varint()?;
            let bytes = self.take(len as usize)?;
            known(tag, &mut Self::new(bytes))?;
        }
        Ok(())
    }

    /// Reads the length of a string, bytes or an array; `None` is null.
    ///
    /// `plain` reads the length of the plain form.
    fn length(
        &mut self,
        form: Form,
        plain: fn(&mut Self) -> Result<i64, DecodeError>,
    ) -> Result<Option<usize>, DecodeError> {
        let length = if form.flexible {
            i64::from(self.unsigned_varint()?) - 1
        } else {
            plain(self)?
        };
        match usize::try_from(length) {
            Ok(length) if length <= self.remaining() => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            _ => Err(DecodeError::Length(length)),
        }
    }

    fn short_length(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from(i16::from_be_bytes(self.array()?)))
    }

    fn long_length(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from(i32::from_be_bytes(self.array()?)))
    }
}

/// Appends an unsigned varint.
pub fn write_unsigned_varint(out: &mut Vec<u8>, mut value: u32) {
    while value > 0x7f {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

fn low_byte(value: u32) -> u8 {
    let [low, ..] = value.to_le_bytes();
    low & 0x7f
}

/// Appends the length of a string (plain: 16 bits).
///
/// The caller cuts the string to that length.
fn write_short_length(out: &mut Vec<u8>, length: Option<usize>, form: Form) {
    if form.flexible {
        write_compact_length(out, length);
    } else {
        let length = length.map_or(-1, |length| {
            i16::try_from(length).expect("a string is cut to its field")
        });
        out.extend(length.to_be_bytes());
    }
}

/// Appends the length of bytes or of an array (plain: 32 bits).
///
/// The value came in one frame, or is bounded below the size of one.
fn write_long_length(out: &mut Vec<u8>, length: Option<usize>, form: Form) {
    if form.flexible {
        write_compact_length(out, length);
    } else {
        let length = length.map_or(-1, |length| {
            i32::try_from(length).expect("a field is shorter than a frame")
        });
        out.extend(length.to_be_bytes());
    }
}

fn write_compact_length(out: &mut Vec<u8>, length: Option<usize>) {
    let plus_one = length.map_or(0, |length| length + 1);
    let plus_one = u32::try_from(plus_one).expect("a field is shorter than a frame");
    write_unsigned_varint(out, plus_one);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn write(&self, out: &mut Vec<u8>, _: Form) {
                out.extend(self.to_be_bytes());
            }
            fn read(input: &mut Reader<'_>, _: Form) -> Result<Self, DecodeError> {
                Ok(<$number>::from_be_bytes(input.array()?))
            }
        }
    )*};
}
numbers!(i8, i16, i32, i64, u16, f64);

impl Field for bool {
    fn write(&self, out: &mut Vec<u8>, _: Form) {
        out.push(u8::from(*self));
    }
    fn read(input: &mut Reader<'_>, _: Form) -> Result<Self, DecodeError> {
        let [byte] = input.array()?;
        Ok(byte != 0)
    }
}

impl Field for Uuid {
    fn write(&self, out: &mut Vec<u8>, _: Form) {
        out.extend(self.as_bytes());
    }
    fn read(input: &mut Reader<'_>, _: Form) -> Result<Self, DecodeError> {
        Ok(Self::from_bytes(input.array()?))
    }
}

impl Field for Option<String> {
    fn write(&self, out: &mut Vec<u8>, form: Form) {
        let text = self.as_deref().map(cut_to_field);
        write_short_length(out, text.map(str::len), form);
        out.extend(text.unwrap_or_default().as_bytes()); // Null has no bytes.
    }
    fn read(input: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        let Some(length) = input.length(form, Reader::short_length)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(input.take(length)?).map_err(|_| DecodeError::NotUtf8)?;
        Ok(Some(text.to_owned()))
    }
}

impl Field for String {
    fn write(&self, out: &mut Vec<u8>, form: Form) {
        let text = cut_to_field(self);
        write_short_length(out, Some(text.len()), form);
        out.extend(text.as_bytes());
    }
    fn read(input: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        Option::read(input, form)?.ok_or(DecodeError::Length(-1))
    }
}

/// Returns the longest prefix of `text` that a string field can hold (32767 bytes).
///
/// The written length and the written bytes therefore agree.
fn cut_to_field(text: &str) -> &str {
    const STRING_BYTES_MAX: usize = i16::MAX as usize;
    // Bounded: `floor_char_boundary` returns at most the length of the text.
    text.split_at(text.floor_char_boundary(STRING_BYTES_MAX)).0
}

impl Field for Bytes {
    fn write(&self, out: &mut Vec<u8>, form: Form) {
        write_long_length(out, Some(self.len()), form);
        out.extend_from_slice(self);
    }
    fn read(input: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        let length = input
            .length(form, Reader::long_length)?
            .ok_or(DecodeError::Length(-1))?;
        Ok(Self::copy_from_slice(input.take(length)?))
    }
}

impl<T: Field> Field for Option<Vec<T>> {
    fn write(&self, out: &mut Vec<u8>, form: Form) {
        write_long_length(out, self.as_ref().map(Vec::len), form);
        for item in self.iter().flatten() {
            item.write(out, form);
        }
    }
    fn read(input: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        // Every item of every schema takes at least one byte, so the remaining bytes bound the
        // count.
        let Some(count) = input.length(form, Reader::long_length)? else {
            return Ok(None);
        };
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(T::read(input, form)?);
        }
        Ok(Some(items))
    }
}

impl<T: Field> Field for Vec<T> {
    fn write(&self, out: &mut Vec<u8>, form: Form) {
        write_long_length(out, Some(self.len()), form);
        for item in self {
            item.write(out, form);
        }
    }
    fn read(input: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        Option::read(input, form)?.ok_or(DecodeError::Length(-1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_never_overflow() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u32::MAX - 1, u32::MAX] {
            let mut out = Vec::new();
            write_unsigned_varint(&mut out, value);
            let mut input = Reader::new(&out);
            assert_eq!(input.unsigned_varint(), Ok(value));
            assert_eq!(input.finish(), Ok(()));
        }
        let too_long = [0xff, 0xff, 0xff, 0xff, 0x1f];
        assert_eq!(
            Reader::new(&too_long).unsigned_varint(),
            Err(DecodeError::Varint)
        );
    }

    #[test]
    fn a_text_longer_than_its_field_is_cut_and_reads_back() {
        let long = "\u{e4}".repeat(20_000);
        for flexible in [false, true] {
            let form = Form {
                version: 0,
                flexible,
            };
            let mut out = Vec::new();
            long.write(&mut out, form);
            Some(long.clone()).write(&mut out, form);
            let mut input = Reader::new(&out);
            let text = String::read(&mut input, form).unwrap();
            assert!(text.len() == 0x7ffe && long.starts_with(&text));
            assert_eq!(Option::<String>::read(&mut input, form), Ok(Some(text)));
            assert_eq!(input.finish(), Ok(()));
        }
    }

    #[test]
    fn a_length_larger_than_the_input_is_refused_before_anything_is_allocated() {
        let plain = Form {
            version: 0,
            flexible: false,
        };
        let bytes = [0x7f, 0xff, 0xff, 0xff, 1, 2];
        assert_eq!(
            Vec::<i8>::read(&mut Reader::new(&bytes), plain),
            Err(DecodeError::Length(0x7fff_ffff))
        );
        assert_eq!(
            String::read(&mut Reader::new(&[0xff, 0xff]), plain),
            Err(DecodeError::Length(-1))
        );
    }
}
