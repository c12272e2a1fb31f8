//! A `tar` of texts and links in the POSIX 1988 format (`ustar`), which every program can unpack.
//!
//! Names that do not fit a header are left out and reported; no name that is read is that long.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Entry;

const BLOCK: usize = 512;
const NAME_MAX: usize = 100;

/// Writes entries and returns the names that were too long.
pub fn write(entries: &BTreeMap<String, Entry>, to: &mut dyn Write) -> io::Result<Vec<String>> {
    let mut left_out = Vec::new();
    for (name, entry) in entries {
        let (kind, text, target) = match entry {
            Entry::Text(text) => (b'0', text.as_str(), ""),
            Entry::Link(target) => (b'2', "", target.as_str()),
        };
        if name.len() > NAME_MAX || target.len() > NAME_MAX {
            left_out.push(name.clone());
            continue;
        }
        to.write_all(&header(name, kind, text.len(), target))?;
        to.write_all(text.as_bytes())?;
        let rest = text.len().next_multiple_of(BLOCK) - text.len();
        to.write_all(&vec![0; rest])?;
    }
    to.write_all(&[0; 2 * BLOCK])?;
    Ok(left_out)
}

fn header(name: &str, kind: u8, bytes: usize, target: &str) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{bytes:011o}\0").as_bytes());
    // No time, so that two recordings of the same values are identical.
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(157, target.as_bytes());
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}
