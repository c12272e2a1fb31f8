//! Conversions from file positions to memory indexes, and from counts to gauge values.
//!
//! Invariant: no conversion truncates: on every supported machine a position in a file is an index
//! in memory.

const _: () = assert!(
    usize::BITS >= u64::BITS,
    "positions in files are indexes in memory"
);

/// Returns a distance between two positions as an index.
pub(crate) fn index(distance: u64) -> usize {
    usize::try_from(distance).expect("an index has 64 bits")
}

/// Returns a count as a gauge value.
pub(crate) fn gauge(count: usize) -> i64 {
    i64::try_from(count).expect("no process has 2^63 of anything")
}
