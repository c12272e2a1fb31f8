//! `forebay bench`: runs a load against a broker over the wire, measures it from outside, and
//! reports.
//!
//! It works against any Kafka and does not depend on any crate of the broker. `spec` defines a load
//! and `outcome` its result; both are files as well as values, the only ones that all parts
//! (generator, experiments, agents on other hosts, report) exchange.

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
pub mod outcome;
pub mod report;
pub mod runner;
pub mod sink;
pub mod spec;
pub mod target;
pub mod tiers;
pub mod usage;
pub mod verify;
