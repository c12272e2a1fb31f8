//! The four codecs of record batches: gzip, snappy (xerial blocks, or one raw block), lz4 frames,
//! zstd.
//!
//! Decompression streams, so its memory is bounded by the codec's window.
//! [`Compression::decompress`] and the readers of [`Compression::reader`] fail beyond the allowed
//! output, so a small batch cannot expand to a huge one. Not here: which codec a request or a topic
//! allows.

use std::io::{self, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::error::{BatchError, ZSTD_CODE};

/// How the records of a batch are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// No compression.
    None,
    /// Gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// Lz4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Returns the codec for a code in a batch's attributes.
    pub fn from_code(code: i16) -> Result<Self, BatchError> {
        Ok(match code {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            _ => return Err(BatchError::Compression { code }),
        })
    }

    /// Returns the code in a batch's attributes.
    pub const fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Returns the codec for a name in `compression.type`.
    ///
    /// "uncompressed" is [`Compression::None`]; "producer" is not a codec.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "none" | "uncompressed" => Self::None,
            "gzip" => Self::Gzip,
            "snappy" => Self::Snappy,
            "lz4" => Self::Lz4,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }

    /// Compresses at the codec's default level.
    pub fn compress(self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.compress_at(None, bytes)
    }

    /// Compresses at a level; only gzip and zstd have levels, and the other codecs ignore it.
    pub fn compress_at(self, level: Option<i32>, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(bytes.to_vec()),
            Self::Gzip => {
                // A negative level is the default, as -1 in zlib.
                let level = level.and_then(|level| u32::try_from(level).ok());
                let level = level.map_or_else(flate2::Compression::default, |level| {
                    flate2::Compression::new(level.min(9))
                });
                let mut encoder = GzEncoder::new(Vec::new(), level);
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            Self::Snappy => xerial_compress(bytes),
            Self::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(bytes)?;
                encoder.finish().map_err(io::Error::other)
            }
            Self::Zstd => {
                // Level 0 is the default.
                let mut encoder = zstd::Encoder::new(Vec::new(), level.unwrap_or(0))?;
                // Without the size, the highest levels prepare half a gigabyte of tables for any
                // input.
                encoder.set_pledged_src_size(Some(bytes.len() as u64))?;
                encoder.write_all(bytes)?;
                encoder.finish()
            }
        }
    }

    /// Decompresses to at most `bytes_max` bytes.
    pub fn decompress(self, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, BatchError> {
        let mut out = Vec::new();
        match self.reader(bytes, bytes_max)?.read_to_end(&mut out) {
            Ok(_) => Ok(out),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Returns a reader of the decompressed bytes, which fails when they exceed `bytes_max`.
    pub fn reader(self, bytes: &[u8], bytes_max: usize) -> Result<Box<dyn Read + '_>, BatchError> {
        let reader: Box<dyn Read + '_> = match self {
            Self::None => Box::new(bytes),
            Self::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            Self::Snappy => Box::new(SnappyReader::new(bytes)),
            Self::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(bytes)),
            Self::Zstd => Box::new(
                zstd::stream::read::Decoder::with_buffer(bytes).map_err(|error| failed(&error))?,
            ),
        };
        Ok(Box::new(BoundedReader {
            reader,
            left: bytes_max,
        }))
    }
}

const _: () = assert!(
    Compression::None.code() == 0
        && Compression::Gzip.code() == 1
        && Compression::Snappy.code() == 2
        && Compression::Lz4.code() == 3
        && Compression::Zstd.code() == ZSTD_CODE,
    "the codes are those of Kafka"
);

pub(super) fn failed(error: &io::Error) -> BatchError {
    BatchError::Decompress {
        reason: error.to_string(),
    }
}

/// A reader that fails, instead of ending, when there are more bytes than allowed.
struct BoundedReader<R> {
    reader: R,
    left: usize,
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(out)?;
        match self.left.checked_sub(count) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other("more decompressed bytes than allowed")),
        }
        Ok(count)
    }
}

/// The header of snappy-java before its blocks: magic, then version and oldest compatible version,
/// both 1.
const XERIAL_HEADER: [u8; 16] = [
    0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1,
];
const XERIAL_MAGIC_BYTES: usize = 8;
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;

const _: () = assert!(
    XERIAL_MAGIC_BYTES <= XERIAL_HEADER.len(),
    "the header begins with the magic"
);

