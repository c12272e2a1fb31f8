//! Tiers: a log's segments over several places, the fastest first.
//!
//! `policy` says what belongs where; it is pure. Segments are whole in one place, in two only while they move.

pub mod policy;
