//! Numbers of files as numbers of memory, and counts as numbers of metrics.
//!
//! Invariant: nothing is cut off: a position in a file is an index in memory on every machine that this is built for.

const _: () = assert!(
    usize::BITS >= u64::BITS,
    "positions in files are indexes in memory"
);

/// A distance between two positions, as an index.
pub(crate) fn index(distance: u64) -> usize {
    usize::try_from(distance).expect("an index has 64 bits")
}

/// A count, as a gauge has it.
pub(crate) fn gauge(count: usize) -> i64 {
    i64::try_from(count).expect("no process has 2^63 of anything")
}