fn xerial_compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = XERIAL_HEADER.to_vec();
    let mut encoder = snap::raw::Encoder::new();
    for block in bytes.chunks(XERIAL_BLOCK_BYTES) {
        let block = encoder.compress_vec(block)?;
        let length = u32::try_from(block.len()).map_err(io::Error::other)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&block);
    }
    Ok(out)
}

/// Reads the blocks of snappy-java, or one raw block when its header is missing (other clients).
struct SnappyReader<'a> {
    rest: &'a [u8],
    framed: bool,
    block: io::Cursor<Vec<u8>>,
}

impl<'a> SnappyReader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        // Bounded: both are constants, and the assertion above compares them.
        let magic = XERIAL_HEADER.split_at(XERIAL_MAGIC_BYTES).0;
        let blocks = bytes
            .split_at_checked(XERIAL_HEADER.len())
            .filter(|(header, _)| header.starts_with(magic));
        Self {
            rest: blocks.map_or(bytes, |(_, blocks)| blocks),
            framed: blocks.is_some(),
            block: io::Cursor::default(),
        }
    }

    fn next_block(&mut self) -> io::Result<()> {
        let block = if self.framed {
            let (length, rest) = self.rest.split_first_chunk().ok_or_else(cut_short)?;
            let length = u32::from_be_bytes(*length) as usize;
            let (block, rest) = rest.split_at_checked(length).ok_or_else(cut_short)?;
            self.rest = rest;
            block
        } else {
            std::mem::take(&mut self.rest)
        };
        // One copy element of three bytes expands to at most 64, so a larger claim is false.
        if snap::raw::decompress_len(block)? > block.len().saturating_mul(64) {
            return Err(io::Error::other("impossible snappy block length"));
        }
        self.block = io::Cursor::new(snap::raw::Decoder::new().decompress_vec(block)?);
        Ok(())
    }
}

fn cut_short() -> io::Error {
    io::Error::other("snappy block is cut short")
}

impl Read for SnappyReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.block.read(out)?;
            if count > 0 || out.is_empty() || self.rest.is_empty() {
                return Ok(count);
            }
            self.next_block()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Compression; 5] = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];

    #[test]
    fn what_was_compressed_comes_back_within_its_bound() {
        let long = b"some text, more than once. ".repeat(10_000);
        for compression in ALL {
            assert_eq!(Compression::from_code(compression.code()), Ok(compression));
            for bytes in [&b""[..], b"x", &long] {
                let small = compression.compress(bytes).unwrap();
                assert_eq!(compression.decompress(&small, bytes.len()).unwrap(), bytes);
                if let Some(less) = bytes.len().checked_sub(1) {
                    let error = compression.decompress(&small, less).unwrap_err();
                    assert!(
                        error.to_string().contains("more decompressed bytes"),
                        "{error}"
                    );
                }
            }
        }
        assert_eq!(
            Compression::from_code(5),
            Err(BatchError::Compression { code: 5 })
        );
    }

    /// The known size keeps the tables of the highest levels as small as the input.
    #[test]
    fn zstd_says_how_much_there_is() {
        let small = Compression::Zstd.compress_at(Some(22), b"little").unwrap();
        let said = zstd::zstd_safe::get_frame_content_size(&small);
        assert!(matches!(said, Ok(Some(6))), "{said:?}");
        assert_eq!(Compression::Zstd.decompress(&small, 6).unwrap(), b"little");
    }

    #[test]
    fn snappy_without_the_java_header_is_one_block() {
        let raw = snap::raw::Encoder::new().compress_vec(b"hello").unwrap();
        assert_eq!(Compression::Snappy.decompress(&raw, 100).unwrap(), b"hello");
        let lying = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
        assert!(Compression::Snappy.decompress(&lying, usize::MAX).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_give_bytes_or_an_error(
            code in 1i16..5, bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let compression = Compression::from_code(code).unwrap();
            let _ = compression.decompress(&bytes, 1 << 20);
        }

        #[test]
        fn damaged_bytes_give_bytes_or_an_error(
            code in 1i16..5, at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
        ) {
            let compression = Compression::from_code(code).unwrap();
            let mut bytes = compression.compress(&b"abcdefgh".repeat(20)).unwrap();
            let length = bytes.len();
            bytes[at.index(length)] = byte;
            bytes.truncate(length - cut.index(length));
            let _ = compression.decompress(&bytes, 1 << 20);
        }
    }
}
