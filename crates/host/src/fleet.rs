//! A plan on many hosts, in stages: the design (`design`), the state of each host (`state`), the
//! next steps (`next`), the program that executes them on hosts (`carry`), and the loop (`run`).
//!
//! `design`, `state` and `next` are pure. Invariants: the state of a host follows only from the
//! journal on the controller, so that a killed controller continues where it was; a failure on one
//! host takes the plan back on all; no more hosts of a site, a rack or a group are changed at the
//! same time than the design allows.

pub mod carry;
pub mod design;
pub mod gate;
pub mod next;
pub mod run;
pub mod state;

#[cfg(test)]
mod tests;
