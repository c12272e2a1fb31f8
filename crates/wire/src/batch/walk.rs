//! Reads the framing of records without creating values: lengths, deltas, whether there is a key.
//!
//! The same code reads bytes in memory and a decompressing reader. Neither allocates per record,
//! and a compressed batch is never held in memory decompressed. Not here: judging what was read
//! (`batch/validate.rs`).

use std::io::{self, Read};

use super::varint::unzigzag;

/// The fields that validation needs from a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Framing {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i64,
    pub(super) has_key: bool,
}

/// The reason why reading a record failed.
#[derive(Debug)]
pub(super) enum WalkError {
    Framing(&'static str),
    Read(io::Error),
}

/// Bytes that are read once, from front to back.
pub(super) trait Source {
    fn byte(&mut self) -> Result<u8, WalkError>;
    fn skip(&mut self, count: usize) -> Result<(), WalkError>;
    /// Reads a variable-length integer.
    fn integer(&mut self) -> Result<i64, WalkError> {
        long_integer(self)
    }
    /// Returns the number of bytes read so far.
    fn position(&self) -> usize;
    /// Returns true when there are no more bytes.
    fn at_end(&mut self) -> Result<bool, WalkError>;
}

const CUT_SHORT: WalkError = WalkError::Framing("the batch ends within it");

/// Reads the framing of one record.
pub(super) fn record(source: &mut impl Source) -> Result<Framing, WalkError> {
    let length = length(source, "its length is negative")?;
    let start = source.position();
    source.skip(1)?;
    let timestamp_delta = source.integer()?;
    let offset_delta = source.integer()?;
    let has_key = field(source)?;
    field(source)?;
    for _ in 0..self::length(source, "its number of headers is negative")? {
        if !field(source)? {
            return Err(WalkError::Framing("a header has no name"));
        }
        field(source)?;
        if source.position() - start > length {
            break;
        }
    }
    if source.position() - start == length {
        Ok(Framing {
            timestamp_delta,
            offset_delta,
            has_key,
        })
    } else {
        Err(WalkError::Framing("its length is not that of its fields"))
    }
}

/// Skips a length and that many bytes; returns false for null.
fn field(source: &mut impl Source) -> Result<bool, WalkError> {
    match source.integer()? {
        -1 => Ok(false),
        length => {
            let length = usize::try_from(length)
                .map_err(|_| WalkError::Framing("a field's length is negative"))?;
            source.skip(length).map(|()| true)
        }
    }
}

fn length(source: &mut impl Source, negative: &'static str) -> Result<usize, WalkError> {
    usize::try_from(source.integer()?).map_err(|_| WalkError::Framing(negative))
}

fn long_integer(source: &mut (impl Source + ?Sized)) -> Result<i64, WalkError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = source.byte()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(unzigzag(value));
        }
    }
    Err(WalkError::Framing("a variable-length integer does not end"))
}

/// A source of bytes in memory.
pub(super) struct Slice<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Slice<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            length: bytes.len(),
        }
    }
}

impl Source for Slice<'_> {
    #[inline]
    fn byte(&mut self) -> Result<u8, WalkError> {
        let (&byte, rest) = self.rest.split_first().ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    fn skip(&mut self, count: usize) -> Result<(), WalkError> {
        self.rest = self.rest.get(count..).ok_or(CUT_SHORT)?;
        Ok(())
    }

    /// Most integers of records take one byte or two.
    #[inline]
    fn integer(&mut self) -> Result<i64, WalkError> {
        let (value, rest) = match *self.rest {
            [only @ 0..0x80, ref rest @ ..] => (u64::from(only), rest),
            [low, high @ 0..0x80, ref rest @ ..] => {
                (u64::from(low & 0x7f) | u64::from(high) << 7, rest)
            }
            _ => return long_integer(self),
        };
        self.rest = rest;
        Ok(unzigzag(value))
    }

    #[inline]
    fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    fn at_end(&mut self) -> Result<bool, WalkError> {
        Ok(self.rest.is_empty())
    }
}

const BUFFER_BYTES: usize = 16 * 1024;

/// A source of bytes from a decompressor, one buffer at a time.
pub(super) struct Stream<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    from: usize,
    to: usize,
    /// Bytes of the stream before the buffer.
    before: usize,
}

impl<R: Read> Stream<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: vec![0; BUFFER_BYTES],
            from: 0,
            to: 0,
            before: 0,
        }
    }

    /// Ensures that at least one byte is buffered; returns false at the end of the stream.
    fn fill(&mut self) -> Result<bool, WalkError> {
        while self.from == self.to {
            self.before += self.to;
            self.from = 0;
            self.to = 0;
            match self.reader.read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => self.to = count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(WalkError::Read(error)),
            }
        }
        Ok(true)
    }
}

impl<R: Read> Source for Stream<R> {
    fn byte(&mut self) -> Result<u8, WalkError> {
        if !self.fill()? {
            return Err(CUT_SHORT);
        }
        let byte = self.buffer.get(self.from).copied().ok_or(CUT_SHORT)?;
        self.from += 1;
        Ok(byte)
    }

    fn skip(&mut self, mut count: usize) -> Result<(), WalkError> {
        while count > 0 {
            if !self.fill()? {
                return Err(CUT_SHORT);
            }
            let step = count.min(self.to - self.from);
            self.from += step;
            count -= step;
        }
        Ok(())
    }

    fn position(&self) -> usize {
        self.before + self.from
    }

    fn at_end(&mut self) -> Result<bool, WalkError> {
        self.fill().map(|more| !more)
    }
}
