//! The mark that a ring is void: everything that its logs had was in their segments, synced, when
//! the mark was written, and these have changed since.
//!
//! It lies in the log directory, since the device of the ring has failed, and names the newest
//! header that can be in the ring: a ring with a later one is in use again, and the mark is old.
//! Invariant: a mark is written before anything changes that a replay would contradict.
//! Layout: `docs/formats/journal.md`. It does not write or remove files.

use std::path::{Path, PathBuf};

use wire::crc;

use super::names::parse_ring_name;
use super::take_u32;

/// What the name of a mark has behind the name of its ring.
const SUFFIX: &str = ".void";

const MAGIC: [u8; 8] = *b"FOREBAYV";

/// The length of a mark.
const BYTES: usize = 24;

/// Returns the path of the mark of a ring in a log directory.
pub fn path_in(dir: &Path, ring: &Path) -> Option<PathBuf> {
    let name = ring.file_name()?.to_str()?;
    Some(dir.join(format!("{name}{SUFFIX}")))
}

/// Returns the name of the ring that a mark is of, by the name of the mark's file.
pub(super) fn ring_name(mark: &str) -> Option<&str> {
    let ring = mark.strip_suffix(SUFFIX)?;
    parse_ring_name(ring).map(|_| ring)
}

/// Returns the bytes of a mark: every header of the ring has this generation or a lower one.
pub fn encode(generation_max: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&1_u32.to_be_bytes());
    bytes.extend_from_slice(&generation_max.to_be_bytes());
    let crc = crc::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_be_bytes());
    assert_eq!(bytes.len(), BYTES, "a mark has one length");
    bytes
}

/// Returns the generation in a mark, if it is whole.
pub(super) fn parse(bytes: &[u8]) -> Option<u64> {
    let (front, crc) = bytes.split_at_checked(BYTES.saturating_sub(4))?;
    let (version, rest) = take_u32(front.strip_prefix(&MAGIC)?)?;
    let (generation, rest) = super::take_u64(rest)?;
    let is_whole = crc == crc::crc32c(front).to_be_bytes();
    (is_whole && version == 1 && rest.is_empty()).then_some(generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_whole_or_not_at_all() {
        let bytes = encode(7);
        assert_eq!(parse(&bytes), Some(7));
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), None, "{cut}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&other), None, "{bit}");
        }
        assert_eq!(parse(&[bytes, vec![0]].concat()), None);
    }

    #[test]
    fn a_mark_says_by_its_name_whose_it_is() {
        let ring = "AAAAAAAAAAAAAAAAAAAABw.1.ring";
        let mark = path_in(Path::new("/log"), &Path::new("/fast").join(ring)).unwrap();
        assert_eq!(mark, Path::new("/log/AAAAAAAAAAAAAAAAAAAABw.1.ring.void"));
        let name = mark.file_name().and_then(|name| name.to_str()).unwrap();
        assert_eq!(ring_name(name), Some(ring));
        assert_eq!(ring_name(ring), None);
        assert_eq!(ring_name("orders.void"), None);
    }
}
