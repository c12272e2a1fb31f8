//! One load run from many hosts.
//!
//! An agent (`forebay bench agent`) runs on every host, started over ssh or by hand. The caller
//! ([`hosts`]) measures the offset of each agent's clock, sends every agent its share and a common
//! start time, and merges their outcomes including histograms
//! ([`crate::outcome::LoadOutcome::merge`]). [`message`] defines the protocol between caller and
//! agent.
//!
//! Invariants: an agent that dies, hangs or cannot be reached is an error in the outcome, never an
//! endless wait; an agent whose caller disconnects stops its load. Agents do not authenticate
//! callers: over ssh, ssh decides who may connect; with `--listen`, every host on the network may.

pub mod arguments;
mod clock;
mod connection;
pub mod hosts;
pub mod message;
pub mod serve;

pub use arguments::{AgentArguments, HostsArguments};
pub use hosts::Hosts;
