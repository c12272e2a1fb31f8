//! `forebay bench`: puts a load on a broker over the wire, measures it from outside, and reports.
//!
//! It works against any Kafka and knows nothing of how ours is built: no crate of the broker is a dependency.
//! `spec` says what a load is and `outcome` what came of it; both are files as well as values, so that every
//! part (generator, experiments, agents on other hosts, report) speaks them and nothing else.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "measured figures are rounded: none has 52 significant bits, none is negative"
)]
#![cfg_attr(
    test,
    allow(
        clippy::float_cmp,
        reason = "tests compare figures that are exact by their making"
    )
)]

pub mod agent;
pub mod cli;
pub mod conduct;
pub mod device;
pub mod experiment;
pub mod latency;
pub mod limit;
pub mod load;
pub mod machine;
pub mod outcome;
pub mod report;
pub mod runner;
pub mod sink;
pub mod spec;
pub mod target;
pub mod tiers;
pub mod usage;
pub mod verify;
