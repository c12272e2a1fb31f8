//! The load generator.
//!
//! Not here: the check of every record (behind [`hook`]), how many hosts agree, what a load is (`spec`).

pub mod control;
pub mod hook;
pub mod schedule;

pub use control::{Control, HostShare, Stop};
pub use hook::Place;
