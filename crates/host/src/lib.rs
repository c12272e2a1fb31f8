//! `forebay tune`: changes the settings of a host, with evidence, undo, and stages.
//!
//! A host is a tree of names ([`root`]); its properties are [`facts`], its settings are [`knob`]s;
//! a plan consists of items with reasons; applying it writes a [`journal`] from which [`undo`]
//! takes everything back, even after a crash. Invariants: rules, order, statistics and decisions
//! are pure and do not read the clock; nothing changes without plan and journal.
//!
//! Not here: the broker, which this crate does not know.

#![allow(
    clippy::cast_precision_loss,
    reason = "counts become rates: none has 52 significant bits"
)]

pub mod apply;
pub mod boot;
pub mod change;
pub mod cli;
pub mod counter;
pub mod cpus;
pub mod drop_reason;
pub mod evidence;
pub mod experiment;
pub mod export;
pub mod facts;
#[cfg(test)]
mod fake;
pub mod firmware;
#[cfg(test)]
mod fixtures;
pub mod fleet;
pub mod form;
pub mod guard;
mod hex;
pub mod journal;
pub mod knob;
pub mod persist;
pub mod plan;
pub mod record;
pub mod render;
pub mod root;
pub mod rule;
pub mod split;
pub mod statistics;
pub mod transaction;
pub mod undo;
pub mod watch;
pub mod watchdog;
