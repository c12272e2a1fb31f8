//! One segment of a log: a run of offsets in one data file with its indexes.
pub mod naming;
