//! `forebay bench`: puts a load on a broker over the wire, measures it from outside, and reports.
//!
//! It works against any Kafka and knows nothing of how ours is built: no crate of the broker is a dependency.
//! `spec` says what a load is and `outcome` what came of it; both are files as well as values, so that every
//! part (generator, experiments, agents on other hosts, report) speaks them and nothing else.

pub mod outcome;
pub mod spec;
