//! Walks the framing of records without making values: lengths, deltas, whether there is a key.
//!
//! One walk for bytes in memory and for a decompressing reader; neither allocates per record, and a
//! compressed batch never lies in memory decompressed.

use std::io::{self, Read};

use super::varint::unzigzag;

/// What the walk tells of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Framing {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i64,
    pub(super) has_key: bool,
}

/// Why the walk ended early.
#[derive(Debug)]
pub(super) enum Broken {
    Framing(&'static str),
    Read(io::Error),
}

/// Bytes that are passed over once, front to back.
pub(super) trait Source {
    fn byte(&mut self) -> Result<u8, Broken>;
    fn skip(&mut self, count: usize) -> Result<(), Broken>;
    /// Bytes passed over so far.
    fn position(&self) -> usize;
    /// True when there are no more.
    fn at_end(&mut self) -> Result<bool, Broken>;
}

const CUT_SHORT: Broken = Broken::Framing("the batch ends within it");

/// Walks one record.
pub(super) fn record(source: &mut impl Source) -> Result<Framing, Broken> {
    let length = length(source, "its length is negative")?;
    let start = source.position();
    source.skip(1)?;
    let timestamp_delta = integer(source)?;
    let offset_delta = integer(source)?;
    let has_key = field(source)?;
    field(source)?;
    for _ in 0..self::length(source, "its number of headers is negative")? {
        if !field(source)? {
            return Err(Broken::Framing("a header has no name"));
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
        Err(Broken::Framing("its length is not that of its fields"))
    }
}

/// Passes over a length and that many bytes. False: null.
fn field(source: &mut impl Source) -> Result<bool, Broken> {
    match integer(source)? {
        -1 => Ok(false),
        length => {
            let length = usize::try_from(length)
                .map_err(|_| Broken::Framing("a field's length is negative"))?;
            source.skip(length).map(|()| true)
        }
    }
}

fn length(source: &mut impl Source, negative: &'static str) -> Result<usize, Broken> {
    usize::try_from(integer(source)?).map_err(|_| Broken::Framing(negative))
}

fn integer(source: &mut impl Source) -> Result<i64, Broken> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = source.byte()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(unzigzag(value));
        }
    }
    Err(Broken::Framing("a variable-length integer does not end"))
}

/// Bytes in memory.
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
    fn byte(&mut self) -> Result<u8, Broken> {
        let (&byte, rest) = self.rest.split_first().ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    fn skip(&mut self, count: usize) -> Result<(), Broken> {
        self.rest = self.rest.get(count..).ok_or(CUT_SHORT)?;
        Ok(())
    }

    fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    fn at_end(&mut self) -> Result<bool, Broken> {
        Ok(self.rest.is_empty())
    }
}

const BUFFER_BYTES: usize = 16 * 1024;

/// Bytes from a decompressor, a buffer at a time.
pub(super) struct Stream<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The part of the buffer that is not passed over yet.
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

    /// Makes sure that something is buffered; false at the end of the stream.
    fn fill(&mut self) -> Result<bool, Broken> {
        while self.from == self.to {
            self.before += self.to;
            self.from = 0;
            self.to = 0;
            match self.reader.read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => self.to = count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Broken::Read(error)),
            }
        }
        Ok(true)
    }
}

impl<R: Read> Source for Stream<R> {
    fn byte(&mut self) -> Result<u8, Broken> {
        if !self.fill()? {
            return Err(CUT_SHORT);
        }
        let byte = self.buffer.get(self.from).copied().ok_or(CUT_SHORT)?;
        self.from += 1;
        Ok(byte)
    }

    fn skip(&mut self, mut count: usize) -> Result<(), Broken> {
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

    fn at_end(&mut self) -> Result<bool, Broken> {
        self.fill().map(|more| !more)
    }
}
