//! `aborted-segments`: which segments of a log have an index of aborted transactions. In the partition's directory.
//!
//! Kafka makes that index only where there is something to note, so that one that was lost looks like one that never was,
//! and readers at `read_committed` would be given what was aborted. Kafka has no such file and passes over it.

use std::collections::BTreeSet;
use std::path::Path;

use wire::types::Offset;

use super::{Malformed, lines};

/// Name of the file.
pub const FILE: &str = "aborted-segments";

/// Reads the file: base offsets of segments.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<BTreeSet<Offset>, Malformed> {
    let mut bases = BTreeSet::new();
    for entry in lines::entries(file, bytes)? {
        let [base] = entry.fields("a base offset")?;
        bases.insert(Offset(entry.number(base, 0, "an offset from 0 on")?));
    }
    Ok(bases)
}

/// The bytes of the file.
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
