//! A plan on many hosts, in stages: what is asked (`design`), where each host stands (`state`), what is done next (`next`), and who
//! carries it to the hosts (`carry`), in turns (`run`).
//!
//! `design`, `state` and `next` are pure. Invariants: where a host stands follows from the journal on the controller alone, so that
//! a controller that is killed goes on where it was; what fails on one host is taken back on all; no more hosts of a site, a
//! rack or a group are changed at once than the design allows.

pub mod carry;
pub mod design;
pub mod next;
pub mod run;
pub mod state;

#[cfg(test)]
mod tests;
