//! One load from many hosts.
//!
//! On every host runs an agent (`forebay bench agent`), started over ssh or by hand. Whoever runs the load
//! ([`hosts`]) measures how the agents' clocks differ, hands every agent its share and a common start, and adds
//! up what they return, histograms and all ([`crate::outcome::Outcome::merge`]). What they say to each other is
//! in [`message`].
//!
//! Invariants: an agent that dies, hangs or cannot be reached is an error in the outcome, never a wait without
//! end; an agent whose caller is gone stops its load. Agents trust whoever reaches them: over ssh that is who
//! may log in, with `--listen` it is the network.

pub mod arguments;
mod clock;
mod connection;
pub mod hosts;
pub mod message;
pub mod serve;

pub use arguments::{AgentArguments, HostsArguments};
pub use hosts::Hosts;
