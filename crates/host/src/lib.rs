//! `forebay tune`: the settings of a host, with proof, a way back, and stages.
//!
//! A host is a tree of names ([`root`]); what it is are [`facts`]; what may be set are [`knob`]s; a plan is items with
//! reasons; applying keeps a [`journal`] from which [`undo`] takes everything back, also after a crash. Invariants: rules,
//! order, statistics and decisions are pure and know no clock; nothing changes without plan and journal.
//!
//! Not here: the broker, of which this knows nothing.

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
pub mod evidence;
pub mod experiment;
pub mod export;
pub mod facts;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod fixtures;
pub mod fleet;
pub mod form;
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
