//! The planner: the cheapest hardware that carries a load, its binding constraint, the cost of the
//! same load on plain Kafka, and the settings and the experiment that prove it.
//!
//! `load` describes what is wanted, `catalogue` and `software` what exists, `demand` turns loads
//! into flows, `constraint` compares flows with a mix, `search` finds the least number of brokers
//! of each mix and the cheapest mix, `answer` assembles the result, `emit` writes it.
//!
//! Invariant: everything is a function of its arguments, without files, clocks or sockets. The
//! caller passes the month.

#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::indexing_slicing, reason = "a test may panic"))]

pub mod answer;
pub mod calibration;
pub mod catalogue;
pub mod constraint;
pub mod cost;
pub mod demand;
pub mod document;
pub mod emit;
pub mod growth;
pub mod load;
pub mod mix;
pub mod published;
pub mod quantity;
pub mod reverse;
pub mod search;
pub mod sensitivity;
pub mod software;
pub mod verify;
