//! `aborted-segments` in a partition's directory: which segments of a log have an index of aborted
//! transactions.
//!
//! Kafka creates that index only for segments with an aborted transaction, so a lost index looks
//! like one that never existed, and readers at `read_committed` would get aborted records. Kafka
//! has no such file and ignores it.

use std::collections::BTreeSet;
use std::path::Path;

use wire::types::Offset;

use super::{MalformedFileError, lines};

/// Name of the file.
pub const FILE: &str = "aborted-segments";

/// Reads the file: the base offsets of segments.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<BTreeSet<Offset>, MalformedFileError> {
    let mut bases = BTreeSet::new();
    for entry in lines::entries(file, bytes)? {
        let [base] = entry.fields("a base offset")?;
        bases.insert(Offset(entry.number(base, 0, "an offset from 0 on")?));
    }
    Ok(bases)
}

/// Returns the bytes of the file.
pub fn encode(bases: &BTreeSet<Offset>) -> Vec<u8> {
    lines::file(bases.iter().map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let bases = BTreeSet::from([Offset(0), Offset(77)]);
        let file = Path::new("f");
        assert_eq!(parse(file, &encode(&bases)), Ok(bases));
        for bad in ["", "0\n2\n1\n", "0\n1\n-1\n", "1\n0\n"] {
            assert!(parse(file, bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
